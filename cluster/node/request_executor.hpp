// Executes requests on the thread that received them: frame in, answer appended. No sockets. One per worker thread; not
// thread-safe. In steady state a request on keys allocates nothing: values are read from the store into the answer.
#pragma once
#include <memory>
#include <string>

#include "cluster/node/node_state.hpp"
#include "cluster/protocol/admin_messages.hpp"
#include "cluster/protocol/data_messages.hpp"
#include "cluster/protocol/link_messages.hpp"

namespace zaris::node {

// Who asked. Filled when the connection was greeted.
struct Requester {
  std::string principal;                              // certificate subject's common name; empty: nobody in particular
  std::string program;                                // what it said it is
  protocol::PeerRole role = protocol::PeerRole::client;
};

// What `zaris status` and /v1/status show of a node. Any thread.
[[nodiscard]] protocol::StatusAnswer status_of(NodeShared& node, WallMicros now);

class RequestExecutor {
 public:
  RequestExecutor(NodeShared& node, WorkerCounts& counts);
  ~RequestExecutor();

  // Brackets the requests of one round of the loop: one clock reading, one published bound of the closed time.
  void begin_round();
  void end_round();
  [[nodiscard]] WallMicros now() const { return now_; }

  // A frame other than Hello, inside a round. Always appends exactly one answer.
  void execute(const protocol::Frame& frame, const Requester& who, std::string& out);
  // Asks the cache for what the requests at the front of `in` will touch. Returns how many frames it has looked at; call
  // again after as many. 0: not worth it.
  [[nodiscard]] std::size_t look_ahead(const protocol::FrameParser& parser, std::string_view in);
  // Counts an answer that was given without executing anything.
  void count(std::uint8_t opcode, Status status);

 private:
  using Frame = protocol::Frame;
  // Each returns the status that was answered.
  Status get(const Frame& frame, std::string& out);
  Status time_to_live(const Frame& frame, std::string& out);
  Status put(const Frame& frame, std::string& out);
  Status del(const Frame& frame, std::string& out);
  Status touch(const Frame& frame, std::string& out);
  Status batch(const Frame& frame, std::string& out);
  Status scan(const Frame& frame, std::string& out);
  Status digest(const Frame& frame, std::string& out);
  Status status(const Frame& frame, std::string& out);
  Status map(const Frame& frame, std::string& out);
  Status accept_empty(const Frame& frame, std::string& out);
  Status list_pins(const Frame& frame, std::string& out);
  Status drop_pin(const Frame& frame, std::string& out);
  Status open_link(const Frame& frame, std::string& out);
  Status read_marks(const Frame& frame, std::string& out);
  Status mark_checksum(const Frame& frame, std::string& out);
  Status apply_batch(const Frame& frame, std::string& out);
  Status list_links(const Frame& frame, std::string& out);
  Status drop_link(const Frame& frame, std::string& out);
  Status drop_scope(const Frame& frame, std::string& out);
  Status follower_lease(const Frame& frame, std::string& out);

  // The same for the next items of a batch, which it takes; at least 1.
  [[nodiscard]] std::size_t look_ahead(protocol::BatchRequest& items);
  Status refuse(const Frame& frame, std::string& out, Status status, std::string_view reason, std::string_view hint = {});
  Status malformed(const Frame& frame, std::string& out);
  store::WriteOutcome write(protocol::Opcode opcode, std::string_view key, std::string_view value, WallMicros expires_us,
                            const protocol::Condition& condition, Durability durability);
  // After the first write of a cluster's life the coordinator is told, before the answer goes out. False: it could not
  // be told, and the write must not be acknowledged.
  [[nodiscard]] bool note_data();
  [[nodiscard]] bool holding() const { return node_.state.load(std::memory_order_acquire) == NodeState::holding; }

  NodeShared& node_;
  WorkerCounts& counts_;
  std::unique_ptr<store::Committer> committer_;
  std::function<WallMicros()> clock_;
  WallMicros now_ = 0;
  std::size_t frame_max_;
  std::string scratch_;                               // values of Batch
};

}  // namespace zaris::node
