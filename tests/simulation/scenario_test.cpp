// Named stories, each told to the real cores by hand: what a user would notice when this happens, and nothing random
// about it. Ids in brackets are those of docs/reference/faults.md. A fault that a seed has found leaves its story here.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "tests/simulation/run.hpp"

namespace zaris::simulation {
namespace {

using follower::LinkState;

constexpr MonoMicros second = 1'000'000;

SimOptions calm() {
  SimOptions o;
  o.seed = 11;
  o.source_segments = o.target_segments = 4;
  o.keys = 24;
  o.expiry = 0;
  o.log_budget = o.pin_bytes = 64u << 20;
  o.target_log_budget = 64u << 20;
  o.pin_age_us = 3600 * second;
  return o;
}

// A run that writes and is looked at by all checkers; a step that fails a check fails the test.
class Scenario : public ::testing::Test {
 protected:
  void open(SimOptions options = calm(), bool writing = true) {
    run_ = std::make_unique<SimulationRun>(options, std::getenv("SIMULATION_TRACE") != nullptr);
    run_->workload.prefill();
    run_->follower.start();
    if (writing) run_->workload.start();
    run_->start_observers();
  }
  SimulationRun& run() { return *run_; }
  follower::LinkStatus status() { return run().follower.status(); }
  void settle() {
    run().workload.stop();
    const bool settled = run().run_until([&] { return run().settled(); });
    ASSERT_TRUE(settled) << run().unfinished();
    run().checker.final_check();
    no_failure();
  }
  void streaming() {
    ASSERT_TRUE(run().run_until([&] { return run().follower.running() && status().state == LinkState::running && status().caught_up; }))
        << run().unfinished();
  }
  void until_held(const std::string& code) {
    ASSERT_TRUE(run().run_until([&] { return run().follower.running() && status().state == LinkState::held && status().reason.starts_with(code); }))
        << run().unfinished();
  }
  void no_failure() {
    if (run().world.failure) FAIL() << run().world.failure->rule << ": " << run().world.failure->story;
  }
  std::uint64_t bootstraps() {
    std::uint64_t sum = 0;
    for (const auto count : status().bootstraps_by_reason) sum += count;
    return sum;
  }
  Digest target_digest() {
    Digest sum;
    for (std::uint16_t t = 0; t < run().world.options.target_segments; ++t) sum += run().target.store().segment_digest(SegmentId{t});
    return sum;
  }
  // Every key in the scope once, and the odd ones removed.
  void write_all() {
    for (std::uint32_t i = 0; i < run().keys.size(); ++i) run().source.put(i, "written " + std::to_string(i), 0, std::nullopt, false);
    for (std::uint32_t i = 1; i < run().keys.size(); i += 2) run().source.del(i, std::nullopt);
  }
  // A live key in the scope, overwritten at the target by a client of its own. Its name.
  std::string put_past_the_link(const std::string& value) {
    std::string held;
    for (std::uint32_t i = 0; i < run().keys.size(); ++i) {
      const Key& key = run().keys[i];
      if (!key.in_scope || !run().source.store().fetch(key.source_segment, {key.bytes}).records[0]) continue;
      if (!trusted_record(*run().source.store().fetch(key.source_segment, {key.bytes}).records[0]).live()) continue;
      run().target.put_local(i, value);
      return key.bytes;
    }
    ADD_FAILURE() << "no key lives";
    return {};
  }
  void trim_everything() {
    for (int i = 0; i < 64; ++i) run().source.trim_hard();
  }
  void TearDown() override {
    if (run_) no_failure();
  }
  std::unique_ptr<SimulationRun> run_;
};

TEST_F(Scenario, NewLink_CopiesAndFollows) {
  open();
  run().run_for(3 * second);
  settle();
  EXPECT_EQ(run().checker.opens(), 4u);
  EXPECT_EQ(bootstraps(), 4u);
}

TEST_F(Scenario, OtherSegmentCount_EitherWay) {
  for (const auto& [source, target] : {std::pair{1u, 8u}, std::pair{8u, 1u}, std::pair{2u, 16u}, std::pair{16u, 4u}}) {
    SCOPED_TRACE(std::to_string(source) + " to " + std::to_string(target));
    auto options = calm();
    options.source_segments = source;
    options.target_segments = target;
    open(options);
    run().run_for(second);
    settle();
  }
}

// [J1, J3] Idle: staleness stays below half a second, and says so at every look.
TEST_F(Scenario, Idle_StalenessStaysSmall) {
  open(calm(), false);
  streaming();
  run().run_for(second);
  for (int i = 0; i < 300; ++i) {
    run().run_for(100'000);
    ASSERT_LT(status().staleness_seconds, 0.5) << "look " << i;
    ASSERT_TRUE(status().caught_up);
  }
}

// [J6] The source stands still: staleness grows with the time.
TEST_F(Scenario, SourceSilent_StalenessGrows) {
  open(calm(), false);
  streaming();
  run().source.freeze_until(run().world.now() + 60 * second);
  run().run_for(10 * second);
  EXPECT_GT(status().staleness_seconds, 9.0);
  run().run_for(20 * second);
  EXPECT_GT(status().staleness_seconds, 29.0);
}

TEST_F(Scenario, SourceMayNotServe_NothingIsEchoed_StalenessGrows) {
  open(calm(), false);
  streaming();
  run().source.set_may_confirm(false);
  run().run_for(10 * second);
  EXPECT_GT(status().staleness_seconds, 9.0);
  run().source.set_may_confirm(true);
  run().run_for(2 * second);
  EXPECT_LT(status().staleness_seconds, 0.5);
}

TEST_F(Scenario, TargetFrozen_StalenessGrowsUnderWrites) {
  open();
  run().run_for(3 * second);
  run().target.freeze_until(run().world.now() + 8 * second);
  run().run_for(6 * second);
  EXPECT_GT(status().staleness_seconds, 5.0);
  settle();
}

// [E12] An hour each way on each clock: no lag of an hour, none below zero, no lost connection.
TEST_F(Scenario, ClockSteps_DisturbNothing) {
  open(calm(), false);
  streaming();
  const auto reconnects = status().reconnects;
  constexpr std::int64_t hour = 3'600 * second;
  for (const std::int64_t by : {hour, -hour, -hour, hour}) {
    for (ProcessClock* clock : {&run().world.source_clock, &run().world.target_clock, &run().world.follower_clock}) {
      clock->step_wall(by);
      run().run_for(second);
      ASSERT_LT(status().staleness_seconds, 0.5);
    }
  }
  EXPECT_EQ(status().reconnects, reconnects);
}

TEST_F(Scenario, Paused_StalenessGrows_ThenCatchesUp) {
  open();
  run().run_for(3 * second);
  run().operator_on = false;
  ASSERT_TRUE(run().follower.pause());
  run().run_for(5 * second);
  EXPECT_EQ(status().state, LinkState::paused);
  EXPECT_GT(status().staleness_seconds, 4.0);
  ASSERT_TRUE(run().follower.resume());
  settle();
  EXPECT_EQ(bootstraps(), 4u);
}

TEST_F(Scenario, Paused_StaysPausedOverACrash) {
  open();
  run().run_for(3 * second);
  run().operator_on = false;
  ASSERT_TRUE(run().follower.pause());
  run().run_for(second);
  run().follower.crash(false);
  ASSERT_TRUE(run().run_until([&] { return run().follower.running(); }));
  run().run_for(3 * second);
  EXPECT_EQ(status().state, LinkState::paused);
  ASSERT_TRUE(run().follower.resume());
  settle();
}

// [A1, K3] Two hundred crashes under load cost redelivery and no copy.
TEST_F(Scenario, TwoHundredCrashes_NoBootstrap) {
  open();
  run().run_for(3 * second);
  for (int i = 0; i < 200; ++i) {
    run().run_for(run().world.faults.between(1'000, 150'000));
    run().follower.crash(false);
  }
  settle();
  EXPECT_EQ(run().checker.opens(), 4u);
}

// [A6] The cursor file is gone, the target full: the marks are adopted.
TEST_F(Scenario, CursorFileLost_MarksAreAdopted) {
  open();
  run().run_for(3 * second);
  run().follower.crash(true);
  settle();
  EXPECT_EQ(run().checker.opens(), 4u);
}

// [B2, B3, C4] The floor passes a follower that is away: one bootstrap, deletes included.
TEST_F(Scenario, FollowerAway_FloorPasses_OneBootstrapAndNoOldKeys) {
  auto options = calm();
  options.pin_age_us = second;
  options.log_budget = options.pin_bytes = 8u << 10;
  open(options, false);
  streaming();
  run().restarts_follower = false;
  run().follower.crash(false);
  run().run_for(3 * second);
  for (int round = 0; round < 50; ++round) {
    write_all();
    run().source.maintain();
    run().run_for(100'000);
  }
  trim_everything();
  run().follower.start();
  settle();
  EXPECT_EQ(status().bootstraps_by_reason[static_cast<std::size_t>(follower::BootstrapReason::below_floor)], 4u);
  EXPECT_EQ(run().checker.opens(), 8u);
}

// [A9] At the head with an empty log: nothing is below the floor.
TEST_F(Scenario, ResumeAtHeadOfAnEmptyLog_NoBootstrap) {
  open(calm(), false);
  streaming();
  run().run_for(second);
  trim_everything();
  run().follower.crash(false);
  settle();
  EXPECT_EQ(run().checker.opens(), 4u);
}

// [D6 and issue 1, "kill anything" b] The target comes back empty: one bootstrap per segment, equal.
TEST_F(Scenario, TargetReturnsEmpty_OneBootstrapPerSegment) {
  open();
  run().run_for(3 * second);
  run().target.lose_everything(false);
  run().checker.target_went_back();
  settle();
  EXPECT_EQ(status().bootstraps_by_reason[static_cast<std::size_t>(follower::BootstrapReason::target_lost)], 4u);
  EXPECT_EQ(run().checker.opens(), 8u);
}

// An idle link finds by the tokens' checksum that the target went back, although no connection broke and nothing moves.
TEST_F(Scenario, IdleTargetLosesItsTail_FoundWithoutTraffic) {
  open(calm(), false);
  streaming();
  write_all();
  streaming();
  run().run_for(second);
  run().target.on_down = nullptr;  // its connections live on
  run().target.lose_tail();
  run().checker.target_went_back();
  settle();
  EXPECT_GT(status().target_rollbacks, 0u);
}

TEST_F(Scenario, TargetLosesItsIdentity_HeldUntilAccepted) {
  open();
  run().run_for(3 * second);
  run().operator_on = false;
  run().target.lose_everything(true);
  run().checker.target_went_back();
  until_held("target_changed");
  run().run_for(3 * second);
  EXPECT_EQ(target_digest(), Digest{}) << "nothing goes to a target that nobody accepted";
  run().operator_on = true;
  settle();
}

// [C6] The source comes back empty: held within five seconds, the target stays as it is; then by accept.
TEST_F(Scenario, SourceReturnsEmpty_HeldAndTargetUntouched_ThenAccepted) {
  open();
  run().run_for(3 * second);
  run().operator_on = false;
  run().workload.stop();
  streaming();
  const Digest before = target_digest();
  run().source.lose_everything(false);
  const MonoMicros lost = run().world.now();
  until_held("source_reset");
  EXPECT_LT(run().world.now() - lost, 5 * second);
  write_all();
  run().run_for(10 * second);
  EXPECT_EQ(target_digest(), before);
  EXPECT_GT(status().staleness_seconds, 9.0);
  EXPECT_FALSE(status().next_step.empty());
  run().checker.accepted_source();
  ASSERT_TRUE(run().follower.accept(status().reason));
  settle();
}

TEST_F(Scenario, SourceReturnsEmpty_Refilled_NothingIsLost) {
  open();
  run().run_for(3 * second);
  run().workload.stop();
  streaming();
  std::map<std::uint32_t, std::string> before;
  for (std::uint32_t i = 0; i < run().keys.size(); ++i) {
    std::string value;
    if (run().source.get(i, value).status == Status::ok) before[i] = value;
  }
  ASSERT_FALSE(before.empty());
  run().operator_on = false;
  run().source.lose_everything(false);
  until_held("source_reset");
  run().workload.refill();
  run().checker.accepted_source();
  ASSERT_TRUE(run().follower.accept(status().reason));
  settle();
  for (const auto& [key, value] : before) {
    std::string now;
    EXPECT_EQ(run().source.get(key, now).status, Status::ok);
    EXPECT_EQ(now, value);
  }
}

// What an operator accepted is remembered over a crash in the middle of the copy that follows.
TEST_F(Scenario, AcceptedSource_CrashInTheCopy_GoesOnByItself) {
  auto options = calm();
  options.chunk_records = 1;
  options.latency_us = 20'000;
  open(options, false);
  streaming();
  run().operator_on = false;
  run().source.lose_everything(false);
  until_held("source_reset");
  write_all();
  run().checker.accepted_source();
  ASSERT_TRUE(run().follower.accept(status().reason));
  run().run_for(300'000);
  run().follower.crash(false);
  settle();
}

TEST_F(Scenario, SourceLosesItsIdentity_HeldUntilAccepted) {
  open();
  run().run_for(3 * second);
  run().source.lose_everything(true);
  settle();
  EXPECT_GT(run().world.probes.count("source: lost with its identity"), 0u);
}

// Seed 175: the source refused the link before it said who it is; the operator's word was about the old source, and changed
// nothing, for ever.
TEST_F(Scenario, SourceLosesItsIdentity_QuickOperator_WordIsAboutTheNewSource) {
  open();
  run().run_for(3 * second);
  run().operator_on = false;
  run().workload.stop();
  run().source.lose_everything(true);
  until_held("wrong_cluster");
  for (int tries = 0; tries < 200 && status().state == LinkState::held; ++tries) {
    run().checker.accepted_source();
    (void)run().follower.accept(status().reason);
    run().run_for(100'000);
  }
  settle();
}

// Seed 113: the cursor file is gone and another source answers: the target knows better than to be emptied unasked.
TEST_F(Scenario, CursorFileLostAndAnotherSource_HeldUntilAccepted) {
  auto options = calm();
  options.prefilled_target = true;  // the operator's consent to give up data of its own is none to this
  open(options);
  run().run_for(3 * second);
  run().workload.stop();
  streaming();
  const Digest before = target_digest();
  run().operator_on = false;
  run().restarts_follower = false;
  run().follower.crash(true);
  run().source.lose_everything(true);
  run().run_for(2 * second);
  write_all();
  run().restarts_follower = true;
  run().follower.start();
  until_held("source_changed");
  run().run_for(10 * second);
  EXPECT_EQ(target_digest(), before);
  run().operator_on = true;
  settle();
}

// Seeds 4, 42, 63, 202, 580: the target went back while the source was away; what it lost counts as missing from the moment on
// which the follower read the marks, not from the one on which the source is back. (The staleness checker looks all the time.)
TEST_F(Scenario, TargetGoesBackWhileTheSourceIsAway_StalenessTellsAtOnce) {
  open();
  run().run_for(3 * second);
  run().workload.stop();
  streaming();
  run().source.freeze_until(run().world.now() + 20 * second);
  run().target.lose_tail();
  run().checker.target_went_back();
  run().run_for(15 * second);
  EXPECT_GT(run().world.probes.count("link: target_rollback"), 0u);
  settle();
}

// An interrupted bootstrap goes on where it was.
TEST_F(Scenario, InterruptedBootstrap_Resumes) {
  auto options = calm();
  options.source_segments = options.target_segments = 1;
  options.keys = 60;
  options.chunk_records = 1;
  options.latency_us = 20'000;
  options.window_bytes = 300;
  open(options);
  ASSERT_TRUE(run().run_until([&] { return run().world.probes.count("feed: chunks") >= 10; }));
  run().run_for(100'000);
  run().follower.crash(false);
  settle();
  EXPECT_GT(run().world.probes.count("bootstrap: resumed"), 0u);
  EXPECT_EQ(run().checker.opens(), 1u);
}

// [K5] A full disk under the cursor: applies go on, nothing is acknowledged; it goes on by itself when there is room.
TEST_F(Scenario, DiskFull_AppliesGoOn_AcknowledgementsWait) {
  open();
  run().run_for(3 * second);
  run().disk.set_full(true);
  run().run_for(second);
  const auto acknowledged = run().world.probes.count("feed: acks");
  const auto applied = status().applied_records;
  run().run_for(5 * second);
  EXPECT_EQ(run().world.probes.count("feed: acks"), acknowledged);
  EXPECT_GT(status().applied_records, applied);
  run().disk.set_full(false);
  settle();
  run().run_for(3 * second);
  EXPECT_GT(run().world.probes.count("feed: acks"), acknowledged);
}

// A copy that would take away much waits for a word; the word counts once.
TEST_F(Scenario, LargeRemoval_WaitsForAWord) {
  auto options = calm();
  options.max_removal_floor = 1;
  options.max_removal_ratio = 0.05;
  options.pin_age_us = second;
  options.log_budget = options.pin_bytes = 8u << 10;
  open(options, false);
  for (std::uint32_t i = 0; i < run().keys.size(); ++i) run().source.put(i, "here", 0, std::nullopt, false);
  streaming();
  run().operator_on = false;
  run().restarts_follower = false;
  run().follower.crash(false);
  for (std::uint32_t i = 0; i < run().keys.size(); ++i) run().source.del(i, std::nullopt);
  for (int round = 0; round < 50; ++round) {
    run().source.put(0, std::string(2'000, 'x'), 0, std::nullopt, false);
    run().source.maintain();
    run().run_for(100'000);
  }
  trim_everything();
  run().restarts_follower = true;
  run().follower.start();
  until_held("large_removal");
  run().run_for(2 * second);
  EXPECT_EQ(status().state, LinkState::held);
  run().operator_on = true;
  settle();
}

// [H-] A connection that is dead at one end only is given up after three heartbeats.
TEST_F(Scenario, HalfOpenFeed_IsGivenUp) {
  open();
  run().run_for(3 * second);
  run().follower.half_open_feed();
  run().run_for(10 * second);
  settle();
}

// [F2] Values at the target that nobody may touch, and values of its own that the copy takes away and keeps.
TEST_F(Scenario, TargetWithDataInScope_LosersAreKept) {
  auto options = calm();
  options.prefilled_target = true;
  options.scope = ScopeKind::one_prefix;
  options.keys = 60;
  open(options);
  run().run_for(3 * second);
  settle();
  EXPECT_GT(run().world.probes.count("conflict: loser kept"), 0u);
  EXPECT_GT(status().conflicts, 0u);
}

// Somebody writes at the target past the link: verification names each such key and no other.
TEST_F(Scenario, WhatIsWrittenPastTheLink_IsFoundAndNamed) {
  auto options = calm();
  options.source_segments = 2;
  options.target_segments = 4;
  options.keys = 60;
  options.verify_every = second;
  options.strays_at_target = true;
  open(options);
  run().run_for(3 * second);
  run().workload.stop();
  streaming();
  ASSERT_TRUE(run().run_until([&] { return status().verify.rounds_equal >= 2; }));
  EXPECT_EQ(status().verify.divergent, 0u);
  const auto stray = put_past_the_link("past the link");
  ASSERT_TRUE(run().run_until([&] { return status().verify.rounds_different >= 2; }));
  const auto verify = status().verify;
  EXPECT_EQ(verify.divergent, 1u);
  ASSERT_EQ(verify.keys.size(), 1u);
  EXPECT_EQ(verify.keys[0].key, stray);
  EXPECT_EQ(verify.mended, 0u);
}

// …and makes it what the source has where that is configured; what stood there is in the conflict log.
TEST_F(Scenario, WhatIsWrittenPastTheLink_IsRepairedWhereConfigured) {
  auto options = calm();
  options.keys = 60;
  options.verify_every = second;
  options.verify_repair = true;
  options.strays_at_target = true;
  open(options);
  run().run_for(3 * second);
  run().workload.stop();
  streaming();
  (void)put_past_the_link("past the link");
  ASSERT_TRUE(run().run_until([&] { return status().verify.mended == 1 && status().verify.rounds_equal >= 1; }));
  EXPECT_EQ(status().verify.divergent, 0u);
  EXPECT_GT(run().world.probes.count("conflict: records kept"), 0u);
  settle();
}

// A scope in which nothing happens: its positions are acknowledged all the same, so its pin moves.
TEST_F(Scenario, NothingInScope_PositionsMove) {
  auto options = calm();
  options.scope = ScopeKind::one_prefix;
  options.source_segments = options.target_segments = 1;
  open(options, false);
  streaming();
  std::uint32_t foreign = 0;
  while (run().keys[foreign].in_scope) ++foreign;
  for (int i = 0; i < 200; ++i) {
    run().source.put(foreign, "not yours", 0, std::nullopt, false);
    run().run_for(20'000);
  }
  settle();
  run().run_for(2 * second);
  const auto head = run().source.store().state(SegmentId{0}).head;
  bool moved = false;
  for (const auto& [key, row] : run().disk.rows()) moved = moved || row.position.at == head;
  EXPECT_TRUE(moved) << "no cursor at the head " << to_string(head);
}

// An operator's rewind goes through the copy path and stands until its last range.
TEST_F(Scenario, Rewind_CopiesOnce) {
  open();
  run().run_for(3 * second);
  run().restarts_follower = false;
  run().follower.terminate();
  ASSERT_TRUE(run().run_until([&] { return !run().follower.running(); }));
  run().follower.rewind_on_disk();
  run().restarts_follower = true;
  run().follower.start();
  settle();
  EXPECT_EQ(run().checker.opens(), 8u);
  run().run_for(3 * second);  // that it is done is persisted with the next commit
  run().follower.crash(false);
  settle();
  EXPECT_EQ(run().checker.opens(), 8u) << "the rewind is over, and not done again at the next start";
}

// A clean stop persists and acknowledges what was applied.
TEST_F(Scenario, CleanStop_CursorIsWhereTheMarkIs) {
  open();
  run().run_for(3 * second);
  run().workload.stop();
  streaming();
  run().restarts_follower = false;
  run().follower.terminate();
  ASSERT_TRUE(run().run_until([&] { return !run().follower.running(); }));
  EXPECT_EQ(run().world.probes.count("follower: clean stop"), 1u);
  for (const auto& [key, row] : run().disk.rows()) EXPECT_EQ(row.position.at, run().source.store().state(key.segment).head);
}

}  // namespace
}  // namespace zaris::simulation
