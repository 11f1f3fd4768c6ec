// What a node tells the others of its configuration, because all nodes of a region should have it alike (cluster/region/settings_watch.hpp).
#pragma once
#include <map>
#include <string>
#include <string_view>

#include "cluster/config/node_config.hpp"

namespace zaris::node {

// Key of the configuration → value as it is written there.
[[nodiscard]] std::map<std::string, std::string> region_settings(const config::NodeConfig& config);
[[nodiscard]] std::string_view policy_name(config::AckPolicy policy);

}  // namespace zaris::node
