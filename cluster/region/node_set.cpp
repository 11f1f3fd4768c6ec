// The owner's duties towards its replicas: who is in the synchronised set, and the hand-over to one of them.
#include <algorithm>
#include <fmt/format.h>

#include "cluster/region/node_roles.hpp"

namespace zaris::region {

using namespace ownership;

namespace {
constexpr MonoMicros behind_us = 1'000'000;   // a replica that is connected and behind for so long leaves the set
constexpr MonoMicros pending_us = 2'000'000;  // a change that does not keep its promises by then is not made
}

std::vector<replication::ReplicaIndex> NodeRoles::indexes(const Members& members) const {
  std::vector<replication::ReplicaIndex> out;
  for (const Member& member : members) {
    if (const auto index = replicator_.index_of(member.name)) out.push_back(*index);
  }
  return out;
}

// What counts as held changes with the set: in both while a change is on its way.
void NodeRoles::count_both(const Role& role, const Members& wanted) {
  each_segment(role, [&](SegmentId segment) { replicator_.held().begin_change(segment, indexes(wanted)); });
}
void NodeRoles::count_wanted(const Role& role) {
  each_segment(role, [&](SegmentId segment) { replicator_.held().end_change(segment, true); });
}
void NodeRoles::count_only(const Role& role, const Members& members, bool in_change) {
  each_segment(role, [&](SegmentId segment) {
    if (in_change) replicator_.held().end_change(segment, false);
    replicator_.held().begin_change(segment, indexes(members));
    replicator_.held().end_change(segment, true);
  });
}

// A change is counted in both sets first, and written when the new one keeps every promise that was made: who leaves may have been the
// only one to hold what was acknowledged, and who joins is trusted with all of it. Not waited for: an empty set, from which nobody is
// promoted, and a member whose process is another one by now.
void NodeRoles::keep_set(Role& role) {
  if (role.set_writing) return;
  if (role.set_unknown_since != 0) return settle_set(role);
  if (role.set_pending) {
    bool keeps = true;
    const auto wanted = indexes(role.set_wanted);
    each_segment(role, [&](SegmentId segment) { keeps = keeps && replicator_.held().keeps(segment, wanted); });
    if (!keeps && !role.set_wanted.empty() && !role.set_replaced && outside_.now() < role.set_pending_until) return;
    if (!keeps && !role.set_wanted.empty() && !role.set_replaced) {
      // It does not come about: back to the set as it is, and another look at who is in step.
      role.set_pending = false;
      role.term->change_ended(role.set_before);
      return count_only(role, role.set_before, true);
    }
    return write_set(role);
  }
  const MonoMicros now = outside_.now();
  if (now < role.set_again_at || mirror_.older()) return;  // nobody is there who would write it down
  const Members current = role.term->counted();
  Members wanted;
  bool replaced = false;
  for (const std::string& peer : role.group) {
    const auto connected = peers_.find(peer);
    const auto member = std::ranges::find_if(current, [&](const Member& m) { return m.name == peer; });
    const bool is_in = member != current.end();
    bool in_step = connected != peers_.end();
    if (in_step) each_segment(role, [&](SegmentId segment) { in_step = in_step && replicator_.progress(peer, segment).synchronised; });
    if (in_step && (!is_in || member->incarnation == connected->second)) {
      role.behind_since.erase(peer);
      wanted.push_back({peer, connected->second});
      continue;
    }
    if (!is_in) continue;
    // Another process of that name has come: what the one before it held is gone.
    if (connected != peers_.end() && member->incarnation != connected->second) {
      replaced = true;
      continue;
    }
    // It has taken its leave, or its lease has run out: it is not waited for, or a failover would have to.
    if (connected == peers_.end() && !mirror_.members().contains(peer)) continue;
    const MonoMicros since = role.behind_since.try_emplace(peer, now).first->second;
    if (now - since < (connected == peers_.end() ? options_.suspect_us : behind_us)) wanted.push_back(*member);
  }
  std::ranges::sort(wanted);
  if (wanted == current) return;
  role.set_pending = true;
  role.set_pending_until = now + pending_us;
  role.set_replaced = replaced;
  role.set_before = current;
  role.set_wanted = std::move(wanted);
  role.term->change_begins(role.set_wanted);
  count_both(role, role.set_wanted);
}

void NodeRoles::write_set(Role& role) {
  const auto held = mirror_.synchronised().find(role.id);
  if (held == mirror_.synchronised().end() || held->second.value.generation != role.term->generation()) return;  // not shown yet, or over
  const KeyNames& keys = mirror_.keys();
  etcd::TxnRequest request;
  request.guards = {etcd::Compare::unchanged_since(keys.synchronised(role.id), held->second.changed), etcd::Compare::created_at(keys.member(options_.self), registration_.created())};
  request.then = {etcd::Put{keys.synchronised(role.id), encode(SynchronisedSet{role.term->generation(), role.set_wanted}), {}}};
  role.set_writing = true;
  role.set_pending = false;
  etcd_.txn(std::move(request), options_.call,
            [this, life = std::weak_ptr(life_), id = role.id, generation = role.term->generation(), told = mirror_.told()](etcd::TxnAnswer answer) {
    if (life.expired()) return;
    const auto found = roles_.find(id);
    if (found == roles_.end() || !found->second.term || found->second.term->generation() != generation) return;
    Role& one = found->second;
    one.set_writing = false;
    // Certainly not written: the set is as it was, and that alone counts again.
    if (answer.outcome == etcd::Outcome::unreachable || (answer.outcome == etcd::Outcome::compare_failed && answer.revision < told)) {
      one.term->change_ended(one.set_before);
      count_only(one, one.set_before, true);
      one.set_again_at = outside_.now() + std::chrono::microseconds(options_.call).count();
      return;
    }
    if (!answer.ok() || answer.revision <= told) {
      // It failed, or nobody knows, or it was made in an etcd that was restored from an old copy: a write comes after all that had been seen before it
      // was asked for. What etcd has is what the next confirmed look at it shows.
      one.set_unknown_since = outside_.now();
      return;
    }
    one.set_at = std::max(one.set_at, answer.revision);
    ++counters_.set_changes;
    std::string names;
    for (const Member& member : one.set_wanted) names += (names.empty() ? "" : ", ") + member.name;
    say(one, Weight::info, "synchronised_set", names.empty() ? "no replica is synchronised" : "synchronised: " + names);
    one.term->change_ended(one.set_wanted);
    count_wanted(one);
  });
}

// A write's outcome is not known, or it was refused: what etcd has is read, and counts from then on.
void NodeRoles::settle_set(Role& role) {
  const MonoMicros now = outside_.now();
  if (now < role.set_unknown_since) return;
  role.set_unknown_since = now + std::chrono::microseconds(options_.call).count();
  etcd::RangeRequest request;
  request.keys = etcd::Keys::one(mirror_.keys().synchronised(role.id));
  request.limit = 1;
  etcd_.range(std::move(request), options_.call,
              [this, life = std::weak_ptr(life_), id = role.id, generation = role.term->generation(), told = std::max(mirror_.told(), role.set_at)](etcd::RangeAnswer answer) {
    // An etcd that shows less than had been seen was restored from an old copy: both sets go on counting until the right one answers.
    if (life.expired() || !answer.ok() || answer.rows.empty() || answer.revision < told) return;
    const auto found = roles_.find(id);
    if (found == roles_.end() || !found->second.term || found->second.term->generation() != generation || found->second.set_unknown_since == 0) return;
    const auto set = decode_synchronised_set(answer.rows.front().value);
    const auto known = mirror_.synchronised().find(id);
    const etcd::EtcdRevision newest = std::max(found->second.set_at, known == mirror_.synchronised().end() ? etcd::EtcdRevision{} : known->second.changed);
    if (answer.rows.front().mod_revision < newest) return;
    if (!set || set->generation != generation) return;  // another owner's: the mirror will say so
    Role& one = found->second;
    one.set_unknown_since = 0;
    one.term->change_ended(set->members);
    count_only(one, set->members, true);
  });
}

// A copy empties what the replica has before it is whole: while it is counted, it must not begin.
bool NodeRoles::out_of_set(const std::string& peer, SegmentId segment) const {
  for (const auto& [id, role] : roles_) {
    if (segment.value() < role.first.value() || segment.value() >= role.first.value() + role.segments) continue;
    if (!role.term || role.set_pending || role.set_writing || role.set_unknown_since != 0) return false;
    return std::ranges::none_of(role.term->counted(), [&](const Member& member) { return member.name == peer; });
  }
  return false;
}

// ---- handing over -------------------------------------------------------------------------------------------------

void NodeRoles::hand_over_asked(const std::string& node, const protocol::HandOver& question) {
  Role* role = role_by_low(question.partition);
  bool able = role != nullptr && role->term && role->term->generation() == question.generation && (role->phase == RolePhase::serving || role->phase == RolePhase::stopped) && peers_.contains(question.to);
  // It may be counted still and have fallen behind already: then nothing is stopped for it.
  if (able) each_segment(*role, [&](SegmentId segment) { able = able && replicator_.progress(question.to, segment).synchronised; });
  if (!able) {
    std::string frame;
    encode(frame, protocol::HandedOver{question.partition, question.generation, question.to, false, "this node does not serve it, or the other one is not in step with it"});
    (void)outside_.send(node, frame);
    return;
  }
  // It may have stopped for a leader that is gone: then for this one.
  const bool stopped = role->phase == RolePhase::stopped;
  // A drain cannot wait for readers that are away; to give back what was only lent can.
  if (const auto below = stopped || mirror_.drains().contains(options_.self) ? std::nullopt : reader_below(*role, question.to)) {
    std::string frame;
    const std::string reason = fmt::format("segment {}: a reader of the feed stands where the log of {} does not reach back to", below->value(), question.to);
    encode(frame, protocol::HandedOver{question.partition, question.generation, question.to, false, reason});
    (void)outside_.send(node, frame);
    say(*role, Weight::info, "hand_over_waits", reason);
    return;
  }
  role->phase = RolePhase::stopped;
  role->stopped_at = outside_.now();
  role->hand_over_to = question.to;
  role->hand_over_asker = node;
  role->reason = "handing over to " + question.to;
  publish(*role);
  role->under_way = serving_.under_way();
  say(*role, Weight::info, "handing_over", "writes stop; " + question.to + " takes over");
}

// The log of a copy begins where the furthest reader stood; for one that came later and stands before that, that node has nothing. Feed rule 7 and page
// cluster, "Replication inside a region": no follower falls below the floor by a change of owners that could have waited.
std::optional<SegmentId> NodeRoles::reader_below(const Role& role, const std::string& peer) const {
  std::optional<SegmentId> below;
  each_segment(role, [&](SegmentId segment) {
    const auto lowest = store_.lowest_pin(segment, store_.options().cluster);
    // What is not here either is no reason to wait.
    if (lowest && std::max(lowest->next(), store_.state(segment).floor) < replicator_.progress(peer, segment).floor) below = segment;
  });
  return below;
}

// What was acknowledged is confirmed by the other one, marks included; also what was being executed when the stop came, and is answered.
void NodeRoles::hand_over(Role& role) {
  if (role.hand_over_to.empty() || !ServingTable::over(role.under_way)) return;
  bool all = true;
  each_segment(role, [&](SegmentId segment) {
    const replication::ReplicaProgress progress = replicator_.progress(role.hand_over_to, segment);
    all = all && progress.received && *progress.received >= store_.state(segment).head && progress.marks_version >= store_.marks_since(segment, ~std::uint64_t{0}).version;
  });
  if (!all) return;
  std::string frame;
  encode(frame, protocol::HandedOver{role.id.low, role.term->generation(), role.hand_over_to, true, {}});
  if (outside_.send(role.hand_over_asker, frame)) role.hand_over_to.clear();
}

}  // namespace zaris::region
