// One follower's session through a gateway: the feed on one side, one feed session with every node of the region on the other. A
// state machine without I/O; the shell (feed/routed) and tests drive it. One thread at a time. Design page feed, rule 5; protocol,
// "Between gateway and nodes".
//
// What the follower holds of a segment is `sent`, whoever sent it: a node that takes a segment over goes on from there, and what it
// sends must fit it. So a change of owner, a node that dies and a connection that breaks are one case, and nothing of it is
// told but a lineage that has grown. Messages are passed on as they came, except where they speak for a node alone: its
// subscription numbers, its closed time, its Pong.
//
//   Subscribe ──▶ waiting for an owner ──▶ attached ──▶ live ──▶ … ──▶ StreamEnd, Unsubscribe
//                        ▲                     │          │
//                        └── moving, node lost, newer table
//
// Credit is the follower's, split: the nodes together may send what the follower may be sent. So what has arrived can be passed on,
// and nothing is kept here but what waits for the follower's socket and the parts of one large record per node.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/base/result.hpp"
#include "feed/message/message.hpp"
#include "feed/relay/routing_table.hpp"
#include "feed/session/source.hpp"

namespace zaris::feed {

struct RelayOptions {
  std::uint64_t node_credit_bytes = 1u << 20;    // that one node may send ahead, at most
  std::uint64_t node_waiting_bytes_max = 24u << 20;  // of a node's messages that wait; a node above it is let go, and read again
  std::uint64_t node_output_bytes_max = 8u << 20;          // that wait for a node which does not take them; likewise
  MonoMicros retry_us = 200'000;                 // before a node or a segment is tried again; doubled for nodes, up to:
  MonoMicros retry_most_us = 2'000'000;
  MonoMicros welcome_patience_us = 5'000'000;    // for every segment's root
  MonoMicros fresh_interval_us = 200'000;
  MonoMicros heartbeat_us = 5'000'000;
};

// What the shell is to do. A node is dialled under its own name; at most one connection to each.
struct RelayCommand {
  enum class Kind : std::uint8_t { dial, hang_up } kind = Kind::dial;
  std::string node, host;
  std::uint16_t port = 0;
};

struct RelayCounters {
  SourceCounters passed;                         // to the follower
  std::uint64_t attached = 0, reattached = 0;    // segments, at a node; of them, those that the follower had been reading
  std::uint64_t nodes_lost = 0;                  // connections that ended by themselves
  std::uint64_t broken = 0;                      // ended here, since what came did not fit
  std::uint64_t go_aways = 0;                    // nodes that said that they leave
};

class Relay {
 public:
  [[nodiscard]] static std::unique_ptr<Relay> create(RelayOptions options, Principal principal);
  virtual ~Relay() = default;

  // ---- the follower
  virtual void on_message(std::string_view bytes, Now now) = 0;
  // Appends the next message. False: nothing to say now; ask again after any call.
  virtual bool next_message(std::string& out, Now now) = 0;
  virtual void end(EndReason reason, std::string_view text) = 0;
  [[nodiscard]] virtual std::optional<SessionEnd> ended() const = 0;
  [[nodiscard]] virtual const std::optional<Hello>& hello() const = 0;
  [[nodiscard]] virtual std::uint64_t credit_left() const = 0;

  // ---- the region
  // Older tables are ignored.
  virtual void on_table(std::shared_ptr<const RoutingTable> table, Now now) = 0;
  virtual void on_node_open(const std::string& node, Now now) = 0;           // the connection is upgraded
  virtual void on_node_message(const std::string& node, std::shared_ptr<const std::string> bytes, Now now) = 0;
  virtual void on_node_closed(const std::string& node, const Error& why, Now now) = 0;   // also: it could not be dialled
  // Appends one message; false: nothing. `waiting`: bytes that the connection has not sent yet. A node that takes nothing is let go
  // (RelayCommand) before they are too many.
  virtual bool next_to_node(const std::string& node, std::size_t waiting, std::string& out) = 0;
  [[nodiscard]] virtual std::vector<RelayCommand> take_commands() = 0;
  // The table may be old; asked once per reason.
  [[nodiscard]] virtual bool take_table_doubt() = 0;

  // At least every fresh interval.
  virtual void on_tick(Now now) = 0;
  [[nodiscard]] virtual RelayCounters counters() const = 0;
  [[nodiscard]] virtual std::uint64_t held_bytes() const = 0;
};

}  // namespace zaris::feed
