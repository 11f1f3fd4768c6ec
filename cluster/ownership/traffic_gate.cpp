#include "cluster/ownership/traffic_gate.hpp"

#include <fmt/format.h>

namespace zaris::ownership {

std::string missing_for_traffic(const TrafficView& view) {
  if (view.map == nullptr) return "no partition map has been read";
  if (view.map->provisional) return "the partition map is provisional";
  if (view.table == nullptr || !view.table->complete()) return "the segment table has gaps";
  if (view.table->map_version() != view.map->version) {
    return fmt::format("the segment table is of map version {}, the map of {}", view.table->map_version(), view.map->version);
  }
  if (view.ownership == nullptr) return "no ownership document has been read";
  if (view.ownership->map_version != view.map->version) {
    return fmt::format("the ownership document is of map version {}, the map of {}", view.ownership->map_version, view.map->version);
  }
  if (!view.ownership->covers(*view.map)) return "the ownership document says nothing of a partition";
  return {};
}

TrafficVerdict TrafficGate::evaluate(const TrafficView& view, BootMicros now) {
  std::string missing = missing_for_traffic(view);
  if (missing.empty()) {
    open_ = true;
    return {true, false, fmt::format("map and ownership of version {} are complete", view.map->version)};
  }
  if (open_) return {true, false, std::move(missing)};
  if (now < opens_at_latest_) return {false, false, std::move(missing)};
  open_ = true;
  return {true, true, fmt::format("opened although {}", missing)};
}

}  // namespace zaris::ownership
