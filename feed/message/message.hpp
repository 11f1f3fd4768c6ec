// The messages of the change feed. Bytes: docs/formats/feed.md; rules: design page feed. MessagePack arrays
// [type, …], positional, append-only: unknown types and trailing places are skipped, a missing trailing place means its
// default. Decoded messages are views into the bytes that they were decoded from.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cluster/base/result.hpp"
#include "cluster/placement/scope.hpp"
#include "cluster/record/digest.hpp"
#include "cluster/record/lineage.hpp"
#include "cluster/record/position.hpp"
#include "cluster/record/record_table.hpp"

namespace zaris::feed {

inline constexpr std::uint32_t protocol_version_min = 1;
inline constexpr std::uint32_t protocol_version_max = 1;
inline constexpr std::uint32_t segments_max = 16384;
inline constexpr std::size_t part_bytes = 256u << 10;   // a record over it crosses in parts of it
inline constexpr std::size_t name_bytes_max = 255;      // follower, link, code, one feature
inline constexpr std::size_t text_bytes_max = 4096;     // for people
inline constexpr std::size_t scope_text_bytes_max = 1u << 20;
inline constexpr std::size_t fetch_keys_max = 65'536;

// Numbers are the wire's. Follower → gateway below 32, gateway → follower from 32 on.
enum class MessageType : std::uint8_t {
  hello = 1, subscribe = 2, credit = 3, ack = 4, fetch_keys = 5, digest_request = 6, ping = 7, unsubscribe = 8,
  welcome = 32, subscribed = 33, batch = 34, part = 35, progress = 36, chunk = 37, records = 38, digests = 39,
  stream_end = 40, pong = 41, error = 42, go_away = 43,
};

// Why a segment's stream ended. Trimmed and diverged are never the same answer.
enum class EndReason : std::uint8_t {
  below_floor = 1, diverged = 2, unknown_lineage = 3, source_reset = 4, source_standby = 5, ahead_of_source = 6,
  wrong_cluster = 7, scope_mismatch = 8, scope_revoked = 9, unauthorised = 10, ownership_moving = 11, too_slow = 12,
  dropped = 13, shutting_down = 14, protocol_error = 15, version_unsupported = 16,
};
inline constexpr std::size_t end_reasons = 17;     // one above the last
[[nodiscard]] std::string_view name(EndReason reason);

// ---- follower → gateway -------------------------------------------------------------------------------------------
struct Hello {
  std::uint32_t version_min = protocol_version_min, version_max = protocol_version_max;
  std::string follower;                       // id of the follower process, for people
  std::string link;
  std::optional<ClusterId> source_expected;   // empty: first contact
  ClusterId target;
  Scope scope;
  SiteEpoch site_epoch;
  std::vector<std::string> features;
  Generation generation_seen;                 // the highest seen anywhere; a coordinator mints above it
  std::string on_behalf_of;                   // a gateway's: whose session it carries; empty: its own
};
struct SubscribeSegment {
  SegmentId segment;
  std::optional<HistoryId> history;           // empty only where no mark and no cursor knows one
  std::optional<NamedPosition> low, high;     // the lowest low, the highest high of its marks
  // A bootstrap walk is wanted: from behind this key (empty `from`: before everything). With `since`: of each chunk only the records that are newer;
  // the others are counted and summed up, and named too if `names`.
  struct Walk {
    std::optional<SlotKey> from;
    std::optional<NamedPosition> since;
    bool names = false;
  };
  std::optional<Walk> walk;
};
struct Subscribe { std::vector<SubscribeSegment> segments; };
struct Unsubscribe { std::vector<SegmentId> segments; };
struct Credit { std::uint64_t bytes = 0; };
struct AckSegment { SegmentId segment; Position position; };
struct Ack { WallMicros closed_time_us = 0; std::vector<AckSegment> segments; };
struct FetchKeys { std::uint64_t request = 0; SegmentId segment; std::vector<std::string> keys; };
// Without `page`: of all of (from, to] at once. With it: of as much as a chunk would hold, made from the records' bytes; `records` brings them too.
struct DigestRequest {
  std::uint64_t request = 0;
  SegmentId segment;
  std::optional<SlotKey> from, to;
  bool page = false;
  bool records = false;
};
struct Ping { MonoMicros sent_us = 0; };      // the follower's own monotonic clock; echoed, never interpreted

// ---- gateway → follower -------------------------------------------------------------------------------------------
struct Welcome {
  std::uint32_t version = 1;
  ClusterId cluster;
  std::string cluster_name;                   // "region/store"
  std::uint32_t segments = 0;
  ScopeId scope;
  std::uint64_t key_bytes_max = 0, value_bytes_max = 0;
  std::uint64_t live_keys = 0, live_bytes = 0;  // in scope (full scope; 0 and unknown for partial ones until walked)
  std::vector<Root> roots;                    // one per segment
  std::uint32_t fresh_interval_ms = 200, heartbeat_ms = 5000;
  std::vector<std::string> features;
};
struct Subscribed {
  SegmentId segment;
  std::optional<Position> accepted;           // where the stream goes on; empty: nothing but the walk
  Position head;
  Revision floor;
  Lineage lineage;
  // Which Subscribe of this segment in this session is answered: 1 for the first, and so on. What was on its way for an
  // earlier one is told apart by it. The same number again: the lineage has grown.
  std::uint32_t subscription = 0;
};
// One run: consecutive revisions (prev, last] of one segment and one generation.
struct Run {
  SegmentId segment;
  Position prev;
  Generation generation;
  Revision last;
  WallMicros commit_time_us = 0;              // of the last record (full scope); the closed time (partial)
  bool reaches_head = false;
  std::string_view table;
  std::string_view records;                   // this run's stretch of the batch's record bytes
};
struct Batch { std::vector<Run> runs; };
// A piece of one record too large for a Batch. The places behind `bytes` are those of the run that the whole record is.
struct Part {
  SegmentId segment;
  Revision revision;
  std::uint64_t offset = 0, total = 0;
  std::string_view bytes;
  Position prev;
  Generation generation;
  WallMicros commit_time_us = 0;
  Slot slot;
  std::uint8_t row_flags = 0;                 // record_table.hpp
  bool reaches_head = false;
};
struct ProgressRow {
  SegmentId segment;
  Position position;                          // everything up to it has been sent
  Position head;
  Revision floor;
  std::uint64_t bytes_behind = 0;             // full scope only
  // Set when the position moved over revisions that brought nothing, without a run: where it moved from. The receiver
  // compares it like a run's.
  std::optional<Position> prev;
};
struct Progress { WallMicros source_clock_us = 0, closed_time_us = 0; std::vector<ProgressRow> rows; };
struct Chunk {
  SegmentId segment;
  std::optional<SlotKey> from, to;
  NamedPosition as_of;
  std::uint64_t count = 0;
  Digest digest;
  bool last = false;
  std::string_view table, records;
  // Of a walk since a position: count and digest above are of the records that come with it, here is the rest of its range.
  struct Others {
    std::uint64_t count = 0;
    Digest digest;
    std::string_view names;                   // Digest::name() of each, 4 bytes little endian; empty: not asked for
  };
  std::optional<Others> others;
  [[nodiscard]] std::uint64_t bytes() const { return table.size() + records.size() + (others ? others->names.size() : 0); }
};
// Answer to FetchKeys: for its keys from `begin` on, as many as are found or missing here. A large answer comes in several
// messages, each as of its own position; `more` says that another follows.
struct Records {
  std::uint64_t request = 0;
  SegmentId segment;
  NamedPosition as_of;
  std::vector<std::uint32_t> missing;         // indexes into the keys asked for
  std::string_view table, records;            // the found ones, in the order asked
  std::uint32_t begin = 0;
  bool more = false;
};
struct Digests {
  std::uint64_t request = 0;
  SegmentId segment;
  NamedPosition as_of;
  std::uint64_t count = 0;
  Digest digest;
  std::optional<SlotKey> to;                  // of a page: where it ends; empty: where the request does
  std::uint64_t bytes = 0;                    // of a page: of its records and their table
  std::uint64_t memory_slots = 0;             // of a page with records: slots whose bytes are not those that were written
  std::string_view table, records;
};
struct StreamEnd {
  SegmentId segment;
  EndReason reason = EndReason::protocol_error;
  std::string text;
  std::optional<Position> surviving;          // diverged
  std::optional<Lineage> lineage;             // diverged, unknown_lineage, source_reset (its root)
  Revision floor;                             // below_floor
  std::uint32_t subscription = 0;             // as in Subscribed
};
struct PongRow { SegmentId segment; Position head; };
// Heads of this node's segments that changed since its last Pong, after it has confirmed its authority at a moment
// after the Ping came in.
struct Pong { MonoMicros echoed_us = 0; std::vector<PongRow> rows; std::vector<SegmentId> unavailable; };
struct ErrorMessage { std::string code, text; bool retry = false; std::uint32_t retry_after_ms = 0; };
struct GoAway { std::string text; std::uint32_t within_ms = 0; };

using FollowerMessage = std::variant<Hello, Subscribe, Credit, Ack, FetchKeys, DigestRequest, Ping, Unsubscribe>;
using GatewayMessage = std::variant<Welcome, Subscribed, Batch, Part, Progress, Chunk, Records, Digests, StreamEnd, Pong, ErrorMessage, GoAway>;

[[nodiscard]] std::string encode(const FollowerMessage& message);
// Batch included: for tests and the small messages; the source session writes its batches straight into its buffer.
[[nodiscard]] std::string encode(const GatewayMessage& message);
// Appends instead: for buffers that leave room for a transport's header in front.
void encode_to(std::string& out, const FollowerMessage& message);
void encode_to(std::string& out, const GatewayMessage& message);

// Every length is checked against what is there before memory is taken; nesting is bounded by the shape itself.
// An unknown type is not an error: empty optional. Errors: `feed_message_malformed`.
[[nodiscard]] Result<std::optional<FollowerMessage>> decode_from_follower(std::string_view bytes);
[[nodiscard]] Result<std::optional<GatewayMessage>> decode_from_gateway(std::string_view bytes);

}  // namespace zaris::feed
