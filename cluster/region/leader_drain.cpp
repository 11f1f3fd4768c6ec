// The leader's part in leaving on purpose: each partition of a node that drains goes to a synchronised replica. Its owner stops writing,
// sees that the replica has everything, and says so; one transaction makes the replica the owner.
#include <algorithm>
#include <fmt/format.h>

#include "cluster/region/leader.hpp"

namespace zaris::region {

using namespace ownership;

namespace {
constexpr MonoMicros give_up_us = 5'000'000;
}

void Leader::look_at_drains(MonoMicros now) {
  const Ownership& held = mirror_.ownership()->value;
  std::erase_if(hand_overs_, [&](const auto& one) {
    const PartitionOwner* row = held.find(one.first);
    return row == nullptr || !row->owner || *row->owner != one.second.from || !mirror_.drains().contains(one.second.from);
  });
  const KeyNames& keys = mirror_.keys();
  for (const PartitionOwner& row : held.partitions) {
    if (writing_) return;
    if (!row.owner || !mirror_.drains().contains(*row.owner) || !lives(*row.owner, row.incarnation)) continue;
    const Partition* partition = mirror_.map()->value.find(row.id);
    const auto set = mirror_.synchronised().find(row.id);
    if (partition == nullptr || set == mirror_.synchronised().end() || set->second.value.generation != row.generation) continue;
    const auto running = hand_overs_.find(row.id);
    if (running == hand_overs_.end()) {
      std::vector<DrainCandidate> candidates;
      for (const auto& [name, member] : mirror_.members()) {
        DrainCandidate candidate;
        candidate.member = {name, member.value.incarnation};
        candidate.state = membership_->state(name);
        candidate.draining = mirror_.drains().contains(name);
        candidate.placement_primary = partition->primary == name;
        candidate.partitions_owned = static_cast<std::uint32_t>(std::ranges::count_if(held.partitions, [&](const PartitionOwner& p) { return p.owner == name; }));
        candidates.push_back(std::move(candidate));
      }
      const DrainTarget target = drain_target(set->second.value, candidates);
      if (target.to.name.empty()) {
        waiting_for_ = fmt::format("draining {}: partition {}: {}", *row.owner, partition->first.value(), target.reason);
        continue;
      }
      std::string frame;
      encode(frame, protocol::HandOver{row.id.low, row.generation, target.to.name});
      if (!outside_.send(*row.owner, frame)) continue;
      hand_overs_[row.id] = {*row.owner, target.to.name, now, false};
      continue;
    }
    HandOver& hand_over = running->second;
    const bool late = now - hand_over.began > give_up_us;
    if (!hand_over.done && !late) continue;
    // Given up, the owner goes on under a new generation, which ends its stop; done, the replica does.
    const std::string& to = hand_over.done ? hand_over.to : hand_over.from;
    const auto member = mirror_.members().find(to);
    const auto generation = next_generation();
    if (member == mirror_.members().end() || !generation) {
      hand_overs_.erase(running);
      continue;
    }
    if (hand_over.done && !set->second.value.has({to, member->second.value.incarnation})) {
      hand_over.done = false;
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
      one.handed_over = hand_over.done;
      one.reason = hand_over.done ? "handed over by " + hand_over.from + ", which drains" : "the hand-over to " + hand_over.to + " was not done in time";
    }
    std::vector<etcd::Compare> guards = {
        etcd::Compare::unchanged_since(keys.member(to), member->second.changed),
        etcd::Compare::unchanged_since(keys.synchronised(row.id), set->second.changed),
        mirror_.generation() ? etcd::Compare::unchanged_since(keys.generation(), mirror_.generation()->changed) : etcd::Compare::absent(keys.generation())};
    if (write(std::move(next), std::move(guards),
              {etcd::Put{keys.synchronised(row.id), encode(SynchronisedSet{*generation, {}}), {}}, etcd::Put{keys.generation(), encode(*generation), {}}},
              fmt::format("partition {}: {}", partition->first.value(), hand_over.done ? hand_over.from + " has handed it over to " + to : "the hand-over by " + hand_over.from + " is given up"))) {
      if (hand_over.done) ++counters_.hand_overs;
      hand_overs_.erase(running);
    }
    return;
  }
}

void Leader::handed_over(const std::string& node, const protocol::HandedOver& answer) {
  if (!leads_) return;
  for (auto& [id, hand_over] : hand_overs_) {
    if (id.low != answer.partition || hand_over.from != node || hand_over.to != answer.to) continue;
    if (answer.done) hand_over.done = true;
    else hand_over.began = outside_.now() - give_up_us;  // it says that it cannot
    return;
  }
}

}  // namespace zaris::region
