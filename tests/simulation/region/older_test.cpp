// etcd is restored from a copy that is older than what the region has done since. Owners that live serve on, nobody takes the old rows for the truth, and
// never do two serve.
#include <gtest/gtest.h>

#include "tests/simulation/region/region_world.hpp"

namespace zaris::region_simulation {
namespace {

constexpr MonoMicros second = 1'000'000;

struct Restored : World {
  explicit Restored(WorldOptions options = {}) : World(options) {
    EXPECT_TRUE(run_until([&] { return healthy(); }, 60 * second)) << story();
    write(true);
    run_for(2 * second);
  }
  void put_etcd(const etcd::MemoryRows& rows) {
    etcd_down(true);
    run_for(300'000);
    restore_etcd(rows);
    etcd_down(false);
  }
  void restart(std::size_t node) {
    kill(node);
    run_for(5 * second);
    start(node);
  }
  // A copy of etcd, then leases that are newer than it, and two nodes that are restarted.
  etcd::MemoryRows copy_and_restarts() {
    const auto copy = etcd_copy();
    etcd_down(true);
    run_for(8 * second);
    etcd_down(false);
    EXPECT_TRUE(run_until([&] { return whole(); }, 60 * second)) << story();
    for (const std::size_t node : {0, 1}) {
      restart(node);
      EXPECT_TRUE(run_until([&] { return whole(); }, 60 * second)) << story();
    }
    return copy;
  }
  MonoMicros unserved(MonoMicros time) {
    MonoMicros out = 0;
    for (const MonoMicros end = now() + time; now() < end;) {
      step();
      if (!all_served()) out += step_us;
    }
    return out;
  }
  std::uint64_t acknowledged_in(MonoMicros time) {
    const auto before = figures().acknowledged;
    run_for(time);
    return figures().acknowledged - before;
  }
  void expect_sound() {
    EXPECT_LE(figures().most_serving, 1u) << story();
    write(false);
    run_for(2 * second);
    heal();
    ASSERT_TRUE(run_until([&] { return healthy(); }, 120 * second)) << story();
    run_for(2 * second);
    EXPECT_EQ(check(), "") << story();
    EXPECT_LE(figures().most_serving, 1u) << story();
  }
};

TEST(OlderEtcd, owners_that_live_serve_on) {
  Restored world;
  const auto older = world.copy_and_restarts();
  const auto right = world.etcd_copy();
  world.put_etcd(older);
  world.run_for(15 * second);
  EXPECT_EQ(world.unserved(30 * second), 0) << world.story();
  EXPECT_GT(world.acknowledged_in(10 * second), 1000u) << world.story();
  world.put_etcd(right);
  world.expect_sound();
}

// The right one comes back to one node alone, which promotes itself: whoever had counted a smaller set by the old copy would serve on beside it.
void right_etcd_for_one_node_alone(Restored& world, const etcd::MemoryRows& right) {
  world.etcd_down(true);
  world.run_for(300'000);
  world.restore_etcd(right);
  world.cut_etcd(0, false);
  world.cut(0, 1, true);
  world.run_for(25 * second);
  world.expect_sound();
}

TEST(OlderEtcd, a_set_that_it_has_is_not_counted) {
  Restored world;
  world.kill(0);
  const auto two_left = [&] { return world.story().find("n3 synchronised_set: partition of segments 6 to 7: synchronised: n2") != std::string::npos; };
  ASSERT_TRUE(world.run_until(two_left, 40 * second)) << world.story();
  world.run_for(6 * second);
  const auto older = world.etcd_copy();
  world.start(0);
  ASSERT_TRUE(world.run_until([&] { return world.whole(); }, 60 * second)) << world.story();
  const auto right = world.etcd_copy();
  world.put_etcd(older);
  world.cut(0, 2, true);
  world.run_for(12 * second);
  right_etcd_for_one_node_alone(world, right);
}

TEST(OlderEtcd, a_set_that_is_written_to_it_is_not_counted) {
  Restored world;
  ASSERT_TRUE(world.run_until([&] { return world.whole(); }, 60 * second)) << world.story();
  world.run_for(6 * second);
  const auto older = world.etcd_copy();
  for (int i = 0; i < 10; ++i) {  // nothing of the region's own: its revisions alone go on
    world.accept(world.core(2).mirror().map()->value.partitions[0].id);
    (void)world.take_back_accepted();
  }
  world.run_for(3 * second);
  const auto right = world.etcd_copy();
  world.put_etcd(older);
  world.run_for(second);
  world.cut(0, 2, true);
  world.run_for(12 * second);
  right_etcd_for_one_node_alone(world, right);
}

// The page forbids it; it happens all the same.
TEST(OlderEtcd, a_node_that_is_restarted_on_it_takes_nothing_from_the_others) {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    WorldOptions options;
    options.seed = seed;
    Restored world(options);
    const auto older = world.copy_and_restarts();
    const auto right = world.etcd_copy();
    world.put_etcd(older);
    world.run_for(15 * second);
    world.restart(seed % 3);
    world.run_for(60 * second);
    EXPECT_EQ(world.story().find("fenced by"), std::string::npos) << world.story();
    world.put_etcd(right);
    world.expect_sound();
  }
}

// Every link is cut for longer than a member is waited for, and nobody can write the smaller sets down.
void acknowledges_after_a_cut(bool older) {
  Restored world;
  const auto copy = world.copy_and_restarts();
  const auto right = world.etcd_copy();
  if (older) world.put_etcd(copy);
  else world.etcd_down(true);
  world.run_for(5 * second);
  for (std::size_t i = 0; i < 3; ++i) world.cut(i, (i + 1) % 3, true);
  world.run_for(9 * second);
  for (std::size_t i = 0; i < 3; ++i) world.cut(i, (i + 1) % 3, false);
  world.run_for(5 * second);
  EXPECT_GT(world.acknowledged_in(20 * second), 1000u) << world.story();
  world.put_etcd(right);
  world.expect_sound();
}
TEST(OlderEtcd, writes_are_acknowledged_after_all_links_were_cut) { acknowledges_after_a_cut(true); }
TEST(OlderEtcd, without_etcd_writes_are_acknowledged_after_all_links_were_cut) { acknowledges_after_a_cut(false); }

}  // namespace
}  // namespace zaris::region_simulation
