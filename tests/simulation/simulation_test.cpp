// The simulator itself: the same seed is the same run, and its parts do what the rest relies on.
#include "tests/simulation/simulation.hpp"

#include <gtest/gtest.h>

#include "tests/simulation/cursor_disk.hpp"
#include "tests/simulation/keys.hpp"
#include "tests/simulation/pipe.hpp"

namespace zaris::simulation {
namespace {

TEST(Simulation, SameSeedSameRun) {
  for (const std::uint64_t seed : {1u, 7u, 42u, 99u, 1234u}) {
    const auto options = SimOptions::swarm(seed);
    const RunResult first = run_simulation(options), second = run_simulation(options);
    EXPECT_EQ(first.trace_hash, second.trace_hash) << options.describe();
    EXPECT_EQ(first.final_random, second.final_random) << options.describe();
    EXPECT_EQ(first.steps, second.steps) << options.describe();
  }
}

TEST(Simulation, OtherSeedOtherRun) {
  EXPECT_NE(run_simulation(SimOptions::swarm(1)).trace_hash, run_simulation(SimOptions::swarm(2)).trace_hash);
}

TEST(Prng, IsTheSameOnEveryMachine) {
  Prng prng(1);
  EXPECT_EQ(prng.next(), 0xb3f2af6d0fc710c5ull);
}

TEST(EventQueue, RunsEventsOfOneMomentInTheOrderTheyWereScheduled) {
  EventQueue queue;
  std::string order;
  queue.at(5, [&] { order += 'b'; });
  queue.at(5, [&] { order += 'c'; });
  queue.at(1, [&] { order += 'a'; });
  while (!queue.empty()) queue.step();
  EXPECT_EQ(order, "abc");
  EXPECT_EQ(queue.now(), 5);
}

TEST(Pipe, NeverReordersWithinAConnection) {
  SimOptions options;
  options.jitter_us = 50'000;
  options.spike = 0.3;
  World world(options, false);
  const MonoMicros never_frozen = 0;
  auto pipe = std::make_shared<Pipe>(world, &never_frozen);
  std::vector<int> arrived, sent;
  for (int i = 0; i < 100; ++i) {
    sent.push_back(i);
    pipe->send(10, [&arrived, i] { arrived.push_back(i); });
  }
  while (!world.queue.empty()) world.queue.step();
  EXPECT_EQ(arrived, sent);
  EXPECT_EQ(pipe->bytes_in_flight(), 0u);
}

TEST(Pipe, ACutKeepsAPrefix) {
  World world(SimOptions{}, false);
  const MonoMicros never_frozen = 0;
  auto pipe = std::make_shared<Pipe>(world, &never_frozen);
  std::vector<int> arrived;
  for (int i = 0; i < 5; ++i) pipe->send(10, [&arrived, i] { arrived.push_back(i); });
  pipe->cut(2);
  pipe->send(10, [&arrived] { arrived.push_back(99); });
  while (!world.queue.empty()) world.queue.step();
  EXPECT_EQ(arrived, (std::vector<int>{0, 1}));
}

TEST(CursorDisk, ForgetsWhatWasNotSyncedOrKeepsItWhole) {
  int kept = 0;
  for (std::uint64_t seed = 0; seed < 64; ++seed) {
    Prng prng(seed);
    CursorDisk disk;
    cursor::CursorCommit commit;
    commit.cursors.push_back({cursor::CursorKey{.link = "l", .source_cluster = {}, .target_cluster = {}, .scope = {}, .segment = SegmentId{0}}, {}});
    commit.cursors.push_back({cursor::CursorKey{.link = "l", .source_cluster = {}, .target_cluster = {}, .scope = {}, .segment = SegmentId{1}}, {}});
    disk.begin(commit);
    disk.crash(prng);
    ASSERT_TRUE(disk.rows().empty() || disk.rows().size() == 2);
    kept += disk.rows().size() == 2;
  }
  EXPECT_GT(kept, 0);
  EXPECT_LT(kept, 64);
}

TEST(CursorDisk, AFullDiskRefusesAndKeepsWhatItHas) {
  CursorDisk disk;
  cursor::CursorCommit commit;
  commit.links.push_back({"l", {}});
  ASSERT_TRUE(disk.commit(commit));
  disk.set_full(true);
  EXPECT_EQ(disk.commit(commit).error().code, "cursor_disk_full");
  EXPECT_EQ(disk.links()->size(), 1u);
}

TEST(Options, SomeFaultsAreOffAndSomeOnOverTheSeeds) {
  int on = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) on += SimOptions::swarm(seed).target_reset_every > 0;
  EXPECT_GT(on, 20);
  EXPECT_LT(on, 180);
}

TEST(Keys, ScopeSplitsTheKeys) {
  SimOptions options;
  options.keys = 60;
  options.scope = ScopeKind::one_prefix;
  options.source_segments = options.target_segments = 4;
  Prng prng(3);
  const Keys keys(options, prng);
  std::size_t in = 0;
  for (const Key& key : keys.all()) {
    in += key.in_scope;
    EXPECT_EQ(key.in_scope, key.bytes.starts_with("t1:"));
  }
  EXPECT_GT(in, 0u);
  EXPECT_LT(in, keys.size());
}

}  // namespace
}  // namespace zaris::simulation
