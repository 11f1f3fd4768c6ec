// What a link says of its source while that is not heard: nothing that reassures.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/follower_link/link_world.hpp"

namespace zaris::follower {
namespace {

using testing::HasSubstr;

// A gateway that speaks, before owners that do not.
TEST(LinkHearing, ASegmentThatIsNotHeardOfTakesCaughtUpAndBacklogAway) {
  World w;
  w.establish();
  EXPECT_TRUE(w.status().backlog_known);
  EXPECT_LT(w.status().heads_age_seconds.value_or(99), 1);
  w.unavailable = {w.id(1)};
  w.run(1'000'000);
  EXPECT_TRUE(w.status().backlog_known) << "a moment is nothing";
  EXPECT_EQ(w.status().state, LinkState::running);
  w.run(120'000'000);
  const auto s = w.status();
  EXPECT_FALSE(s.caught_up);
  EXPECT_FALSE(s.backlog_known);
  EXPECT_GT(s.heads_age_seconds.value_or(0), 119);
  EXPECT_GT(s.staleness_seconds, 119);
  EXPECT_EQ(s.state, LinkState::backoff);
  EXPECT_THAT(s.reason, HasSubstr("source_silent: 1 of 2 segments"));
  EXPECT_FALSE(s.next_step.empty());
  w.unavailable.clear();
  EXPECT_TRUE(w.caught_up());
  EXPECT_TRUE(w.status().backlog_known);
  EXPECT_EQ(w.status().state, LinkState::running);
}

TEST(LinkHearing, AConnectionThatSaysNothingTakesThemAwayBeforeItIsGivenUp) {
  World w;
  w.establish();
  w.silent = true;
  w.run(2'500'000);
  const auto s = w.status();
  EXPECT_EQ(s.state, LinkState::running) << "not given up yet";
  EXPECT_FALSE(s.caught_up);
  EXPECT_FALSE(s.backlog_known);
  EXPECT_GT(s.heads_age_seconds.value_or(0), 2);
}

// A long line: echoes wait behind the data, in whose queue they are.
TEST(LinkHearing, ABacklogStandsWhileDataComeAndEchoesWaitBehindThem) {
  World w;
  w.establish();
  w.hold_applies = true;
  w.echoing = false;
  for (std::uint64_t r = 10; r < 70; ++r) {
    w.write(0, r, r + 1, {{r + 1, 5}});
    w.run(100'000);
  }
  auto s = w.status();
  EXPECT_FALSE(s.caught_up);
  EXPECT_TRUE(s.backlog_known);
  EXPECT_GE(s.backlog_revisions, 60u);
  EXPECT_GT(s.heads_age_seconds.value_or(0), 5);
  w.hold_applies = false;
  w.deliver_waiting();
  s = w.status();
  EXPECT_EQ(s.state, LinkState::running) << s.reason;
  EXPECT_EQ(s.backlog_revisions, 0u);
  EXPECT_FALSE(s.backlog_known) << "nothing is said to be left on the strength of an old echo";
  w.echoing = true;
  EXPECT_TRUE(w.caught_up());
}

}  // namespace
}  // namespace zaris::follower
