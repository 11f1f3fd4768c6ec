#include "feed/relay/routing_table.hpp"

namespace zaris::feed {

RoutingTable routing_table(const protocol::MapAnswer& map) {
  RoutingTable out;
  out.version = map.version;
  out.segments = map.segments;
  for (const protocol::MapNode& node : map.nodes) out.nodes.push_back({node.id, node.host, node.feed_port});
  out.owners.assign(map.segments, -1);
  for (const protocol::MapRun& run : map.runs) {
    for (std::uint32_t s = run.first.value(); s <= run.last.value(); ++s) out.owners[s] = static_cast<std::int32_t>(run.node);
  }
  return out;
}

}  // namespace zaris::feed
