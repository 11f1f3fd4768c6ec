// Stories of two regions told by hand, and that a seed is a run.
#include <gmock/gmock.h>

#include "tests/simulation/two_regions/run.hpp"

namespace zaris::two_regions {
namespace {

constexpr MonoMicros second = 1'000'000;

TwoOptions quiet(std::uint64_t seed) {
  TwoOptions options;
  options.seed = seed;
  return options;
}

std::string failure_of(const TwoRegions& run) { return run.world.failure ? run.world.failure->rule + ": " + run.world.failure->story : std::string(); }

// A node that comes back empty is given a copy, and with it the log from where the furthest reader stands: it owns again, and the reader goes on.
TEST(TwoRegions, a_follower_that_was_away_while_a_node_came_back_empty_needs_no_new_copy) {
  TwoOptions options = quiet(3);
  options.source_log_bytes = 16u << 10;  // its beginning is gone by then: a copy, not the log
  TwoRegions run(options);
  ASSERT_TRUE(run.begin()) << failure_of(run);
  ASSERT_TRUE(run.run_until([&] { return run.follower.status().caught_up; })) << failure_of(run);
  run.run_for(8 * second);
  for (const auto& gateway : run.gateways) gateway->kill();
  const std::size_t victim = (*run.source.leader() + 1) % run.source.size();
  run.run_for(2 * second);
  run.source.kill(victim);
  run.run_for(second);
  run.source.start(victim);
  run.run_for(30 * second);
  EXPECT_THAT(run.source.story(), testing::HasSubstr("has handed it over to")) << "its partitions are its own again";
  for (const auto& gateway : run.gateways) gateway->start();
  run.converge();
  EXPECT_EQ(failure_of(run), "");
  EXPECT_THAT(run.bootstraps_again, testing::IsEmpty());
}

TEST(TwoRegions, a_follower_does_not_notice_that_owners_die_on_both_sides) {
  TwoRegions run(quiet(4));
  ASSERT_TRUE(run.begin()) << failure_of(run);
  ASSERT_TRUE(run.run_until([&] { return run.follower.status().caught_up; })) << failure_of(run);
  run.run_for(2 * second);
  for (Region* region : {&run.source, run.target_region.get()}) {
    region->kill((*region->leader() + 1) % region->size());
    run.run_for(6 * second);
    region->heal();
    ASSERT_TRUE(run.run_until([&] { return region->whole(); })) << failure_of(run);
  }
  run.converge();
  EXPECT_EQ(failure_of(run), "");
  EXPECT_THAT(run.bootstraps_again, testing::IsEmpty());
  EXPECT_EQ(run.diverged, 0u);
}

// D1, D2: the consumer is ahead of the new owner. Just what was lost is put right, and nothing is copied anew.
TEST(TwoRegions, what_an_owner_took_along_is_put_right_key_by_key) {
  TwoOptions options = quiet(5);
  options.ship_replicated = false;
  options.async_writers = true;
  TwoRegions run(options);
  ASSERT_TRUE(run.begin()) << failure_of(run);
  ASSERT_TRUE(run.run_until([&] { return run.follower.status().caught_up; })) << failure_of(run);
  run.run_for(2 * second);
  for (int round = 0; round < 3; ++round) {
    const std::size_t victim = (*run.source.leader() + 1) % run.source.size();
    for (std::size_t i = 0; i < run.source.size(); ++i) {
      if (i != victim) run.source.cut(victim, i, true);
    }
    run.run_for(second / 2);  // its clients write on, and the feed goes out
    run.source.kill(victim);
    run.run_for(6 * second);
    run.source.heal();
    ASSERT_TRUE(run.run_until([&] { return run.source.whole(); })) << failure_of(run);
  }
  run.converge();
  EXPECT_EQ(failure_of(run), "");
  EXPECT_GT(run.diverged, 0u) << "nothing was lost that the target held";
  const auto status = run.follower.status();
  EXPECT_GT(status.repairs, 0u);
  EXPECT_GT(status.rolled_back_records, 0u);
  EXPECT_THAT(run.bootstraps_again, testing::IsEmpty());
  EXPECT_EQ(status.target_rollbacks, 0u);
}

TEST(TwoRegions, the_same_seed_is_the_same_run) {
  const auto one = TwoRegions(TwoOptions::drawn(2)).run(), other = TwoRegions(TwoOptions::drawn(2)).run();
  EXPECT_EQ(one.trace_hash, other.trace_hash);
  EXPECT_EQ(one.final_random, other.final_random);
  EXPECT_EQ(one.steps, other.steps);
}

}  // namespace
}  // namespace zaris::two_regions
