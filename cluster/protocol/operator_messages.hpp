// What an operator asks any node of a region of several processes: what it knows of the region, what it holds, and that a node be
// drained. Conventions as in data_messages.hpp; bytes: docs/formats/native.md.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/protocol/frame.hpp"
#include "cluster/record/digest.hpp"
#include "cluster/record/position.hpp"

namespace zaris::protocol {

// ---- RegionStatus: [] → one positional array in the order of these fields. One node's view of a moment not long ago; a node that alone
// is its region answers Unsupported ----------------------------------------------------------------------------------------------
struct RegionStatusAnswer {
  struct Member {                                   // places in the order of the fields
    std::string name, address;                      // address: for clients, host:port
    bool registered = false;                        // its lease is in etcd
    bool connected = false;                         // with the node that answers
    bool leader = false, draining = false;
    std::string state;                              // "alive", … as the leader sees it; empty where the node that answers does not lead
    std::string version;                            // of the program; empty: not registered
    struct Clock {
      std::int64_t ahead_us = 0;                    // of the clock of the node that answers; negative: behind
      std::uint64_t within_us = 0;                  // the truth is no further than this from it
      bool beyond = false;                          // limits.clock_skew
      friend bool operator==(const Clock&, const Clock&) = default;
    };
    std::optional<Clock> clock;                     // place 8, [ahead, behind, within, beyond]; nothing is known of the own one and of who is not connected
    std::string settings_differ;                    // place 9: which of its settings for the region are not those of the node that answers
    friend bool operator==(const Member&, const Member&) = default;
  };
  struct Partition {                                // places in the order of the fields
    std::string id;                                 // 32 hex digits
    std::uint32_t first = 0, segments = 0;
    std::string primary, owner;                     // owner empty: nobody
    std::string state, reason;                      // "healthy", "degraded", "recovering", "unavailable", "not_heard", and why
    std::vector<std::string> replicas, synchronised;
    Generation generation;
    // ---- the part of the node that answers
    std::string role, role_reason;                  // "none", "replica", "serving", …
    std::string serves_by;                          // "nothing", "lease", "grants", "alone"
    std::uint64_t lag_revisions = 0;                // where it owns: of the connected replica that is furthest behind
    // ----
    bool accepted = false;                          // an operator's word that what it had may be lost waits for somebody to begin it
    std::string waits_for;                          // where the node that answers leads: for an owner, or to be handed over
    friend bool operator==(const Partition&, const Partition&) = default;
  };
  std::uint64_t map_version = 0, ownership_version = 0, leader_term = 0;  // 0 1 2 (an answer never begins with a str)
  std::string node;                                 // 3 that answers
  std::string leader;                               // 4 empty: none is known
  bool converged = false;                           // 5 map and ownership are of one version, and no peer's view differs
  bool registered = false, name_taken = false;      // 6 7 of the node that answers
  std::string etcd_trouble;                         // 8 empty: it answers
  std::uint64_t etcd_silence_us = 0;                // 9 since its last answer to a linearizable read
  std::string waiting_for;                          // 10 what the leader waits for, where it answers
  std::uint32_t replication_factor = 1;             // 11
  std::string ack, ack_max;                         // 12 13 replication.ack, replication.ack_max
  std::vector<Member> members;                      // 14
  std::vector<Partition> partitions;                // 15 ascending by first segment
  friend bool operator==(const RegionStatusAnswer&, const RegionStatusAnswer&) = default;
};
void encode_region_status_request(std::string& out, std::uint32_t correlation);
void encode(std::string& out, std::uint32_t correlation, const RegionStatusAnswer& answer);
[[nodiscard]] bool decode(std::string_view body, RegionStatusAnswer& out);

// ---- DrainNode: [0 node, 1 undo, 2 dry run] → [0 changed] ----------------------------------------------------------------------------
// The wish stays, over restarts of that node too, until it is taken back; it is written, not done, when the answer comes.
struct DrainNodeRequest {
  std::string_view node;
  bool undo = false;
  bool dry_run = false;
};
struct DrainNodeAnswer {
  bool changed = false;                             // false: it was so already
};
void encode(std::string& out, std::uint32_t correlation, const DrainNodeRequest& request);
[[nodiscard]] bool decode(std::string_view body, DrainNodeRequest& out);
void encode(std::string& out, std::uint32_t correlation, const DrainNodeAnswer& answer);
[[nodiscard]] bool decode(std::string_view body, DrainNodeAnswer& out);

// ---- Copies: [0 first segment, 1 last segment] → [0 rows]; row = [0 segment, 1 role, 2 generation, 3 revision, 4 count, 5 digest,
// 6 copying]. What the node itself holds of each segment, whoever owns it; place, count and digest are of one moment. Two copies at one
// place of the log are equal, or a fault is found. Refused: a segment that there is not (InvalidArgument).
struct CopiesRequest {
  SegmentId first, last;
};
struct CopyRow {
  enum class Role : std::uint8_t { none, replica, owner };
  SegmentId segment;
  Role role = Role::none;
  Position at;                                      // 0:0 holds nothing
  std::uint64_t count = 0;                          // live keys
  Digest digest;
  bool copying = false;                             // a copy that is not whole yet
  friend bool operator==(const CopyRow&, const CopyRow&) = default;
};
struct CopiesAnswer {
  std::vector<CopyRow> rows;                        // ascending by segment
};
void encode(std::string& out, std::uint32_t correlation, const CopiesRequest& request);
[[nodiscard]] bool decode(std::string_view body, CopiesRequest& out);
void encode(std::string& out, std::uint32_t correlation, const CopiesAnswer& answer);
[[nodiscard]] bool decode(std::string_view body, CopiesAnswer& out);

}  // namespace zaris::protocol
