// The follower's admin port, as `zaris link`, `status` and `wait` ask it.
#pragma once
#include <chrono>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cluster/base/result.hpp"

namespace zaris::cli {

// GET or POST of a path below an admin URL; the JSON of a 2xx answer, else the Error that the body names.
[[nodiscard]] Result<nlohmann::ordered_json> ask_admin(const std::string& method, const std::string& admin, const std::string& target,
                                                       std::chrono::milliseconds timeout);
[[nodiscard]] Result<nlohmann::ordered_json> links_of(const std::string& admin, std::chrono::milliseconds timeout);   // an array
[[nodiscard]] Result<nlohmann::ordered_json> link_of(const std::string& admin, const std::string& name, std::chrono::milliseconds timeout);

}  // namespace zaris::cli
