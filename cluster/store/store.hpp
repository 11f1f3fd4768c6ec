// The store of one node: slot tables, op-logs, marks and pins of the segments that it holds. No sockets, files or clocks:
// time is handed in. Every method may be called from any thread unless it says otherwise; a segment's own lock is the
// only lock on a request's path, and no call does I/O under it. Design page record ("Store", "Op-log"), page protocol.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/base/result.hpp"
#include "cluster/placement/scope.hpp"
#include "cluster/record/digest.hpp"
#include "cluster/record/lineage.hpp"
#include "cluster/record/mark.hpp"
#include "cluster/record/position.hpp"
#include "cluster/record/record.hpp"
#include "cluster/record/status.hpp"
#include "cluster/store/log.hpp"
#include "cluster/store/replica.hpp"
#include "cluster/store/spill_device.hpp"

namespace zaris::store {

inline constexpr std::size_t spill_cache_bytes_max = 64u << 20;  // of log that was read back, in memory

struct StoreOptions {
  ClusterId cluster;
  std::uint32_t segments = 256;
  std::size_t key_bytes_max = 64u << 10;
  std::size_t value_bytes_max = 4u << 20;
  std::uint64_t memory_max_bytes = 1ull << 30;     // what is actively owned: records and tables
  bool evict = true;                               // false: CapacityExceeded at the ceiling
  std::uint64_t log_budget_bytes = 256ull << 20;
  std::uint64_t log_pin_bytes = 1ull << 30;        // hard ceiling of the log in all
  std::uint64_t log_pin_age_us = 24ull * 3600 * 1'000'000;
  std::shared_ptr<SpillDevice> spill;              // where the log goes that leaves memory; empty: it is gone then
  std::uint64_t spill_bytes = 4ull << 30;          // there, at most
  std::uint64_t seed = 0;                          // tags, ids, sampling; the shell draws it
  // One node of several (replica.hpp): segments begin blank, without a root, in role none; StoreStart's generation and cause
  // mean nothing. Otherwise every segment is owned from the start.
  bool cluster_member = false;
};

// What begins a node's history: one generation record per segment.
struct StoreStart {
  Generation generation;
  RootCause cause = RootCause::created;
  WallMicros now_us = 0;
};

// ---- commits and closed time --------------------------------------------------------------------------------------
// A thread that commits owns a Committer. Protocol: begin(clock) before a batch of operations (clock is called after
// the lower bound has been published), then operations with the returned time, idle() after it.
class Committer {
 public:
  virtual ~Committer() = default;
  [[nodiscard]] virtual WallMicros begin(const std::function<WallMicros()>& clock) = 0;
  virtual void idle() = 0;
};

// ---- requests -----------------------------------------------------------------------------------------------------
struct Put {
  std::string_view key;
  std::string_view value;
  WallMicros expires_us = 0;                 // absolute; 0: never; in the past: the key is gone at once (a tombstone)
  std::optional<ItemToken> expected;         // compare-and-swap
  bool only_if_absent = false;
};
struct WriteOutcome {
  Status status = Status::ok;
  ItemToken token;                           // of what stands now (ok), of what stood in the way (conflict)
  SegmentId segment;
  Position position;                         // of the record written
};
struct ReadOutcome {
  Status status = Status::ok;                // ok or not_found
  ItemToken token;
  WallMicros expires_us = 0;
  Position position;
};
struct ScanRequest {
  Scope scope;                               // prefix and slot ranges
  std::optional<SlotKey> after;              // resume token; empty: from the start
  std::size_t count_max = 1024;
  std::size_t bytes_max = 256u << 10;
  bool keys_only = false;
};
struct ScanPage {
  Status status = Status::ok;                // moved: the first segment that it would enter is not owned here
  std::vector<std::string> records;          // whole records, live and not expired, in (slot, key) order
  // Empty: that was the last page. In front of a segment that is not owned here: that segment's owner goes on.
  std::optional<SlotKey> next;
};

// ---- the feed's view ----------------------------------------------------------------------------------------------
struct SegmentState {
  Position head;                             // position of the newest record (at least the root generation record)
  Revision floor;                            // oldest revision held, in memory or outside; head + 1 when the log is empty
  Revision memory_floor;                     // oldest revision held in memory
  std::uint64_t log_bytes_total = 0;         // bytes ever appended (head's running number; see log_bytes_at)
  std::uint64_t live_keys = 0, live_bytes = 0, tombstones = 0;
  WallMicros newest_timestamp_us = 0;
  SegmentRole role = SegmentRole::owner;
  // A copy that has begun and is not whole: what is here is part old, part new, and proves nothing. Until then the owner's
  // pages beyond `copied_to` are still to come.
  bool copying = false;
  std::optional<SlotKey> copied_to;
};

// One page of a walk: every live record of (from, to] as of `as_of`, the head read under the same lock hold.
struct WalkPage {
  std::optional<SlotKey> from, to;           // to empty: the end of the segment
  Position as_of;
  std::string table;                         // record_table.hpp, deltas 0
  std::string records;
  std::uint64_t count = 0;
  Digest digest;                             // of the records in the page
};
struct WalkLimits {
  std::size_t records_max = 1024;
  std::size_t bytes_max = 256u << 10;        // one record of any size always passes
};
// One reader's walk through a segment. Keeps the sorted view that large slots need. One thread at a time.
class Walk {
 public:
  virtual ~Walk() = default;
  // The page that follows `from` (as given at begin_walk, then the previous page's `to`).
  [[nodiscard]] virtual WalkPage next(const WalkLimits& limits) = 0;
  [[nodiscard]] virtual bool done() const = 0;
};

// Set bits for segments that moved; a commit sets one and calls `wake` only if the owner had said that it sleeps.
class DirtyMap {
 public:
  virtual ~DirtyMap() = default;
  // Takes and clears all bits; ascending.
  virtual void drain(std::vector<SegmentId>& out) = 0;
  // Owner: "I am about to sleep"; returns false when something is dirty already (do not sleep then).
  [[nodiscard]] virtual bool prepare_sleep() = 0;
  virtual void awake() = 0;
};

// ---- pins ---------------------------------------------------------------------------------------------------------
struct PinKey {
  std::string principal, link;
  ScopeId scope;
  ClusterId target;
  friend auto operator<=>(const PinKey&, const PinKey&) = default;
};
struct PinInfo {
  PinKey key;
  Scope scope;
  bool attached = false;                     // a session is on it now
  WallMicros since_us = 0, moved_us = 0;     // created; last moved by an acknowledgement
  // Of the log of what is owned here, for this pin's sake or others': never more than there is. What a replica holds is its owner's
  // to say, and counts at none of its bounds.
  std::uint64_t held_bytes = 0, held_records = 0;
  std::uint64_t bytes_max = 0;               // the bound
  std::uint64_t age_max_us = 0;              // that of a reader that is away; 0: none (with a spill the log is kept whoever needs it)
  // Until a bound cuts it, at the rate of the last half minute's writes (write_rate.hpp); empty: not in sight. A reader that is there and
  // keeps up has no such time.
  std::optional<double> seconds_left;
  std::uint64_t segments = 0;                // that are owned here
  bool lost = false;                         // it was cut in some that are: so until its reader has been told
  // Otherwise all that it is here is what another owner has said, should this node follow it.
  [[nodiscard]] bool holds_here() const { return segments > 0 || lost; }
};

// Where one pin stands in one segment. A reader that is away and has a partial scope is moved over what does not match it:
// whoever resumes at `acknowledged` or later goes on from `moved`, although the log between may be gone.
struct PinPlace {
  Position acknowledged;
  Position moved;
};

struct StoreCounters {
  std::uint64_t puts = 0, deletes = 0, gets_hit = 0, gets_miss = 0, expired = 0, evicted = 0, applied = 0;
  std::uint64_t log_appended_records = 0, log_appended_bytes = 0, log_trimmed_records = 0;
  std::uint64_t pins_lost = 0, expiry_backlog = 0;
  std::uint64_t spill_written_bytes = 0, spill_read_bytes = 0;
  std::uint64_t spill_write_failures = 0, spill_read_failures = 0;
  std::uint64_t spill_passed_by_records = 0;  // trimmed from memory, since the spill could not take them (in time)
};
struct StoreMemory {
  // What is owned. The ceiling and the log's budget are about this alone.
  std::uint64_t records = 0, tables = 0, log = 0, log_budget = 0, log_pinned = 0, ceiling = 0;
  std::uint64_t spilled = 0, spill_limit = 0, spill_cache = 0;  // of the log outside memory, whoever owns it; what is read back
  std::uint64_t replica_records = 0, replica_tables = 0, replica_log = 0;  // what is not
  WallMicros log_complete_since_us = 0;      // what was committed later than this is in the log of every segment
};

// What a link of this target is (written by OpenLink; the register itself lives in the coordinator).
struct LinkRegistration {
  std::string link;
  ClusterId source_cluster;
  Scope scope;
  SiteEpoch site_epoch;
  FollowerTerm follower_term;
  WallMicros registered_us = 0;        // marks of another registration count for nothing
};
struct MarkRow {
  MarkKey key;
  SegmentId target_segment;
  Mark mark;
  std::uint64_t version = 0;           // of its last change: a replica that has put as much (MarksSince::version) has this mark
};

// What came over a link above a source position that is not on the source's lineage any more.
struct RolledBackRequest {
  std::string link;
  ScopeId scope;
  SegmentId source_segment, target_segment;
  std::uint32_t source_segments = 0;   // 0: as many as here
  Position surviving;                  // the last source position that survived; not below the mark's horizon
  MarkToken token;                     // the mark as it stands
  std::optional<Revision> below;       // the page before's `below`; empty: the first page
  std::size_t bytes_max = 256u << 10;  // of records; one always passes
};
struct RolledBackPage {
  Status status = Status::ok;          // mark_gap; list_gone: the log does not reach back far enough; moved and the like: not owned here
  std::string reason;                  // for people; empty for ok
  std::string table, records;          // record_table.hpp, deltas 0: whole records as this region wrote them, the newest first; a key may stand there again
  std::optional<Revision> below;       // more is to be asked for
};

class Store {
 public:
  [[nodiscard]] static std::unique_ptr<Store> create(const StoreOptions& options, const StoreStart& start);
  virtual ~Store() = default;

  [[nodiscard]] virtual const StoreOptions& options() const = 0;
  [[nodiscard]] virtual std::unique_ptr<Committer> committer() = 0;

  // ---- requests. `now` is what Committer::begin returned.
  virtual WriteOutcome put(const Put& put, WallMicros now) = 0;
  virtual WriteOutcome del(std::string_view key, const std::optional<ItemToken>& expected, WallMicros now) = 0;
  // expires_us 0 persists. A touch is a write: it takes a version, a tag and a revision.
  virtual WriteOutcome touch(std::string_view key, WallMicros expires_us, const std::optional<ItemToken>& expected, WallMicros now) = 0;
  // Appends the value to `out` (which a caller reuses), nothing when not found.
  virtual ReadOutcome get(std::string_view key, WallMicros now, std::string& out) = 0;
  // Asks the cache for what the next operations on these keys will touch; changes nothing. Worth it for the pipelined
  // requests of one read, some 8 to 64 keys at a time.
  virtual void prefetch(std::span<const std::string_view> keys) const = 0;
  virtual ScanPage scan(const ScanRequest& request, WallMicros now) = 0;

  // ---- digests: live content, the clock plays no part
  [[nodiscard]] virtual Digest slot_digest(Slot slot, std::uint64_t* count = nullptr) const = 0;
  [[nodiscard]] virtual Digest segment_digest(SegmentId segment, std::uint64_t* count = nullptr, Position* as_of = nullptr) const = 0;
  // Slots of [first, last] whose records' bytes are not those that were written: their digest, made anew, is not the one that was kept with each
  // write. That is memory which has changed by itself. Reads every record of them, a slot at a time.
  [[nodiscard]] virtual std::uint64_t memory_slots(SegmentId segment, Slot first, Slot last) const = 0;

  // ---- the feed
  [[nodiscard]] virtual SegmentState state(SegmentId segment) const = 0;
  [[nodiscard]] virtual Lineage lineage(SegmentId segment) const = 0;
  // The stretch that begins behind `after`, at most up to `bytes_max` (at least one record).
  virtual LogRead read_log(SegmentId segment, Revision after, std::size_t bytes_max, LogStretch& out) const = 0;
  // Bytes of log above `after`, for backlog figures.
  [[nodiscard]] virtual std::uint64_t log_bytes_after(SegmentId segment, Revision after) const = 0;
  [[nodiscard]] virtual std::unique_ptr<Walk> begin_walk(SegmentId segment, const Scope& scope, std::optional<SlotKey> from) = 0;
  // Current records of these keys as of one position (repair, tools): found records whole, missing by index.
  struct Fetched { Position as_of; std::vector<std::optional<std::string>> records; };
  [[nodiscard]] virtual Fetched fetch(SegmentId segment, const std::vector<std::string>& keys) const = 0;
  // `wake` is called from a committing thread, at most once per sleep. Destroying the map unregisters it.
  [[nodiscard]] virtual std::unique_ptr<DirtyMap> dirty_map(std::function<void()> wake) = 0;
  // A time at or before which nothing new can be committed; read before the heads that are sent with it. Never falls.
  [[nodiscard]] virtual WallMicros closed_time(WallMicros now) = 0;

  // ---- pins
  virtual void set_pin(const PinKey& key, const Scope& scope, SegmentId segment, Position at, WallMicros now) = 0;
  // Likewise as another copy of the segment has it: nothing between the two places matches the scope.
  virtual void set_pin_place(const PinKey& key, const Scope& scope, SegmentId segment, PinPlace place, WallMicros now) = 0;
  virtual void attach_pin(const PinKey& key, bool attached, WallMicros now) = 0;
  virtual bool drop_pin(const PinKey& key) = 0;
  // The pin holds nothing in this segment any more, nor has it lost anything there if that is owned here. It is gone when that is so
  // everywhere and nobody is on it.
  virtual void clear_pin(const PinKey& key, SegmentId segment) = 0;
  [[nodiscard]] virtual std::vector<PinInfo> pins(WallMicros now) const = 0;
  // Empty: no such pin, none in this segment, or lost.
  [[nodiscard]] virtual std::optional<PinPlace> pin_place(const PinKey& key, SegmentId segment) const = 0;
  // The lowest acknowledged revision of the segment's readers, of those whose pin has not this target (a region's replicas have their own
  // cluster as target). Empty: nobody holds anything.
  [[nodiscard]] virtual std::optional<Revision> lowest_pin(SegmentId segment, ClusterId not_target) const = 0;

  // ---- applies from another region
  // Registers (or replaces) what a link is here and writes the term into its marks, before anything is read for it.
  // Status: Ok; ScopeMismatch (overlap with another link's scope); TermSuperseded; EpochSuperseded; SourceChanged.
  virtual Status open_link(const LinkRegistration& link, std::string& reason) = 0;
  virtual void close_link(const std::string& link) = 0;   // its marks go, the scope is no standby any more
  [[nodiscard]] virtual std::vector<LinkRegistration> links() const = 0;
  [[nodiscard]] virtual std::vector<MarkRow> read_marks(const std::string& link, ScopeId scope) const = 0;
  // zaris::mark_checksum (mark.hpp) over all marks of the link and scope: an idle segment's lost tail is found this way.
  [[nodiscard]] virtual std::uint64_t mark_checksum(const std::string& link, ScopeId scope) const = 0;
  virtual ApplyAnswer apply(const ApplyBatch& batch, WallMicros now) = 0;
  // A bounded amount of log per call, so that a page may be empty and not the last.
  [[nodiscard]] virtual RolledBackPage list_rolled_back(const RolledBackRequest& request) const = 0;
  // Is this key in a scope that a link feeds? Then ordinary writes get Standby once 4 of 4 enforces it; expiry and
  // eviction leave such keys alone already.
  [[nodiscard]] virtual bool standby(Slot slot, std::string_view key) const = 0;

  // ---- copies inside a region (replica.hpp); only where options().cluster_member. A request on a segment in another role than
  // owner is answered Moved (a write at a replica: ReplicaWriteRejected), nothing is done; apply() likewise. Marks are read
  // (read_marks, mark_checksum) where they are owned.
  // Role owner is given by begin_term alone. To none or replica: what is held stays as it is.
  virtual void set_role(SegmentId segment, SegmentRole role) = 0;
  // The segment's lineage must know no generation as high, and no copy may be on its way (state().copying). Appends the
  // generation record; from then on it commits. A blank segment begins a root. Returns the record's position.
  virtual Position begin_term(SegmentId segment, const Term& term, WallMicros now) = 0;
  virtual ReplicaAnswer append_run(SegmentId segment, const ReplicaRun& run, WallMicros now) = 0;
  // The segment is to be replaced by the owner's content: log emptied, lineage and head taken over, floor = head + 1, marks gone.
  // The records stay until the page that covers them. A run takes the head on meanwhile; of its records only those of
  // keys that are covered already go into the tables. While a copy is on its way this begins it anew.
  virtual ReplicaAnswer begin_copy(SegmentId segment, const CopyStart& start, WallMicros now) = 0;
  // Replaces one range, in order: `from` is copied_to. A page without `to` is the last, and the copy is whole.
  virtual ReplicaAnswer copy_page(SegmentId segment, const CopyPage& page, WallMicros now) = 0;
  // "Digests are equal, keep the records": the copy is whole at once. Gap: pages or runs have come since begin_copy.
  virtual ReplicaAnswer finish_copy(SegmentId segment) = 0;
  // The copy is not made whole by anybody any more, and an operator has accepted what is missing: what has come stays, and the segment is blank
  // otherwise, so that begin_term begins a root behind all that it holds. Nothing where no copy is on its way.
  virtual void keep_half_copy(SegmentId segment) = 0;
  // Gap: our log does not reach their head yet, or theirs is off our lineage. While a copy is on its way they are kept
  // out of sight until it is whole.
  virtual ReplicaAnswer put_marks(SegmentId segment, const MarksSince& marks) = 0;
  // Of an owner. Each change of a mark sets the segment's bit in the dirty maps.
  [[nodiscard]] virtual MarksSince marks_since(SegmentId segment, std::uint64_t since) const = 0;
  // Replica: what the owner has trimmed, pins included; trim_log goes no further. What it has in memory no more leaves memory here too:
  // to the spill, or for good where there is none. A copy that begins forgets both.
  virtual void set_owner_floor(SegmentId segment, Revision floor, Revision memory_floor = {}) = 0;

  // ---- maintenance: called by one thread (the simulator: between events). Each does a bounded amount and returns
  // whether more is waiting.
  virtual bool sweep_expiry(WallMicros now) = 0;
  virtual bool evict(WallMicros now) = 0;
  virtual bool trim_log(WallMicros now) = 0;
  // Tests and the simulator: drop every chunk that nothing pins, down to the head, whatever the budget.
  virtual void trim_log_hard(SegmentId segment) = 0;

  [[nodiscard]] virtual StoreCounters counters() const = 0;
  [[nodiscard]] virtual StoreMemory memory() const = 0;
  // The newest fault of the spill, for people; empty: none so far.
  [[nodiscard]] virtual std::string spill_fault() const = 0;
};

}  // namespace zaris::store
