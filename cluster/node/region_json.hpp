// What this node knows of its region, as /v1/status shows it (part `region_map`).
#pragma once
#include <nlohmann/json_fwd.hpp>

#include "cluster/node/region_member.hpp"

namespace zaris::node {

[[nodiscard]] nlohmann::json region_json(const RegionStatus& status);

}  // namespace zaris::node
