// Asks every node of a region for its status and for its view of the region.
#pragma once
#include <vector>

#include "cluster/cli/context.hpp"
#include "cluster/cli/region_view.hpp"

namespace zaris::cli {

struct RegionWords {
  bool several = false;                     // false: one process is the region, and the view is made from its status
  std::vector<NodeWord> words;              // one per node of the map, in its order
};

// For the verbs about nodes: a node that is gone must not cost much, so without --timeout a question takes 3 s at most.
[[nodiscard]] Result<std::unique_ptr<client::Client>> connect_to_nodes(const Context& context, std::size_t index = 0);

// All at once. Where the nodes' views differ, as they do for a moment after each change, they are asked again a few times.
[[nodiscard]] RegionWords ask_nodes(client::Client& client);

}  // namespace zaris::cli
