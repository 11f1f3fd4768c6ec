// What the nodes of one region say to each other beside replication: who they are, that they live, who may serve, and the steps
// of a failover and of a hand-over. A partition is named by the low half of its id. Bytes: docs/formats/region.md; rules: design page cluster. Plain values, bounded decoding.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/protocol/frame.hpp"
#include "cluster/record/position.hpp"

namespace zaris::protocol {

// The first frame of each side. [0 version, 1 cluster id, 2 store, 3 node's name, 4 incarnation, 5 segments, 6 program]
inline constexpr std::uint8_t peer_version = 1;
struct PeerHello {
  ClusterId cluster;
  std::string store;
  std::string name;
  std::uint64_t incarnation = 0;   // of the process: 64 random bits, never 0
  std::uint32_t segments = 0;
  std::string program;
  friend bool operator==(const PeerHello&, const PeerHello&) = default;
};
void encode(std::string& out, const PeerHello& hello);
[[nodiscard]] bool decode(std::string_view body, PeerHello& out);   // false too for a version that is not spoken here

// Every failover.heartbeat, to every node. [0 view digest, 1 map version, 2 ownership version, 3 [[partition, generation, serving,
// [synchronised node …]] …], 4 nil | [sent, wall clock, echo, held]]: the partitions that the sender owns, and its clocks.
struct Heartbeat {
  struct Owned {
    std::uint64_t partition = 0;
    Generation generation;
    bool serving = false;                       // possession is complete, writes are taken
    std::vector<std::string> synchronised;      // replicas in step now
    friend bool operator==(const Owned&, const Owned&) = default;
  };
  struct Clock {
    std::uint64_t sent = 0;                     // the sender's boot clock
    std::uint64_t wall_us = 0;                  // its wall clock at the same moment
    std::uint64_t echo = 0;                     // `sent` of the receiver's last heartbeat that it has; 0: none yet
    std::uint64_t held_us = 0;                  // since that one came
    friend bool operator==(const Clock&, const Clock&) = default;
  };
  std::uint64_t view_digest = 0;
  std::uint64_t map_version = 0, ownership_version = 0;
  std::vector<Owned> owned;
  std::optional<Clock> clock;                   // nothing: of a version that did not send it
  friend bool operator==(const Heartbeat&, const Heartbeat&) = default;
};
void encode(std::string& out, const Heartbeat& heartbeat);
[[nodiscard]] bool decode(std::string_view body, Heartbeat& out);

// Owner to replica (Grant), and back with the rows that are granted (Granted): may I go on? [0 echo, 1 [[partition, generation] …],
// 2 µs]; echo: the owner's own boot clock when it asked; µs: for how long the sender grants (0: it did not say).
struct Grant {
  struct Row {
    std::uint64_t partition = 0;
    Generation generation;
    friend bool operator==(const Row&, const Row&) = default;
  };
  std::uint64_t echo = 0;
  std::vector<Row> rows;
  std::uint64_t for_us = 0;
  friend bool operator==(const Grant&, const Grant&) = default;
};
void encode(std::string& out, Opcode opcode, const Grant& grant);   // grant or granted
[[nodiscard]] bool decode(std::string_view body, Grant& out);

// Leader, or an owner that takes possession, to a node: grant nothing and take nothing of a generation below this one any more, and say
// what you hold. [0 partition, 1 generation, 2 echo]
struct Fence {
  std::uint64_t partition = 0;
  Generation generation;
  std::uint64_t echo = 0;
  friend bool operator==(const Fence&, const Fence&) = default;
};
// [0 partition, 1 generation, 2 echo, 3 incarnation, 4 highest generation known, 5 certified, 6 [[segment, history, generation,
// revision, id, whole, synced] …]]
struct Fenced {
  struct Row {
    SegmentId segment;
    HistoryId history;                          // 0: blank
    NamedPosition head;
    bool whole = true;                          // no copy is under way
    bool synced = false;                        // has been in step with an owner in this life
    friend bool operator==(const Row&, const Row&) = default;
  };
  std::uint64_t partition = 0;
  Generation generation;                        // as asked; refused when `highest` is above it
  std::uint64_t echo = 0;
  std::uint64_t incarnation = 0;
  Generation highest;
  bool certified = false;
  std::vector<Row> rows;
  friend bool operator==(const Fenced&, const Fenced&) = default;
};
void encode(std::string& out, const Fence& fence);
void encode(std::string& out, const Fenced& fenced);
[[nodiscard]] bool decode(std::string_view body, Fence& out);
[[nodiscard]] bool decode(std::string_view body, Fenced& out);

// Leader to an owner: stop writes, wait until this replica has everything, say so. [0 partition, 1 generation (the owner's), 2 to]
struct HandOver {
  std::uint64_t partition = 0;
  Generation generation;
  std::string to;
  friend bool operator==(const HandOver&, const HandOver&) = default;
};
// [0 partition, 1 generation, 2 to, 3 done, 4 reason]
struct HandedOver {
  std::uint64_t partition = 0;
  Generation generation;
  std::string to;
  bool done = false;
  std::string reason;
  friend bool operator==(const HandedOver&, const HandedOver&) = default;
};
void encode(std::string& out, const HandOver& message);
void encode(std::string& out, const HandedOver& message);
[[nodiscard]] bool decode(std::string_view body, HandOver& out);
[[nodiscard]] bool decode(std::string_view body, HandedOver& out);

}  // namespace zaris::protocol
