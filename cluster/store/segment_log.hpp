// The op-log of one segment as the store sees it: appending, reading, dropping the oldest chunk. See log.hpp.
#pragma once
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "cluster/store/block.hpp"
#include "cluster/store/log.hpp"
#include "cluster/store/spill_device.hpp"

namespace zaris::store {

// One allocation: this header, the bytes, the index. Written by the appender only; what lies below `published` never
// changes again.
class LogChunk {
 public:
  LogChunk() = default;
  LogChunk(const LogChunk&) = delete;
  LogChunk& operator=(const LogChunk&) = delete;
  ~LogChunk() {
    if (shared != nullptr) shared->drop();
  }

  // What an append and the readers at the head touch comes first: one cache line.
  std::uint32_t used = 0;                     // appender only
  std::atomic<std::uint32_t> published{0};    // records
  std::atomic<WallMicros> last_commit_us{0};  // by the clock handed in, not by the records
  char* bytes = nullptr;
  LogIndex* index = nullptr;
  std::uint32_t bytes_capacity = 0;
  std::uint32_t index_capacity = 0;
  std::uint64_t bytes_before = 0;             // log bytes of the segment before this chunk
  SharedBuffer* shared = nullptr;             // a record over 16 KiB, alone
  Generation generation;
  std::uint32_t tombstones = 0;               // appender only: a chunk without any is dropped without being read
  Revision first;
  std::size_t footprint_bytes = 0;
  bool leaving = false;                       // on its way out of memory (spill.hpp); maintenance thread only

  [[nodiscard]] std::uint32_t count() const { return published.load(std::memory_order_acquire); }
  [[nodiscard]] Revision last() const { return Revision{first.value() + count() - 1}; }
};

// What the appender knows of a record before the lock.
struct LogNote {
  std::uint64_t key_prefix = 0;
  Slot slot;
  std::uint8_t flags = 0;
};
[[nodiscard]] std::uint64_t key_prefix_of(std::string_view key);

// Chunks that were trimmed, to be filled again: a log that runs at its budget asks nobody for memory. Any thread.
class ChunkPool {
 public:
  static constexpr std::size_t chunk_bytes_least = 4u << 10, chunk_bytes_most = 256u << 10;
  // `held_max` bytes at most are kept.
  explicit ChunkPool(std::size_t held_max) : held_max_(held_max) {}
  ChunkPool(const ChunkPool&) = delete;
  ChunkPool& operator=(const ChunkPool&) = delete;
  ~ChunkPool();
  [[nodiscard]] void* take(std::size_t bytes);
  void give(std::size_t bytes, void* p);

 private:
  static constexpr unsigned classes = 7;  // 4 KiB … 256 KiB
  [[nodiscard]] static unsigned class_of(std::size_t bytes);  // `classes`: none
  const std::size_t held_max_;
  std::mutex lock_;
  std::size_t held_ = 0;
  std::vector<void*> free_[classes];
};

// A chunk that has left memory.
struct SpilledChunk {
  Generation generation;
  Revision first;
  std::uint32_t count = 0, used = 0;
  std::uint64_t bytes_before = 0;
  WallMicros last_commit_us = 0;
  SpillPlace place;
  [[nodiscard]] Revision last() const { return Revision{first.value() + count - 1}; }
};

// What the segments' logs of one store share.
struct LogShare {
  std::atomic<std::uint64_t> bytes{0};          // of chunks that are in the log of a segment that is owned
  std::atomic<std::uint64_t> replica_bytes{0};  // of all others
  std::shared_ptr<ChunkPool> pool;      // a reader's chunk may outlive the store
  std::shared_ptr<SpillDevice> spill;   // empty: history ends with memory
  std::atomic<std::uint64_t> spilled_bytes{0};
};

class SegmentLog {
 public:
  // `chunk_bytes_max`: 4 KiB … 256 KiB, a power of two.
  SegmentLog(std::size_t chunk_bytes_max, LogShare& share);
  ~SegmentLog();

  // Under the segment's lock. `shared`: the buffer that `record` lies in, when it is a large one. Revisions follow each
  // other. Returns where the record's bytes are now.
  const char* append(std::string_view record, SharedBuffer* shared, const LogNote& note, Generation generation, Revision revision,
                     WallMicros now);

  // Any thread, without the segment's lock. fetching: it lies outside memory (spilled_with), whoever reads that goes on with stretch_of.
  LogRead read(Revision after, std::size_t bytes_max, LogStretch& out) const;
  // `after` + 1 is in the chunk, or would be its next.
  static LogRead stretch_of(std::shared_ptr<const LogChunk> chunk, Revision after, std::size_t bytes_max, LogStretch& out);
  [[nodiscard]] std::uint64_t bytes_after(Revision after) const;
  [[nodiscard]] Revision head() const { return Revision{head_.load(std::memory_order_acquire)}; }
  [[nodiscard]] Revision floor() const { return Revision{floor_.load(std::memory_order_acquire)}; }
  // Of what is in memory; the floor itself where nothing has left it.
  [[nodiscard]] Revision memory_floor() const { return Revision{memory_floor_.load(std::memory_order_acquire)}; }
  [[nodiscard]] std::uint64_t bytes_total() const { return bytes_total_.load(std::memory_order_acquire); }
  // When the oldest chunk was last committed to; the largest number when there is none.
  [[nodiscard]] WallMicros oldest_commit() const;

  [[nodiscard]] std::shared_ptr<const LogChunk> oldest() const;
  // Takes the oldest chunk out of the log (the caller has dealt with its tombstones), and all that had left memory before it;
  // freed with its last holder.
  [[nodiscard]] std::shared_ptr<const LogChunk> drop_oldest();

  // ---- outside memory. Any thread, unless it is said.
  [[nodiscard]] std::optional<SpilledChunk> spilled_with(Revision revision) const;
  [[nodiscard]] std::optional<SpilledChunk> oldest_spilled() const;
  // The oldest chunk in memory that is not on its way out.
  [[nodiscard]] std::shared_ptr<LogChunk> first_staying() const;
  // Under the segment's lock: the chunk takes no more records.
  void seal(const LogChunk& chunk);
  // Under the segment's lock. The chunk lies at `place` now and its memory is given back: so if it is the oldest in memory still.
  [[nodiscard]] bool spill_oldest(const LogChunk& chunk, const SpillPlace& place);
  // What has left memory and begins at or below `through` is history no more. How many records that was.
  std::uint64_t forget_spilled(Revision through);

  // Under the segment's lock.
  using Chunks = std::deque<std::shared_ptr<LogChunk>>;
  [[nodiscard]] const Chunks& chunks() const { return chunks_; }
  // An empty log, nothing of it spilled, goes on behind `head`, which may lie anywhere.
  void restart(Revision head);
  // Which of LogShare's numbers its chunks are in.
  void count_as_owned(bool owned);

 private:
  // Under chunks_lock_; the revision is in the log.
  [[nodiscard]] Chunks::const_iterator chunk_of(Revision revision) const;
  [[nodiscard]] std::deque<SpilledChunk>::const_iterator spilled_of(Revision revision) const;
  std::uint64_t forget_spilled_locked(Revision through);
  LogChunk& chunk_for(std::size_t record_bytes, SharedBuffer* shared, Generation generation, Revision revision);
  [[nodiscard]] std::shared_ptr<LogChunk> make_chunk(std::size_t bytes, std::size_t records, SharedBuffer* shared);

  alignas(64) LogChunk* current_ = nullptr;     // one cache line: what every append touches
  std::atomic<std::uint64_t> head_{0};
  std::atomic<std::uint64_t> bytes_total_{0};
  std::atomic<std::uint64_t> floor_{1}, memory_floor_{1};
  const std::size_t chunk_bytes_max_;
  LogShare& share_;
  std::atomic<std::uint64_t>* account_ = &share_.bytes;
  std::size_t next_chunk_bytes_ = 4096;
  std::uint32_t average_record_ = 128;          // of the chunk before, for the size of the index
  mutable std::mutex chunks_lock_;              // held for a few instructions: the list, never the records
  Chunks chunks_;
  std::deque<SpilledChunk> spilled_;            // older than all of them, without a gap
};

}  // namespace zaris::store
