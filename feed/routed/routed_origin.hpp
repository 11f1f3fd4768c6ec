// A gateway's streams out of the nodes of a region: each follower's session is a Relay, with a connection of its own to every node that
// owns anything. Design page protocol, "Between gateway and nodes".
#pragma once
#include <memory>

#include "feed/gateway/origin.hpp"
#include "feed/relay/relay.hpp"
#include "feed/routed/region_watch.hpp"
#include "feed/routed/routed_counters.hpp"

namespace zaris::feed {

struct RoutedOptions {
  RelayOptions relay;
  std::shared_ptr<const tls::Context> feed_tls;          // as RegionWatchOptions
  std::uint64_t message_bytes_max = 4u << 20;            // of one message from a follower
  std::shared_ptr<RoutedCounters> counters;              // null: nobody looks
};

// `watch` outlives it. Whoever hosts the gateway calls Gateway::authority_changed when the watch has a newer table.
[[nodiscard]] std::unique_ptr<Origin> routed_origin(RegionWatch& watch, RoutedOptions options);

}  // namespace zaris::feed
