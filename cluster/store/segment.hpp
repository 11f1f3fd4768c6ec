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
  std::unique_ptr<SortedView> view;  // of the large slot in which the covered part ends; attached to that slot's table
  Slot view_slot;
  Slot first, last;                  // of our slots, those of the mark's source segment
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
  const std::uint32_t slots;   // how many

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

  // Forgets the tombstones that lie in a chunk which is about to go, and notes in the marks that their absence left none.
  void reclaim_tombstones(const LogChunk& chunk);

  [[nodiscard]] Position head() const { return {generation, log.head()}; }
  [[nodiscard]] WallMicros commit_time(WallMicros now) const { return now > newest_timestamp_us ? now : newest_timestamp_us; }

  ExpiryWheel wheel;
  Lineage lineage;
  std::map<MarkKey, MarkState> marks;
  std::vector<const WalkClaim*> walks;

 private:
  const std::uint64_t seed_;
};

[[nodiscard]] std::uint64_t mix(std::uint64_t x);  // splitmix64's finaliser

// One byte of "last used", in units of about a minute.
inline Word clock_bits(WallMicros now) { return ((now >> 26) & 0xff) << word_clock_shift; }

}  // namespace zaris::store
