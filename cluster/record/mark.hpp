// Marks, and the batches that move them: one source segment into one target segment. Design page protocol, "Marks" and
// "ApplyBatch". Plain values: the store applies them (cluster/store), the protocol encodes them (cluster/protocol),
// the follower decides them (follower/link).
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/record/digest.hpp"
#include "cluster/record/position.hpp"
#include "cluster/record/status.hpp"

namespace zaris {

// The follower compares what an owner holds with what it expects by one number (page protocol, Marks): XXH3-64, seed 0, over
// one row of 24 bytes per mark, little endian: u16 source segment, u16 target segment, u32 target generation, u64
// session, u64 number; rows ascend by (source segment, target segment). No marks: the hash of nothing.
struct MarkChecksumRow;
[[nodiscard]] std::uint64_t mark_checksum(const std::vector<MarkChecksumRow>& rows);

// What an apply must name. "No mark" is an empty optional of it.
struct MarkToken {
  Generation target_generation;
  SessionId session;
  std::uint64_t number = 0;
  friend bool operator==(const MarkToken&, const MarkToken&) = default;
};

struct MarkChecksumRow {
  SegmentId source_segment, target_segment;
  MarkToken token;
};

enum class Phase : std::uint8_t { bootstrap = 0, stream = 1, repair = 2 };
[[nodiscard]] std::string_view name(Phase phase);

struct MarkKey {
  std::string link;
  ScopeId scope;
  SegmentId source_segment;
  friend auto operator<=>(const MarkKey&, const MarkKey&) = default;
};

struct Mark {
  ClusterId source_cluster;
  HistoryId history;
  SiteEpoch site_epoch;
  FollowerTerm follower_term;
  MarkToken token;
  Phase phase = Phase::bootstrap;
  std::optional<SlotKey> last_key;     // bootstrap only: the last (slot, key) covered; empty: nothing
  WallMicros closed_time_us = 0;
  std::optional<NamedPosition> low;    // where the stream resumes; empty while nothing is covered
  std::optional<NamedPosition> high;   // the highest source position from which anything here stems
  std::optional<NamedPosition> horizon;// up to where an absence left no tombstone
  WallMicros registered_us = 0;        // the registration of its link that it belongs to: of another one it counts for nothing
  std::optional<NamedPosition> since;  // bootstrap only: where the mark stood before it. What is newer at the source is enough to send (kind delta)
  friend bool operator==(const Mark&, const Mark&) = default;

  [[nodiscard]] bool covers_something() const { return low.has_value(); }
};

enum class ApplyKind : std::uint8_t { open = 0, stream = 1, range = 2, delta = 3, repair = 4, check = 5 };
enum class Durability : std::uint8_t { store_default = 0, owner = 1, replica = 2, majority = 3, all = 4 };

// A range of the ordered walk, replaced whole. from exclusive (empty: before everything), to inclusive (empty: the end).
// For a check: compared with what the batch brings of the source, as of the place where the mark stands; the mark stays there.
struct ApplyRange {
  std::optional<SlotKey> from;
  std::optional<SlotKey> to;
  NamedPosition as_of;
  bool final = false;                 // the mark goes on in phase stream
  bool mend = false;                  // a check: what differs becomes what the source has
  // Kinds range and check: no records come, the owner compares its own range with these. Kind delta: the records that come are those that changed,
  // and these are the source's other ones of the range; the owner compares its own others with them.
  struct Equal {
    std::uint64_t count = 0;
    Digest digest;
    std::string_view names;           // delta, and may be empty: Digest::name() of each, 4 bytes little endian. What the owner holds and they do not name goes
  };
  std::optional<Equal> equal;
};

// Just those keys put right whose newest writes the source has lost. Design page follower, "Repair".
struct ApplyRepair {
  NamedPosition surviving;            // of what the mark stems from, the last that is on the source's lineage still
  NamedPosition as_of;                // of the source's records that come with it
  bool final = false;                 // the mark goes on in phase stream, from `surviving`
};

// Views: table and records must outlive the call.
struct ApplyBatch {
  std::string_view link;
  ClusterId source_cluster;
  HistoryId history;
  ScopeId scope;
  SegmentId source_segment;
  SegmentId target_segment;
  // How many segments the source has: the owner clips ranges without a `from` or a `to` to the slots that this source
  // segment and the target segment share. 0: as many as the target.
  std::uint32_t source_segments = 0;
  FollowerTerm follower_term;
  SiteEpoch site_epoch;
  SessionId session;
  std::optional<MarkToken> expected;        // the token of the mark as it must stand now; empty: no mark
  std::optional<NamedPosition> prev;        // stream: where the run starts (exclusive); open: what becomes the mark's `since`
  std::optional<NamedPosition> last;        // stream: where it ends (inclusive)
  WallMicros closed_time_us = 0;
  ApplyKind kind = ApplyKind::stream;
  Durability durability = Durability::store_default;
  std::uint64_t removals_left = 0;          // how many live keys this bootstrap may still take away, or this repair take away or roll back
  std::optional<ApplyRange> range;          // kinds range, delta and check
  std::optional<ApplyRepair> repair;        // kind repair; a key that the source has not is a tombstone of cause 4 among the records
  // Names of records that the batch may take away, as answered by WouldLose: those with origin nil; of a check that mends, any.
  std::vector<std::string> may_lose;
  // Which write of each of them (record_name of it): another one that has come since is named anew. 0, or none at all: whatever it is by now;
  // what it was then is in the answer.
  std::vector<std::uint64_t> may_lose_names;
  std::string_view table;                   // record_table.hpp
  std::string_view records;
};

// A record that stands in the way: written by the target itself while the scope was a standby. Or one that a check found to differ.
struct LostRecord {
  std::string key;
  std::string record;  // its bytes, whole; empty: the target has none (a check)
};

struct ApplyAnswer {
  Status status = Status::ok;
  std::optional<Mark> mark;                 // as it stands now (MarkGap: as it stood)
  std::uint64_t applied = 0, skipped = 0, replaced = 0, removed = 0, conflicts = 0;
  std::optional<std::uint32_t> refused_index;  // a record that the target will never take, and why
  Status refused_status = Status::ok;
  Generation target_generation;
  Position target_position;
  std::uint64_t marks_version = 0;          // of the target segment's marks with this one, for who waits for replicas; not sent
  std::uint64_t removal_count = 0;          // RemovalLimit: how many it would have been
  std::vector<LostRecord> would_lose;       // WouldLose, at most 1,000 of them; Ok: those that went under a name of 0; of a check that came with records: those that differ, likewise
  std::uint64_t differing = 0;              // of a check: keys that differ; where only digests were compared: 1
  std::uint64_t memory_slots = 0;           // of a check with records: slots whose bytes are not those that were written here
  std::string reason;                       // for people; empty for ok
};

}  // namespace zaris
