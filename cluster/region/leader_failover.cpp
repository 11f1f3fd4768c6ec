// The leader's part in a failover: confirm, mint, fence and read, choose, promote. What is chosen and why: cluster/ownership/failover.hpp.
#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cluster/region/leader.hpp"

namespace zaris::region {

using namespace ownership;

namespace {
constexpr MonoMicros fence_again_us = 300'000;

// Of how many segments somebody who answers holds a whole copy.
std::uint32_t segments_held(const std::vector<FenceAnswer>& answers, std::uint32_t segments) {
  std::uint32_t held = 0;
  for (std::uint32_t i = 0; i < segments; ++i) {
    held += std::ranges::any_of(answers, [&](const FenceAnswer& answer) { return i < answer.heads.size() && answer.heads[i] != Position{}; }) ? 1 : 0;
  }
  return held;
}
}

void Leader::look_at_partition(const Partition& partition, const PartitionOwner& row, MonoMicros now) {
  // An owner that came back when it had already been fenced, by this leader or one before it, serves no more under its generation, and
  // nobody else may be promoted while it lives: it gets another one.
  // The same of one that cannot come to hold what it is to serve.
  const bool owner_lives = row.owner && lives(*row.owner, row.incarnation);
  const auto reported = reported_.find(row.id);
  const bool fenced_off = owner_lives && reported != reported_.end() && reported->second.from == *row.owner && !reported->second.serving && reported->second.generation > row.generation;
  if (owner_lives && !fenced_off) {
    failovers_.erase(row.id);
    return;
  }
  const auto waits = [&](const std::string& why) { waits_[row.id] = why; };
  const bool restarted = row.owner && mirror_.members().contains(*row.owner);
  if (row.owner && !restarted && membership_->state(*row.owner) < MemberState::unreachable) {
    return waits("its owner " + *row.owner + " has no lease in etcd and answers: it stays");
  }
  if (const Barrier barrier = promotion_barrier(since_, coordinator_back_at_, options_.failover); barrier.bars(now)) return waits(barrier.reason);
  Failover& failover = failovers_[row.id];
  if (failover.fence == Generation{}) {
    mint(row.id);  // again if it was not written: nothing is looked at while a write is under way
    return waits("a generation is being minted");
  }
  ask_fences(row.id, failover, partition, now);

  const bool accepted = mirror_.accepted().contains(to_string(row.id));
  Election election;
  election.fence = failover.fence;
  election.segments = partition.segments;
  election.old_owner = {row.owner.value_or(""), row.incarnation};
  election.old_lease_gone = !owner_lives;
  if (const auto set = mirror_.synchronised().find(row.id); set != mirror_.synchronised().end() && set->second.value.generation == row.generation) election.set = set->second.value;
  election.promise = options_.promise;
  election.replication_factor = options_.settings.replication_factor;
  election.mode = options_.mode;
  election.operator_accepts_loss = accepted;
  election.may_begin_empty = accepted || row.root.has_value();
  election.placement_primary = partition.primary;
  election.serve_after_loss = false;  // emptiness is never served on a leader's word alone
  for (const auto& [name, answer] : failover.answers) election.answers.push_back(answer);
  election.fenced_at = failover.fenced_at;
  // What may be lost is lost only if nobody who lives has any of it.
  const std::uint32_t held = segments_held(election.answers, partition.segments);
  bool nothing = held == 0 && !election.answers.empty();
  for (const std::string& name : partition.members()) nothing = nothing && ((!mirror_.members().contains(name) && !outside_.connected(name)) || failover.answers.contains(name));
  if (accepted && held < partition.segments && !election.answers.empty() && !row.root) {
    // Somebody who is only silent may wake with all of it: the wish is not to begin empty beside him.
    for (const std::string& name : partition.members()) {
      if (failover.answers.contains(name) || membership_->state(name) >= MemberState::lost) continue;
      return waits(fmt::format("an operator has accepted the loss; {} may wake and have it, and is waited for until it is lost (failover.grace)", name));
    }
  }
  if (accepted && nothing) return begin_again(partition, row);
  Choice choice = choose(election, options_.failover, now);
  if (nothing && !row.root && choice.kind != Choice::Kind::wait) {
    choice.kind = Choice::Kind::unavailable;
    std::vector<std::string> away;
    for (const Member& member : election.set.members) {
      if (!mirror_.members().contains(member.name)) away.push_back(member.name);
    }
    choice.reason = fmt::format("no registered node holds anything of it{}; it waits for one that does, or zaris node accept-empty lets it begin anew",
                                away.empty() ? "" : fmt::format(" ({} had it: cut off from etcd?)", fmt::join(away, ", ")));
  }
  if (accepted && choice.kind != Choice::Kind::wait && choice.kind != Choice::Kind::promote)
    choice.reason = fmt::format("an operator has accepted the loss: whichever of {} answers first begins it, with what it holds or empty", fmt::join(partition.members(), ", "));
  if (choice.reason != failover.said) {
    failover.said = choice.reason;
    outside_.say(choice.kind == Choice::Kind::unavailable ? Weight::error : Weight::info, "failover",
                 fmt::format("partition {} has lost {}: {}", partition.first.value(), row.owner ? "its owner " + *row.owner : "no owner", choice.reason));
  }
  switch (choice.kind) {
    case Choice::Kind::promote: return promote(partition, row, failover, choice);
    case Choice::Kind::wait: return waits(choice.reason);
    case Choice::Kind::recovering:
    case Choice::Kind::unavailable: break;
  }
  waits(choice.reason);
  PartitionOwner said = row;
  said.state = choice.kind == Choice::Kind::recovering ? PartitionState::recovering : PartitionState::unavailable;
  said.reason = choice.reason;
  say_row(said, failover);
}

// What a partition waits for, for everybody to read; written only when it changes. The document has long reasons cut, and may have none:
// who compared with the whole text would write it for ever.
void Leader::say_row(const PartitionOwner& row, Failover& failover) {
  Ownership next = mirror_.ownership()->value;
  for (PartitionOwner& held : next.partitions) {
    if (held.id != row.id) continue;
    const bool same = held.reason == kept_reason(row.reason) || (held.reason.empty() && failover.written == row.reason);
    if (held.state == row.state && same) return;
    held = row;
  }
  failover.written = row.reason;
  write(std::move(next), {}, {}, fmt::format("a partition is {}: {}", name(row.state), row.reason));
}

void Leader::mint(const PartitionId& id) {
  const auto generation = next_generation();
  if (!generation) return;
  const KeyNames& keys = mirror_.keys();
  std::vector<etcd::Compare> guards = {mirror_.generation() ? etcd::Compare::unchanged_since(keys.generation(), mirror_.generation()->changed) : etcd::Compare::absent(keys.generation())};
  run(std::move(guards), {etcd::Put{keys.generation(), encode(*generation), {}}}, fmt::format("generation {} is minted for a failover", generation->value()), [this, id, g = *generation] {
        const auto found = failovers_.find(id);
        if (found == failovers_.end()) return;
        found->second.fence = g;
        found->second.fenced_at = outside_.now();
      });
}

void Leader::ask_fences(const PartitionId& id, Failover& failover, const Partition& partition, MonoMicros now) {
  for (const std::string& name : partition.members()) {
    if (failover.answers.contains(name)) continue;
    const auto asked = failover.asked.find(name);
    if (asked != failover.asked.end() && now - asked->second < fence_again_us) continue;
    std::string frame;
    encode(frame, protocol::Fence{id.low, failover.fence, static_cast<std::uint64_t>(now)});
    if (outside_.send(name, frame)) failover.asked[name] = now;
  }
}

void Leader::fenced(const std::string& node, const protocol::Fenced& answer) {
  if (!leads_) return;
  highest_reported_ = std::max(highest_reported_, answer.highest);
  for (auto& [id, failover] : failovers_) {
    if (id.low != answer.partition || failover.fence != answer.generation) continue;
    if (answer.highest > answer.generation) {
      // Somebody knows a higher one, of a leader that was restored from an old copy or not: this fence holds nobody back.
      failover = Failover{};
      return;
    }
    FenceAnswer one;
    one.from = {node, Incarnation{answer.incarnation}};
    one.fence = answer.generation;
    one.highest = answer.highest;
    for (const protocol::Fenced::Row& row : answer.rows) {
      one.heads.push_back(row.whole && row.history != HistoryId{} ? row.head.at : Position{});
      one.half += row.whole ? 0 : 1;
    }
    failover.answers[node] = std::move(one);
    return;
  }
}

void Leader::promote(const Partition& partition, const PartitionOwner& row, const Failover& failover, const Choice& choice) {
  const KeyNames& keys = mirror_.keys();
  const auto member = mirror_.members().find(choice.chosen.name);
  if (member == mirror_.members().end() || member->second.value.incarnation != choice.chosen.incarnation) {
    failovers_[row.id].answers.erase(choice.chosen.name);  // another process by now
    return;
  }
  std::vector<etcd::Compare> guards = {etcd::Compare::unchanged_since(keys.member(choice.chosen.name), member->second.changed)};
  const auto set = mirror_.synchronised().find(row.id);
  guards.push_back(set == mirror_.synchronised().end() ? etcd::Compare::absent(keys.synchronised(row.id)) : etcd::Compare::unchanged_since(keys.synchronised(row.id), set->second.changed));
  if (row.owner && *row.owner != choice.chosen.name) {
    // The old process's key is gone; another one under its name may be there.
    const auto old = mirror_.members().find(*row.owner);
    guards.push_back(old == mirror_.members().end() ? etcd::Compare::absent(keys.member(*row.owner)) : etcd::Compare::unchanged_since(keys.member(*row.owner), old->second.changed));
  }
  Ownership next = mirror_.ownership()->value;
  for (PartitionOwner& held : next.partitions) {
    if (held.id != row.id) continue;
    held = promotion(row.id, failover.fence, choice);
    // What is accepted as lost, a part of which nobody holds, may be begun empty; an owner that goes on may still do what it might.
    if (mirror_.accepted().contains(to_string(row.id))) held.root = RootCause::restarted_empty;
    else if (row.owner == choice.chosen.name && row.incarnation == choice.chosen.incarnation) held.root = row.root;
  }
  std::vector<etcd::Operation> with = {etcd::Put{keys.synchronised(row.id), encode(SynchronisedSet{failover.fence, {}}), {}}};
  const std::string id = to_string(row.id);
  if (const auto accepted = mirror_.accepted().find(id); accepted != mirror_.accepted().end()) {
    // It may be what this was decided from, and may be taken back at this very moment.
    guards.push_back(etcd::Compare::unchanged_since(keys.accepted(row.id), accepted->second.changed));
    with.push_back(etcd::Delete{etcd::Keys::one(keys.accepted(row.id))});
  }
  const std::string lost = choice.may_be_gone.empty() ? std::string() : "; may be gone: " + choice.may_be_gone;
  if (!lost.empty()) outside_.say(Weight::warning, "loss_accepted", fmt::format("partition {} goes on at {} ({}){}", partition.first.value(), choice.chosen.name, choice.reason, lost));
  if (write(std::move(next), std::move(guards), std::move(with),
            fmt::format("partition {}: {} is promoted (generation {}): {}{}", partition.first.value(), choice.chosen.name, failover.fence.value(), choice.reason, lost))) {
    ++counters_.promotions;
  }
}

void Leader::look_at_accepted() {
  const KeyNames& keys = mirror_.keys();
  for (const auto& [text, wish] : mirror_.accepted()) {
    const auto id = parse_partition_id(text);
    const PartitionOwner* row = id ? mirror_.ownership()->value.find(*id) : nullptr;
    // An owner that does not serve yet may turn out not to be able to.
    if (row != nullptr && (!row->owner || !lives(*row->owner, row->incarnation) || row->state == PartitionState::recovering)) continue;
    run({etcd::Compare::unchanged_since(keys.accepted() + text, wish.changed)}, {etcd::Delete{etcd::Keys::one(keys.accepted() + text)}},
        fmt::format("an operator's word that partition {} may begin anew is withdrawn: {}", text, row != nullptr ? *row->owner + " owns it" : "it is none of this region"));
    return;
  }
}

// Nobody holds anything whole of it, and an operator has said that it may begin anew.
void Leader::begin_again(const Partition& partition, const PartitionOwner& row) {
  const KeyNames& keys = mirror_.keys();
  std::vector<std::string> members = partition.members();
  const auto half = [&, id = row.id](const std::string& name) {
    const auto answer = failovers_[id].answers.find(name);
    return answer == failovers_[id].answers.end() ? 0u : answer->second.half;
  };
  std::ranges::stable_sort(members, std::greater<>(), half);
  for (const std::string& name : members) {
    const auto member = mirror_.members().find(name);
    if (member == mirror_.members().end()) continue;
    outside_.say(Weight::warning, "loss_accepted", fmt::format("partition {} begins anew at {}, with {}: an operator has accepted the loss", partition.first.value(), name, half(name) > 0 ? "copies that were not finished" : "nothing"));
    Ownership next = mirror_.ownership()->value;
    for (PartitionOwner& held : next.partitions) {
      if (held.id != row.id) continue;
      held.owner = name;
      held.incarnation = member->second.value.incarnation;
      held.generation = failovers_[row.id].fence;
      held.state = PartitionState::recovering;
      held.root = RootCause::restarted_empty;
      held.reason = "begins anew: an operator has accepted the loss";
    }
    write(std::move(next),
          {etcd::Compare::unchanged_since(keys.member(name), member->second.changed), etcd::Compare::unchanged_since(keys.accepted(row.id), mirror_.accepted().at(to_string(row.id)).changed)},
          {etcd::Put{keys.synchronised(row.id), encode(SynchronisedSet{failovers_[row.id].fence, {}}), {}}, etcd::Delete{etcd::Keys::one(keys.accepted(row.id))}},
          fmt::format("partition {} begins anew at {}: an operator has accepted the loss", partition.first.value(), name));
    return;
  }
}

}  // namespace zaris::region
