// A running link: order, pipelining, answers of every kind, bootstraps, segments of other numbers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/follower_link/link_world.hpp"

namespace zaris::follower {
namespace {

using testing::HasSubstr;

std::optional<ApplyAnswer> answer(Status status, std::optional<std::uint32_t> record = {}) {
  ApplyAnswer a;
  a.status = status;
  a.refused_index = record;
  a.refused_status = record ? status : Status::ok;
  return a;
}

TEST(LinkStream, ARunIsAppliedAsItCame) {
  World w;
  w.establish();
  w.write(1, 10, 14, {{11, 8192}, {14, 8193}});
  const auto& last = w.applied.back();
  EXPECT_EQ(last.batch.kind, ApplyKind::stream);
  EXPECT_EQ(last.batch.prev, w.at(1, 10));
  EXPECT_EQ(last.batch.last, w.at(1, 14));
  EXPECT_EQ(row_count(last.batch.table), 2u);
  ASSERT_EQ(last.hold.size(), 1u);
  EXPECT_GE(last.batch.records.data(), last.hold[0]->data()) << "a view into the message, no copy";
  EXPECT_TRUE(w.caught_up());
  EXPECT_EQ(w.status().applied_records, 2u);
}

TEST(LinkStream, RevisionsThatBroughtNothingMoveTheMarkOncePerCommitInterval) {
  World w;
  w.establish();
  const auto applied = w.applied.size();
  for (std::uint64_t r = 10; r < 60; ++r) w.write(0, r, r + 1, {});
  EXPECT_EQ(w.applied.size(), applied) << "not per run";
  w.run(110'000);
  EXPECT_EQ(w.applied.size(), applied + 1);
  EXPECT_EQ(w.applied.back().batch.last, w.at(0, 60));
  EXPECT_TRUE(w.applied.back().batch.table.empty());
  w.run(2'000'000);
  EXPECT_EQ(w.applied.size(), applied + 1) << "and not while nothing moves";
  bool moved = false;
  for (const auto& ack : w.acked) moved |= ack.segment == w.id(0) && ack.position == w.at(0, 60).at;
  EXPECT_TRUE(moved) << "the pin moves although nothing matched";
  for (std::uint64_t r = 60; r < 70; ++r) w.write(0, r, r + 1, {});
  w.write(0, 70, 71, {{71, 3}});
  EXPECT_EQ(w.applied.back().batch.prev, w.at(0, 60)) << "or the next batch with records is widened";
}

TEST(LinkStream, BatchesAreSentWithoutWaitingForEachOthersAnswers) {
  World w;
  w.establish();
  w.hold_applies = true;
  for (std::uint64_t r = 10; r < 14; ++r) {
    std::vector<std::pair<std::uint64_t, std::uint16_t>> rows;
    w.write(0, r, r + 1, {{r + 1, 5}});
  }
  EXPECT_EQ(w.waiting.size(), 4u);
  w.deliver_waiting();
  EXPECT_EQ(w.marks.at({w.id(0), w.id(0)}).low, w.at(0, 14));
  EXPECT_EQ(w.status().mark_gaps, 0u);
}

TEST(LinkStream, MarkGapInMidStreamReadsTheMarksAnewAndGoesOnThere) {
  World w;
  w.establish();
  w.write(0, 10, 20, {{20, 5}});
  w.run(2'000'000);
  w.hold_applies = true;
  w.write(0, 20, 30, {{30, 5}});
  w.write(0, 30, 40, {{40, 5}});
  // The target goes back to 15 under a generation of its own.
  auto& mark = w.marks.at({w.id(0), w.id(0)});
  mark.low = mark.high = w.at(0, 15);
  mark.token = {Generation{400}, SessionId{1}, 3};
  w.generation = Generation{502};
  const auto asked = w.subscribed.size();
  const auto session = w.waiting.front().batch.session;
  w.hold_applies = false;
  w.deliver_waiting();
  ASSERT_TRUE(w.until([&] { return w.subscribed.size() >= asked + 2; }));
  EXPECT_EQ(w.subscribed[asked].low, w.at(0, 15));
  EXPECT_EQ(w.status().mark_gaps, 1u);
  EXPECT_EQ(w.status().target_rollbacks, 1u + 1u) << "once by the mark in mid-stream, once by the cursor";
  w.write(0, 15, 40, {{20, 5}, {30, 5}, {40, 5}});
  EXPECT_NE(w.applied.back().batch.session, session);
  EXPECT_TRUE(w.caught_up());
  EXPECT_EQ(w.status().bootstraps_by_reason[0], 2u) << "no copy";
}

// The question goes over one connection, batches over others: one that was sent before it may be applied behind its answer, and be answered before that arrives.
TEST(LinkStream, WhatIsAppliedBesideTheQuestionForTheMarksIsNotTakenForALoss) {
  World w;
  w.establish();
  w.hold_applies = w.hold_marks = true;
  w.write(0, 10, 11, {{11, 5}});
  ASSERT_TRUE(w.until([&] { return !w.marks_waiting.empty(); })) << "a busy link reads the marks now and then";
  w.deliver_waiting();
  w.link->on_marks(w.marks_waiting.back().first, w.marks_waiting.back().second, w.now);
  w.settle();
  EXPECT_EQ(w.status().target_rollbacks, 0u);
  EXPECT_EQ(w.status().reconnects, 0u);
  EXPECT_EQ(w.status().state, LinkState::running);
  w.hold_applies = w.hold_marks = false;
  EXPECT_TRUE(w.caught_up());
  EXPECT_EQ(w.opened.size(), 1u);
}

// Two target segments take one source segment. One is found to have lost its tail; the other's answers still come in.
TEST(LinkStream, WhatTheTargetWasFoundToHaveLostIsNotPersistedOnTheStrengthOfOtherSegments) {
  World w(1, 2);
  w.establish();
  w.run(2'000'000);
  w.hold_applies = true;
  w.write(0, 10, 20, {{15, 5}, {20, 9000}});
  ASSERT_EQ(w.waiting.size(), 2u);
  const ApplyRequest of_the_other = w.waiting.back();
  ASSERT_EQ(of_the_other.batch.target_segment, w.id(1));
  w.waiting.pop_back();
  w.deliver_waiting();
  w.write(0, 20, 30, {{30, 5}});
  auto& mark = w.marks.at({w.id(0), w.id(0)});
  mark.low = mark.high = w.at(0, 12);
  mark.token = {Generation{400}, SessionId{1}, 3};
  w.deliver_waiting();
  EXPECT_EQ(w.status().mark_gaps, 1u);
  w.answer(of_the_other);
  w.settle();
  w.target_up = false;
  w.run(3'000'000);
  for (const auto& [key, row] : w.cursors) EXPECT_LE(row.position.at, w.at(0, 12).at);
  w.target_up = true;
  w.hold_applies = false;
  const auto asked = w.subscribed.size();
  ASSERT_TRUE(w.until([&] { return w.subscribed.size() > asked; }));
  EXPECT_EQ(w.subscribed[asked].low, w.at(0, 12));
}

TEST(LinkStream, AnotherFollowerOfTheSameLinkIsNamedAndNotTakenForALossTwice) {
  World w;
  w.establish();
  const auto steal = [&] { w.marks.at({w.id(0), w.id(0)}).token = {w.generation, SessionId{0xdead}, 77}; };
  steal();
  const auto asked = w.subscribed.size();
  w.write(0, 10, 11, {{11, 5}});
  EXPECT_EQ(w.logged("mark_gap"), 1u);
  EXPECT_EQ(w.logged("another_follower"), 0u) << "once it may be the last word of an earlier run of this one";
  ASSERT_TRUE(w.until([&] { return w.subscribed.size() >= asked + 2; }));
  w.write(0, 10, 11, {{11, 5}});
  ASSERT_TRUE(w.caught_up());
  steal();
  w.write(0, 11, 12, {{12, 5}});
  EXPECT_EQ(w.logged("another_follower"), 1u);
  EXPECT_THAT(w.status().reason, HasSubstr("another_follower"));
  EXPECT_THAT(w.status().next_step, HasSubstr("stop one"));
}

TEST(LinkStream, ATargetThatAnswersNothingIsSaidToBeAwayWithinSeconds) {
  World w;
  w.establish();
  w.hold_applies = true;
  w.write(0, 10, 11, {{11, 5}});
  w.run(1'000'000);
  EXPECT_EQ(w.status().state, LinkState::running);
  w.run(2'000'000);
  EXPECT_EQ(w.status().state, LinkState::backoff);
  EXPECT_THAT(w.status().reason, HasSubstr("has not answered"));
  w.deliver_waiting();
  EXPECT_EQ(w.status().state, LinkState::running);
}

TEST(LinkStream, WhatWouldBeLostIsNotSaidWhileTheSourceIsNotHeard) {
  World w;
  w.establish();
  EXPECT_TRUE(w.status().backlog_known);
  ASSERT_TRUE(w.link->pause("maintenance", w.now));
  w.run(1'000'000);
  EXPECT_EQ(w.status().state, LinkState::paused);
  EXPECT_FALSE(w.status().backlog_known);
}

TEST(LinkStream, TheTargetsTroublesAreRetriedForEverInOrder) {
  World w;
  w.establish();
  int refused = 0;
  w.refuse = [&](const ApplyRequest&) -> std::optional<ApplyAnswer> {
    const Status list[] = {Status::moved, Status::ownership_changing, Status::unavailable, Status::timed_out};
    return answer(list[refused++ % 4]);
  };
  w.write(0, 10, 11, {{11, 5}});
  w.write(0, 11, 12, {{12, 5}});
  w.run(20'000'000);
  EXPECT_GT(refused, 5);
  EXPECT_EQ(w.status().state, LinkState::backoff);
  EXPECT_THAT(w.status().reason, HasSubstr("target_unavailable"));
  EXPECT_GT(w.status().staleness_seconds, 15);
  w.refuse = nullptr;
  EXPECT_TRUE(w.caught_up());
  EXPECT_EQ(w.status().state, LinkState::running);
  EXPECT_EQ(w.status().bootstraps_by_reason[0], 2u);
}

TEST(LinkStream, ALostConnectionToTheTargetCostsNothingButARepeat) {
  World w;
  w.establish();
  w.target_up = false;
  w.write(0, 10, 11, {{11, 5}});
  w.run(500'000);
  w.target_up = true;
  EXPECT_TRUE(w.caught_up());
  EXPECT_EQ(w.marks.at({w.id(0), w.id(0)}).low, w.at(0, 11));
}

TEST(LinkStream, ARecordTheTargetWillNotTakeStopsItsSegmentOnlyAndRaisingTheLimitIsEnough) {
  World w;
  w.establish();
  bool small = true;
  w.refuse = [&](const ApplyRequest& r) -> std::optional<ApplyAnswer> {
    if (!small || r.batch.source_segment != w.id(0) || r.batch.table.empty()) return std::nullopt;
    return answer(Status::item_too_large, 0);
  };
  w.write(0, 10, 11, {{11, 5}});
  w.write(1, 10, 11, {{11, 8192}});
  w.run(300'000);
  auto s = w.status();
  EXPECT_EQ(s.state, LinkState::failed);
  EXPECT_THAT(s.reason, HasSubstr("item_too_large"));
  EXPECT_THAT(s.next_step, HasSubstr("limits"));
  EXPECT_EQ(s.segments_stopped, 1u);
  EXPECT_EQ(s.segments[0].phase, SegmentPhase::stopped);
  EXPECT_EQ(s.segments[1].position, w.at(1, 11).at) << "the others go on";
  EXPECT_EQ(s.queue_bytes, 0u) << "and what was queued for it is given back";
  small = false;
  const auto asked = w.subscribed.size();
  ASSERT_TRUE(w.until([&] { return w.subscribed.size() > asked; }, 120'000'000));
  EXPECT_EQ(w.subscribed.back().low, w.at(0, 10));
  w.write(0, 10, 11, {{11, 5}});
  EXPECT_TRUE(w.caught_up());
  EXPECT_EQ(w.status().state, LinkState::running);
}

TEST(LinkStream, RecordsOfTheTargetsOwnAreKeptBeforeTheyGo) {
  World w;
  w.establish();
  w.refuse = [&](const ApplyRequest& r) -> std::optional<ApplyAnswer> {
    if (r.batch.table.empty() || !r.batch.may_lose.empty()) return std::nullopt;
    auto a = answer(Status::would_lose);
    a->would_lose = {{"k1", "theirs"}};
    return a;
  };
  w.write(0, 10, 11, {{11, 5}});
  ASSERT_EQ(w.conflicts.size(), 1u);
  EXPECT_EQ(w.conflicts[0].key, "k1");
  EXPECT_EQ(w.conflicts[0].target_record, "theirs");
  EXPECT_EQ(w.conflicts[0].as_of, w.at(0, 11));
  EXPECT_TRUE(w.caught_up());
  EXPECT_EQ(w.applied.back().batch.may_lose, (std::vector<std::string>{"k1"}));
  EXPECT_EQ(w.status().conflicts, 1u);
}

TEST(LinkStream, AFullConflictLogStopsTheSegmentAndGoesOnWhenThereIsRoom) {
  World w;
  w.establish();
  w.conflict_log_full = true;
  w.refuse = [&](const ApplyRequest& r) -> std::optional<ApplyAnswer> {
    if (r.batch.table.empty() || !r.batch.may_lose.empty()) return std::nullopt;
    auto a = answer(Status::would_lose);
    a->would_lose = {{"k1", "theirs"}};
    return a;
  };
  w.write(0, 10, 11, {{11, 5}});
  EXPECT_THAT(w.status().reason, HasSubstr("conflict_log_full"));
  w.conflict_log_full = false;
  const auto asked = w.subscribed.size();
  ASSERT_TRUE(w.until([&] { return w.subscribed.size() > asked; }, 120'000'000));
  w.write(0, 10, 11, {{11, 5}});
  EXPECT_TRUE(w.caught_up());
}

// All of the target's nodes came back empty: each says that it serves nothing, and nobody says what is held.
TEST(LinkStream, IsNotCaughtUpWhileTheTargetDoesNotSayWhatItHolds) {
  World w;
  w.establish();
  w.run(2'000'000);
  ASSERT_TRUE(w.caught_up());
  w.checksums_differ = true;
  w.marks_refused = Error{"unavailable", "target segment 0 changes hands", {}};
  w.run(4'000'000);
  EXPECT_FALSE(w.status().caught_up);
  EXPECT_EQ(w.status().state, LinkState::backoff);
  EXPECT_THAT(w.status().reason, HasSubstr("target_unavailable"));
  w.checksums_differ = false;
  w.marks_refused.reset();
  w.run(3'000'000);
  EXPECT_TRUE(w.caught_up());
  EXPECT_EQ(w.status().state, LinkState::running);
}

TEST(LinkStream, SupersededMeansSomebodyElseRunsTheLink) {
  World w;
  w.establish();
  w.refuse = [&](const ApplyRequest&) { return answer(Status::term_superseded); };
  w.write(0, 10, 11, {{11, 5}});
  EXPECT_TRUE(w.held("term_superseded"));
}

// ---- ends of streams -----------------------------------------------------------------------------------------------------------

TEST(LinkStream, BelowTheFloorIsOneBootstrapOfThatSegment) {
  World w;
  w.establish();
  w.run(1'000'000);
  w.segments[0].head = {Generation{1}, Revision{100}};
  w.segments[0].floor = Revision{50};
  w.end(0, feed::EndReason::below_floor, {}, 50);
  ASSERT_TRUE(w.until([&] { return w.subscribed.size() >= 3; }));
  EXPECT_FALSE(w.subscribed.back().low);
  ASSERT_TRUE(w.subscribed.back().walk);
  EXPECT_EQ(w.status().bootstraps_by_reason[static_cast<std::size_t>(BootstrapReason::below_floor)], 1u);
  EXPECT_EQ(w.status().stream_ends.at("below_floor"), 1u);
  EXPECT_EQ(w.status().state, LinkState::bootstrap);
  w.chunk(0, std::nullopt, std::nullopt, 100);
  EXPECT_TRUE(w.caught_up());
}

TEST(LinkStream, DivergedIsPutRightByRangesAndCounted) {
  World w;
  w.establish();
  w.run(1'000'000);
  w.segments[0].lineage = Lineage(Root{HistoryId{0x71}, Generation{1}, 0, RootCause::created},
                                  {{Generation{1}, 0x91, Revision{1}, 0}, {Generation{2}, 0x92, Revision{8}, 0}});
  w.segments[0].head = {Generation{2}, Revision{9}};
  w.cut();
  ASSERT_TRUE(w.until([&] { return w.subscribed.size() >= 5; })) << "asked, diverged, asked for a copy";
  EXPECT_EQ(w.status().stream_ends.at("diverged"), 1u);
  EXPECT_EQ(w.status().bootstraps_by_reason[static_cast<std::size_t>(BootstrapReason::unknown_lineage)], 1u);
  w.chunk(0, std::nullopt, std::nullopt, 9);
  EXPECT_TRUE(w.caught_up());
}

TEST(LinkStream, ALineageThatGrowsInMidStreamIsTestedAgainstEveryMark) {
  World w;
  w.establish();
  w.run(1'000'000);
  feed::Subscribed grown;
  grown.segment = w.id(0);
  grown.accepted = w.at(0, 10).at;
  grown.head = {Generation{2}, Revision{11}};
  grown.floor = Revision{1};
  grown.subscription = w.subscription[w.id(0)];
  grown.lineage = w.segments[0].lineage;
  grown.lineage.append({Generation{2}, 0x92, Revision{11}, 0});
  w.segments[0].lineage = grown.lineage;
  w.segments[0].head = grown.head;
  w.say(grown);
  w.write(0, 10, 11, {});
  w.run(300'000);
  EXPECT_TRUE(w.caught_up()) << "a clean switch costs nothing";
  EXPECT_EQ(w.subscribed.size(), 2u);
  EXPECT_EQ(w.marks.at({w.id(0), w.id(0)}).low, w.at(0, 11));
}

TEST(LinkStream, AheadOfTheSourceIsHeldWithAnAlarm) {
  World w;
  w.establish();
  w.run(1'000'000);
  w.segments[0].head = {Generation{1}, Revision{8}};
  w.cut();
  ASSERT_TRUE(w.held("ahead_of_source"));
  const auto applied = w.applied.size();
  w.run(20'000'000);
  EXPECT_EQ(w.applied.size(), applied);
  w.segments[0].head = {Generation{1}, Revision{10}};
  EXPECT_TRUE(w.caught_up()) << "it caught up again: nothing to be said";
}

TEST(LinkStream, AheadOfTheSourceAcceptedIsCopied) {
  World w;
  w.establish();
  w.run(1'000'000);
  w.segments[0].head = {Generation{1}, Revision{8}};
  w.cut();
  ASSERT_TRUE(w.held("ahead_of_source"));
  ASSERT_TRUE(w.link->accept_source(w.now));
  w.settle();
  ASSERT_TRUE(w.until([&] { return !w.subscribed.back().low && w.status().state == LinkState::bootstrap; }));
  w.chunk(0, std::nullopt, std::nullopt, 8);
  EXPECT_TRUE(w.caught_up());
}

TEST(LinkStream, ReasonsThatNeedSomebodyHoldTheLink) {
  for (const auto reason : {feed::EndReason::source_standby, feed::EndReason::scope_revoked, feed::EndReason::unauthorised}) {
    World w;
    w.establish();
    w.end(0, reason);
    EXPECT_TRUE(w.held(std::string(feed::name(reason))));
  }
}

// The source withheld what another link had brought there, at revision 11 of segment 0.
struct Withheld : World {
  Withheld() {
    establish();
    segments[0].head = {Generation{1}, Revision{12}};
    end(0, feed::EndReason::source_standby);
  }
  // Tried again, and every segment is subscribed.
  bool tried_again() {
    const auto before = subscribed.size();
    return until([&] { return subscribed.size() >= before + segments.size(); });
  }
};

TEST(LinkStream, HeldForWhatAnotherLinkWritesItStaysSoWhenTheLogIsTrimmed) {
  Withheld w;
  ASSERT_TRUE(w.held("source_standby"));
  for (int again = 0; again < 3; ++again) {
    ASSERT_TRUE(w.tried_again());
    w.end(0, feed::EndReason::below_floor, {}, 12);
    w.run(1'000'000);
    EXPECT_TRUE(w.held("source_standby"));
  }
  EXPECT_EQ(w.status().bootstraps_by_reason[static_cast<std::size_t>(BootstrapReason::below_floor)], 0u) << "nothing is copied while nobody has decided";
  EXPECT_EQ(w.logged("link_released"), 0u);
}

TEST(LinkStream, WhatAnotherLinkWroteIsCopiedOnceMoreByAWord) {
  Withheld w;
  ASSERT_TRUE(w.held("source_standby"));
  ASSERT_TRUE(w.link->accept_source(w.now));
  w.settle();
  ASSERT_TRUE(w.tried_again());
  w.end(0, feed::EndReason::source_standby);
  ASSERT_TRUE(w.until([&] { return !w.subscribed.back().low && w.status().state == LinkState::bootstrap; }));
  w.chunk(0, std::nullopt, std::nullopt, 12);
  EXPECT_TRUE(w.caught_up());
  EXPECT_EQ(w.status().segments_bootstrap, 0u);
  w.end(0, feed::EndReason::source_standby);
  EXPECT_TRUE(w.held("source_standby")) << "a word counts once";
}

TEST(LinkStream, ASourceThatWentBackToBeforeWhatItWithheldReleasesTheLink) {
  Withheld w;
  ASSERT_TRUE(w.held("source_standby"));
  w.segments[0].head = {Generation{1}, Revision{10}};
  EXPECT_TRUE(w.caught_up());
  w.run(1'000'000);
  EXPECT_NE(w.status().state, LinkState::held);
}

// ---- bootstrap -------------------------------------------------------------------------------------------------------------------

TEST(LinkStream, AnInterruptedBootstrapGoesOnBehindItsLastKey) {
  World w(1, 1);
  w.segments[0].head = {Generation{1}, Revision{10}};
  w.start();
  ASSERT_TRUE(w.until([&] { return w.subscribed.size() >= 1; }));
  w.chunk(0, std::nullopt, SlotKey{Slot{100}, "k"}, 10, {1, 2});
  w.write(0, 10, 12, {{11, 3}, {12, 9000}});
  w.run(200'000);
  EXPECT_EQ(w.status().state, LinkState::bootstrap);
  w.cut();
  ASSERT_TRUE(w.until([&] { return w.subscribed.size() >= 2; }));
  EXPECT_EQ(w.subscribed.back().low, w.at(0, 12));
  ASSERT_TRUE(w.subscribed.back().walk);
  EXPECT_EQ(w.subscribed.back().walk->from, (SlotKey{Slot{100}, "k"}));
  w.chunk(0, SlotKey{Slot{100}, "k"}, std::nullopt, 12, {200});
  EXPECT_TRUE(w.caught_up());
  EXPECT_EQ(w.status().bootstraps_by_reason[0], 1u) << "one bootstrap";
}

TEST(LinkStream, WhileABootstrapRunsStalenessGrows) {
  World w(1, 1);
  w.start();
  w.run(5'000'000);
  EXPECT_GT(w.status().staleness_seconds, 4.9);
  EXPECT_EQ(w.status().state, LinkState::bootstrap);
  EXPECT_EQ(w.status().bootstrap_segments_total, 1u);
}

TEST(LinkStream, OneSourceSegmentIntoFourTargetSegments) {
  World w(1, 4);
  w.segments[0].head = {Generation{1}, Revision{10}};
  w.start();
  ASSERT_TRUE(w.until([&] { return w.subscribed.size() >= 1; }));
  EXPECT_EQ(w.marks.size(), 4u) << "every one was opened";
  w.chunk(0, std::nullopt, SlotKey{Slot{5000}, "k"}, 10, {10, 4097});
  EXPECT_TRUE(w.marks.at({w.id(0), w.id(0)}).low);
  EXPECT_TRUE(w.marks.at({w.id(0), w.id(1)}).low);
  EXPECT_FALSE(w.marks.at({w.id(0), w.id(2)}).low) << "its slots have not been reached";
  w.write(0, 10, 12, {{11, 10}, {12, 9000}});
  EXPECT_EQ(w.marks.at({w.id(0), w.id(0)}).low, w.at(0, 12));
  w.run(300'000);
  EXPECT_EQ(w.marks.at({w.id(0), w.id(1)}).low, w.at(0, 12)) << "moved over what was not its own";
  w.chunk(0, SlotKey{Slot{5000}, "k"}, std::nullopt, 12, {5001, 9000, 16000});
  for (const auto& [key, mark] : w.marks) {
    EXPECT_EQ(mark.phase, Phase::stream) << key.second.value();
    EXPECT_EQ(mark.low, w.at(0, 12)) << key.second.value();
  }
  EXPECT_TRUE(w.caught_up());
  // One of them is lost: it alone is filled, from its own first slot on.
  w.run(2'000'000);
  w.marks.erase({w.id(0), w.id(2)});
  ASSERT_TRUE(w.until([&] { return w.subscribed.size() >= 2; }));
  EXPECT_EQ(w.subscribed.back().low, w.at(0, 12));
  ASSERT_TRUE(w.subscribed.back().walk && w.subscribed.back().walk->from);
  EXPECT_EQ(w.subscribed.back().walk->from->slot, Slot{8191});
  const auto before = w.applied.size();
  w.chunk(0, w.subscribed.back().walk->from, std::nullopt, 12, {8192, 9000, 16000});
  ASSERT_EQ(w.applied.size(), before + 1);
  EXPECT_EQ(w.applied.back().batch.target_segment, w.id(2));
  EXPECT_EQ(row_count(w.applied.back().batch.table), 2u);
  EXPECT_FALSE(w.applied.back().batch.range->from);
  EXPECT_TRUE(w.caught_up());
}

TEST(LinkStream, FourSourceSegmentsIntoOne) {
  World w(4, 1);
  w.establish();
  EXPECT_EQ(w.marks.size(), 4u);
  for (const auto& r : w.applied) EXPECT_EQ(r.batch.source_segments, 4u) << "the owner clips by it";
  w.write(3, 10, 11, {{11, 16000}});
  EXPECT_TRUE(w.caught_up());
}

}  // namespace
}  // namespace zaris::follower
