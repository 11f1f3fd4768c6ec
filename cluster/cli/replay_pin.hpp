// What a replay leaves at its source: a pin, which holds the log for a follower that will not come back.
#pragma once
#include <string>
#include <vector>

#include "cluster/cli/context.hpp"

namespace zaris::cli {

struct ReplayPin {
  std::string link;
  ClusterId source, target;
};

// Client addresses under which a source may answer that is known by its feed only: the ports of the documentation on the feed's host.
[[nodiscard]] std::vector<std::string> client_urls_of_feed(const std::string& feed, const std::string& ca, const std::string& cert, const std::string& key);

// Tries the addresses in turn and touches no other cluster than the source. An error: why the last one did not do.
[[nodiscard]] Result<void> drop_replay_pin(const Context& context, const std::vector<std::string>& urls, const ReplayPin& pin);

}  // namespace zaris::cli
