#include "cluster/ownership/failover.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "cluster/base/assert.hpp"

namespace zaris::ownership {
namespace {

using Answers = std::vector<const FenceAnswer*>;

// For each answer on how many segments nobody's head is higher. Of equals whoever has more half copies, then `preferred`, then the smallest name.
const FenceAnswer* highest_on_most(const Answers& answers, std::uint32_t segments, const std::string& preferred = {}) {
  std::vector<std::uint32_t> highest_on(answers.size(), 0);
  for (std::uint32_t s = 0; s < segments; ++s) {
    Position best;
    for (const FenceAnswer* a : answers) best = std::max(best, a->heads[s]);
    for (std::size_t i = 0; i < answers.size(); ++i) highest_on[i] += answers[i]->heads[s] == best ? 1 : 0;
  }
  std::size_t chosen = 0;
  const auto rank = [&](std::size_t i) { return std::tuple(~highest_on[i], ~answers[i]->half, answers[i]->from.name != preferred, answers[i]->from); };
  for (std::size_t i = 1; i < answers.size(); ++i) {
    if (rank(i) < rank(chosen)) chosen = i;
  }
  return answers[chosen];
}

}  // namespace

Barrier promotion_barrier(BootMicros leader_since, BootMicros coordinator_back_at, const FailoverTimes& times) {
  const BootMicros wait = lengthened(times.lease_us + times.grant_us);
  if (coordinator_back_at > leader_since) return {after(coordinator_back_at, wait), "the coordinator was away: owners get the time to renew"};
  return {after(leader_since, wait), "the leader is new: owners get the time to renew"};
}

AckPolicy weakest_promise(AckPolicy ack, AckPolicy ack_max) { return ack_max == AckPolicy::async ? AckPolicy::async : std::max(ack, AckPolicy::replica); }

std::uint32_t copies_promised(AckPolicy policy, std::uint32_t synchronised, std::uint32_t replication_factor) {
  switch (policy) {
    case AckPolicy::async: return 1;
    case AckPolicy::replica: return 2;
    case AckPolicy::majority: return replication_factor / 2 + 1;
    case AckPolicy::all: return synchronised + 1;
  }
  return 1;
}

std::uint32_t answers_needed(AckPolicy promise, std::uint32_t synchronised, std::uint32_t replication_factor) {
  const std::uint32_t copies = copies_promised(promise, synchronised, replication_factor);
  if (copies < 2) return 1;  // nothing was promised to be on a second node
  return synchronised + 2 > copies ? synchronised + 2 - copies : 1;
}

Choice choose(const Election& e, const FailoverTimes& times, BootMicros now) {
  // One answer per process, of this fence, about these segments.
  Answers all, members;
  std::set<Member> seen;
  const FenceAnswer* owner = nullptr;
  for (auto a = e.answers.rbegin(); a != e.answers.rend(); ++a) {
    if (a->fence != e.fence || a->heads.size() != e.segments || !seen.insert(a->from).second) continue;
    if (!e.old_owner.name.empty() && a->from == e.old_owner) owner = &*a;
    all.push_back(&*a);
    if (e.set.has(a->from)) members.push_back(&*a);
  }
  const auto promote = [](const FenceAnswer& a, std::string reason, std::string may_be_gone = {}) {
    return Choice{Choice::Kind::promote, a.from, std::move(may_be_gone), std::move(reason), no_end};
  };
  const auto holds_all = [](const FenceAnswer& a) { return std::ranges::none_of(a.heads, [](Position head) { return head == Position{}; }); };
  if (owner != nullptr && !holds_all(*owner)) {
    // It was promoted with an operator's word, or what it fetched from has gone. It has answered nobody in this term.
    Answers better;
    for (const FenceAnswer* a : all) {
      if (a != owner && holds_all(*a) && std::ranges::equal(owner->heads, a->heads, std::less_equal<>())) better.push_back(a);
    }
    if (!better.empty()) {
      const FenceAnswer* best = highest_on_most(better, e.segments);
      return promote(*best, fmt::format("{} holds a part of it, {} holds all", owner->from.name, best->from.name));
    }
    if (!e.may_begin_empty) return {Choice::Kind::recovering, {}, {}, fmt::format("{} holds a part of it, and nobody who answers has the rest; an operator may accept the loss (zaris node accept-empty)", owner->from.name), no_end};
  }
  if (owner != nullptr) return promote(*owner, fmt::format("the owner {} answered itself and goes on under generation {}", owner->from.name, e.fence.value()));
  if (!e.old_owner.name.empty() && !e.old_lease_gone) {
    return {Choice::Kind::wait, {}, {}, fmt::format("the lease of {} still exists", e.old_owner.name), no_end};
  }

  const auto size = static_cast<std::uint32_t>(e.set.members.size()), got = static_cast<std::uint32_t>(members.size());
  const std::uint32_t needed = answers_needed(e.promise, size, e.replication_factor);
  // Where another process answers under a name, the one that held something is gone for good.
  const auto replaced = [&](const Member& m) {
    return std::any_of(all.begin(), all.end(), [&](const FenceAnswer* a) { return a->from.name == m.name && a->from.incarnation != m.incarnation; });
  };
  std::vector<std::string> silent, answered;
  for (const Member& m : e.set.members) {
    if (seen.contains(m)) answered.push_back(m.name);
    else silent.push_back(replaced(m) ? m.name + " (restarted, it has nothing)" : m.name);
  }
  const std::string heard = size == 0 ? std::string("no replica was synchronised")
                            : got == 0  ? fmt::format("no synchronised replica answers ({})", fmt::join(silent, ", "))
                                        : fmt::format("{} of {} synchronised replicas answered ({})", got, size, fmt::join(answered, ", "));
  const std::string lost = got == 0 || silent.empty() ? std::string() : fmt::format(", not {}", fmt::join(silent, ", "));
  if (size > 0 && got == size) {
    const FenceAnswer* best = highest_on_most(members, e.segments);
    return promote(*best, fmt::format("{} is highest on most segments; {}", best->from.name, heard));
  }
  const BootMicros read_until = after(e.fenced_at, lengthened(times.grant_us));
  if (now < read_until) return {Choice::Kind::wait, {}, {}, fmt::format("{}{}; more may", heard, lost), read_until};
  if (e.first_term && !all.empty()) {
    const FenceAnswer* best = highest_on_most(all, e.segments, e.placement_primary);
    return promote(*best, fmt::format("the partition has had no owner; {}", best->from.name == e.placement_primary ? "this is its placement primary" : "its placement primary does not answer"));
  }
  if (e.serve_after_loss && !all.empty() && !e.first_term && !e.old_owner.name.empty() && replaced(e.old_owner) &&
      std::all_of(e.set.members.begin(), e.set.members.end(), replaced)) {
    const FenceAnswer* best = highest_on_most(all, e.segments, e.placement_primary);
    return promote(*best, "the owner and every synchronised replica have been restarted: nothing more can come back",
                   fmt::format("everything that {} does not hold", best->from.name));
  }
  if (size > 0 && got >= needed) {
    const FenceAnswer* best = highest_on_most(members, e.segments);
    return promote(*best, fmt::format("{} is highest on most segments; {}{}, {} were needed", best->from.name, heard, lost, needed));
  }
  if (got > 0 && (e.operator_accepts_loss || e.mode == FailoverMode::available)) {
    const FenceAnswer* best = highest_on_most(e.operator_accepts_loss ? all : members, e.segments);
    return promote(*best, fmt::format("{}{}, {} were needed; {}", heard, lost, needed, e.operator_accepts_loss ? "an operator accepted the loss" : "failover.mode is available"),
                   fmt::format("acknowledged writes that only {} and copies on {} have", e.old_owner.name.empty() ? "the old owner" : e.old_owner.name, fmt::join(silent, ", ")));
  }
  if (!all.empty() && (e.operator_accepts_loss || (e.mode == FailoverMode::available && size == 0 && std::ranges::any_of(all, [&](const FenceAnswer* a) { return holds_all(*a); })))) {
    Answers whole = all;
    if (!e.operator_accepts_loss) std::erase_if(whole, [&](const FenceAnswer* a) { return !holds_all(*a); });
    const FenceAnswer* best = highest_on_most(whole, e.segments);
    return promote(*best, fmt::format("{}; {} holds most of what answered; {}", heard, best->from.name, e.operator_accepts_loss ? "an operator accepted the loss" : "failover.mode is available"),
                   fmt::format("every write that {} had not got when it fell behind, whatever was promised for it", best->from.name));
  }
  if (got > 0) return {Choice::Kind::recovering, {}, {}, fmt::format("{}{}; {} are needed, or an operator who accepts the loss (zaris node accept-empty)", heard, lost, needed), no_end};
  if (!all.empty()) {
    return {Choice::Kind::recovering, {}, {}, fmt::format("{}; {} that are not synchronised answered: an operator may accept the loss (zaris node accept-empty)", heard, all.size()), no_end};
  }
  return {Choice::Kind::unavailable, {}, {}, fmt::format("{}, and nobody that lives holds the partition", heard), no_end};
}

Result<Generation> next_generation(Generation counter, Generation highest_reported, std::uint64_t now_wall_us) {
  const std::uint64_t next = std::max<std::uint64_t>({counter.value() + 1ULL, highest_reported.value() + 1ULL, now_wall_us / 1'000'000});
  if (next > UINT32_MAX) {
    return failure("generation_exhausted", fmt::format("generation {} does not fit in 32 bits (the counter is at {}, a member reported {})", next, counter.value(), highest_reported.value()),
                   "put the clocks right");
  }
  return Generation{static_cast<std::uint32_t>(next)};
}

PartitionOwner promotion(const PartitionId& id, Generation fence, const Choice& choice) {
  ZARIS_ASSERT(choice.kind == Choice::Kind::promote);
  return {id, choice.chosen.name, choice.chosen.incarnation, fence, PartitionState::recovering, choice.reason};
}

HealthVerdict Healing::evaluate(const PartitionHealth& h, BootMicros now) {
  const bool in_step = h.has_owner && h.serving && h.in_step >= h.replicas;
  if (!in_step) {
    if (h.serving || in_step_since_) first_ = false;
    in_step_since_.reset();
    if (!h.has_owner) return {PartitionState::unavailable, "nobody holds it"};
    if (!h.serving) return {PartitionState::recovering, "its owner does not serve it now"};
    return {PartitionState::degraded, fmt::format("{} of {} replicas are in step", h.in_step, h.replicas)};
  }
  if (!in_step_since_) in_step_since_ = now;
  if (!first_ && now - *in_step_since_ < cooldown_) return {PartitionState::degraded, "all replicas are in step again, but not for long"};
  first_ = false;
  return {PartitionState::healthy, h.replicas == 0 ? "it has one copy, as the map says" : fmt::format("all {} replicas are in step", h.replicas)};
}

}  // namespace zaris::ownership
