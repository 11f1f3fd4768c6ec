#include "cluster/client/routing.hpp"

namespace zaris::client {

Routing::Routing(protocol::MapAnswer map) : map_(std::move(map)), owner_of_segment_(map_.segments, -1) {
  for (const auto& run : map_.runs)
    for (std::uint32_t segment = run.first.value(); segment <= run.last.value() && segment < map_.segments; ++segment)
      owner_of_segment_[segment] = static_cast<std::int32_t>(run.node);
}

std::optional<std::uint32_t> Routing::owner(Slot slot) const {
  if (map_.segments == 0) return std::nullopt;
  return owner(segment_of(slot, map_.segments));
}

std::optional<std::uint32_t> Routing::owner(SegmentId segment) const {
  if (segment.value() >= owner_of_segment_.size() || owner_of_segment_[segment.value()] < 0) return std::nullopt;
  return static_cast<std::uint32_t>(owner_of_segment_[segment.value()]);
}

std::optional<SegmentId> Routing::unowned() const {
  for (std::uint32_t i = 0; i < owner_of_segment_.size(); ++i)
    if (owner_of_segment_[i] < 0) return SegmentId{static_cast<std::uint16_t>(i)};
  return std::nullopt;
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
