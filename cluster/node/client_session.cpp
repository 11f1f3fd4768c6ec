#include "cluster/node/client_session.hpp"

#include <algorithm>

namespace zaris::node {

namespace {
constexpr std::size_t hello_bytes_max = 16u << 10;

bool answered_ok(std::string_view answer) {
  return answer.size() >= protocol::frame_header_bytes && answer[6] == 0 && answer[7] == 0;
}
}  // namespace

using protocol::FrameStep;
using protocol::Opcode;

ClientSession::ClientSession(NodeShared& node, WorkerCounts& counts, Protocol protocol, std::string principal)
    : node_(&node), counts_(&counts), parser_(protocol::frame_bytes_max(node.config.limits.key, node.config.limits.value)),
      protocol_(static_cast<std::size_t>(protocol)) {
  requester_.principal = std::move(principal);
}

ClientSession::Step ClientSession::consume(std::string_view in, RequestExecutor& executor, std::string& out, std::size_t output_max) {
  Step step;
  protocol::Frame frame;
  std::size_t looked_at = 0;
  while (true) {
    if (out.size() >= output_max) {
      step.full = true;
      return step;
    }
    const auto parsed = parser_.parse(in.substr(step.consumed), frame);
    switch (parsed.step) {
      case FrameStep::need_more:
        step.wanted = parsed.wanted;
        if (greeted_ || parsed.wanted <= hello_bytes_max) return step;
        [[fallthrough]];  // nobody needs that much to say who he is
      case FrameStep::too_large:
        // The length is known to be wrong, so where the next frame begins is not known any more.
        counts_->malformed_frames[protocol_].add();
        protocol::encode_error(out, static_cast<Opcode>(frame.header.opcode), Status::item_too_large, frame.header.correlation,
                               "the frame is longer than this node's limits allow", "limits.value, limits.key");
        step.close = true;
        return step;
      case FrameStep::malformed:
        counts_->malformed_frames[protocol_].add();
        protocol::encode_error(out, static_cast<Opcode>(0), Status::invalid_argument, 0, "not a frame of the native protocol");
        step.close = true;
        return step;
      case FrameStep::frame: break;
    }
    // Of a pipeline's requests the next few are looked at before they are executed: their cache misses overlap.
    if (looked_at == 0) {
      const std::string_view rest = in.substr(step.consumed);
      looked_at = greeted_ && rest.size() > parsed.consumed ? std::max<std::size_t>(1, executor.look_ahead(parser_, rest)) : 1;
    }
    --looked_at;
    step.consumed += parsed.consumed;
    if (!greeted_ || frame.header.opcode == static_cast<std::uint8_t>(Opcode::hello)) [[unlikely]] {
      if (!greet(frame, executor, out)) {
        step.close = true;
        return step;
      }
      continue;
    }
    const std::size_t at = out.size();
    executor.execute(frame, requester_, out);
    const bool may_wait = (frame.header.status & protocol::flag_answer_may_wait) != 0 && answered_ok(std::string_view(out).substr(at));
    step.may_wait = may_wait && (step.may_wait || step.answers == 0);
    ++step.answers;
  }
}

bool ClientSession::greet(const protocol::Frame& frame, RequestExecutor& executor, std::string& out) {
  const auto opcode = static_cast<Opcode>(frame.header.opcode);
  const auto refuse = [&](Status status, std::string_view reason, std::string_view hint = {}) {
    protocol::encode_error(out, opcode, status, frame.header.correlation, reason, hint);
    executor.count(frame.header.opcode, status);
    counts_->refused_protocol[protocol_].add();
    return false;
  };
  if (opcode != Opcode::hello) return refuse(Status::invalid_argument, "the first request of a connection is Hello");
  protocol::Hello hello;
  if (!decode(frame.body, hello)) return refuse(Status::invalid_argument, "Hello is malformed");
  if (hello.version_min > protocol::protocol_version || hello.version_max < protocol::protocol_version_min) {
    return refuse(Status::unsupported, "no common protocol version", "upgrade the older of the two");
  }
  if (hello.cluster_expected && *hello.cluster_expected != node_->coordinator.cluster_id()) {
    return refuse(Status::target_changed, "this is cluster " + hex16(node_->coordinator.cluster_id().value()) + ", not " + hex16(hello.cluster_expected->value()),
                  "another address, or that id in the connection string (cluster_id=); a link that is to go on with it: zaris link accept-target");
  }
  if (!hello.store.empty() && hello.store != node_->config.store) {
    return refuse(Status::target_changed, "this node serves store " + printable(node_->config.store) + ", not " + printable(hello.store),
                  "the connection string ends in the store's name: zaris://host:7861/" + printable(node_->config.store));
  }
  std::uint32_t seen = node_->generation_seen.load(std::memory_order_relaxed);
  while (seen < hello.generation_seen.value() && !node_->generation_seen.compare_exchange_weak(seen, hello.generation_seen.value())) {
  }
  requester_.role = hello.role;
  requester_.program = std::string(hello.program.substr(0, 128));
  greeted_ = true;

  protocol::Welcome welcome;
  welcome.version = std::min<std::uint8_t>(hello.version_max, protocol::protocol_version);
  welcome.cluster = node_->coordinator.cluster_id();
  welcome.region = node_->config.region;
  welcome.store = node_->config.store;
  welcome.segments = node_->config.segments;
  welcome.key_bytes_max = node_->config.limits.key;
  welcome.value_bytes_max = node_->config.limits.value;
  welcome.generation = node_->coordinator.highest_generation();
  welcome.principal = requester_.principal;
  welcome.node = node_->config.node.name;
  welcome.program = "zarisd " + node_->version;
  encode(out, frame.header.correlation, welcome);
  executor.count(frame.header.opcode, Status::ok);
  return true;
}

}  // namespace zaris::node
