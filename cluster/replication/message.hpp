// What an owner and a node that copies it say to each other, over one ordered connection. Frames of cluster/protocol; bytes:
// docs/formats/region.md; design page cluster, "Replication inside a region". Replica to owner: Follow, Received, Credit;
// everything else goes the other way. Plain values; those with views die with the bytes that were decoded.
//
// encode appends one whole frame. decode takes a frame's body, checks every length before it uses it, and is false for
// anything that is not exactly one message of its kind; places that this build does not know are skipped.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/placement/scope.hpp"
#include "cluster/protocol/frame.hpp"
#include "cluster/record/digest.hpp"
#include "cluster/record/lineage.hpp"
#include "cluster/record/mark.hpp"
#include "cluster/store/replica.hpp"
#include "cluster/store/store.hpp"

namespace zaris::replication {

// Bounds of decoding, and of what is put into one frame. Sizes of frames are bounded by the connection's FrameParser.
inline constexpr std::uint32_t rows_max = 16'384;              // a row per segment
inline constexpr std::uint32_t mark_changes_max = 65'536;
inline constexpr std::uint32_t pins_in_frame_max = 4096;

// ---- Follow: [0 number, 1 pull, 2 [row …], 3 [segment that is followed no more …]] -----------------------------------
// row = [0 segment, 1 generation, 2 history id, 3 head: nil | [generation, revision, id], 4 copying, 5 count, 6 digest]
struct FollowRow {
  SegmentId segment;
  Generation generation;              // the newest term that the replica has heard of, its own in a pull; 0: of none
  std::optional<HistoryId> history;   // empty: blank, no lineage (nil on the wire)
  NamedPosition head;                 // {0, 0}: none
  bool copying = false;               // a copy had begun and is not whole: nothing of what is held counts
  std::uint64_t count = 0;            // live keys held, and their digest
  Digest digest;
  Revision floor;                     // its log begins there; 0: it does not say
  friend bool operator==(const FollowRow&, const FollowRow&) = default;
};
struct Follow {
  std::uint32_t number = 0;           // echoed by Following: one more with every Follow of a connection
  // A node that is to own asks one that holds more for the tail above its own head: log only, from a segment in role replica too.
  bool pull = false;
  std::vector<FollowRow> rows;
  std::vector<SegmentId> stop;
};

// ---- Following: [0 number, 1 [row …]]: what comes for a segment from now on ------------------------------------------
// row = [0 segment, 1 how, 2 generation, 3 head: [generation, revision], 4 floor, 5 lineage | nil, 6 as_of | nil, 7 reason, 8 refusal,
//        9 newest timestamp]
// lineage = [0 history id, 1 generation, 2 time, 3 cause, 4 [[generation, id, first revision, time] …]]
enum class FollowHow : std::uint8_t {
  log = 0,       // runs from the replica's head on
  copy = 1,      // begin_copy; runs from as_of on, pages among them
  equal = 2,     // as copy, and whole at once: the contents were found equal
  refused = 3,
};
enum class Refusal : std::uint8_t {
  none = 0,
  not_owner = 1,
  older_generation = 2,   // a newer term than the owner's was named in Follow: the owner stops
  nothing_to_pull = 3,    // pull: the log does not lead on from the head that was named
  ended = 4,              // this term or role has ended here since: follow again, or somebody else
  trimmed = 5,            // the log no longer leads on from what was sent: follow again
};
[[nodiscard]] std::string_view name(FollowHow how);
[[nodiscard]] std::string_view name(Refusal refusal);

struct FollowingRow {
  SegmentId segment;
  FollowHow how = FollowHow::refused;
  Generation generation;              // the owner's term; of a puller's source, and with a refusal: the newest that it has heard of
  Position head;                      // what the sender holds now: whoever reaches it has reached it in full
  Revision floor;
  Lineage lineage;                    // copy and equal: up to as_of
  Position as_of;                     // copy and equal
  WallMicros newest_timestamp_us = 0; // copy and equal: of the segment
  Refusal refusal = Refusal::none;
  std::string reason;                 // for people; empty for log
  friend bool operator==(const FollowingRow&, const FollowingRow&) = default;
};
struct Following {
  std::uint32_t number = 0;           // of the Follow that asked last for these segments
  std::vector<FollowingRow> rows;
};

// ---- ReplicaRun: [0 segment, 1 prev: [generation, revision], 2 generation, 3 last revision, 4 rows] + table + records --
struct RunMessage {
  SegmentId segment;
  store::ReplicaRun run;
};

// ---- ReplicaMarks: [0 segment, 1 head: [generation, revision], 2 version, 3 flags, 4 [[link, scope id, source segment, mark | nil] …]]
// After the log up to `head`. A large set comes in several; it is put, and its version counts, with the last.
inline constexpr std::uint8_t marks_flag_everything = 1;  // MarksSince::everything
inline constexpr std::uint8_t marks_flag_more = 2;        // the next one for this segment goes on
struct MarksMessage {
  SegmentId segment;
  store::MarksSince marks;               // version as it travels: one more than the store's, so that 0 is "none yet"
  bool more = false;
};

// ---- ReplicaPage: [0 segment, 1 from, 2 to: nil | [slot, key], 3 as_of: [generation, revision], 4 rows] + table + records --
struct PageMessage {
  SegmentId segment;
  store::CopyPage page;
};

// ---- ReplicaFloors: [0 [[segment, floor, memory floor] …]] --------------------------------------------------------------------------
struct FloorRow {
  SegmentId segment;
  Revision floor;
  Revision memory_floor;              // at or above the floor, where the owner's log goes on outside its memory; 0: the floor
  friend bool operator==(const FloorRow&, const FloorRow&) = default;
};
struct Floors {
  std::vector<FloorRow> rows;
};

// ---- ReplicaPins: [0 [pin …], 1 [settled segment …]] ------------------------------------------------------------------
// pin = [0 principal, 1 link, 2 target cluster, 3 scope text, 4 [[segment, acknowledged | nil, moved | nil] …]]
struct PinRow {
  SegmentId segment;
  std::optional<store::PinPlace> place;  // empty: the pin holds nothing in this segment any more
};
struct PinMessage {
  store::PinKey key;                     // its scope id is the scope's
  Scope scope;
  std::vector<PinRow> rows;
};
struct Pins {
  std::vector<PinMessage> pins;
  std::vector<SegmentId> settled;        // everything pinned there has been said since Following: what else is pinned goes
};

// ---- ReplicaClosedTime: [0 time] --------------------------------------------------------------------------------------
// Read before the heads that the runs before it have reached: of the segments that are followed by log, what was committed
// at or before it has been sent.
struct ClosedTimeMessage {
  WallMicros closed_time_us = 0;
};

// ---- ReplicaReceived: [0 [[segment, generation, revision, marks version] …], 1 closed time] ----------------------------
// What the replica holds in full. A segment whose copy is not whole has no row.
struct ReceivedRow {
  SegmentId segment;
  Position head;
  std::uint64_t marks_version = 0;       // of the last whole set that was put; 0: none yet
  friend bool operator==(const ReceivedRow&, const ReceivedRow&) = default;
};
struct Received {
  std::vector<ReceivedRow> rows;
  WallMicros closed_time_us = 0;
};

// ---- ReplicaCredit: [0 bytes]: so many more bytes of frames may be sent ------------------------------------------------
struct Credit {
  std::uint64_t bytes = 0;
};

void encode(std::string& out, const Follow& message);
void encode(std::string& out, const Following& message);
// The first `count` records of a stretch of the log, copied once, behind `prev`. `may_wait`: nobody waits for its Received
// (protocol::flag_answer_may_wait).
void encode_run(std::string& out, SegmentId segment, Position prev, const store::LogStretch& stretch, std::size_t count, bool may_wait = false);
void encode(std::string& out, const RunMessage& message);
void encode(std::string& out, const MarksMessage& message);
void encode_page(std::string& out, SegmentId segment, const store::WalkPage& page);
void encode(std::string& out, const PageMessage& message);
void encode(std::string& out, const Floors& message);
void encode(std::string& out, const Pins& message);
void encode(std::string& out, const ClosedTimeMessage& message);
void encode(std::string& out, const Received& message);
void encode(std::string& out, const Credit& message);

[[nodiscard]] bool decode(std::string_view body, Follow& out);
[[nodiscard]] bool decode(std::string_view body, Following& out);
[[nodiscard]] bool decode(std::string_view body, RunMessage& out);
[[nodiscard]] bool decode(std::string_view body, MarksMessage& out);
[[nodiscard]] bool decode(std::string_view body, PageMessage& out);
[[nodiscard]] bool decode(std::string_view body, Floors& out);
[[nodiscard]] bool decode(std::string_view body, Pins& out);
[[nodiscard]] bool decode(std::string_view body, ClosedTimeMessage& out);
[[nodiscard]] bool decode(std::string_view body, Received& out);
[[nodiscard]] bool decode(std::string_view body, Credit& out);

}  // namespace zaris::replication
