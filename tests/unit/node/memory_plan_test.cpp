#include "cluster/node/memory_plan.hpp"

#include <gtest/gtest.h>

namespace zaris::node {
namespace {

TEST(MemoryPlan, reads_the_cgroups_files) {
  EXPECT_EQ(parse_memory_max("max\n"), 0u);
  EXPECT_EQ(parse_memory_max(""), 0u);
  EXPECT_EQ(parse_memory_max("1073741824\n"), 1073741824u);
  EXPECT_EQ(parse_cpu_max("max 100000\n"), 0);
  EXPECT_EQ(parse_cpu_max("150000 100000\n"), 1.5);
  EXPECT_EQ(parse_cpu_max(""), 0);
  EXPECT_GE(available_cores(), 1u);
  EXPECT_GT(available_memory().bytes, 0u);
}

TEST(MemoryPlan, holds_what_was_configured_and_what_comes_on_top) {
  config::NodeConfig config;
  config.memory.max_bytes = 1u << 30;
  config.log.pin_bytes = 1u << 30;
  config.limits.key = 64u << 10;
  config.limits.value = 4u << 20;
  config.limits.connections = 10'000;
  const MemoryPlan plan = plan_memory(config, 2);
  EXPECT_GT(plan.total(), 2ull << 30);
  EXPECT_LT(plan.total(), (2ull << 30) + (256u << 20));
  EXPECT_EQ(plan.feed, 0u);
  config.listeners.feed.address = "127.0.0.1:7871";
  config.feed.max_sessions = 1000;
  EXPECT_GT(plan_memory(config, 2).feed, 0u);
}

}  // namespace
}  // namespace zaris::node
