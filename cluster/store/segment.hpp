// One segment: its lock, its slots' tables, its log, its marks. Everything here but the log's readers and the tag counter
// is under the lock.
#pragma once
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "cluster/placement/slot.hpp"
#include "cluster/record/lineage.hpp"
#include "cluster/record/mark.hpp"
#include "cluster/store/expiry_wheel.hpp"
#include "cluster/store/mark_versions.hpp"
#include "cluster/store/segment_log.hpp"
#include "cluster/store/slot_table.hpp"
#include "cluster/store/sorted_view.hpp"
#include "cluster/store/store.hpp"

namespace zaris::store {

// A key with what is computed of it once per operation.
struct KeyPlace {
  std::string_view key;
  std::uint64_t hash = 0;
  Slot slot;
  SegmentId segment;
};

struct MarkState {
  Mark mark;
  std::uint64_t version = 0;         // of its last change (MarkVersions)
  // A replica's own: up to this source position its absences left no tombstone, whatever the owner's horizon says. Joins the
  // horizon when it becomes the owner.
  std::optional<NamedPosition> blind_to;
  std::unique_ptr<SortedView> view;  // of the large slot in which the covered part ends; attached to that slot's table
  Slot view_slot;
  Slot first, last;                  // of our slots, those of the mark's source segment
};

enum class ChangeKind : std::uint8_t {
  commit,      // our own: the header is filled in, the log takes it
  from_log,    // a replica's: as the owner committed it
  from_page,   // a replica's: what the log is silent about
};

// One change of one key, encoded before the lock.
struct Change {
  const KeyPlace& place;
  Block& block;
  Deleted deleted = Deleted::no;
  std::uint32_t item_version = 0;
  WallMicros timestamp_us = 0;
  std::optional<Origin> origin;
  WallMicros expires_us = 0;
  ChangeKind kind = ChangeKind::commit;
};

// A copy on its way (Store::begin_copy).
struct CopyState {
  Position began_at;
  std::optional<SlotKey> to;         // what is covered; empty: nothing
  // The keys beyond, of the large slot in which the covered part ends. Nothing is added there meanwhile: it is not attached.
  std::unique_ptr<SortedView> view;
  Slot view_slot;
  std::map<MarkKey, Mark> marks;     // come out when it is whole
  [[nodiscard]] bool covers(Slot slot, std::string_view key) const {
    return to && (slot < to->slot || (slot == to->slot && key <= to->key));
  }
};

// A walk's claim on the log (Walk).
struct WalkClaim {
  Revision keeps_above;
};

class alignas(64) Segment {
 public:
  struct Setup {
    SegmentId id;
    std::uint32_t segments;
    Generation generation;
    RootCause cause;
    HistoryId history;
    std::uint64_t generation_id;
    std::uint64_t seed;
    WallMicros now;
    std::size_t chunk_bytes_max;
    bool blank = false;        // no root, role none; generation, cause and history mean nothing
  };
  Segment(const Setup& setup, LogShare& log_share);
  ~Segment();

  // Laid out by cache lines: threads of different cores take turns on a segment, and every line that the last one wrote has to be
  // fetched from its core. First what every operation needs, then what a commit changes, then the rest.
  mutable std::mutex lock;

 private:
  std::unique_ptr<SlotTable[]> tables_;
  std::atomic<std::uint64_t> tags_{0};

 public:
  const SegmentId id;
  const Slot first;            // slot
  const std::uint16_t slots;   // how many
  std::atomic<SegmentRole> role;  // changed under the lock

  alignas(64) WallMicros newest_timestamp_us = 0;
  std::uint64_t live = 0, live_bytes = 0, tombstones = 0;
  std::uint64_t record_bytes = 0;           // footprints of the live records
  std::int64_t table_bytes = 0;
  std::int64_t unreported_bytes = 0;        // of both, not yet in the store's estimate
  Generation generation;

  StoreCounters counters;                   // this segment's
  SegmentLog log;

  // Without the lock: a fresh tag. Deterministic for one order of calls.
  [[nodiscard]] std::uint32_t next_tag();

  [[nodiscard]] SlotTable& table(Slot slot) { return tables_[slot.value() - first.value()]; }
  [[nodiscard]] const SlotTable& table(Slot slot) const { return tables_[slot.value() - first.value()]; }
  [[nodiscard]] Word* find(const KeyPlace& at) { return table(at.slot).find(at.hash, at.key); }

  // Commits one change: header, digest, log, table, expiry, views. `old` as find returned it. The block is taken (live)
  // or left to the caller to free after the lock (tombstone).
  Position commit(const Change& change, Word* old, WallMicros now, Garbage& garbage);
  // A record of which the tables know nothing yet: a copy has not come to its key.
  void log_only(const Change& change, WallMicros now);
  // A live or deleted key that is no more: no tombstone, no revision.
  void forget(const KeyPlace& at, Word* word, Garbage& garbage);
  // Tombstones that the log holds and the tables do not know: of keys that a copy covered after they had been deleted.
  void recall_tombstones();

  // Forgets the tombstones that lie in a chunk which is about to go, and notes in the marks that their absence left none.
  void reclaim_tombstones(const LogChunk& chunk);

  void changed(MarkState& state) { state.version = mark_versions.next(); }
  std::map<MarkKey, MarkState>::iterator erase_mark(std::map<MarkKey, MarkState>::iterator at);
  void drop_view(MarkState& state);

  [[nodiscard]] bool owned() const { return role.load(std::memory_order_relaxed) == SegmentRole::owner; }
  // Does our history hold this position?
  [[nodiscard]] bool holds(Position at) const;
  [[nodiscard]] Position head() const { return {generation, log.head()}; }
  [[nodiscard]] WallMicros commit_time(WallMicros now) const { return now > newest_timestamp_us ? now : newest_timestamp_us; }

  std::vector<const WalkClaim*> walks;
  WallMicros log_complete_since_us;         // what was committed later is in the log, up to its head
  ExpiryWheel wheel;
  Lineage lineage;
  std::map<MarkKey, MarkState> marks;
  MarkVersions mark_versions;
  // Of a copy of another node's segment.
  Revision owner_floor;                     // below it the log may go; 0: nothing may
  Revision owner_memory_floor;              // below it the log may leave memory
  bool copied = false;                      // tombstones of before may be missing (MarkState::blind_to)
  std::unique_ptr<CopyState> copy;

 private:
  const std::uint64_t seed_;
};

// Of the records as they are in memory now; `digest` of the table is kept with each write.
[[nodiscard]] Digest content_digest(const SlotTable& table);

[[nodiscard]] std::uint64_t mix(std::uint64_t x);  // splitmix64's finaliser

// One byte of "last used", in units of about a minute.
inline Word clock_bits(WallMicros now) { return ((now >> 26) & 0xff) << word_clock_shift; }

}  // namespace zaris::store
