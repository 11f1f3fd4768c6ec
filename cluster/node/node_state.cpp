#include "cluster/node/node_state.hpp"

namespace zaris::node {

CommandResult result_of(Status status) {
  switch (status) {
    case Status::ok:
    case Status::not_found:
    case Status::conflict:
    case Status::mark_gap:
    case Status::would_lose:
    case Status::range_differs:
    case Status::removal_limit:
    case Status::list_gone:
      return CommandResult::ok;
    case Status::unavailable:
    case Status::timed_out:
    case Status::durability_not_met:
    case Status::capacity_exceeded:
      return CommandResult::error;
    default:
      return CommandResult::rejected;
  }
}

std::string_view name(NodeState state) {
  switch (state) {
    case NodeState::starting: return "starting";
    case NodeState::holding: return "holding";
    case NodeState::serving: return "serving";
    case NodeState::draining: return "draining";
  }
  return "unknown";
}

void NodeShared::note_data_anew() {
  data_noted.store(false, std::memory_order_release);
  if (store.memory().records != 0 && coordinator.note_data()) data_noted.store(true, std::memory_order_release);
}

std::uint64_t NodeShared::client_buffers() const {
  const std::int64_t in = input_bytes.load(std::memory_order_relaxed);
  std::uint64_t held = in > 0 ? static_cast<std::uint64_t>(in) : 0;
  for (const auto& worker : counts) held += worker->buffered_bytes.value();
  return held;
}

std::uint32_t NodeShared::connections() const {
  std::uint64_t open = 0;
  for (const auto& worker : counts) {
    for (const Count& count : worker->connections) open += count.value();
  }
  return static_cast<std::uint32_t>(open);
}

}  // namespace zaris::node
