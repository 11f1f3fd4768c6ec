// Mixtures of everything, by seed: faults, operators' words, and what a region is trusted to be when it says that it is healthy.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/simulation/region/region_world.hpp"

namespace zaris::region_simulation {
namespace {

constexpr MonoMicros second = 1'000'000;

class Chaos : public World {
 public:
  explicit Chaos(const WorldOptions& options) : World(options), state_(options.seed) {
    EXPECT_TRUE(run_until([&] { return healthy(); }, 60 * second)) << story();
    write(true);
    run_for(2 * second);
  }
  std::uint64_t random(std::uint64_t below) {
    state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
    return (state_ >> 33) % below;
  }
  void hurt() {
    const std::size_t victim = random(size()), other = (victim + 1) % size();
    switch (random(9)) {
      case 0: kill(victim); break;
      case 1: pause(victim, true); break;
      case 2: isolate(victim, true); break;
      case 3: cut(victim, other, true); break;
      case 4: cut_etcd(victim, true); break;
      case 5: etcd_down(true); break;
      case 6: if (alive(victim)) drain(victim); break;
      case 7: compact_etcd(); break;
      case 8: kill(victim); run_for(second / 2); start(victim); break;
    }
  }
  // Nothing is written any more: empty if acknowledged writes are there (`lossless`) and all copies are equal.
  std::string settled(bool lossless) {
    write(false);
    run_for(2 * second);
    const auto wrong = [&] {
      const std::string all = check();
      return lossless || all.find("is not what it is at") != std::string::npos ? all : std::string();
    };
    (void)run_until([&] { return wrong().empty(); }, 10 * second);  // something may just be given back
    return wrong();
  }

 private:
  std::uint64_t state_;
};

// One fault at a time is what a region survives: between two of them it is waited for until it says that it is healthy, and no longer.
void one_after_the_other(std::uint64_t seed, WorldOptions options) {
  options.seed = seed;
  Chaos world(options);
  for (int round = 0; round < 8; ++round) {
    world.hurt();
    world.run_for(static_cast<MonoMicros>(world.random(12'000)) * 1000);
    if (world.random(3) != 0) world.heal();
    if (!world.healthy()) {
      world.heal();
      ASSERT_TRUE(world.run_until([&] { return world.healthy(); }, 120 * second)) << world.story();
    }
    ASSERT_LE(world.figures().most_serving, 1u) << world.story();
  }
  world.heal();
  ASSERT_TRUE(world.run_until([&] { return world.healthy(); }, 120 * second)) << world.story();
  EXPECT_EQ(world.settled(true), "") << world.story();
  EXPECT_LE(world.figures().most_serving, 1u) << world.story();
}

// Several at once, and an operator who accepts, takes back and accepts again while nodes sleep, die and come back: whatever is lost, in the end everything
// is served, by one, and in equal copies.
void with_an_operator(std::uint64_t seed, WorldOptions options) {
  options.seed = seed;
  Chaos world(options);
  for (int round = 0; round < 6; ++round) {
    for (std::uint64_t i = 0, faults = 1 + world.random(4); i < faults; ++i) {
      world.hurt();
      world.run_for(static_cast<MonoMicros>(world.random(3'000)) * 1000);
      if (world.random(3) == 0) world.accept_empty();
      if (world.random(6) == 0) (void)world.take_back_accepted();
      world.run_for(static_cast<MonoMicros>(world.random(3'000)) * 1000);
      if (world.random(3) == 0) world.heal();
    }
    world.heal();
    for (int words = 0; words < 12 && !world.run_until([&] { return world.healthy(); }, 20 * second); ++words) world.accept_empty();
    ASSERT_TRUE(world.healthy()) << "seed " << seed << ", round " << round << '\n' << world.story();
    ASSERT_LE(world.figures().most_serving, 1u) << world.story();
  }
  EXPECT_EQ(world.settled(false), "") << world.story();
}

// ZARIS_SEEDS_FROM=N runs N and those behind it instead of the first ones, as many of them.
void seeds(std::uint64_t first, std::uint64_t last, void (*run)(std::uint64_t, WorldOptions), const WorldOptions& options) {
  if (const char* from = std::getenv("ZARIS_SEEDS_FROM")) {
    last += std::strtoull(from, nullptr, 10);
    first += std::strtoull(from, nullptr, 10);
  }
  for (std::uint64_t seed = first; seed <= last; ++seed) {
    run(seed, options);
    if (testing::Test::HasFailure()) return;
  }
}

constexpr std::uint64_t small_log = 16u << 10;

TEST(Chaos, three_nodes) { seeds(1, 20, one_after_the_other, {}); }
TEST(Chaos, five_nodes_and_majorities) {
  seeds(101, 110, one_after_the_other, {.nodes = 5, .replication_factor = 3, .segments = 16, .policy = Durability::majority});
}
TEST(Chaos, logs_that_never_reach_back) {
  seeds(201, 210, one_after_the_other, {.keys = 2'000, .writes_per_step = 40, .log_budget_bytes = small_log, .log_pin_bytes = small_log, .window_bytes = small_log});
}
TEST(Chaos, an_operator_and_three_nodes) { seeds(301, 315, with_an_operator, {}); }
TEST(Chaos, an_operator_and_logs_that_never_reach_back) {
  seeds(401, 410, with_an_operator, {.keys = 2'000, .writes_per_step = 40, .log_budget_bytes = small_log, .log_pin_bytes = small_log, .window_bytes = small_log});
}
TEST(Chaos, an_operator_and_two_copies_on_four_nodes) { seeds(501, 510, with_an_operator, {.nodes = 4, .replication_factor = 2}); }

// The leader asked for a generation, the answer was none, and it never asked again: a partition without an owner until another node led.
TEST(Chaos, a_generation_that_was_not_written_is_asked_for_again) { with_an_operator(2313, {}); }

}  // namespace
}  // namespace zaris::region_simulation
