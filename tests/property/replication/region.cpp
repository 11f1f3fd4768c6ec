#include "region.hpp"

#include <algorithm>

namespace zaris::replication {
namespace {

using store::SegmentRole;
constexpr SegmentId linked{0};  // the segment to which another region's follower applies
constexpr std::size_t copies = Region::nodes;

OwnerOptions owner_options(std::uint64_t draw) {
  OwnerOptions options;
  options.page.records_max = 1 + draw % 9;
  options.turn_bytes = draw % 2 == 0 ? 300 : 20'000;
  options.output_bytes = 4096;
  options.walks_at_once = 1 + draw % 3;
  options.tails_between_pages = 1 + draw % 4;
  options.synchronised_bytes = 2000;
  options.closed_interval_us = 300'000;
  options.pins_interval_us = 500'000;
  options.pins_full_every = 5;
  options.looks_per_tick = 3;
  return options;
}

std::vector<ReplicaIndex> indexes(const std::set<std::size_t>& members) {
  std::vector<ReplicaIndex> out;
  for (const std::size_t member : members) out.push_back(ReplicaIndex{static_cast<std::uint16_t>(member)});
  return out;
}

}  // namespace

Region::Region(std::uint64_t seed) : random_(seed), lines_(nodes * nodes) {
  for (std::size_t n = 0; n < nodes; ++n) {
    stores_[n] = member_store(segments, seed * 10 + n);
    held_[n] = std::make_unique<HeldPositions>(segments);
    waits_[n] = std::make_unique<Acknowledge>(segments, 10'000);
  }
  keys_.resize(segments);
  for (std::uint16_t s = 0; s < segments; ++s) {
    for (int i = 0; i < 25; ++i) keys_[s].push_back(store::key_in(SegmentId{s}, segments, i));
    for (std::size_t n = 0; n < nodes; ++n) {
      stores_[n]->set_role(SegmentId{s}, SegmentRole::replica);
      held_[n]->set_copies(SegmentId{s}, copies);
    }
  }
  for (int i = 0; linked_keys_.size() < 15; ++i) {
    std::string k = "m" + std::to_string(i);
    if (segment_of(slot_of(k), segments) == linked) linked_keys_.push_back(std::move(k));
  }
  for (int i = 0; i < 3; ++i) {
    const Scope scope = i == 0 ? Scope{} : *Scope::make({"k" + std::to_string(i)});
    pin_keys_.push_back({"follower", "l" + std::to_string(i), scope.id(), ClusterId{0xbb}});
  }
  for (std::uint16_t s = 0; s < segments; ++s) begin(SegmentId{s}, draw(nodes));
  for (std::size_t o = 0; o < nodes; ++o) {
    for (std::size_t r = 0; r < nodes; ++r) {
      if (o != r) connect(o, r);
    }
  }
}

// ---- the shell's part ---------------------------------------------------------------------------------------------
void Region::connect(std::size_t owner, std::size_t replica) {
  auto fresh = std::make_unique<Line>(store(owner), store(replica), "n" + std::to_string(replica), owner_options(random_()),
                                      ReplicaOptions{.window_bytes = 1000 + draw(20'000), .pins_max = 100});
  fresh->socket_bytes = 200 + draw(5000);
  fresh->may_copy = [this, owner, replica](SegmentId id) { return at(id).owner != owner || !at(id).members.contains(replica); };
  lines_[owner * nodes + replica] = std::move(fresh);
  held_[owner]->lost(ReplicaIndex{static_cast<std::uint16_t>(replica)});
  follow_again(owner, replica);
}

void Region::follow_again(std::size_t owner, std::size_t replica) {
  std::vector<SegmentFollow> ask;
  for (std::uint16_t s = 0; s < segments; ++s) {
    if (segments_[s].owner == owner) ask.push_back({SegmentId{s}, segments_[s].generation, false});
  }
  line(owner, replica).r->follow(ask);
}

// A new term at a node that holds what it must.
void Region::begin(SegmentId id, std::size_t node) {
  Segment& s = at(id);
  s.owner = node;
  s.generation = Generation{++generation_};
  const Position begins = store(node).begin_term(id, {s.generation, random_() | 1, HistoryId{1000 + id.value() + generation_}, RootCause::created}, now_.wall_us);
  held_[node]->reset(id, begins);
  held_[node]->set_copies(id, copies);
  s.members.erase(node);
  std::set<std::size_t> members;
  std::swap(members, s.members);
  set_members(id, members);
  s.waiting.clear();
  s.replaced = false;
  if (id == linked) link_.reset();
}

void Region::set_members(SegmentId id, std::set<std::size_t> members) {
  Segment& s = at(id);
  if (members == s.members && !held_[s.owner]->members(id).empty()) return;
  held_[s.owner]->begin_change(id, indexes(members));
  held_[s.owner]->end_change(id, true);
  s.members = std::move(members);
}

// The owner is gone. The highest of the synchronised set is read; another of the set may be chosen and pulls from it first.
void Region::promote(SegmentId id) {
  Segment& s = at(id);
  if (!s.replaced) return;
  std::vector<std::size_t> able;
  for (const std::size_t member : s.members) {
    const auto state = store(member).state(id);
    // A member never copies: it was taken out of the set before.
    ASSERT_FALSE(state.copying);
    if (state.head.revision > Revision{0}) able.push_back(member);
  }
  if (able.empty() || able.size() != s.members.size()) return;
  const auto highest = *std::max_element(able.begin(), able.end(), [&](std::size_t a, std::size_t b) { return store(a).state(id).head < store(b).state(id).head; });
  const std::size_t chosen = able[draw(able.size())];
  const std::size_t old = s.owner;
  std::vector<Ticket> given_up;
  waits_[old]->abandon(id, given_up);
  store(old).set_role(id, SegmentRole::replica);
  if (chosen != highest) {
    ++probes["pull"];
    pull(id, highest, chosen);
  }
  const Position before = store(chosen).state(id).head;
  if (store(old).state(id).head > before) ++probes["tail lost"];
  for (const Acked& acked : s.acked) {
    // One answer is enough for what all had.
    for (const std::size_t member : s.members) EXPECT_TRUE(acked.policy != Durability::all || holds(member, id, acked.at)) << to_string(acked.at);
    EXPECT_TRUE(holds(chosen, id, acked.at)) << "acknowledged " << to_string(acked.at) << " under policy " << static_cast<int>(acked.policy)
                                             << ", promoted with " << to_string(before);
  }
  ++probes["promotion"];
  // Who hears of it first asks before the term has begun, and is refused.
  const Generation next{generation_ + 1};
  const bool early = chance(2);
  for (std::size_t n = 0; n < nodes && early; ++n) {
    if (n == chosen) continue;
    line(chosen, n).r->follow(std::array{SegmentFollow{id, next, false}});
    line(chosen, n).say();
    line(chosen, n).deliver(0, 1000);
    line(chosen, n).say();
  }
  begin(id, chosen);
  for (std::size_t n = 0; n < nodes; ++n) {
    if (n == chosen) continue;
    for (std::size_t o = 0; o < nodes; ++o) {
      // Some learn of it, some go on hearing the old owner until they do.
      if (o != n && o != chosen && chance(2)) line(o, n).r->learn(id, s.generation);
      if (o != n && o != chosen) line(o, n).r->unfollow(std::array{id});
    }
    if (!early) line(chosen, n).r->follow(std::array{SegmentFollow{id, s.generation, false}});
  }
}

void Region::pull(SegmentId id, std::size_t from, std::size_t to) {
  Line tail(store(from), store(to), "pull", owner_options(random_()));
  tail.r->follow(std::array{SegmentFollow{id, Generation{generation_ + 1}, true}});
  tail.settle(now_);
  EXPECT_TRUE(tail.r->state(id).synced || tail.r->state(id).refusal == Refusal::nothing_to_pull) << tail.r->state(id).reason;
  if (tail.r->state(id).phase == FollowPhase::log) {
    EXPECT_EQ(to_string(store(to).state(id).head), to_string(store(from).state(id).head));
  }
}

// A node without data: only where it owns nothing, since what nobody else holds would be gone.
void Region::restart_blank(std::size_t node) {
  for (const Segment& s : segments_) {
    if (s.owner == node) return;
  }
  ++probes["blank restart"];
  for (std::size_t other = 0; other < nodes; ++other) {
    if (other == node) continue;
    lines_[other * nodes + node].reset();
    lines_[node * nodes + other].reset();
  }
  stores_[node] = member_store(segments, random_());
  for (std::uint16_t n = 0; n < segments; ++n) {
    const SegmentId id{n};
    store(node).set_role(id, SegmentRole::replica);
    if (at(id).members.erase(node) != 0) {
      at(id).acked.clear();  // it was one of the copies that the answers spoke of
      const auto members = at(id).members;
      at(id).members.insert(node);
      set_members(id, members);
    }
  }
  for (std::size_t other = 0; other < nodes; ++other) {
    if (other == node) continue;
    connect(other, node);
    connect(node, other);
  }
}

// ---- what clients do ----------------------------------------------------------------------------------------------
void Region::written(SegmentId id, const store::WriteOutcome& outcome) {
  if (outcome.status != Status::ok) return;
  Segment& s = at(id);
  const auto policy = static_cast<Durability>(1 + draw(4));
  const Acked acked{outcome.position, policy};
  const Wait wait = waits_[s.owner]->wait(id, outcome.position, policy, now_.mono_us + 20'000'000);
  ASSERT_NE(wait.outcome, WaitOutcome::full);
  if (wait.outcome == WaitOutcome::waiting) {
    s.waiting[wait.ticket] = acked;
  } else if (policy != Durability::owner) {
    check_done(id, acked);
  }
}

void Region::write(SegmentId id) {
  store::Store& owner = store(at(id).owner);
  const std::string k = key(id, draw(25));
  if (chance(5)) return written(id, owner.del(k, {}, now_.wall_us));
  const std::size_t bytes = chance(60) ? 20'000 : draw(120);
  const WallMicros expires_us = chance(20) ? now_.wall_us + 3 * store::second : 0;
  written(id, store::put(owner, k, std::string(bytes, static_cast<char>('a' + draw(26))), now_.wall_us, expires_us));
}

// Another region's follower: it reads where it stands from the mark that it finds, and goes on.
void Region::apply() {
  store::put(*source_, linked_keys_[draw(linked_keys_.size())], std::string(draw(60), 'm'), now_.wall_us);
  store::Store& owner = store(at(linked).owner);
  if (link_ == nullptr) {
    link_ = std::make_unique<store::Linked>(*source_, owner, linked_scope_);
    link_->session = SessionId{random_()};
    link_->term = FollowerTerm{++follower_term_};
    std::string why;
    ASSERT_EQ(link_->open_link(&why), Status::ok) << why;
    for (const auto& row : owner.read_marks("l", linked_scope_.id())) {
      if (row.target_segment != linked) continue;
      link_->token = row.mark.token;
      link_->low = row.mark.low;
      ++probes["mark survived"];
    }
    if (!link_->token) {
      ASSERT_EQ(link_->open().status, Status::ok);
    }
    if (!link_->low) {
      ASSERT_EQ(link_->bootstrap().status, Status::ok);
    }
  }
  link_->now = now_.wall_us;
  const auto answer = link_->stream_all();
  ASSERT_EQ(answer.status, Status::ok) << answer.reason;
}

void Region::trim() {
  const SegmentId id = some_segment();
  const std::size_t owner = at(id).owner;
  if (chance(4)) {
    for (std::size_t n = 0; n < nodes; ++n) store(owner).drop_pin(replica_pin(store(owner), "n" + std::to_string(n)));
    ++probes["place cut"];
  }
  store(owner).trim_log_hard(id);
  store(draw(nodes)).trim_log_hard(id);
}

void Region::pin() {
  const SegmentId id = some_segment();
  store::Store& owner = store(at(id).owner);
  const std::size_t which = draw(pin_keys_.size());
  if (chance(6)) {
    owner.drop_pin(pin_keys_[which]);
    return;
  }
  const Scope scope = which == 0 ? Scope{} : *Scope::make({"k" + std::to_string(which)});
  const Position head = owner.state(id).head;
  owner.set_pin(pin_keys_[which], scope, id, head, now_.wall_us);
}

// ---- one step -----------------------------------------------------------------------------------------------------
void Region::step() {
  now_.mono_us += 1000 * draw(100);
  now_.wall_us += 1000 * draw(100);
  switch (draw(20)) {
    case 0: case 1: case 2: case 3: case 4: case 5: case 6: case 7:
      for (std::uint64_t i = 0, n = 1 + draw(6); i < n; ++i) write(some_segment());
      break;
    case 8: case 9: apply(); break;
    case 10: trim(); break;
    case 11: case 12: pin(); break;
    case 13:
      for (std::size_t n = 0; n < nodes; ++n) (void)store(n).sweep_expiry(now_.wall_us);
      break;
    case 14:
      if (chance(3)) {
        const std::size_t owner = draw(nodes), replica = (owner + 1 + draw(nodes - 1)) % nodes;
        ++probes["broken"];
        connect(owner, replica);
      }
      break;
    case 15:
      if (chance(6)) promote(some_segment());
      break;
    case 16:
      if (chance(8)) restart_blank(draw(nodes));
      break;
    default: break;
  }
  move_lines(false);
  look();
}

void Region::move_lines(bool everything) {
  for (std::size_t o = 0; o < nodes; ++o) {
    for (std::size_t r = 0; r < nodes; ++r) {
      if (o == r || (!everything && chance(3))) continue;
      Line& l = line(o, r);
      l.tick(now_);
      l.say();
      l.deliver(everything ? 1000 : draw(6), everything ? 1000 : draw(4));
      ASSERT_FALSE(l.o->ended()) << l.o->ended()->text;
      ASSERT_FALSE(l.r->ended()) << l.r->ended()->text;
      EXPECT_LT(l.o->held_bytes(), 100'000u);
      (void)l.o->take_heard();
      for (const SegmentId id : l.r->take_changed()) {
        if (l.r->state(id).phase == FollowPhase::copy) ++probes["copy"];
        // Refused or superseded: whoever owns it now is asked anew.
        const auto phase = l.r->state(id).phase;
        if (at(id).owner == o && (phase == FollowPhase::refused || phase == FollowPhase::superseded)) {
          l.r->follow(std::array{SegmentFollow{id, at(id).generation, false}});
          ++probes["refused"];
        }
      }
    }
  }
}

// Does this node hold the record at this place, in full?
bool Region::holds(std::size_t node, SegmentId id, Position position) {
  const auto state = store(node).state(id);
  const Lineage lineage = store(node).lineage(id);
  return !state.copying && lineage.test(lineage.root().history, {position, lineage.id_of(position.generation)}, state.head).verdict == OnLineage::on;
}

void Region::check_done(SegmentId id, const Acked& acked) {
  Segment& s = at(id);
  std::size_t have = 0, members_have = 0;
  for (std::size_t n = 0; n < nodes; ++n) {
    if (!holds(n, id, acked.at)) continue;
    ++have;
    members_have += s.members.contains(n) ? 1 : 0;
  }
  const bool enough = acked.policy == Durability::all ? members_have == s.members.size() && have >= 2 : have >= 2;
  EXPECT_TRUE(enough) << "policy " << static_cast<int>(acked.policy) << " at " << to_string(acked.at) << ": " << have << " copies";
  s.acked.push_back(acked);
  ++probes["acknowledged"];
}

// What the sessions know, into the sets and to those who wait.
void Region::look() {
  for (std::uint16_t n = 0; n < segments; ++n) {
    const SegmentId id{n};
    Segment& s = at(id);
    const Position head = store(s.owner).state(id).head;
    std::set<std::size_t> members = s.members;
    for (std::size_t r = 0; r < nodes; ++r) {
      if (r == s.owner) continue;
      const ReplicaProgress progress = line(s.owner, r).o->progress(id);
      if (progress.received) {
        EXPECT_TRUE(*progress.received == Position{} || holds(r, id, *progress.received))
            << "received " << to_string(*progress.received) << " is above what node " << r << " holds: " << to_string(store(r).state(id).head);
        held_[s.owner]->received(id, ReplicaIndex{static_cast<std::uint16_t>(r)}, *progress.received, progress.marks_version);
      }
      if (progress.synchronised && !members.contains(r)) {
        members.insert(r);
        if (!held_[s.owner]->keeps(id, indexes(members))) members.erase(r), ++probes["joins later"];
      }
      if (progress.phase == ReplicaPhase::waiting && members.erase(r) != 0 && !held_[s.owner]->keeps(id, indexes(members))) {
        ++probes["promise taken back"];
        s.acked.clear();
      }
    }
    set_members(id, members);
    s.replaced |= held_[s.owner]->keeps(id, indexes(members));
    std::vector<Ticket> done, late;
    waits_[s.owner]->advance(id, held_[s.owner]->held(id, head), done);
    for (const Ticket ticket : done) {
      const auto waiting = s.waiting.find(ticket);
      if (waiting == s.waiting.end()) continue;  // of a term before
      check_done(id, waiting->second);
      s.waiting.erase(waiting);
    }
    waits_[s.owner]->expire(now_.mono_us, late);
    for (Segment& any : segments_) {
      for (const Ticket ticket : late) any.waiting.erase(ticket);
    }
  }
}

void Region::heal() {
  for (int i = 0; i < 400; ++i) {
    now_.mono_us += 200'000;
    now_.wall_us += 200'000;
    move_lines(true);
    look();
  }
}

void Region::expect_all_equal() {
  for (std::uint16_t n = 0; n < segments; ++n) {
    const SegmentId id{n};
    for (std::size_t r = 0; r < nodes; ++r) {
      if (r == at(id).owner) continue;
      expect_equal(store(at(id).owner), store(r), id, now_.wall_us);
      EXPECT_TRUE(line(at(id).owner, r).r->state(id).synced);
      EXPECT_TRUE(line(at(id).owner, r).o->progress(id).synchronised);
    }
    EXPECT_EQ(at(id).members.size(), nodes - 1);
  }
}

}  // namespace zaris::replication
