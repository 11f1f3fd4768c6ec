// Executes requests on the thread that received them: frame in, answer appended. No sockets. One per worker thread; not
// thread-safe. In steady state a request on keys allocates nothing: values are read from the store into the answer.
#pragma once
#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "cluster/node/held_answers.hpp"
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

  // ---- one of several nodes: whose requests come next; the requests of one read, which are answered only if everything that they
  // touched may still be served afterwards (else the connection ends without an answer: nobody knows what came of them)
  void begin_read(std::uint64_t connection);
  [[nodiscard]] bool may_answer() const;
  // Answers that waited for replicas and leave now.
  void collect_held(std::vector<HeldAnswers::Ready>& ready);
  [[nodiscard]] bool holds_answers() const { return held_ && held_->waiting(); }
  // Set before a write is made that may wait: from then on this thread is to be woken when more is held.
  [[nodiscard]] std::atomic<bool>& waits() { return waits_; }
  [[nodiscard]] std::uint64_t held_by(std::uint64_t connection) const;

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
  Status region_status(const Frame& frame, std::string& out);
  Status drain_node(const Frame& frame, std::string& out);
  Status not_written(const Frame& frame, std::string& out, const Error& why, Status of_one_alone);
  Status copies(const Frame& frame, std::string& out);
  Status list_pins(const Frame& frame, std::string& out);
  Status drop_pin(const Frame& frame, std::string& out);
  Status open_link(const Frame& frame, std::string& out);
  [[nodiscard]] bool other_scope(const Frame& frame, std::string_view link, ScopeId scope, std::string& out);
  Status read_marks(const Frame& frame, std::string& out);
  Status mark_checksum(const Frame& frame, std::string& out);
  Status apply_batch(const Frame& frame, std::string& out);
  Status list_links(const Frame& frame, std::string& out);
  Status drop_link(const Frame& frame, std::string& out);
  Status drop_scope(const Frame& frame, std::string& out);
  Status follower_lease(const Frame& frame, std::string& out);
  Status list_rolled_back(const Frame& frame, std::string& out);

  // The same for the next items of a batch, which it takes; at least 1.
  [[nodiscard]] std::size_t look_ahead(protocol::BatchRequest& items);
  Status refuse(const Frame& frame, std::string& out, Status status, std::string_view reason, std::string_view hint = {});
  Status malformed(const Frame& frame, std::string& out);
  store::WriteOutcome write(protocol::Opcode opcode, std::string_view key, std::string_view value, WallMicros expires_us,
                            const protocol::Condition& condition, Durability durability);
  // True: refused, the answer is there. A segment that this node may not serve now.
  using Opcode = protocol::Opcode;
  [[nodiscard]] bool elsewhere(const Frame& frame, SegmentId segment, std::string& out, Status& status);
  // The same of all segments with one of these slots.
  [[nodiscard]] bool elsewhere(const Frame& frame, Slot first, Slot last, std::string& out, Status& status);
  [[nodiscard]] bool serves(SegmentId segment) const { return node_.region->serving.serves(segment, boot_now_); }
  [[nodiscard]] SegmentId segment_of_key(std::string_view key) const;
  // The policy that counts; false: stronger than the store admits, or than one process can give.
  [[nodiscard]] bool policy_of(Durability asked, Durability& policy) const;
  // The same for what a follower applies: without a word of its own replicas have it, where the region gives a segment any.
  [[nodiscard]] bool link_policy_of(Durability asked, Durability& policy) const;
  // Before a write whose answer may wait: the region's thread is to send it at once, and to wake this thread when it is held.
  void expect_to_hold(Durability policy) {
    if (policy > Durability::owner && !waits_.load(std::memory_order_relaxed)) waits_.store(true);
  }
  // The answer at the end of `out` waits for replicas, if it has to.
  void hold(std::string& out, std::size_t at, std::span<const HeldItem> items, Durability policy);
  [[nodiscard]] bool item_elsewhere(const protocol::BatchItem& item, protocol::BatchAnswerWriter& answer);
  Status written(Opcode opcode, const Frame& frame, const store::WriteOutcome& outcome, Durability asked, std::string& out);
  // After the first write of a cluster's life the coordinator is told, before the answer goes out. False: it could not
  // be told, and the write must not be acknowledged.
  [[nodiscard]] bool note_data();
  [[nodiscard]] bool holding() const { return node_.state.load(std::memory_order_acquire) == NodeState::holding; }

  NodeShared& node_;
  WorkerCounts& counts_;
  std::unique_ptr<store::Committer> committer_;
  region::ServingTable::Turns* turns_ = nullptr;      // null: this process alone is the region
  std::function<WallMicros()> clock_;
  WallMicros now_ = 0;
  std::size_t frame_max_;
  std::string scratch_;                               // values of Batch
  std::unique_ptr<HeldAnswers> held_;                 // null: one process is the region
  std::uint64_t connection_ = 0;
  MonoMicros boot_now_ = 0;                           // at the beginning of the read
  std::vector<SegmentId> touched_;                    // by the requests of this read
  std::atomic<bool> waits_{false};
  std::unordered_map<std::uint64_t, std::uint64_t> held_of_;  // connection → answers that wait
};

}  // namespace zaris::node
