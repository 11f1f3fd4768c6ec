#include "cluster/ownership/drain.hpp"

#include <fmt/format.h>

#include <tuple>

namespace zaris::ownership {

DrainTarget drain_target(const SynchronisedSet& set, const std::vector<DrainCandidate>& candidates) {
  const DrainCandidate* best = nullptr;
  std::string why;
  const auto rank = [](const DrainCandidate& c) { return std::tuple(!c.placement_primary, c.revisions_behind, c.partitions_owned, c.member); };
  for (const DrainCandidate& c : candidates) {
    std::string against;
    if (!set.has(c.member)) against = "is not synchronised";
    else if (c.state != MemberState::alive) against = fmt::format("is {}", name(c.state));
    else if (c.draining) against = "is leaving itself";
    if (!against.empty()) {
      why += fmt::format("{}{} {}", why.empty() ? "" : ", ", c.member.name, against);
      continue;
    }
    if (best == nullptr || rank(c) < rank(*best)) best = &c;
  }
  if (best == nullptr) return {{}, candidates.empty() ? "the partition has no other copy" : why};
  return {best->member, best->placement_primary ? fmt::format("{} is the placement primary", best->member.name)
                                                : fmt::format("{} is {} revisions behind and owns {} partitions", best->member.name, best->revisions_behind, best->partitions_owned)};
}

HandOverStep hand_over(const HandOver& state, BootMicros now) {
  using Kind = HandOverStep::Kind;
  if (!state.target_usable) return {Kind::give_up, "the target may not take it any more"};
  if (!state.owner_stopped) {
    if (now - state.began >= state.give_up_us) return {Kind::give_up, "the owner has not stopped in time"};
    return {Kind::stop_owner, "the owner is to stop and to name its heads"};
  }
  if (state.target_heads.size() == state.owner_heads.size() && state.target_heads == state.owner_heads) return {Kind::flip, "the target holds what the owner held"};
  if (now - state.began >= state.give_up_us) return {Kind::give_up, "the target has not reached the owner's heads in time"};
  return {Kind::wait, "the target has not reached the owner's heads"};
}

LeaveDecision may_leave(const Leaving& state, BootMicros now) {
  if (state.partitions_owned == 0) return {true, false, "it owns nothing any more"};
  if (state.hurried) return {true, true, fmt::format("hurried: {} partitions are left without an owner until another takes them", state.partitions_owned)};
  if (now - state.began >= state.timeout_us) {
    return {true, true, fmt::format("drain.timeout is over: {} partitions are left without an owner until another takes them", state.partitions_owned)};
  }
  if (state.hand_overs_running == 0 && state.without_target == state.partitions_owned && state.only_copies_stay) {
    return {true, true, fmt::format("{} partitions have no other copy: their data goes with this process", state.partitions_owned)};
  }
  return {false, false, fmt::format("{} partitions are still owned, {} of them without anybody to take them", state.partitions_owned, state.without_target)};
}

}  // namespace zaris::ownership
