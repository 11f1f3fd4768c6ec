// The zaris_link_* and zaris_cursor_* series of a follower.
#pragma once
#include <span>
#include <vector>

#include "cluster/admin/metrics.hpp"
#include "follower/link/link.hpp"

namespace zaris::follower {

// What the cursor store and its commits say of themselves.
struct CursorMetrics {
  std::uint64_t map_bytes = 0, used_bytes = 0;
  std::vector<std::pair<std::string, std::uint64_t>> errors;   // by code
  bool set_aside = false;                                      // at this start
};

void put_link(admin::MetricSink& sink, const LinkStatus& status);
void put_cursors(admin::MetricSink& sink, const CursorMetrics& cursors, const admin::Histogram& commit_seconds);
[[nodiscard]] std::span<const admin::MetricFamily> follower_families();

}  // namespace zaris::follower
