// Keys against each other, the machine's files and common sense; runs only when every key is right by itself.
// Completes what one key says for others (`tls` for every listener). Internal to cluster/config.
#pragma once
#include <string>
#include <vector>

#include "cluster/config/load.hpp"

namespace zaris::config {

void check_node(NodeConfig& config, const std::vector<Setting>& settings, std::vector<Mistake>& mistakes, std::vector<std::string>& warnings);
void check_follower(FollowerConfig& config, const std::vector<Setting>& settings, std::vector<Mistake>& mistakes, std::vector<std::string>& warnings);
void check_gateway(GatewayConfig& config, const std::vector<Setting>& settings, std::vector<Mistake>& mistakes, std::vector<std::string>& warnings);

}  // namespace zaris::config
