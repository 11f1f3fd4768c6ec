#include "cluster/client/routing.hpp"

namespace zaris::client {

Routing::Routing(protocol::MapAnswer map) : map_(std::move(map)), owner_of_segment_(map_.segments, -1) {
  for (const auto& run : map_.runs)
    for (std::uint32_t segment = run.first.value(); segment <= run.last.value(); ++segment)
      owner_of_segment_[segment] = static_cast<std::int32_t>(run.node);
}

std::optional<std::uint32_t> Routing::owner(Slot slot) const {
  if (map_.segments == 0) return std::nullopt;
  const std::int32_t node = owner_of_segment_[segment_of(slot, map_.segments).value()];
  if (node < 0) return std::nullopt;
  return static_cast<std::uint32_t>(node);
}

std::size_t Routing::run_at(Slot slot) const {
  const SegmentId segment = segment_of(slot, map_.segments);
  std::size_t run = 0;
  while (run < map_.runs.size() && map_.runs[run].last < segment) ++run;
  return run;
}

Slot Routing::first_slot(std::size_t run) const { return zaris::first_slot(map_.runs[run].first, map_.segments); }
Slot Routing::last_slot(std::size_t run) const {
  return Slot{static_cast<std::uint16_t>(zaris::first_slot(map_.runs[run].last, map_.segments).value() + slots_per_segment(map_.segments) - 1)};
}

}  // namespace zaris::client
