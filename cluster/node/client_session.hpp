// One client connection without its socket: bytes in, answers out. Not thread-safe; belongs to one worker.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

#include "cluster/node/request_executor.hpp"

namespace zaris::node {

class ClientSession {
 public:
  // `principal`: who the peer's certificate says it is; empty without one.
  ClientSession(NodeShared& node, WorkerCounts& counts, Protocol protocol, std::string principal);

  struct Step {
    std::size_t consumed = 0;    // bytes of `in` that are done with
    std::size_t wanted = 0;      // the frame at the front takes this many bytes in all, as far as known (bounded)
    bool full = false;           // stopped since `out` has reached its bound; call again with the rest when it was sent
    bool may_wait = false;       // every answer is an Ok to a request that says so (protocol::flag_answer_may_wait)
    std::uint32_t answers = 0;
    bool abandoned = false;      // set by the caller: nothing of this may be answered
    bool close = false;          // send what is in `out`, then close
  };
  // Executes every whole frame at the front of `in` until `out` holds `output_max` bytes or more. Call inside a round of
  // `executor`.
  [[nodiscard]] Step consume(std::string_view in, RequestExecutor& executor, std::string& out, std::size_t output_max);

  [[nodiscard]] bool greeted() const { return greeted_; }
  // Who keeps a table of owners, and is told of a new one (Map, correlation 0).
  [[nodiscard]] bool follows_map() const {
    return greeted_ && (requester_.role == protocol::PeerRole::client || requester_.role == protocol::PeerRole::follower);
  }

 private:
  [[nodiscard]] bool greet(const protocol::Frame& frame, RequestExecutor& executor, std::string& out);

  NodeShared* node_;
  WorkerCounts* counts_;
  protocol::FrameParser parser_;
  Requester requester_;
  std::size_t protocol_;
  bool greeted_ = false;
};

}  // namespace zaris::node
