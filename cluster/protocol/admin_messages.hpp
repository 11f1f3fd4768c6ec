// Hello, Status, Map, Digest, pins and what an operator says to a node. Conventions as in data_messages.hpp.
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

// ---- Hello / Welcome: the first exchange; anything else before it is answered InvalidArgument and closed ---------------
enum class PeerRole : std::uint8_t { client = 0, follower = 1, node = 2, gateway = 3, tool = 4 };

// [0 version min, 1 version max, 2 cluster id expected | nil, 3 store | nil, 4 role, 5 principal (token) | nil,
//  6 features, 7 highest generation seen, 8 name of the program and version]
struct Hello {
  std::uint8_t version_min = protocol_version_min, version_max = protocol_version;
  std::optional<ClusterId> cluster_expected;        // another: TargetChanged
  std::string_view store;                           // empty: whichever; another: TargetChanged
  PeerRole role = PeerRole::client;
  std::string_view token;                           // bearer token; empty: the certificate speaks, or nobody
  std::uint64_t features = 0;                       // bits; none yet
  Generation generation_seen;
  std::string_view program;
};
// [0 version, 1 cluster id, 2 region, 3 store, 4 segments, 5 key_bytes_max, 6 value_bytes_max, 7 generation, 8 features,
//  9 principal, 10 node name, 11 program and version]
struct Welcome {
  std::uint8_t version = protocol_version;
  ClusterId cluster;
  std::string region, store;
  std::uint32_t segments = 0;
  std::uint64_t key_bytes_max = 0, value_bytes_max = 0;
  Generation generation;                            // the highest minted here
  std::uint64_t features = 0;
  std::string principal;                            // as whom the peer was let in; empty: nobody in particular
  std::string node;
  std::string program;
};
void encode(std::string& out, std::uint32_t correlation, const Hello& hello);
[[nodiscard]] bool decode(std::string_view body, Hello& out);
void encode(std::string& out, std::uint32_t correlation, const Welcome& welcome);
[[nodiscard]] bool decode(std::string_view body, Welcome& out);

// ---- Status: [] → one positional array in the order of these fields ----------------------------------------------------
struct StatusAnswer {
  ClusterId cluster;                                // 0
  std::string region, store, node;                  // 1 2 3
  std::string version;                              // 4 of the program
  std::string role;                                 // 5 "active", "standby", "mixed"
  std::string state;                                // 6 "serving", "holding", "draining", …
  std::string state_reason;                         // 7 for people
  std::uint32_t segments = 0;                       // 8
  std::uint64_t live_keys = 0, live_bytes = 0, tombstones = 0;                                // 9 10 11
  std::uint64_t memory_used = 0, memory_max = 0;    // 12 13 what the ceiling counts, the ceiling
  std::uint64_t memory_resident = 0;                // 14 of the process
  std::uint64_t log_bytes = 0, log_budget = 0, log_pinned = 0;                                // 15 16 17
  std::uint64_t log_reach_us = 0;                   // 18 how far back the log goes; 0: not known
  Generation generation;                            // 19
  SiteEpoch site_epoch;                             // 20
  std::uint32_t links = 0, pins = 0, connections = 0;                                         // 21 22 23
  std::uint64_t uptime_us = 0;                      // 24
  bool insecure = false;                            // 25 switched on by that word
  std::uint64_t key_bytes_max = 0, value_bytes_max = 0;                                       // 26 27
  WallMicros closed_time_us = 0;                    // 28
  std::uint64_t commits = 0;                        // 29 revisions in all, sum of the segments' heads
  Digest digest;                                    // 30 of everything live (bin, 16 bytes)
  std::string feed_address, admin_address;          // 31 32 as advertised; empty: none
  HistoryId history;                                // 33 of segment 0's root
};
void encode_status_request(std::string& out, std::uint32_t correlation);
void encode(std::string& out, std::uint32_t correlation, const StatusAnswer& answer);
[[nodiscard]] bool decode(std::string_view body, StatusAnswer& out);

// ---- Map: [] → [0 version, 1 topology version, 2 segments, 3 [[node id, host, port, tls port, feed port] …],
//                 4 [[first segment, last segment, node index, generation] …], 5 provisional] ----------------------------
struct MapNode {
  std::string id, host;
  std::uint16_t port = 0, tls_port = 0;             // 0: no such listener
  std::uint16_t feed_port = 0;                      // for gateways
};
struct MapRun {
  SegmentId first, last;                            // inclusive
  std::uint32_t node = 0;                           // index into nodes
  Generation generation;
};
struct MapAnswer {
  std::uint64_t version = 0, topology_version = 0;
  std::uint32_t segments = 0;
  std::vector<MapNode> nodes;
  std::vector<MapRun> runs;                         // ascending, not overlapping; a segment in none is unavailable
  bool provisional = false;
};
void encode_map_request(std::string& out, std::uint32_t correlation);
void encode(std::string& out, std::uint32_t correlation, const MapAnswer& answer);  // correlation 0: pushed
[[nodiscard]] bool decode(std::string_view body, MapAnswer& out);

// ---- Digest: [0 scope text, 1 by, 2 first slot, 3 last slot] -----------------------------------------------------------
// By whole segments and for the full scope it costs nothing; a partial scope is walked, so an answer may end early and
// names the slot to go on with.
enum class DigestBy : std::uint8_t { total = 0, segment = 1, slot = 2 };
struct DigestRequest {
  std::string_view scope_text;
  DigestBy by = DigestBy::total;
  Slot first{0}, last{16383};                       // inclusive
};
struct DigestRow {
  std::uint32_t id = 0;                             // segment or slot; total: 0
  std::uint64_t count = 0;
  Digest digest;
};
// [0 [[id, count, digest] …], 1 next slot | nil]. Rows without a key are left out. A page that ends inside a segment
// carries the part of that segment's row; the parts are added.
struct DigestAnswer {
  std::vector<DigestRow> rows;
  std::optional<Slot> next;
};
void encode(std::string& out, std::uint32_t correlation, const DigestRequest& request);
[[nodiscard]] bool decode(std::string_view body, DigestRequest& out);
void encode(std::string& out, std::uint32_t correlation, const DigestAnswer& answer);
[[nodiscard]] bool decode(std::string_view body, DigestAnswer& out);

// ---- pins: ListPins [] → [0 [row …]], DropPin [0 principal, 1 link, 2 scope id, 3 target cluster] → [0 dropped] --------
struct PinRow {                                     // places in the order of the fields
  std::string principal, link;
  ScopeId scope;
  std::string scope_text;
  ClusterId target;
  bool attached = false;
  std::uint64_t age_us = 0, idle_us = 0;            // since it was made; since it was last moved
  std::uint64_t held_bytes = 0, held_records = 0, bytes_max = 0, age_max_us = 0;
  std::optional<std::uint64_t> left_us;             // until a bound cuts it; empty: not in sight
  std::uint32_t segments = 0;
  bool lost = false;
};
struct ListPinsAnswer {
  std::vector<PinRow> pins;
};
struct DropPinRequest {
  std::string_view principal, link;
  ScopeId scope;
  ClusterId target;
};
struct DropPinAnswer {
  bool dropped = false;
};
void encode_list_pins(std::string& out, std::uint32_t correlation);
void encode(std::string& out, std::uint32_t correlation, const ListPinsAnswer& answer);
[[nodiscard]] bool decode(std::string_view body, ListPinsAnswer& out);
void encode(std::string& out, std::uint32_t correlation, const DropPinRequest& request);
[[nodiscard]] bool decode(std::string_view body, DropPinRequest& out);
void encode(std::string& out, std::uint32_t correlation, const DropPinAnswer& answer);
[[nodiscard]] bool decode(std::string_view body, DropPinAnswer& out);

// ---- AcceptEmpty: [0 undo] → [0 was holding]: a node that was told to hold after it came back empty may serve; of a region of
// several, what nobody that lives holds may be lost. Undo takes that back where nobody has acted on it yet: was holding says
// whether there was anything to take back ---------------------------------------------------------------------------------
struct AcceptEmptyRequest {
  bool undo = false;
};
struct AcceptEmptyAnswer {
  bool was_holding = false;
};
void encode(std::string& out, std::uint32_t correlation, const AcceptEmptyRequest& request);
[[nodiscard]] bool decode(std::string_view body, AcceptEmptyRequest& out);
void encode(std::string& out, std::uint32_t correlation, const AcceptEmptyAnswer& answer);
[[nodiscard]] bool decode(std::string_view body, AcceptEmptyAnswer& out);

}  // namespace zaris::protocol
