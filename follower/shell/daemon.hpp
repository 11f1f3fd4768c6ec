// The follower as a process: configuration in, links running, health, metrics and an operator's verbs on the admin
// listener, until a signal.
#pragma once
#include <string>

#include "cluster/config/load.hpp"

namespace zaris::follower {

struct BuildInfo {
  std::string version, revision;
};

// The configuration, its addresses taken apart as the links will do it: what is right here is not refused at the start.
[[nodiscard]] config::Loaded<config::FollowerConfig> load_follower(const config::Sources& sources);

// Runs until SIGTERM or SIGINT (a second one hurries). Returns the exit status: 0 clean stop, 3 configuration, cursor store
// or certificates.
[[nodiscard]] int run_follower(config::Loaded<config::FollowerConfig> loaded, const config::Sources& sources, const BuildInfo& build);

}  // namespace zaris::follower
