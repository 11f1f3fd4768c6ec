// One well-filled message of every type, for round trips and as what mutations begin from.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "feed/message/message.hpp"

namespace zaris::feed {

[[nodiscard]] std::vector<std::pair<std::string, FollowerMessage>> follower_examples();
// Views point into statics.
[[nodiscard]] std::vector<std::pair<std::string, GatewayMessage>> gateway_examples();

}  // namespace zaris::feed
