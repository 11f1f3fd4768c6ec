// Leaving on purpose.
#include "cluster/ownership/drain.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace zaris::ownership {
namespace {

constexpr BootMicros s = boot_second;
const Member b{"b", Incarnation{2}}, c{"c", Incarnation{3}};
const SynchronisedSet set{Generation{5}, {b, c}};

TEST(DrainTarget, IsTheNearestSynchronisedReplicaThatStays) {
  const struct { const char* what; std::vector<DrainCandidate> candidates; std::string wanted; } rows[] = {
      {"alike: by name", {{.member = c}, {.member = b}}, "b"},
      {"the placement primary first", {{.member = b}, {.member = c, .placement_primary = true, .partitions_owned = 9, .revisions_behind = 9}}, "c"},
      {"the nearer", {{.member = b, .revisions_behind = 3}, {.member = c, .partitions_owned = 4}}, "c"},
      {"who owns less", {{.member = b, .partitions_owned = 3}, {.member = c, .partitions_owned = 2}}, "c"},
      {"alive", {{.member = b, .state = MemberState::suspected}, {.member = c}}, "c"},
      {"one that leaves itself", {{.member = b, .draining = true}, {.member = c}}, "c"},
      {"another process of a member's name", {{.member = {"b", Incarnation{9}}}, {.member = c}}, "c"},
      {"nobody", {{.member = {"d", Incarnation{9}}}}, ""},
      {"no other copy", {}, ""},
  };
  for (const auto& row : rows) {
    const DrainTarget target = drain_target(set, row.candidates);
    EXPECT_EQ(target.to.name, row.wanted) << row.what;
    EXPECT_FALSE(target.reason.empty()) << row.what;
  }
  EXPECT_THAT(drain_target(set, {{.member = b, .draining = true}, {.member = {"d", Incarnation{9}}}}).reason, testing::AllOf(testing::HasSubstr("b is leaving"), testing::HasSubstr("d is not synchronised")));
}

TEST(HandOver, FlipsOnceTheTargetHoldsWhatTheStoppedOwnerHeld) {
  using K = HandOverStep::Kind;
  const std::vector<Position> heads{{Generation{5}, Revision{7}}, {Generation{5}, Revision{2}}}, behind{{Generation{5}, Revision{7}}, {Generation{5}, Revision{1}}};
  const struct { HandOver state; BootMicros now; K wanted; } rows[] = {
      {{.target_usable = true, .began = 10 * s}, 11 * s, K::stop_owner},
      {{.target_usable = true, .began = 10 * s}, 15 * s, K::give_up},
      {{.target_usable = true, .owner_stopped = true, .owner_heads = heads, .target_heads = behind, .began = 10 * s}, 11 * s, K::wait},
      {{.target_usable = true, .owner_stopped = true, .owner_heads = heads, .target_heads = {}, .began = 10 * s}, 11 * s, K::wait},
      {{.target_usable = true, .owner_stopped = true, .owner_heads = heads, .target_heads = behind, .began = 10 * s}, 15 * s, K::give_up},
      {{.target_usable = true, .owner_stopped = true, .owner_heads = heads, .target_heads = heads, .began = 10 * s}, 11 * s, K::flip},
      {{.target_usable = true, .owner_stopped = true, .owner_heads = heads, .target_heads = heads, .began = 10 * s}, 99 * s, K::flip},
      {{.target_usable = false, .owner_stopped = true, .owner_heads = heads, .target_heads = heads, .began = 10 * s}, 11 * s, K::give_up},
  };
  for (const auto& row : rows) EXPECT_EQ(hand_over(row.state, row.now).kind, row.wanted) << row.now << " " << hand_over(row.state, row.now).reason;
}

TEST(MayLeave, WhenItOwnsNothingOrWaitingIsOfNoUse) {
  const struct { const char* what; Leaving state; BootMicros now; bool leave, warning; } rows[] = {
      {"owns nothing", {.partitions_owned = 0, .began = 10 * s}, 10 * s, true, false},
      {"owns something", {.partitions_owned = 2, .began = 10 * s}, 10 * s, false, false},
      {"nobody in step yet", {.partitions_owned = 2, .without_target = 2, .began = 10 * s}, 39 * s, false, false},
      {"time is over", {.partitions_owned = 2, .without_target = 2, .began = 10 * s}, 40 * s, true, true},
      {"only copies", {.partitions_owned = 2, .without_target = 2, .only_copies_stay = true, .began = 10 * s}, 10 * s, true, true},
      {"only copies, one handed over", {.partitions_owned = 2, .hand_overs_running = 1, .without_target = 1, .only_copies_stay = true, .began = 10 * s}, 10 * s, false, false},
      {"hurried", {.partitions_owned = 2, .hand_overs_running = 2, .began = 10 * s, .hurried = true}, 10 * s, true, true},
  };
  for (const auto& row : rows) {
    const LeaveDecision decision = may_leave(row.state, row.now);
    EXPECT_EQ(decision.leave, row.leave) << row.what;
    EXPECT_EQ(decision.warning, row.warning) << row.what;
    EXPECT_FALSE(decision.reason.empty());
  }
}

}  // namespace
}  // namespace zaris::ownership
