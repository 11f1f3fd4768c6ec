// The leader's part in planned changes of owners: of a node that drains, and back to a placement primary. The owner stops writing, sees
// that a synchronised replica has everything, and says so; one transaction makes the replica the owner.
#include <algorithm>
#include <fmt/format.h>

#include "cluster/region/leader.hpp"

namespace zaris::region {

using namespace ownership;

namespace {
constexpr MonoMicros give_up_us = 5'000'000;
constexpr MonoMicros give_back_again_us = 60'000'000;
constexpr MonoMicros refused_again_us = 1'000'000;
}

void Leader::look_at_hand_overs(MonoMicros now) {
  const Ownership& held = mirror_.ownership()->value;
  std::erase_if(hand_overs_, [&](const auto& one) {
    const PartitionOwner* row = held.find(one.first);
    return row == nullptr || !row->owner || *row->owner != one.second.from || (!one.second.gives_back && !mirror_.drains().contains(one.second.from));
  });
  const KeyNames& keys = mirror_.keys();
  for (const PartitionOwner& row : held.partitions) {
    if (writing_) return;
    if (!row.owner || !lives(*row.owner, row.incarnation)) continue;
    const Partition* partition = mirror_.map()->value.find(row.id);
    const auto set = mirror_.synchronised().find(row.id);
    if (partition == nullptr || set == mirror_.synchronised().end() || set->second.value.generation != row.generation) continue;
    const auto running = hand_overs_.find(row.id);
    if (running == hand_overs_.end()) {
      begin_hand_over(*partition, row, set->second.value, now);
      continue;
    }
    HandOver& hand_over = running->second;
    const auto taker = mirror_.members().find(hand_over.to);
    const bool in_set = taker != mirror_.members().end() && set->second.value.has({hand_over.to, taker->second.value.incarnation});
    const bool late = now - hand_over.began > give_up_us || !in_set;
    if (!hand_over.gives_back) waits_[row.id] = fmt::format("{} takes it over from {}", hand_over.to, hand_over.from);
    if (!hand_over.done && !late) continue;
    // Given up, the owner goes on under a new generation, which ends its stop; done, the replica does.
    const bool done = hand_over.done && in_set;
    const std::string& to = done ? hand_over.to : hand_over.from;
    const auto member = mirror_.members().find(to);
    const auto generation = next_generation();
    if (member == mirror_.members().end() || !generation) {
      hand_overs_.erase(running);
      continue;
    }
    Ownership next = held;
    for (PartitionOwner& one : next.partitions) {
      if (one.id != row.id) continue;
      one.owner = to;
      one.incarnation = member->second.value.incarnation;
      one.generation = *generation;
      one.state = PartitionState::recovering;
      one.root.reset();
      one.handed_over = done;
      one.reason = done ? "handed over by " + hand_over.from + (hand_over.gives_back ? " to its placement primary" : ", which drains") : "the hand-over to " + hand_over.to + (in_set ? " was not done in time" : " was not done: it fell behind");
    }
    std::vector<etcd::Compare> guards = {
        etcd::Compare::unchanged_since(keys.member(to), member->second.changed),
        etcd::Compare::unchanged_since(keys.synchronised(row.id), set->second.changed),
        mirror_.generation() ? etcd::Compare::unchanged_since(keys.generation(), mirror_.generation()->changed) : etcd::Compare::absent(keys.generation())};
    // Nothing was acknowledged between the stop and the flip: who was counted still holds what was promised, and so does who stops. A
    // failover empties the set; here that would make the next failure, the first one, one too many.
    SynchronisedSet kept{*generation, {}};
    for (const Member& counted : set->second.value.members) {
      if (counted.name != to) kept.members.push_back(counted);
    }
    if (done) kept.members.push_back({*row.owner, row.incarnation});
    std::ranges::sort(kept.members);
    if (write(std::move(next), std::move(guards),
              {etcd::Put{keys.synchronised(row.id), encode(kept), {}}, etcd::Put{keys.generation(), encode(*generation), {}}},
              fmt::format("partition {}: {}", partition->first.value(), done ? hand_over.from + " has handed it over to " + to : "the hand-over by " + hand_over.from + " is given up"))) {
      if (done) ++counters_.hand_overs;
      else refused_[row.id] = {now + (hand_over.gives_back ? give_back_again_us : refused_again_us), hand_over.to + (in_set ? " did not get everything within five seconds" : " fell behind")};
      hand_overs_.erase(running);
    }
    return;
  }
}

// A node that drains gives everything away; one that stands in for a placement primary gives it back when that is in step again and all has
// been healthy for the cool-down, so that a region does not end on one node.
void Leader::begin_hand_over(const Partition& partition, const PartitionOwner& row, const SynchronisedSet& set, MonoMicros now) {
  const bool drains = mirror_.drains().contains(*row.owner);
  if (const auto refused = refused_.find(row.id); refused != refused_.end() && now < refused->second.again_at) {
    if (drains) waits_[row.id] = fmt::format("{} cannot hand it over now: {}", *row.owner, refused->second.why);
    return;
  }
  std::string to;
  if (drains) {
    std::vector<DrainCandidate> candidates;
    std::string away;
    for (const std::string& name : partition.members()) {
      if (name != *row.owner && !mirror_.members().contains(name)) away += fmt::format("{}{} is not there", away.empty() ? "" : ", ", name);
    }
    for (const auto& [name, member] : mirror_.members()) {
      if (name == *row.owner || !(partition.has_member(name) || set.has({name, member.value.incarnation}))) continue;
      DrainCandidate candidate;
      candidate.member = {name, member.value.incarnation};
      candidate.state = membership_->state(name);
      candidate.draining = mirror_.drains().contains(name);
      candidate.placement_primary = partition.primary == name;
      candidate.partitions_owned = static_cast<std::uint32_t>(std::ranges::count_if(mirror_.ownership()->value.partitions, [&](const PartitionOwner& p) { return p.owner == name; }));
      candidates.push_back(std::move(candidate));
    }
    const DrainTarget target = drain_target(set, candidates);
    if (target.to.name.empty())
      waits_[row.id] = fmt::format("{} drains, and nobody can take it: {}", *row.owner, away.empty() ? target.reason : candidates.empty() ? away : target.reason + ", " + away);
    to = target.to.name;
  } else if (*row.owner != partition.primary && row.state == PartitionState::healthy && hand_overs_.empty()) {
    const auto primary = mirror_.members().find(partition.primary);
    const bool able = primary != mirror_.members().end() && membership_->state(partition.primary) == MemberState::alive && !mirror_.drains().contains(partition.primary) &&
                      set.has({partition.primary, primary->second.value.incarnation});
    if (able) to = partition.primary;
  }
  if (to.empty()) return;
  std::string frame;
  encode(frame, protocol::HandOver{row.id.low, row.generation, to});
  if (outside_.send(*row.owner, frame)) hand_overs_[row.id] = {*row.owner, to, now, false, !drains};
}

void Leader::handed_over(const std::string& node, const protocol::HandedOver& answer) {
  if (!leads_) return;
  for (auto& [id, hand_over] : hand_overs_) {
    if (id.low != answer.partition || hand_over.from != node || hand_over.to != answer.to) continue;
    if (answer.done) {
      hand_over.done = true;
      return;
    }
    // It has not even stopped, so it needs no new generation to go on: one each time would be a term that ends as soon as it begins.
    refused_[id] = {outside_.now() + (hand_over.gives_back ? give_back_again_us : refused_again_us), answer.reason};
    hand_overs_.erase(hand_overs_.find(id));
    return;
  }
}

}  // namespace zaris::region
