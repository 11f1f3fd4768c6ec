// What a node exposes at /metrics. Internal to cluster/node.
#pragma once
#include <atomic>
#include <memory>

#include "cluster/admin/metrics.hpp"
#include "cluster/node/node_state.hpp"

namespace zaris::node {

struct ReloadCounts {
  std::atomic<std::uint64_t> ok{0}, refused{0};
  std::atomic<bool> last_ok{true};
  std::atomic<std::uint64_t> last_ok_us{0};
};

void add_node_metrics(admin::Metrics& metrics, NodeShared& node, const ReloadCounts& reloads, std::function<std::string()> config_hash);

}  // namespace zaris::node
