// The planner by example; what holds for any roster is in tests/property/ownership.
#include "cluster/ownership/planner.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace zaris::ownership {
namespace {

std::vector<PlannedNode> nodes(std::initializer_list<const char*> names) {
  std::vector<PlannedNode> out;
  for (const char* n : names) out.push_back({n, std::string("host-") + n});
  return out;
}
std::vector<std::string> shown(const PartitionMap& map) {
  std::vector<std::string> out;
  for (const Partition& p : map.partitions) {
    std::string line = std::to_string(p.first.value()) + "+" + std::to_string(p.segments);
    for (const std::string& m : p.members()) line += " " + m;
    out.push_back(line);
  }
  return out;
}

TEST(Planner, TheFirstPartitionsTakeTheRemainder) {
  const Plan made = plan({.nodes = nodes({"c", "a", "b"}), .segments = 16});
  EXPECT_THAT(shown(made.map), testing::ElementsAre("0+6 a", "6+5 b", "11+5 c"));
  EXPECT_EQ(made.map.version, 1u);
  EXPECT_EQ(made.map.topology_version, 1u);
  EXPECT_THAT(made.warnings, testing::ElementsAre(testing::HasSubstr("replication factor is 1")));
}

TEST(Planner, GroupsDoNotOverlap) {
  EXPECT_THAT(shown(plan({.nodes = nodes({"a", "b", "c", "d"}), .segments = 16, .replication_factor = 2}).map),
              testing::ElementsAre("0+4 a c", "4+4 b d", "8+4 c a", "12+4 d b"));
  EXPECT_THAT(shown(plan({.nodes = nodes({"a", "b", "c", "d"}), .segments = 16, .partitions = 2, .replication_factor = 2}).map),
              testing::ElementsAre("0+8 a c", "8+8 b d"));
}

TEST(Planner, CopiesOfOneHostAreKeptApart) {
  const std::vector<PlannedNode> four{{"a", "h1"}, {"b", "h1"}, {"c", "h2"}, {"d", "h2"}};
  const Plan apart = plan({.nodes = four, .segments = 16, .replication_factor = 2});
  EXPECT_THAT(apart.warnings, testing::IsEmpty());
  const Plan together = plan({.nodes = {{"a", "h1"}, {"b", "h1"}}, .segments = 16, .replication_factor = 2});
  EXPECT_THAT(together.warnings, testing::Each(testing::HasSubstr("host h1 holds two copies")));
  EXPECT_THAT(plan({.nodes = nodes({"a"}), .segments = 16, .replication_factor = 2}).warnings, testing::ElementsAre(testing::HasSubstr("too few")));
}

TEST(Planner, AProvisionalMapIsReplacedAndItsOwnerStays) {
  const Plan alone = plan({.nodes = nodes({"b"}), .segments = 16, .provisional = true});
  EXPECT_TRUE(alone.map.provisional);
  const Plan real = plan({.nodes = nodes({"a", "b"}), .segments = 16, .replication_factor = 2, .previous = &alone.map});
  EXPECT_FALSE(real.map.provisional);
  EXPECT_TRUE(accept_map(&alone.map, real.map).accepted);
  EXPECT_THAT(shown(real.map), testing::ElementsAre("0+8 b a", "8+8 a b"));
  EXPECT_EQ(real.map.partitions[0].id, alone.map.partitions[0].id);
}

TEST(Planner, AReplicaFollowsAPrimaryThatLeftAndTheVersionsSaySo) {
  const Plan before = plan({.nodes = nodes({"a", "b", "c", "d"}), .segments = 16, .replication_factor = 2});
  const Plan after = plan({.nodes = nodes({"b", "c", "d"}), .segments = 16, .replication_factor = 2, .previous = &before.map});
  EXPECT_THAT(shown(after.map), testing::ElementsAre("0+4 c b", "4+4 b d", "8+4 c d", "12+4 d b"));
  EXPECT_EQ(after.map.version, 2u);
  EXPECT_EQ(after.map.topology_version, 2u);
  EXPECT_THAT(after.warnings, testing::Contains(testing::HasSubstr("serves two groups")));
}

TEST(Planner, ANodeThatIsAddedCompletesAGroupBeforeAnythingMoves) {
  const Plan before = plan({.nodes = nodes({"a"}), .segments = 16, .replication_factor = 2});
  const Plan after = plan({.nodes = nodes({"a", "b"}), .segments = 16, .replication_factor = 2, .previous = &before.map});
  EXPECT_THAT(shown(after.map), testing::ElementsAre("0+16 a b"));
  const Plan third = plan({.nodes = nodes({"a", "b", "c"}), .segments = 16, .replication_factor = 2, .previous = &after.map});
  EXPECT_FALSE(third.changed);
  EXPECT_EQ(third.map.version, after.map.version);
}

TEST(MapChange, OnlyADecommissionedNodeOrAGroupThatIsGone) {
  using S = MemberState;
  const PartitionMap two = plan({.nodes = nodes({"a", "b"}), .segments = 16, .replication_factor = 2}).map, one = plan({.nodes = nodes({"a", "b"}), .segments = 16}).map;
  const struct { const PartitionMap& map; S a, b; bool never, after; std::size_t leaving; } rows[] = {
      {two, S::alive, S::alive, false, false, 0},   {two, S::lost, S::lost, false, false, 0},     {two, S::evicted, S::lost, false, false, 0},
      {two, S::evicted, S::evicted, true, true, 2}, {two, S::decommissioned, S::alive, true, true, 1}, {one, S::evicted, S::alive, false, true, 1},
      {one, S::decommissioned, S::lost, true, true, 1},
  };
  for (const auto& row : rows) {
    const std::vector<std::pair<std::string, S>> states{{"a", row.a}, {"b", row.b}};
    EXPECT_EQ(map_change_due(row.map, states, EvictRf1::never).due, row.never);
    const MapChange change = map_change_due(row.map, states, EvictRf1::after);
    EXPECT_EQ(change.due, row.after);
    EXPECT_EQ(change.leaving.size(), row.leaving);
    EXPECT_FALSE(change.reason.empty());
  }
}

}  // namespace
}  // namespace zaris::ownership
