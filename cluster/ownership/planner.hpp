// The partition map as a pure function: the same members, numbers and previous map give the same map on every node. And when
// there is to be another one. Design page cluster, "The map".
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "cluster/ownership/membership.hpp"
#include "cluster/ownership/partition_map.hpp"

namespace zaris::ownership {

struct PlannedNode {
  std::string name;
  std::string host;
};

struct PlanRequest {
  std::vector<PlannedNode> nodes;        // who may hold data: those away but not gone for good are among them; any order
  std::uint32_t segments = 256;
  std::uint32_t partitions = 0;          // 0: one per node at the first map, then as many as there are
  std::uint32_t replication_factor = 1;
  const PartitionMap* previous = nullptr;
  PartitionId identity_seed;             // random, handed in; the ids of partitions that are new come from it
  bool provisional = false;
};

struct Plan {
  PartitionMap map;                      // equal to the previous one, version and all, if nothing changes
  bool changed = false;
  std::vector<std::string> warnings;     // what an operator should know: too few nodes, two copies on one host, one node in two groups
};

// Contiguous runs of balanced length, the first ones take the remainder. Without a previous map: primaries are spread evenly,
// nodes form groups of replication_factor … 2 × replication_factor − 1 that hold each other's partitions and no others, on
// distinct hosts where there are enough. With one: every node that is still there keeps what it has, primary or replica; a
// partition whose primary is gone goes to one of its replicas, and to another node only if its whole group is gone; missing
// replicas are taken from the partition's group first. A run keeps the identity of the one that it has most segments of.
// Asserts: at least one node, names unique, numbers within their limits, at most as many partitions as segments.
[[nodiscard]] Plan plan(const PlanRequest& request);

enum class EvictRf1 : std::uint8_t { never, after };

struct MapChange {
  bool due = false;
  std::vector<std::string> leaving;      // who is to be no part of the next map
  std::string reason;                    // for people
};

// A node that departs never changes the map by itself. What does: an operator's decommissioning, and a partition whose whole group
// is evicted (a group of one only if `evict_rf1` says so). Members that are not in `states` count as alive.
[[nodiscard]] MapChange map_change_due(const PartitionMap& map, const std::vector<std::pair<std::string, MemberState>>& states, EvictRf1 evict_rf1);

}  // namespace zaris::ownership
