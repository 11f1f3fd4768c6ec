// The counters of a feed gateway as metrics, for every program that hosts one.
#pragma once
#include <span>

#include "cluster/admin/metrics.hpp"
#include "feed/gateway/counters.hpp"
#include "feed/routed/routed_counters.hpp"

namespace zaris {

void put_feed(admin::MetricSink& sink, const feed::GatewaySnapshot& snapshot);
[[nodiscard]] std::span<const admin::MetricFamily> feed_families();

// What zaris-gateway routes by.
struct TableMetrics {
  std::uint64_t version = 0;
  double age_seconds = 0;
  std::uint64_t failures = 0;
  std::uint32_t unowned = 0;
};
void put_table(admin::MetricSink& sink, const TableMetrics& table, const feed::RoutedCounters& counters);
[[nodiscard]] std::span<const admin::MetricFamily> table_families();

}  // namespace zaris
