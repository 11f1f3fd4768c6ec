// What the sessions of a gateway come to with the nodes of its region, those that have ended included: for zaris_gateway_*
// (docs/reference/metrics). Written by the feed threads, read by any.
#pragma once
#include <atomic>
#include <cstdint>

namespace zaris::feed {

struct RoutedCounters {
  std::atomic<std::uint64_t> attached{0}, reattached{0}, nodes_lost{0}, broken{0}, go_aways{0};   // as RelayCounters (feed/relay)
};

}  // namespace zaris::feed
