// What the threads of one node share, and what each of them counts for itself. Internal to cluster/node.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cluster/config/node_config.hpp"
#include "cluster/coordinator/coordinator.hpp"
#include "cluster/protocol/admin_messages.hpp"
#include "cluster/protocol/frame.hpp"
#include "cluster/protocol/operator_messages.hpp"
#include "cluster/region/held_table.hpp"
#include "cluster/region/serving_table.hpp"
#include "cluster/store/store.hpp"

namespace zaris::node {

// Written by one thread, read by any: no read-modify-write, no line shared with another writer.
class Count {
 public:
  void add(std::uint64_t n = 1) { value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed); }
  void sub(std::uint64_t n = 1) { value_.store(value_.load(std::memory_order_relaxed) - n, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

// What a request came to: done as asked (not found and conflict are answers too), failed here, or refused by a rule.
enum class CommandResult : std::uint8_t { ok, error, rejected };
[[nodiscard]] CommandResult result_of(Status status);
inline constexpr std::size_t command_slots = 40;  // by opcode

enum class Protocol : std::uint8_t { native, native_tls };

struct alignas(128) WorkerCounts {
  std::array<std::array<Count, 3>, command_slots> commands;
  std::array<Count, 2> connections;                   // open now, by Protocol
  std::array<Count, 2> accepted, refused_limit, refused_tls, refused_protocol, received_bytes, sent_bytes, malformed_frames, slow_disconnects, timeouts;
  Count buffered_bytes;                               // answers that wait for sockets, now
  Count accept_pauses;
  Count batched_reads;                                // of one connection, together with others by one system call
  Count unsupported;
};

enum class NodeState : std::uint8_t { starting, holding, serving, draining };
[[nodiscard]] std::string_view name(NodeState state);

// Of a node that is one of several: what the region's thread tells the threads that answer requests.
struct RegionShared {
  explicit RegionShared(std::uint32_t segments) : serving(segments), held(segments) {}
  region::ServingTable serving;
  region::HeldTable held;
  Durability ack = Durability::owner, ack_max = Durability::all;   // replication.ack, replication.ack_max
  MonoMicros ack_timeout_us = 1'000'000;
  std::function<protocol::RegionStatusAnswer()> status;            // any thread; set before the first of them asks
  std::function<void()> hurry;                                     // RegionMember::hurry; set before anybody is answered
  std::function<bool()> feed_waits;                                // readers are open that are sent what replicas hold; empty: never
  void publish(std::shared_ptr<const protocol::MapAnswer> map) {
    {
      const std::lock_guard lock(mutex);
      map_ = std::move(map);
    }
    maps_.fetch_add(1, std::memory_order_release);
  }
  // Grows with every map: who has told its clients of one looks here whether there is another.
  [[nodiscard]] std::uint64_t maps() const { return maps_.load(std::memory_order_acquire); }
  [[nodiscard]] std::shared_ptr<const protocol::MapAnswer> map() const {
    const std::lock_guard lock(mutex);
    return map_;
  }

 private:
  mutable std::mutex mutex;
  std::shared_ptr<const protocol::MapAnswer> map_;                 // null: none yet
  std::atomic<std::uint64_t> maps_{0};
};

struct NodeShared {
  const config::NodeConfig& config;
  store::Store& store;
  coordinator::Coordinator& coordinator;
  std::string version;                                // of the program
  MonoMicros started_mono_us = 0;
  std::atomic<NodeState> state{NodeState::starting};
  std::atomic<std::uint32_t> generation_seen{0};      // the highest that any Hello named
  std::atomic<std::uint64_t> memory_changed_slots{0}; // MemoryCheck
  std::atomic<bool> prefetch{false};                  // the data are larger than a core's own cache
  std::atomic<bool> data_noted{false};                // the coordinator knows that there is data
  // What it had before has been given up, which made the coordinator forget that there was any: what it holds now, and the next write,
  // is data again. Before anybody may write.
  void note_data_anew();
  Generation generation;                              // of this run
  std::vector<std::unique_ptr<WorkerCounts>> counts;  // one per worker; fixed once the workers run
  // What clients' connections hold beyond the first 32 KiB each: frames that are only partly here, answers that sockets do not
  // take. Bounded over all of them: a long frame waits for room, a client that does not read its answers is cut off.
  std::atomic<std::int64_t> input_bytes{0};
  std::uint64_t client_buffers_max = 64u << 20;
  [[nodiscard]] std::uint64_t client_buffers() const;
  std::unique_ptr<RegionShared> region;               // null: this process alone is the region
  std::uint16_t client_port = 0, client_tls_port = 0; // as bound; 0: no such listener
  std::string feed_address, admin_address;            // as bound
  // Ends the sessions on a pin that an operator dropped: principal, link. Empty where no feed is hosted.
  std::function<void(const std::string&, const std::string&)> pin_dropped;

  [[nodiscard]] std::uint32_t connections() const;
};

}  // namespace zaris::node
