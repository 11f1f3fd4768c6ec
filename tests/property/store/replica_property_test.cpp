// Three nodes of one region with one segment: an owner, two that follow it, and terms that go from one to the next. Runs are cut
// anywhere, copies are begun, broken off and begun again, their pages come between runs and changes; a promoted replica leaves
// behind what only the old owner had, and that one comes back with it. At rest everybody holds the same.
#include <rapidcheck.h>

#include <array>

#include "tests/unit/store/replica_fixture.hpp"

namespace zaris::store {
namespace {

constexpr std::size_t nodes = 3;

std::string some_key(std::uint32_t r) {
  switch (r % 4) {
    case 0: return "{tag}" + std::to_string(r / 4 % 60);
    case 1: return r / 4 % 8 == 0 ? "" : "k" + std::to_string(r / 4 % 12);
    default: return "k" + std::to_string(r / 4 % 40);
  }
}

// Keys with entry and version: what is the same in every region.
std::vector<std::string> entries_of(Store& store, const Scope& scope) {
  std::vector<std::string> out;
  for (const std::string& record : records_of(store)) {
    const RecordView v = trusted_record(record);
    if (scope.has_key(v.key)) out.push_back(std::to_string(v.item_version) + " " + std::string(v.entry));
  }
  return out;
}

// What the replication between two nodes would remember of one follower.
struct Follower {
  std::unique_ptr<Walk> walk;            // the owner's, while a copy is on its way
  std::optional<WalkPage> page;          // taken, not yet delivered: the log up to it has to come first
  std::uint64_t marks_version = 0;
  std::optional<MarksSince> marks;       // read, not yet delivered
};

class Region {
 public:
  Region() {
    for (std::size_t i = 0; i < nodes; ++i) {
      StoreOptions options;
      options.log_budget_bytes = 64 << 10;
      stores[i] = make_member(1, 1 + i, options);
    }
    stores[0]->begin_term(seg0, Term{Generation{++generation}, generation, HistoryId{1}, RootCause::created}, now);
    for (std::size_t i = 1; i < nodes; ++i) stores[i]->set_role(seg0, SegmentRole::replica);
    open_link();
  }

  std::array<std::unique_ptr<Store>, nodes> stores;
  std::array<Follower, nodes> followers;
  std::unique_ptr<Store> source = make_store(1, 0xa);  // of another region
  std::unique_ptr<Linked> link;
  const Scope linked = Scope::make({"{tag}"}).value();
  std::size_t owner = 0;
  std::uint32_t generation = 1000;
  std::uint64_t follower_term = 0;
  WallMicros now = start_time;
  std::map<std::string, ItemToken> seen;

  Store& at() { return *stores[owner]; }
  Position head(std::size_t i) const { return stores[i]->state(seg0).head; }

  // A follower of the other region comes back: what its mark says is where it goes on.
  void open_link() {
    link = std::make_unique<Linked>(*source, at(), linked);
    link->term = FollowerTerm{++follower_term};
    RC_ASSERT(link->open_link() == Status::ok);
    const auto rows = at().read_marks("l", linked.id());
    if (!rows.empty()) {
      link->token = rows[0].mark.token;
      link->low = rows[0].mark.low;
    }
  }
  void apply(std::uint32_t r) {
    link->now = now;
    const auto state = source->state(seg0);
    const bool streams = link->low && link->low->at.revision.value() + 1 >= state.floor.value() && at().read_marks("l", linked.id()).at(0).mark.phase == Phase::stream;
    if (!streams || r % 16 == 0) {
      RC_ASSERT(link->open().status == Status::ok);
      RC_ASSERT(link->bootstrap(WalkLimits{r % 40 + 1, 1 << 20}).status == Status::ok);
      return;
    }
    const std::uint64_t to = std::min<std::uint64_t>(state.head.revision.value(), link->low->at.revision.value() + r % 20);
    RC_ASSERT(link->send(link->stream(link->low->at, Revision{to})).status == Status::ok);
  }
  void change(std::uint32_t r) {
    const std::string key = some_key(r >> 8);
    const bool foreign = linked.has_key(key);
    Store& store = foreign ? *source : at();
    const WallMicros expires_us = r % 5 == 0 ? now + r % 7 * second : 0;
    switch (r >> 5 & 7) {
      case 0: case 1: store.del(key, {}, now); break;
      case 2: store.touch(key, expires_us, {}, now); break;
      case 3: {
        const auto outcome = store.put(Put{.key = key, .value = "cas", .expires_us = 0, .expected = seen[key], .only_if_absent = false}, now);
        if (outcome.status == Status::ok) seen[key] = outcome.token;
        break;
      }
      default:
        seen[key] = store.put(Put{.key = key, .value = std::string(r % 61 == 0 ? 20'000 : r % 90, static_cast<char>(r)), .expires_us = expires_us}, now).token;
    }
  }

  // May this follower take the owner's log, or must it be given the content?
  bool on_the_log(std::size_t i) const {
    const Store& store = *stores[i];
    const SegmentState state = store.state(seg0);
    if (state.copying && !followers[i].walk) return false;  // from before: broken off
    if (state.head == Position{}) return stores[owner]->state(seg0).floor == Revision{1};
    const Lineage theirs = stores[owner]->lineage(seg0), mine = store.lineage(seg0);
    const NamedPosition named{state.head, mine.id_of(state.head.generation)};
    return theirs.test(mine.root().history, named, head(owner)).verdict == OnLineage::on &&
           state.head.revision.value() + 1 >= stores[owner]->state(seg0).floor.value();
  }
  void run(std::size_t i, std::size_t count) {
    if (!on_the_log(i)) return begin_copy(i);
    if (auto stretch = read_run(at(), seg0, head(i), count)) {
      RC_ASSERT(stores[i]->append_run(seg0, stretch->ready(), now).outcome == ReplicaOutcome::ok);
      RC_ASSERT(head(i).revision == stretch->run.last);
    }
  }
  void begin_copy(std::size_t i) {
    followers[i] = Follower{};
    RC_ASSERT(stores[i]->begin_copy(seg0, copy_start(at()), now).outcome == ReplicaOutcome::ok);
    followers[i].walk = at().begin_walk(seg0, {}, std::nullopt);
  }
  void page(std::size_t i, std::uint32_t r) {
    Follower& f = followers[i];
    if (!f.walk) return;
    if (!f.page) f.page = f.walk->next(WalkLimits{r % 9 + 1, 1 << 20});
    const ReplicaAnswer answer = stores[i]->copy_page(seg0, copy_page(*f.page), now);
    if (head(i) == f.page->as_of) {
      RC_ASSERT(answer.outcome == ReplicaOutcome::ok);
      const bool whole = !f.page->to;
      f.page.reset();
      RC_ASSERT(stores[i]->state(seg0).copying == !whole);
      if (whole) f.walk.reset();
      return;
    }
    RC_ASSERT(answer.outcome == ReplicaOutcome::gap);
    // The log up to the page, not beyond.
    if (head(i) > f.page->as_of) {
      if (!stores[i]->state(seg0).copied_to) return begin_copy(i);
      f.page.reset();
      f.walk = at().begin_walk(seg0, {}, stores[i]->state(seg0).copied_to);
      return;
    }
    if (!on_the_log(i)) return begin_copy(i);
    while (head(i) < f.page->as_of) run(i, std::min<std::size_t>(r % 7 + 1, f.page->as_of.revision.value() - head(i).revision.value()));
  }
  void marks(std::size_t i) {
    Follower& f = followers[i];
    if (!f.marks) f.marks = at().marks_since(seg0, f.marks_version);
    const ReplicaAnswer answer = stores[i]->put_marks(seg0, *f.marks);
    const Lineage mine = stores[i]->lineage(seg0), theirs = at().lineage(seg0);
    const NamedPosition as_of{f.marks->head, theirs.id_of(f.marks->head.generation)};
    const bool held = mine.test(theirs.root().history, as_of, head(i)).verdict == OnLineage::on;
    RC_ASSERT((answer.outcome == ReplicaOutcome::ok) == held);
    if (answer.outcome != ReplicaOutcome::ok) return;
    f.marks_version = f.marks->version;
    f.marks.reset();
  }
  void floor(std::size_t i) {
    if (!on_the_log(i)) return;
    stores[i]->set_owner_floor(seg0, at().state(seg0).floor);
    while (stores[i]->trim_log(now)) {
    }
    const SegmentState mine = stores[i]->state(seg0), theirs = at().state(seg0);
    RC_ASSERT(mine.floor <= std::max(theirs.floor, mine.head.revision.next()));
  }
  // Somebody else owns it from now on. What is half a copy proves nothing and owns nothing.
  void promote(std::size_t to) {
    if (to == owner || stores[to]->state(seg0).copying || head(to) == Position{}) return;
    for (Follower& f : followers) f = Follower{};
    stores[owner]->set_role(seg0, SegmentRole::replica);
    owner = to;
    ++generation;
    at().begin_term(seg0, Term{Generation{generation}, generation, HistoryId{generation}, RootCause::created}, now);
    open_link();
  }
  // A connection goes: what was on its way is gone, what was taken stays.
  void break_off(std::size_t i) { followers[i] = Follower{}; }

  void rest() {
    for (std::size_t i = 0; i < nodes; ++i) {
      if (i == owner) continue;
      for (int n = 0; n < 10'000 && followers[i].walk; ++n) page(i, 99);
      for (int n = 0; n < 10'000 && (head(i) != head(owner) || stores[i]->state(seg0).copying); ++n) {
        run(i, 50);
        page(i, 99);
      }
      followers[i].marks.reset();
      marks(i);
      const std::string why = difference(at(), *stores[i]);
      if (!why.empty()) RC_FAIL("node " + std::to_string(i) + " and owner " + std::to_string(owner) + ": " + why);
      RC_ASSERT(stores[i]->memory().replica_records == at().memory().records);
      RC_ASSERT(stores[i]->memory().records == 0u);
    }
  }
};

TEST(ReplicaProperty, AtRestEverybodyHoldsTheSame) {
  const bool good = rc::check("random terms, runs and copies", [] {
    const auto ops = *rc::gen::container<std::vector<std::uint32_t>>(*rc::gen::inRange(0, 600), rc::gen::arbitrary<std::uint32_t>());
    Region region;
    for (const std::uint32_t raw : ops) {
      const std::uint32_t r = raw * 2654435761u;
      std::size_t other = (region.owner + 1 + (r >> 4) % (nodes - 1)) % nodes;
      switch (r >> 27) {
        case 0: case 1: case 2: case 3: case 4: case 5: case 6: case 7: region.change(r); break;
        case 8: case 9: region.apply(r); break;
        case 10: case 11: case 12: case 13: case 14: region.run(other, r % 9 + 1); break;
        case 15: case 16: case 17: case 18: case 19: region.page(other, r); break;
        case 20: case 21: region.marks(other); break;
        case 22: region.floor(other); break;
        case 23:
          if (r % 4 == 0) region.begin_copy(other);
          break;
        case 24: region.break_off(other); break;
        case 25:
          if (r % 3 == 0) region.promote(other);
          break;
        case 26:
          if (r % 4 == 0) region.at().trim_log_hard(seg0);
          break;
        case 27: region.now += r % 3 * second; break;
        case 28:
          for (const auto& store : region.stores) {
            while (store->sweep_expiry(region.now)) {
            }
          }
          break;
        case 29:
          if (r % 4 == 0) region.source->trim_log_hard(seg0);
          break;
        case 30:
          while (region.source->sweep_expiry(region.now)) {
          }
          break;
        default:
          if (r % 4 == 0) region.rest();
      }
    }
    region.rest();
    // Trimmed as far as the owner's, nothing is left of what the floors may have made different.
    region.at().trim_log_hard(seg0);
    for (std::size_t i = 0; i < nodes; ++i) {
      if (i == region.owner) continue;
      region.floor(i);
      RC_ASSERT(region.stores[i]->state(seg0).floor == region.at().state(seg0).floor);
      RC_ASSERT(region.stores[i]->state(seg0).tombstones == region.at().state(seg0).tombstones);
    }
    region.rest();
    // What the link brought is the source's, whoever owned it meanwhile.
    region.apply(16 * 7);
    RC_ASSERT(region.link->stream_all().status == Status::ok);
    RC_ASSERT(entries_of(region.at(), region.linked) == entries_of(*region.source, region.linked));
  });
  EXPECT_TRUE(good);
}

}  // namespace
}  // namespace zaris::store
