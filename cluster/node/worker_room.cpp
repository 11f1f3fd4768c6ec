// Room for frames that are only partly here: bounded over all connections of the node, waited for in turn.
#include <algorithm>

#include "cluster/node/worker.hpp"

namespace zaris::node {

bool Worker::may_hold(const Connection& connection, std::size_t capacity) const {
  return node_.client_buffers() - connection.accounted + capacity <= node_.client_buffers_max;
}

bool Worker::tight() const { return static_cast<std::uint64_t>(node_.input_bytes.load(std::memory_order_relaxed)) > node_.client_buffers_max / 2; }

void Worker::account(Connection& connection) {
  const std::size_t now = connection.in.capacity() - std::min(connection.in.capacity(), long_frame_bytes);
  if (now == connection.accounted) return;
  node_.input_bytes.fetch_add(static_cast<std::int64_t>(now) - static_cast<std::int64_t>(connection.accounted), std::memory_order_relaxed);
  connection.accounted = now;
}

// Room for a frame of which only a part is here; if there is none now, the connection is not read from until there is.
void Worker::want_room(Connection& connection, std::size_t capacity) {
  if (connection.starved) return;
  const std::size_t held = connection.in.view().size();
  if (connection.in.room() + held >= capacity || may_hold(connection, capacity)) {
    connection.in.reserve(capacity - std::min(capacity, held));
    return;
  }
  connection.starved = true;
  starved_.push_back(&connection);
  watch(connection);
}

void Worker::feed_starved() {
  while (!starved_.empty()) {
    Connection& connection = *starved_.front();
    const std::size_t capacity = std::max(connection.wanted, bulk_bytes);
    if (!may_hold(connection, capacity)) return;
    starved_.erase(starved_.begin());
    connection.starved = false;
    connection.in.reserve(capacity - std::min(capacity, connection.in.view().size()));
    account(connection);
    watch(connection);
    if (connection.tls && connection.registered_read) read_some(connection);
  }
}

}  // namespace zaris::node
