// A link's status as the admin listener and `zaris link show -o json` give it: docs/reference/link-status.md.
#pragma once
#include <string>
#include <vector>

#include "follower/link/link.hpp"

namespace zaris::follower {

[[nodiscard]] std::string status_json(const LinkStatus& status);
[[nodiscard]] std::string status_list_json(const std::vector<LinkStatus>& links);

}  // namespace zaris::follower
