// The table of owners is pushed when it has changed (design page cluster, "Client"): one frame of a few hundred bytes to each client,
// nothing at all while nothing changes.
#include "cluster/node/worker.hpp"

namespace zaris::node {

void Worker::push_map() {
  maps_told_ = node_.region->maps();
  const auto map = node_.region->map();
  if (!map) return;
  std::string frame;
  encode(frame, 0, *map);
  // Who is sent something may be found gone, and leaves the list.
  std::vector<std::uint64_t> numbers;
  for (const auto& connection : connections_) {
    if (connection->fd >= 0 && !connection->handshaking && !connection->closing && connection->session.follows_map()) numbers.push_back(connection->number);
  }
  for (const std::uint64_t number : numbers) {
    const auto found = by_number_.find(number);
    if (found == by_number_.end()) continue;
    Connection& connection = *found->second;
    // A client that reads nothing is not sent one table after the other: it asks when it comes back.
    if (connection.output_waits() && connection.out.size() - connection.out_at > options_.output_max) continue;
    (void)send_behind(connection, frame);
  }
}

}  // namespace zaris::node
