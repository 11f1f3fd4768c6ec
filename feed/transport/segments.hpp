// GET /v1/segments: what the gateway serves, by a path that does not depend on any stream (the watchdog's).
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/base/result.hpp"
#include "cluster/record/position.hpp"

namespace zaris::feed {

struct SegmentRow {
  SegmentId segment;
  Position head;
  Revision floor;
};
struct SegmentsPage {
  ClusterId cluster;
  std::uint32_t segments_total = 0;
  WallMicros closed_time_us = 0;
  std::vector<SegmentRow> rows;
  // Of a gateway that speaks for all nodes of a region: segments that nobody serves now. A node does not know, and says nothing.
  std::vector<SegmentId> unavailable;
};
// docs/formats/feed.md, "GET /v1/segments". Error: feed_segments_malformed.
[[nodiscard]] Result<SegmentsPage> parse_segments(std::string_view json);
[[nodiscard]] std::string format_segments(const SegmentsPage& page);

}  // namespace zaris::feed
