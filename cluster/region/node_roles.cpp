#include "cluster/region/node_roles.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "cluster/replication/reconcile.hpp"

namespace zaris::region {

using namespace ownership;

namespace {
constexpr MonoMicros stopped_quietly_us = 1'000'000;
constexpr MonoMicros stopped_most_us = 12'000'000;   // for a hand-over, which its leader gives up after 5 s
}

std::string_view name(RolePhase phase) {
  switch (phase) {
    case RolePhase::none: return "none";
    case RolePhase::replica: return "replica";
    case RolePhase::asking: return "asking";
    case RolePhase::pulling: return "pulling";
    case RolePhase::waiting: return "waiting";
    case RolePhase::serving: return "serving";
    case RolePhase::stopped: return "stopped";
  }
  return "";
}

NodeRoles::NodeRoles(etcd::Etcd& etcd, const Mirror& mirror, const Registration& registration, store::Store& store, Replicator& replicator, ServingTable& serving,
                     NodeRolesOptions options, Outside& outside)
    : etcd_(etcd), mirror_(mirror), registration_(registration), store_(store), replicator_(replicator), serving_(serving), options_(std::move(options)),
      outside_(outside), started_(outside.now()), grant_us_(options_.authority.grant_us) {
  replicator_.may_copy([this](const std::string& peer, SegmentId segment) { return out_of_set(peer, segment); });
}
NodeRoles::~NodeRoles() = default;

void NodeRoles::say(const Role& role, Weight weight, std::string_view event, const std::string& text) const {
  outside_.say(weight, event, fmt::format("partition of segments {} to {}: {}", role.first.value(), role.first.value() + role.segments - 1, text));
}

NodeRoles::Role& NodeRoles::role_of(const Partition& partition) {
  const auto found = roles_.find(partition.id);
  if (found != roles_.end()) return found->second;
  Role role{.id = partition.id, .first = partition.first, .segments = partition.segments, .group = {}, .granter = Granter(started_, options_.authority.grant_us)};
  return roles_.emplace(partition.id, std::move(role)).first->second;
}

NodeRoles::Role* NodeRoles::role_by_low(std::uint64_t low) {
  for (auto& [id, role] : roles_) {
    if (id.low == low) return &role;
  }
  return nullptr;
}

// ---- every change -------------------------------------------------------------------------------------------------

void NodeRoles::update() {
  if (registration_.registered()) {
    const ownership::LeaseId id{static_cast<std::uint64_t>(registration_.lease().value())};
    if (id != lease_.id()) lease_.taken(id, registration_.renewed_at(), options_.lease_us);
    else lease_.renewed(id, registration_.renewed_at(), options_.lease_us);
  } else if (lease_.until() != 0) {
    lease_.gone(lease_.id());
  }
  if (mirror_.listed() && mirror_.map() && mirror_.ownership()) {
    for (const Partition& partition : mirror_.map()->value.partitions) {
      const PartitionOwner* row = mirror_.ownership()->value.find(partition.id);
      if (row == nullptr) continue;
      Role& role = role_of(partition);
      std::set<std::string> group;
      for (const std::string& member : partition.members()) {
        if (member != options_.self) group.insert(member);
      }
      for (const std::string& member : role.group) {
        if (!group.contains(member)) release_pin(role, member);
      }
      role.group = std::move(group);
      role.granter.learn(row->generation);
      each_segment(role, [&](SegmentId segment) { replicator_.learn(segment, row->generation); });
      // Both are written in one transaction; the one without the other is not what is to be begun.
      const auto set = mirror_.synchronised().find(partition.id);
      if (row->owner && (set == mirror_.synchronised().end() || set->second.value.generation < row->generation)) continue;
      const bool mine = row->owner && *row->owner == options_.self && row->incarnation == options_.incarnation;
      if (mine && row->generation >= role.granter.highest()) {
        if (!role.term || role.term->generation() != row->generation) begin_possession(role, *row);
        if (registration_.registered() && mirror_.confirmed_at() > registration_.registered_at()) role.term->confirmed(lease_.id());
      } else {
        if (role.term && (row->generation > role.term->generation() || !mine)) end_term(role, fmt::format("{} owns it now (generation {})", row->owner.value_or("nobody"), row->generation.value()));
        follow_owner(role, partition, *row);
      }
    }
  }
  for (const replication::HeardGeneration& heard : replicator_.take_heard()) {
    for (auto& [id, role] : roles_) {
      if (heard.segment.value() < role.first.value() || heard.segment.value() >= role.first.value() + role.segments) continue;
      role.granter.learn(heard.generation);
      if (role.term && heard.generation > role.term->generation()) end_term(role, fmt::format("a replica knows generation {}", heard.generation.value()));
    }
  }
  for (auto& [id, role] : roles_) {
    if (role.term) step(role);
    publish(role);
  }
  ask_grants();
}

// Whoever has left the map may be gone for good, and says nothing of it; nothing is kept for it any more.
void NodeRoles::release_pin(const Role& role, const std::string& member) {
  const store::PinKey pin = replication::replica_pin(store_, member);
  each_segment(role, [&](SegmentId segment) { store_.clear_pin(pin, segment); });
}

void NodeRoles::follow_owner(Role& role, const Partition& partition, const PartitionOwner& row) {
  const bool member = partition.has_member(options_.self);
  const RolePhase wanted = member ? RolePhase::replica : RolePhase::none;
  if (role.phase != wanted) {
    role.phase = wanted;
    role.reason.clear();
    each_segment(role, [&](SegmentId segment) { store_.set_role(segment, member ? store::SegmentRole::replica : store::SegmentRole::none); });
  }
  const bool follows = member && row.owner && *row.owner != options_.self;
  each_segment(role, [&](SegmentId segment) {
    if (follows) replicator_.follow(segment, *row.owner, std::max(row.generation, role.granter.highest()));
    else replicator_.unfollow(segment);
  });
}

// ---- taking possession --------------------------------------------------------------------------------------------

std::vector<Position> NodeRoles::heads(const Role& role) const {
  std::vector<Position> out;
  each_segment(role, [&](SegmentId segment) {
    const store::SegmentState state = store_.state(segment);
    out.push_back(state.copying ? Position{} : state.head);
  });
  return out;
}

void NodeRoles::begin_possession(Role& role, const PartitionOwner& row) {
  if (role.term) end_term(role, fmt::format("a new term of this node begins (generation {})", row.generation.value()));
  each_segment(role, [&](SegmentId segment) {
    replicator_.unfollow(segment);
    store_.set_role(segment, store::SegmentRole::replica);
  });
  Members set;
  if (const auto held = mirror_.synchronised().find(role.id); held != mirror_.synchronised().end() && held->second.value.generation == row.generation) set = held->second.value.members;
  role.from = row.handed_over ? 0 : role.granter.may_serve_from();
  role.term.emplace(row.generation, options_.replication_factor, options_.authority, role.from, std::move(set));
  role.root = row.root;
  role.phase = RolePhase::asking;
  role.asked_at = outside_.now();
  role.again_at = 0;
  role.impossible.clear();
  role.asked.clear();
  role.holders.clear();
  role.pulls.clear();
  role.behind_since.clear();
  role.set_pending = role.set_writing = false;
  role.set_unknown_since = 0;
  role.set_at = {};
  role.set_again_at = 0;
  role.hand_over_to.clear();
  role.reason = "asking the other nodes of the partition what they hold";
  say(role, Weight::info, "possession_begins", fmt::format("this node is to own it (generation {})", row.generation.value()));
}

void NodeRoles::ask_holders(Role& role) {
  for (const std::string& peer : role.group) {
    if (role.asked.contains(peer) || !peers_.contains(peer)) continue;
    std::string frame;
    encode(frame, protocol::Fence{role.id.low, role.term->generation(), static_cast<std::uint64_t>(outside_.now())});
    if (outside_.send(peer, frame)) role.asked[peer] = true;
  }
}

void NodeRoles::step(Role& role) {
  const MonoMicros now = outside_.now();
  switch (role.phase) {
    case RolePhase::asking: {
      if (now < role.again_at) return;
      ask_holders(role);
      // Who is registered and has not answered is waited for, but not for ever: a sole survivor serves.
      bool all = true;
      for (const std::string& peer : role.group) all = all && (role.holders.contains(peer) || !mirror_.members().contains(peer));
      if (!all && now - role.asked_at < options_.ask_us) return;
      plan_pulls(role);
      if (role.phase != RolePhase::pulling) return;
      [[fallthrough]];
    }
    case RolePhase::pulling:
      if (!pulled(role)) return;
      if (const std::string why = cannot_own(role); !why.empty()) {
        return ask_again(role, Weight::error, "possession_impossible", why);
      }
      role.phase = RolePhase::waiting;
      role.reason = "waiting for its own last grant to run out";
      [[fallthrough]];
    case RolePhase::waiting:
      if (now < role.from) return;
      return begin_term(role);
    case RolePhase::serving: return keep_set(role);
    case RolePhase::stopped:
      keep_set(role);  // whoever dies, or falls behind the log, meanwhile
      return hand_over(role);
    default: return;
  }
}

void NodeRoles::plan_pulls(Role& role) {
  std::vector<Holder> holders;
  for (const auto& [peer, holder] : role.holders) holders.push_back(holder);
  const PullPlan plan = pull_plan(heads(role), holders, 2 * options_.ask_us, outside_.now());
  role.pulls = plan.pulls;
  role.phase = RolePhase::pulling;
  role.reason = plan.reason;
  role.asked_at = outside_.now();
  for (const Pull& pull : role.pulls) {
    replicator_.follow(SegmentId{static_cast<std::uint16_t>(role.first.value() + pull.segment)}, pull.from, role.term->generation(), true);
  }
}

bool NodeRoles::pulled(Role& role) {
  std::erase_if(role.pulls, [&](const Pull& pull) {
    const SegmentId segment{static_cast<std::uint16_t>(role.first.value() + pull.segment)};
    if (store_.state(segment).head < pull.to) return false;
    replicator_.unfollow(segment);
    return true;
  });
  if (role.pulls.empty()) return true;
  // Who had more has gone, or cannot give it: what is left is asked for again. Where what nobody gives may be lost, it is not.
  for (const Pull& pull : role.pulls) {
    const SegmentId segment{static_cast<std::uint16_t>(role.first.value() + pull.segment)};
    const auto state = replicator_.following(segment);
    if (peers_.contains(pull.from) && state.phase != replication::FollowPhase::refused) continue;
    if (peers_.contains(pull.from) && role.root) {
      say(role, Weight::warning, "loss_accepted", fmt::format("{} has more of segment {} and does not give it ({}): an operator has accepted the loss", pull.from, segment.value(), state.reason));
      replicator_.unfollow(segment);
      std::erase_if(role.pulls, [&](const Pull& one) { return one.segment == pull.segment; });
      return role.pulls.empty();
    }
    each_segment(role, [&](SegmentId one) { replicator_.unfollow(one); });
    const std::string why = fmt::format("{} had more of segment {} and does not give it ({})", pull.from, segment.value(), state.reason);
    const bool gone = !peers_.contains(pull.from);
    ask_again(role, Weight::warning, "possession_again", why);
    if (gone) {
      role.impossible.clear();
      role.asked_at = outside_.now();
      role.again_at = 0;
    }
    return false;
  }
  return false;
}

// It does not come to hold what it is to serve. Somebody may come who has it; and the leader hears of it, who may know a better owner.
void NodeRoles::ask_again(Role& role, Weight weight, std::string_view event, const std::string& why) {
  if (why != role.impossible) say(role, weight, event, why);
  role.reason = role.impossible = why;
  role.phase = RolePhase::asking;
  role.asked_at = role.again_at = outside_.now() + options_.ask_us;
  role.asked.clear();
  role.holders.clear();
  role.pulls.clear();
}

// Empty: it may. A blank segment begins a history only where the region says that there was none, or that it may be lost.
std::string NodeRoles::cannot_own(const Role& role) const {
  std::string why;
  each_segment(role, [&](SegmentId segment) {
    const store::SegmentState state = store_.state(segment);
    if (!why.empty()) return;
    if (role.root) return;
    if (state.copying) why = fmt::format("segment {} is a copy that was not finished", segment.value());
    else if (state.head == Position{}) why = fmt::format("nobody who answers holds segment {}; an empty one is not served", segment.value());
  });
  return why;
}

void NodeRoles::begin_term(Role& role) {
  const HistoryId history{outside_.random()};
  const WallMicros now = outside_.wall_now();
  each_segment(role, [&](SegmentId segment) {
    store_.keep_half_copy(segment);
    const Position begins = store_.begin_term(segment, {role.term->generation(), outside_.random(), history, role.root.value_or(RootCause::created)}, now);
    replicator_.held().reset(segment, begins);
    replicator_.held().set_copies(segment, static_cast<std::uint16_t>(options_.replication_factor));
  });
  role.phase = RolePhase::serving;
  role.reason.clear();
  role.impossible.clear();
  ++counters_.terms_begun;
  count_only(role, role.term->counted(), false);
  say(role, Weight::info, "serving_began", fmt::format("this node serves it (generation {})", role.term->generation().value()));
}

void NodeRoles::end_term(Role& role, const std::string& why) {
  const bool served = role.phase == RolePhase::serving || role.phase == RolePhase::stopped;
  role.term.reset();
  role.phase = RolePhase::replica;
  role.hand_over_to.clear();
  role.pulls.clear();
  publish(role);
  each_segment(role, [&](SegmentId segment) {
    store_.set_role(segment, store::SegmentRole::replica);
    replicator_.unfollow(segment);
    replicator_.held().reset(segment, {});
  });
  ++counters_.terms_ended;
  if (served) say(role, Weight::info, "serving_ended", why);
}

// ---- may it serve -------------------------------------------------------------------------------------------------

void NodeRoles::publish(Role& role) {
  MonoMicros until = 0;
  role.serves_by = ServesBy::nothing;
  const bool stopped = role.phase == RolePhase::stopped;
  if (role.term && (role.phase == RolePhase::serving || stopped)) {
    const Serving serving = role.term->serving(lease_);
    if (outside_.now() >= serving.from) {
      until = serving.until;
      if (!stopped) role.serves_by = serving.by;
    }
  }
  each_segment(role, [&](SegmentId segment) { stopped ? serving_.stop(segment, until) : serving_.set(segment, until); });
}

void NodeRoles::ask_grants() {
  const MonoMicros now = outside_.now();
  if (now - asked_grants_at_ < grant_us_ / 3) return;
  asked_grants_at_ = now;
  std::map<std::string, protocol::Grant> questions;
  for (const auto& [id, role] : roles_) {
    if (!role.term || role.phase != RolePhase::serving) continue;
    for (const Member& member : role.term->counted()) questions[member.name].rows.push_back({id.low, role.term->generation()});
  }
  for (auto& [peer, question] : questions) {
    question.echo = static_cast<std::uint64_t>(now);
    question.for_us = static_cast<std::uint64_t>(options_.authority.grant_us);
    std::string frame;
    encode(frame, protocol::Opcode::grant, question);
    (void)outside_.send(peer, frame);
  }
}

void NodeRoles::grant_asked(const std::string& node, const protocol::Grant& question) {
  protocol::Grant answer;
  answer.echo = question.echo;
  answer.for_us = static_cast<std::uint64_t>(options_.authority.grant_us);
  const MonoMicros now = outside_.now();
  for (const protocol::Grant::Row& row : question.rows) {
    Role* role = role_by_low(row.partition);
    if (role == nullptr) continue;
    const GrantAnswer said = role->granter.ask(row.generation, now);
    ++(said.granted ? counters_.grants_given : counters_.grants_refused);
    answer.rows.push_back({row.partition, said.granted ? row.generation : said.highest});
  }
  std::string frame;
  encode(frame, protocol::Opcode::granted, answer);
  (void)outside_.send(node, frame);
}

void NodeRoles::granted(const std::string& node, const protocol::Grant& answer) {
  const auto peer = peers_.find(node);
  if (peer == peers_.end()) return;
  // Whoever grants for less than this node would, in the middle of a change of failover.grant, is asked more often.
  const MonoMicros for_us = answer.for_us == 0 ? options_.authority.grant_us : static_cast<MonoMicros>(std::min<std::uint64_t>(answer.for_us, INT64_MAX));
  grant_us_ = std::min(grant_us_, for_us);
  for (const protocol::Grant::Row& row : answer.rows) {
    Role* role = role_by_low(row.partition);
    if (role == nullptr || !role->term) continue;
    if (row.generation == role->term->generation()) {
      role->term->granted({node, peer->second}, static_cast<MonoMicros>(answer.echo), for_us);
    } else if (row.generation > role->term->generation()) {
      role->granter.learn(row.generation);
      end_term(*role, fmt::format("{} knows generation {}", node, row.generation.value()));
    }
    publish(*role);
  }
}

// ---- fences -------------------------------------------------------------------------------------------------------

void NodeRoles::peer_up(const std::string& node, Incarnation incarnation) { peers_[node] = incarnation; }

void NodeRoles::peer_down(const std::string& node) {
  peers_.erase(node);
  for (auto& [id, role] : roles_) {
    role.asked.erase(node);
    role.holders.erase(node);
  }
}

void NodeRoles::fence_asked(const std::string& node, const protocol::Fence& question) {
  Role* role = role_by_low(question.partition);
  if (role == nullptr) return;
  role->granter.learn(question.generation);
  each_segment(*role, [&](SegmentId segment) { replicator_.learn(segment, question.generation); });
  if (role->term && question.generation > role->term->generation()) {
    ++counters_.fenced;
    end_term(*role, fmt::format("fenced by {} (generation {})", node, question.generation.value()));
  }
  protocol::Fenced answer;
  answer.partition = question.partition;
  answer.generation = question.generation;
  answer.echo = question.echo;
  answer.incarnation = options_.incarnation.value();
  answer.highest = role->granter.highest();
  each_segment(*role, [&](SegmentId segment) {
    const store::SegmentState state = store_.state(segment);
    const Lineage lineage = store_.lineage(segment);
    protocol::Fenced::Row row;
    row.segment = segment;
    if (state.head != Position{}) {
      row.history = lineage.root().history;
      row.head = {state.head, lineage.id_of(state.head.generation)};
    }
    row.whole = !state.copying;
    row.synced = replicator_.following(segment).synced;
    answer.rows.push_back(row);
  });
  std::string frame;
  encode(frame, answer);
  (void)outside_.send(node, frame);
}

void NodeRoles::fenced(const std::string& node, const protocol::Fenced& answer) {
  Role* role = role_by_low(answer.partition);
  if (role == nullptr || !role->term || role->term->generation() != answer.generation) return;
  if (answer.highest > answer.generation) {
    role->granter.learn(answer.highest);
    return end_term(*role, fmt::format("{} knows generation {}", node, answer.highest.value()));
  }
  Holder holder;
  holder.name = node;
  holder.live = true;
  holder.reported_at = outside_.now();
  for (const protocol::Fenced::Row& row : answer.rows) holder.heads.push_back(row.whole && row.history != HistoryId{} ? row.head.at : Position{});
  role->holders[node] = std::move(holder);
}

// ---- what is shown ------------------------------------------------------------------------------------------------

std::vector<protocol::Heartbeat::Owned> NodeRoles::owned() const {
  std::vector<protocol::Heartbeat::Owned> out;
  for (const auto& [id, role] : roles_) {
    if (!role.term) {
      // Fenced, and then nobody was promoted: the leader is to hear that this node needs a term above that.
      const PartitionOwner* row = mirror_.ownership() ? mirror_.ownership()->value.find(id) : nullptr;
      const bool mine = row != nullptr && row->owner && *row->owner == options_.self && row->incarnation == options_.incarnation;
      if (mine && role.granter.highest() > row->generation) out.push_back({id.low, role.granter.highest(), false, {}});
      continue;
    }
    if (!role.impossible.empty() || (role.phase == RolePhase::stopped && outside_.now() - role.stopped_at > stopped_most_us)) {
      // It cannot own it; or whoever asked for the hand-over is gone, or will not end it. What has stopped goes on under another generation only.
      out.push_back({id.low, Generation{role.term->generation().value() + 1}, false, {}});
      continue;
    }
    // A hand-over takes a moment in which it is as good as served; one that lasts is said.
    const bool stops = role.phase == RolePhase::stopped && outside_.now() - role.stopped_at < stopped_quietly_us;
    protocol::Heartbeat::Owned one{id.low, role.term->generation(), role.phase == RolePhase::serving || stops, {}};
    if (one.serving && !role.term->changing()) {
      for (const Member& member : role.term->counted()) one.synchronised.push_back(member.name);
    }
    out.push_back(std::move(one));
  }
  return out;
}

std::vector<RoleState> NodeRoles::states() const {
  std::vector<RoleState> out;
  for (const auto& [id, role] : roles_) {
    RoleState one{id, role.first, role.segments, role.phase, {}, role.reason, {}, role.serves_by};
    if (role.term) {
      // A grant may have run out since it was looked at last.
      if (role.term->serving(lease_).until <= outside_.now()) one.serves_by = ServesBy::nothing;
      one.generation = role.term->generation();
      one.synchronised = role.term->counted();
    }
    out.push_back(std::move(one));
  }
  return out;
}

std::size_t NodeRoles::partitions_owned() const {
  return static_cast<std::size_t>(std::ranges::count_if(roles_, [](const auto& one) { return one.second.term.has_value(); }));
}

}  // namespace zaris::region
