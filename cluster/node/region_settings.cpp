#include "cluster/node/region_settings.hpp"

#include <fmt/format.h>

namespace zaris::node {

std::string_view policy_name(config::AckPolicy policy) {
  switch (policy) {
    case config::AckPolicy::async: return "async";
    case config::AckPolicy::replica: return "replica";
    case config::AckPolicy::majority: return "majority";
    case config::AckPolicy::all: break;
  }
  return "all";
}

std::map<std::string, std::string> region_settings(const config::NodeConfig& config) {
  const auto time = [](std::uint64_t us) { return us % 1'000'000 == 0 ? fmt::format("{}s", us / 1'000'000) : fmt::format("{}ms", us / 1000); };
  return {{"partitions", std::to_string(config.partitions)},
          {"replication.ack", std::string(policy_name(config.replication.ack))},
          {"replication.ack_max", std::string(policy_name(config.replication.ack_max))},
          {"failover.lease", time(config.failover.lease_us)},
          {"failover.grant", time(config.failover.grant_us)},
          {"failover.mode", config.failover.mode == config::FailoverMode::available ? "available" : "consistent"},
          {"failover.evict_rf1", config.failover.evict_rf1 == config::EvictRf1::never ? "never" : "after"},
          {"limits.key", std::to_string(config.limits.key)},
          {"limits.value", std::to_string(config.limits.value)},
          {"memory.eviction", config.memory.evict ? "lru" : "off"},
          {"feed.ship", config.feed.ship == config::FeedShip::replicated ? "replicated" : "committed"}};
}

}  // namespace zaris::node
