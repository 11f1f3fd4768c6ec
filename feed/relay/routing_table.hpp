// Which node owns each segment of a region now, and where its feed is: what a gateway routes by. Plain value, made of a Map.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "cluster/protocol/admin_messages.hpp"
#include "cluster/record/position.hpp"

namespace zaris::feed {

struct RelayNode {
  std::string id, host;
  std::uint16_t port = 0;                    // of its feed; 0: it has none, and what it owns cannot be read
};

struct RoutingTable {
  std::uint64_t version = 0;
  std::uint32_t segments = 0;
  std::vector<RelayNode> nodes;
  std::vector<std::int32_t> owners;          // one per segment: index into nodes; −1: nobody

  // Null: nobody owns it, or nobody can read what its owner serves.
  [[nodiscard]] const RelayNode* owner(SegmentId segment) const {
    if (segment.value() >= owners.size() || owners[segment.value()] < 0) return nullptr;
    const RelayNode& node = nodes[static_cast<std::size_t>(owners[segment.value()])];
    return node.port == 0 ? nullptr : &node;
  }
};

[[nodiscard]] RoutingTable routing_table(const protocol::MapAnswer& map);

}  // namespace zaris::feed
