// A node's view of its region (region_member.hpp) as others are told it: an answer to an operator's tool, JSON at /v1/status, metrics, a
// line at /readyz. Internal to cluster/node.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "cluster/admin/metrics.hpp"
#include "cluster/config/node_config.hpp"
#include "cluster/node/region_member.hpp"
#include "cluster/protocol/operator_messages.hpp"

namespace zaris::node {

[[nodiscard]] protocol::RegionStatusAnswer to_answer(const RegionStatus& status, const config::NodeConfig& config);
// Part `region_map` of /v1/status.
[[nodiscard]] nlohmann::ordered_json to_json(const RegionStatus& status, const config::NodeConfig& config);
// Of a partition whose owner does not live as far as this node can tell, where the newest ownership says that all is well.
inline constexpr std::string_view not_heard = "not_heard";
// What a node that does not serve yet waits for.
[[nodiscard]] std::string waiting_for(const RegionStatus& status);
// Why a node that knows its region is not ready all the same: what it owns and does not serve yet. Empty: nothing.
[[nodiscard]] std::string unserved_here(const RegionStatus& status);
// What is said beside the readiness of a node, which it can do nothing about: partitions that nobody serves, and why. Empty: none.
[[nodiscard]] std::string without_owner_text(const RegionStatus& status);

// The families of node.hpp's region_families(). A node that alone is its region exposes none of them.
void put_region_metrics(admin::MetricSink& sink, const RegionStatus& status);

}  // namespace zaris::node
