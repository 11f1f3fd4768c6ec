// A link at rest and at its end: what is on the disk, stopping, checks of an idle link, silence.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/follower_link/link_world.hpp"

namespace zaris::follower {
namespace {

TEST(LinkAtRest, OnlyWhatIsOnTheDiskIsAcknowledged) {
  World w;
  w.establish();
  w.run(2'000'000);
  const auto acked = w.acked.size();
  w.hold_commits = true;
  w.write(0, 10, 20, {{20, 5}});
  w.run(1'000'000);
  EXPECT_EQ(w.acked.size(), acked);
  EXPECT_EQ(w.commits_waiting.size(), 1u) << "one in flight";
  EXPECT_GT(w.status().cursor_age_seconds, 0.8);
  w.hold_commits = false;
  for (const auto id : std::exchange(w.commits_waiting, {})) w.sync(id);
  w.settle();
  ASSERT_EQ(w.acked.size(), acked + 1);
  EXPECT_EQ(w.acked.back().position, w.at(0, 20).at);
  w.run(1'500'000);
  EXPECT_EQ(w.status().cursor_age_seconds, 0);
}

TEST(LinkAtRest, AFullDiskStopsAcknowledgingNotApplying) {
  World w;
  w.establish();
  w.run(2'000'000);
  const auto acked = w.acked.size();
  w.disk_full = true;
  w.write(0, 10, 20, {{20, 5}});
  w.run(5'000'000);
  EXPECT_EQ(w.marks.at({w.id(0), w.id(0)}).low, w.at(0, 20));
  EXPECT_EQ(w.acked.size(), acked);
  EXPECT_EQ(w.status().reason, "cursor_disk_full");
  EXPECT_EQ(w.logged("cursor_disk_full"), 1u) << "no storm";
  EXPECT_LT(w.status().cursor_commit_failures, 10u);
  w.disk_full = false;
  w.run(2'000'000);
  EXPECT_GT(w.acked.size(), acked);
  EXPECT_EQ(w.status().reason, "");
  EXPECT_EQ(w.logged("cursor_recovered"), 1u);
}

TEST(LinkAtRest, StoppingFinishesPersistsAcknowledges) {
  World w;
  w.establish();
  w.run(2'000'000);
  w.hold_applies = true;
  w.hold_commits = true;
  w.write(0, 10, 20, {{20, 5}});
  w.link->stop(w.now);
  w.settle();
  EXPECT_FALSE(w.link->stopped());
  w.hold_applies = false;
  w.deliver_waiting();
  w.run(20'000);
  EXPECT_FALSE(w.link->stopped());
  w.hold_commits = false;
  for (const auto id : std::exchange(w.commits_waiting, {})) w.sync(id);
  w.settle();
  w.run(20'000);
  EXPECT_TRUE(w.link->stopped());
  EXPECT_EQ(w.acked.back().position, w.at(0, 20).at);
  for (const auto& [key, row] : w.cursors) {
    if (key.segment == w.id(0)) { EXPECT_EQ(row.position, w.at(0, 20)); }
  }
}

TEST(LinkAtRest, StoppingIsBounded) {
  World w;
  w.establish();
  w.hold_applies = true;
  w.write(0, 10, 20, {{20, 5}});
  w.link->stop(w.now);
  EXPECT_TRUE(w.until([&] { return w.link->stopped(); }, 15'000'000));
}

// ---- checks beside the stream -------------------------------------------------------------------------------------------------------

TEST(LinkAtRest, AnIdleLinkStaysFreshAndAsksForTheTokens) {
  World w;
  w.establish();
  for (int i = 0; i < 300; ++i) {
    w.run(100'000);
    ASSERT_LT(w.status().staleness_seconds, 0.5);
  }
  EXPECT_EQ(w.opened.size(), 1u);
}

TEST(LinkAtRest, ALostTailOfAnIdleSegmentIsFound) {
  World w;
  w.establish();
  w.write(0, 10, 20, {{20, 5}});
  w.run(2'000'000);
  auto& mark = w.marks.at({w.id(0), w.id(0)});
  mark.low = mark.high = w.at(0, 15);
  mark.token.number = 1;
  const auto asked = w.subscribed.size();
  ASSERT_TRUE(w.until([&] { return w.subscribed.size() > asked; }));
  EXPECT_EQ(w.subscribed[asked].low, w.at(0, 15));
  EXPECT_GE(w.status().target_rollbacks, 1u);
}

TEST(LinkAtRest, HeadsThatMoveWhileTheStreamSaysNothingAreStuck) {
  World w;
  w.establish();
  w.poll_rows = {{w.id(0), {Generation{1}, Revision{50}}}};
  const auto opened = w.opened.size();
  w.run(45'000'000);
  EXPECT_EQ(w.opened.size(), opened + 1) << "connected again once";
  EXPECT_EQ(w.status().state, LinkState::stuck);
  w.run(60'000'000);
  EXPECT_EQ(w.status().state, LinkState::stuck);
  EXPECT_EQ(w.opened.size(), opened + 1) << "then the alarm";
  w.write(0, 10, 50, {{50, 5}});
  EXPECT_TRUE(w.caught_up());
  EXPECT_EQ(w.status().state, LinkState::running);
}

TEST(LinkAtRest, WhyTheSourceIsGoneIsSaidOnceBehindItsCode) {
  World w;
  w.establish();
  w.source_up = false;
  w.cut();
  w.run(1'000'000);
  EXPECT_EQ(w.status().reason, "source_unreachable: refused");
}

TEST(LinkAtRest, SilenceOfTheSourceIsHeardOf) {
  World w;
  w.establish();
  w.silent = true;  // half-open: nothing arrives any more, nobody closes
  w.run(20'000'000);
  EXPECT_GT(w.status().reconnects, 0u);
  EXPECT_GT(w.status().staleness_seconds, 15);
}

TEST(LinkAtRest, AfterARestartDataAreAsOldAsTheirCursor) {
  World w;
  w.establish();
  w.run(2'000'000);
  w.source_up = false;
  w.cut();
  w.wall += 3'600'000'000;
  w.now += 3'600'000'000;
  w.start();
  w.run(10'000);
  EXPECT_GT(w.status().staleness_seconds, 3'500) << "not zero because the process is young";
}

TEST(LinkAtRest, AStorminSourceIsNotAStormInTheLog) {
  World w;
  w.establish();
  for (int i = 0; i < 2000; ++i) {
    w.cut();
    w.run(10'000);
  }
  EXPECT_LT(w.lines.size(), 500u);
}

}  // namespace
}  // namespace zaris::follower
