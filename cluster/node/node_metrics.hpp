// What a node exposes at /metrics. Internal to cluster/node.
#pragma once
#include <atomic>
#include <memory>

#include "cluster/admin/metrics.hpp"
#include "cluster/node/node_state.hpp"
#include "cluster/tls/context.hpp"

namespace zaris::node {

struct ReloadCounts {
  std::atomic<std::uint64_t> ok{0}, refused{0};
  std::atomic<bool> last_ok{true};
  std::atomic<std::uint64_t> last_ok_us{0};
  std::atomic<std::uint64_t> tls_ok{0}, tls_refused{0};
};

void add_node_metrics(admin::Metrics& metrics, NodeShared& node, const ReloadCounts& reloads, std::shared_ptr<tls::Context> client_tls,
                      std::function<std::string()> config_hash);

}  // namespace zaris::node
