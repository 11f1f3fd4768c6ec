// A link from nothing to running: identities first, data after; what holds it, and what lets it go again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/follower_link/link_world.hpp"

namespace zaris::follower {
namespace {

using testing::HasSubstr;

TEST(LinkStart, FirstContactBootstrapsEverySegmentOnceAndCatchesUp) {
  World w;
  w.establish();
  const auto s = w.status();
  EXPECT_EQ(s.state, LinkState::running) << s.reason;
  EXPECT_EQ(s.bootstraps_by_reason[static_cast<std::size_t>(BootstrapReason::new_segment)], 2u);
  EXPECT_EQ(s.source, source_cluster);
  EXPECT_EQ(s.target, target_cluster);
  EXPECT_LT(s.staleness_seconds, 0.5);
  EXPECT_EQ(w.subscribed.size(), 2u);
  for (const auto& r : w.subscribed) {
    EXPECT_FALSE(r.low) << "nothing is held";
    ASSERT_TRUE(r.walk);
    EXPECT_FALSE(r.walk->from);
  }
  EXPECT_EQ(w.opened.back().source, source_cluster) << "the target hears of the link when the source is known";
}

TEST(LinkStart, GoesOnWhereTheMarksAreWithoutACopy) {
  World w;
  w.establish();
  w.write(0, 10, 12, {{11, 5}});
  ASSERT_TRUE(w.caught_up());
  w.run(2'000'000);
  const auto before = w.subscribed.size();
  const auto session = w.applied.back().batch.session;
  w.start();
  ASSERT_TRUE(w.caught_up());
  ASSERT_EQ(w.subscribed.size(), before + 2);
  EXPECT_EQ(w.subscribed[before].low, w.at(0, 12));
  EXPECT_FALSE(w.subscribed[before].walk);
  EXPECT_EQ(w.status().bootstraps_by_reason[0], 0u);
  w.write(0, 12, 13, {{13, 5}});
  EXPECT_NE(w.applied.back().batch.session.value(), session.value()) << "a session id of its own for every opening";
}

TEST(LinkStart, ATargetThatLostEverythingIsFilledAgainOnce) {
  World w;
  w.establish();
  w.run(2'000'000);
  w.marks.clear();
  w.generation = Generation{501};
  ASSERT_TRUE(w.until([&] { return w.status().target_rollbacks >= 1; })) << "found while idle, by the mark tokens";
  const auto stale = w.status().staleness_seconds;
  w.run(300'000);
  EXPECT_GT(w.status().staleness_seconds, stale) << "what had been confirmed is forgotten";
  w.bootstrap_all();
  ASSERT_TRUE(w.caught_up());
  EXPECT_EQ(w.status().bootstraps_by_reason[static_cast<std::size_t>(BootstrapReason::target_lost)], 2u);
}

TEST(LinkStart, ACursorAboveTheMarkIsATargetRollbackAndTheMarkCounts) {
  World w;
  w.establish();
  w.write(0, 10, 20, {{20, 5}});
  ASSERT_TRUE(w.caught_up());
  w.run(2'000'000);
  w.marks[{w.id(0), w.id(0)}].low = w.marks[{w.id(0), w.id(0)}].high = w.at(0, 15);
  w.start();
  ASSERT_TRUE(w.until([&] { return w.subscribed.size() >= 4; }));
  EXPECT_EQ(w.status().target_rollbacks, 1u);
  EXPECT_EQ(w.status().mark_behind_cursor, 1u);
  EXPECT_EQ(w.subscribed[2].low, w.at(0, 15));
  bool both = false;
  for (const auto& line : w.lines) both |= line.event == "target_rollback" && line.text.find("1:15") != std::string::npos && line.text.find("1:20") != std::string::npos;
  EXPECT_TRUE(both) << "both positions are logged";
}

TEST(LinkStart, ACursorBelowTheMarkIsCorrectedAndCounted) {
  World w;
  w.establish();
  w.run(2'000'000);
  for (auto& [key, row] : w.cursors) row.position = w.at(0, 7);
  w.start();
  ASSERT_TRUE(w.caught_up());
  EXPECT_EQ(w.status().mark_ahead_of_cursor, 2u);
  EXPECT_EQ(w.status().target_rollbacks, 0u);
  w.run(2'000'000);
  for (auto& [key, row] : w.cursors) EXPECT_EQ(row.position, w.at(0, 10));
}

TEST(LinkStart, ALostCursorFileAdoptsTheMarks) {
  World w;
  w.establish();
  w.run(2'000'000);
  w.cursors.clear();
  w.row.reset();
  w.start();
  ASSERT_TRUE(w.caught_up());
  EXPECT_EQ(w.status().bootstraps_by_reason[0], 0u);
  w.run(2'000'000);
  EXPECT_EQ(w.cursors.size(), 2u);
}

TEST(LinkStart, ASourceThatLostItsDataHoldsTheLinkAndTouchesNothing) {
  World w;
  w.establish();
  w.run(2'000'000);
  const auto applied = w.applied.size();
  const auto marks = w.marks;
  w.lose_source(0x72);
  ASSERT_TRUE(w.held("source_reset"));
  w.run(30'000'000);
  EXPECT_EQ(w.applied.size(), applied);
  EXPECT_EQ(w.marks, marks);
  EXPECT_EQ(w.subscribed.size(), 2u) << "nothing was asked of it";
  EXPECT_GT(w.status().staleness_seconds, 25);
  EXPECT_THAT(w.status().next_step, HasSubstr("`zaris link accept-source l`"));
  EXPECT_THAT(w.status().next_step, HasSubstr("`zaris kv export --url TARGET | zaris kv import --url SOURCE`"));
  EXPECT_LE(w.logged("source_reset"), 10u) << "no storm";

  w.hold_commits = true;
  ASSERT_TRUE(w.link->accept_source(w.now));
  w.settle();
  w.run(3'000'000);
  EXPECT_EQ(w.status().state, LinkState::held) << "not before it is on the disk";
  w.hold_commits = false;
  for (const auto id : std::exchange(w.commits_waiting, {})) w.sync(id);
  w.settle();
  ASSERT_TRUE(w.until([&] { return w.subscribed.size() >= 4; }));
  w.bootstrap_all();
  ASSERT_TRUE(w.caught_up());
  EXPECT_EQ(w.status().bootstraps_by_reason[static_cast<std::size_t>(BootstrapReason::accepted)], 2u);
  EXPECT_EQ(w.status().state, LinkState::running);

  // A second loss is another question.
  w.lose_source(0x73);
  ASSERT_TRUE(w.held("source_reset"));
}

TEST(LinkStart, AnAcceptSurvivesARestart) {
  World w;
  w.establish();
  w.run(2'000'000);
  w.lose_source(0x72);
  ASSERT_TRUE(w.held("source_reset"));
  ASSERT_TRUE(w.link->accept_source(w.now));
  w.settle();
  w.start();
  ASSERT_TRUE(w.until([&] { return w.subscribed.size() >= 4; }));
  w.bootstrap_all();
  EXPECT_TRUE(w.caught_up());
}

TEST(LinkStart, OneCursorOfAnotherHistoryIsEnoughWhateverIsMissingElsewhere) {
  World w;
  w.establish();
  w.run(2'000'000);
  w.lose_source(0x72);
  w.marks.clear();
  ASSERT_TRUE(w.held("source_reset"));
}

TEST(LinkStart, OnSourceResetAcceptGoesOnByItself) {
  World w;
  w.config.accept_source_reset = true;
  w.establish();
  w.run(2'000'000);
  w.lose_source(0x72);
  ASSERT_TRUE(w.until([&] { return w.subscribed.size() >= 4; }));
  w.bootstrap_all();
  EXPECT_TRUE(w.caught_up());
  EXPECT_GE(w.logged("source_reset_accepted"), 1u);
}

TEST(LinkStart, AnotherSourceUnderTheNameIsHeldUntilAccepted) {
  World w;
  w.establish();
  w.run(2'000'000);
  w.source = ClusterId{0xcccc};
  w.lose_source(0x75);
  ASSERT_TRUE(w.held("wrong_cluster"));
  w.run(12'000'000);
  EXPECT_EQ(w.status().state, LinkState::held);
  ASSERT_TRUE(w.link->accept_source(w.now)) << w.link->accept_source(w.now).error().text();
  w.settle();
  ASSERT_TRUE(w.until([&] { return w.subscribed.size() >= 4; }));
  EXPECT_TRUE(w.opened.back().replace_source) << "the target is told that an operator meant it";
  EXPECT_FALSE(w.opened.back().adopt_data) << "which is no consent to give up what no link brought";
  w.bootstrap_all();
  ASSERT_TRUE(w.caught_up());
  w.run(2'000'000);
  for (const auto& [key, row] : w.cursors) EXPECT_EQ(key.source_cluster, ClusterId{0xcccc});
  w.cut();
  ASSERT_TRUE(w.caught_up());
  EXPECT_FALSE(w.opened.back().replace_source) << "consent to one change: another follower's is another question";
  w.start();
  EXPECT_FALSE(w.opened.back().replace_source);
}

// Also by a follower that has just started: it asks the source at once who it is.
TEST(LinkStart, AnotherSourceCanBeAcceptedAsSoonAsItIsHeld) {
  World w;
  w.establish();
  w.run(2'000'000);
  w.source = ClusterId{0xcccc};
  w.start();
  ASSERT_TRUE(w.held("wrong_cluster"));
  w.run(500'000);
  const auto accepted = w.link->accept_source(w.now);
  EXPECT_TRUE(accepted) << accepted.error().text();
}

TEST(LinkStart, TheRightSourceComingBackNeedsNoWord) {
  World w;
  w.establish();
  w.run(2'000'000);
  w.source = ClusterId{0xcccc};
  w.cut();
  ASSERT_TRUE(w.held("wrong_cluster"));
  w.source = source_cluster;
  EXPECT_TRUE(w.caught_up());
  EXPECT_EQ(w.status().state, LinkState::running);
}

TEST(LinkStart, AConfiguredSourceIsNotGivenUpByAWord) {
  World w;
  w.config.source_expected = source_cluster;
  w.source = ClusterId{0xcccc};
  w.start();
  ASSERT_TRUE(w.held("wrong_cluster"));
  w.run(6'000'000);
  EXPECT_FALSE(w.link->accept_source(w.now));
}

TEST(LinkStart, AnotherTargetUnderTheNameIsHeldUntilAccepted) {
  World w;
  w.establish();
  w.run(2'000'000);
  w.target = ClusterId{0xdddd};
  w.marks.clear();
  w.cut();
  ASSERT_TRUE(w.held("target_changed"));
  const auto applied = w.applied.size();
  w.run(12'000'000);
  EXPECT_EQ(w.applied.size(), applied);
  ASSERT_TRUE(w.link->accept_target(w.now));
  w.settle();
  ASSERT_TRUE(w.until([&] { return w.subscribed.size() >= 4; }));
  w.bootstrap_all();
  ASSERT_TRUE(w.caught_up());
  w.run(2'000'000);
  ASSERT_EQ(w.cursors.size(), 2u);
  for (const auto& [key, row] : w.cursors) EXPECT_EQ(key.target_cluster, ClusterId{0xdddd});
}

TEST(LinkStart, ATargetThatIsTooSmallIsSaidBeforeAnythingIsCopied) {
  World w;
  w.welcome_extra.live_bytes = 1000;
  w.target_memory = 500;
  w.start();
  ASSERT_TRUE(w.held("target_too_small"));
  EXPECT_TRUE(w.applied.empty());
  w.target_memory = 5000;
  EXPECT_TRUE(w.until([&] { return w.subscribed.size() >= 2; })) << "raising the limit is enough";
  w.bootstrap_all();
  EXPECT_TRUE(w.caught_up());
}

TEST(LinkStart, ARefusedOpeningHoldsWithItsCode) {
  const std::pair<Status, const char*> table[] = {{Status::scope_mismatch, "scope_mismatch"}, {Status::conflict, "scope_holds_data"},
                                                  {Status::term_superseded, "term_superseded"}, {Status::epoch_superseded, "epoch_superseded"},
                                                  {Status::source_changed, "source_changed"}, {Status::unauthorized, "unauthorised"}};
  for (const auto& [status, code] : table) {
    World w;
    w.open_status = status;
    w.start();
    EXPECT_TRUE(w.held(code)) << code;
    EXPECT_FALSE(w.status().next_step.empty()) << code;
    w.open_status = Status::ok;
    EXPECT_TRUE(w.until([&] { return w.subscribed.size() >= 2; })) << code << " heals by itself";
  }
}

TEST(LinkStart, OneWhosePlaceAnotherFollowerTookWithAnotherScopeIsHeldAndTakesItOnlyWhenItIsStartedAgain) {
  World w;
  w.establish();
  EXPECT_FALSE(w.opened.back().reopens);
  const auto marks = std::exchange(w.marks, {});
  w.marks_refused = Error{"scope_mismatch", "the link is open with another scope now", {}};
  w.open_status = Status::term_superseded;
  w.run(3'000'000);
  EXPECT_TRUE(w.held("term_superseded"));
  EXPECT_TRUE(w.opened.back().reopens);
  EXPECT_EQ(w.logged("target_rollback"), 0u) << "nothing was lost";
  EXPECT_THAT(w.status().next_step, HasSubstr("restart"));
  w.run(60'000'000);
  EXPECT_TRUE(w.held("term_superseded"));
  w.marks_refused.reset();
  w.open_status = Status::ok;
  w.start();
  EXPECT_FALSE(w.opened.back().reopens);
}

TEST(LinkStart, APauseCountsWhenItIsOnTheDiskAndSurvivesARestart) {
  World w;
  w.establish();
  ASSERT_TRUE(w.link->pause("maintenance", w.now));
  w.settle();
  EXPECT_EQ(w.status().state, LinkState::paused);
  EXPECT_TRUE(w.feeds.empty());
  const double stale = w.status().staleness_seconds;
  w.run(5'000'000);
  EXPECT_GT(w.status().staleness_seconds, stale + 4.5);
  w.start();
  w.run(3'000'000);
  EXPECT_EQ(w.status().state, LinkState::paused);
  EXPECT_THAT(w.status().reason, HasSubstr("maintenance"));
  EXPECT_FALSE(w.link->accept_source(w.now));
  ASSERT_TRUE(w.link->resume(w.now));
  w.settle();
  EXPECT_TRUE(w.caught_up());
  EXPECT_FALSE(w.link->resume(w.now)) << "it is not paused";
}

TEST(LinkStart, AnOperatorsRewindGoesThroughRangesAndStandsUntilTheLastOne) {
  World w;
  w.establish();
  w.run(2'000'000);
  w.row->rewind = true;
  w.start();
  ASSERT_TRUE(w.until([&] { return w.subscribed.size() >= 4; }));
  EXPECT_EQ(w.status().bootstraps_by_reason[static_cast<std::size_t>(BootstrapReason::rewind)], 2u);
  w.chunk(0, std::nullopt, std::nullopt, 10);
  w.run(2'000'000);
  EXPECT_TRUE(w.row->rewind);
  w.chunk(1, std::nullopt, std::nullopt, 10);
  ASSERT_TRUE(w.caught_up());
  w.run(2'000'000);
  EXPECT_FALSE(w.row->rewind);
}

TEST(LinkStart, UnreachableEndsAreTriedAgainLaterAndLater) {
  World w;
  w.source_up = false;
  w.start();
  w.run(60'000'000);
  EXPECT_EQ(w.status().state, LinkState::backoff);
  EXPECT_THAT(w.status().reason, HasSubstr("source_unreachable"));
  EXPECT_LT(w.status().reconnects, 25u) << "up to ten seconds apart";
  EXPECT_GT(w.status().reconnects, 7u);
  EXPECT_GT(w.status().staleness_seconds, 59);
  w.source_up = true;
  EXPECT_TRUE(w.until([&] { return w.subscribed.size() >= 2; }));
}

}  // namespace
}  // namespace zaris::follower
