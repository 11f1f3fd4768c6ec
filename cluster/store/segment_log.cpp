#include "cluster/store/segment_log.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <limits>

#include "cluster/base/assert.hpp"

namespace zaris::store {

std::uint64_t key_prefix_of(std::string_view key) {
  char first[8] = {};
  std::memcpy(first, key.data(), std::min<std::size_t>(key.size(), 8));
  return scan::load64(first);
}

unsigned ChunkPool::class_of(std::size_t bytes) {
  if ((bytes & (bytes - 1)) != 0 || bytes < chunk_bytes_least || bytes > chunk_bytes_most) return classes;
  return static_cast<unsigned>(__builtin_ctzll(bytes / chunk_bytes_least));
}

ChunkPool::~ChunkPool() {
  for (auto& list : free_) {
    for (void* p : list) release(p);
  }
}

void* ChunkPool::take(std::size_t bytes) {
  if (const unsigned c = class_of(bytes); c < classes) {
    const std::lock_guard hold(lock_);
    if (!free_[c].empty()) {
      void* p = free_[c].back();
      free_[c].pop_back();
      held_ -= bytes;
      return p;
    }
  }
  return allocate(bytes);
}

void ChunkPool::give(std::size_t bytes, void* p) {
  if (const unsigned c = class_of(bytes); c < classes) {
    const std::lock_guard hold(lock_);
    if (held_ + bytes <= held_max_) {
      free_[c].push_back(p);
      held_ += bytes;
      return;
    }
  }
  release(p);
}

SegmentLog::SegmentLog(std::size_t chunk_bytes_max, LogShare& share) : chunk_bytes_max_(chunk_bytes_max), share_(share) {}

SegmentLog::~SegmentLog() {
  for (const auto& chunk : chunks_) account_->fetch_sub(chunk->footprint_bytes, std::memory_order_relaxed);
}

std::shared_ptr<LogChunk> SegmentLog::make_chunk(std::size_t bytes, std::size_t records, SharedBuffer* shared) {
  const std::size_t total = sizeof(LogChunk) + (shared != nullptr ? 0 : bytes) + records * sizeof(LogIndex);
  char* block = static_cast<char*>(share_.pool->take(total));
  auto* chunk = new (block) LogChunk;
  chunk->index = reinterpret_cast<LogIndex*>(block + sizeof(LogChunk));
  chunk->index_capacity = static_cast<std::uint32_t>(records);
  chunk->bytes_capacity = static_cast<std::uint32_t>(bytes);
  chunk->footprint_bytes = total + (shared != nullptr ? bytes : 0);
  if (shared != nullptr) {
    shared->hold();
    chunk->shared = shared;
    chunk->bytes = shared->data();
  } else {
    chunk->bytes = block + sizeof(LogChunk) + records * sizeof(LogIndex);
  }
  account_->fetch_add(chunk->footprint_bytes, std::memory_order_relaxed);
  return std::shared_ptr<LogChunk>(chunk, [pool = share_.pool, total](LogChunk* c) {
    c->~LogChunk();
    pool->give(total, c);
  });
}

LogChunk& SegmentLog::chunk_for(std::size_t record_bytes, SharedBuffer* shared, Generation generation, Revision revision) {
  LogChunk* c = current_;
  if (c != nullptr && c->generation == generation && shared == nullptr && c->shared == nullptr &&
      c->used + record_bytes <= c->bytes_capacity && c->published.load(std::memory_order_relaxed) < c->index_capacity) {
    return *c;
  }
  if (c != nullptr && c->published.load(std::memory_order_relaxed) >= 16) {
    average_record_ = std::max<std::uint32_t>(32, c->used / c->published.load(std::memory_order_relaxed));
  }
  std::shared_ptr<LogChunk> chunk;
  if (shared != nullptr) {
    chunk = make_chunk(record_bytes, 1, shared);
  } else {
    // Header and index count too: a chunk is a power of two in all, unless one record is larger. A little more index
    // than the average asks for.
    const std::size_t room = std::max(next_chunk_bytes_ - sizeof(LogChunk), record_bytes + 16 * sizeof(LogIndex));
    const std::size_t records = std::max<std::size_t>(8, room / (average_record_ - average_record_ / 8 + sizeof(LogIndex)));
    const std::size_t index_bytes = std::min(records * sizeof(LogIndex), (room - record_bytes) / sizeof(LogIndex) * sizeof(LogIndex));
    const std::size_t bytes = room - index_bytes;
    chunk = make_chunk(bytes, index_bytes / sizeof(LogIndex), nullptr);
    next_chunk_bytes_ = std::min(next_chunk_bytes_ * 2, chunk_bytes_max_);
  }
  chunk->generation = generation;
  chunk->first = revision;
  chunk->bytes_before = bytes_total_.load(std::memory_order_relaxed);
  current_ = chunk.get();
  const std::lock_guard hold(chunks_lock_);
  chunks_.push_back(std::move(chunk));
  return *current_;
}

const char* SegmentLog::append(std::string_view record, SharedBuffer* shared, const LogNote& note, Generation generation,
                               Revision revision, WallMicros now) {
  ZARIS_ASSERT(revision.value() == head_.load(std::memory_order_relaxed) + 1, revision.value(), head_.load());
  LogChunk& chunk = chunk_for(record.size(), shared, generation, revision);
  char* at = chunk.bytes + chunk.used;
  if (shared == nullptr) std::memcpy(at, record.data(), record.size());
  const std::uint32_t n = chunk.published.load(std::memory_order_relaxed);
  chunk.index[n] = LogIndex{chunk.used, static_cast<std::uint32_t>(record.size()), note.key_prefix, note.slot, note.flags};
  chunk.used += static_cast<std::uint32_t>(record.size());
  if ((note.flags & log_flag_tombstone) != 0) ++chunk.tombstones;
  chunk.last_commit_us.store(std::max(now, chunk.last_commit_us.load(std::memory_order_relaxed)), std::memory_order_relaxed);
  bytes_total_.store(chunk.bytes_before + chunk.used, std::memory_order_release);
  chunk.published.store(n + 1, std::memory_order_release);
  head_.store(revision.value(), std::memory_order_release);
  return at;
}

// At the head nearly always: then no other chunk's header is touched.
SegmentLog::Chunks::const_iterator SegmentLog::chunk_of(Revision revision) const {
  if (chunks_.back()->first <= revision) return std::prev(chunks_.end());
  return std::prev(std::upper_bound(chunks_.begin(), chunks_.end(), revision, [](Revision r, const auto& c) { return r < c->first; }));
}

std::deque<SpilledChunk>::const_iterator SegmentLog::spilled_of(Revision revision) const {
  return std::prev(std::upper_bound(spilled_.begin(), spilled_.end(), revision, [](Revision r, const auto& c) { return r < c.first; }));
}

LogRead SegmentLog::read(Revision after, std::size_t bytes_max, LogStretch& out) const {
  if (after >= head()) return LogRead::at_head;
  std::shared_ptr<const LogChunk> chunk;
  {
    const std::lock_guard hold(chunks_lock_);
    if (chunks_.empty() || after.next() < chunks_.front()->first) {
      return spilled_.empty() || after.next() < spilled_.front().first ? LogRead::trimmed : LogRead::fetching;
    }
    chunk = *chunk_of(after.next());
  }
  return stretch_of(std::move(chunk), after, bytes_max, out);
}

LogRead SegmentLog::stretch_of(std::shared_ptr<const LogChunk> chunk, Revision after, std::size_t bytes_max, LogStretch& out) {
  const std::uint32_t count = chunk->count();
  const auto begin = static_cast<std::uint32_t>(after.value() + 1 - chunk->first.value());
  // The list is changed before the record behind it is published: an empty chunk is one whose first record is on its way.
  if (begin >= count) return LogRead::at_head;
  const LogIndex* index = chunk->index;
  const std::uint32_t offset = index[begin].offset;
  std::uint32_t end = count;
  if (index[count - 1].offset + index[count - 1].length - offset > bytes_max) {
    // The first record that does not fit any more, but one at least is given.
    const LogIndex* past = std::partition_point(index + begin + 1, index + count, [&](const LogIndex& i) {
      return std::size_t{i.offset} + i.length - offset <= bytes_max;
    });
    end = static_cast<std::uint32_t>(past - index);
  }
  const LogIndex& last = index[end - 1];
  out.generation = chunk->generation;
  out.first = after.next();
  out.index = {index + begin, end - begin};
  out.bytes = chunk->bytes + offset;
  out.size = last.offset + last.length - offset;
  const char* last_end = chunk->bytes + last.offset + last.length;
  if ((last.flags & log_flag_generation) != 0) {
    out.newest_timestamp_us = scan::load64(chunk->bytes + last.offset + 2 + 15);
  } else {
    out.newest_timestamp_us = Trailer{last_end - ((last.flags & log_flag_foreign) != 0 ? trailer_foreign : trailer_own)}.timestamp_us();
  }
  out.hold = std::move(chunk);
  return LogRead::ok;
}

std::uint64_t SegmentLog::bytes_after(Revision after) const {
  const std::uint64_t total = bytes_total();
  const std::lock_guard hold(chunks_lock_);
  if (after >= head() || (chunks_.empty() && spilled_.empty())) return 0;
  if (!spilled_.empty() && (chunks_.empty() || after.next() < chunks_.front()->first)) {
    if (after.next() <= spilled_.front().first) return total - std::min(total, spilled_.front().bytes_before);
    const SpilledChunk& chunk = *spilled_of(after.next());  // within it: as if its records were of one size
    const std::uint64_t before = std::uint64_t{chunk.used} * (after.value() + 1 - chunk.first.value()) / std::max<std::uint32_t>(chunk.count, 1);
    return total - std::min(total, chunk.bytes_before + before);
  }
  if (after.next() <= chunks_.front()->first) return total - std::min(total, chunks_.front()->bytes_before);
  const LogChunk& chunk = **chunk_of(after.next());
  const auto i = static_cast<std::uint32_t>(after.value() + 1 - chunk.first.value());
  if (i >= chunk.count()) return 0;
  return total - std::min(total, chunk.bytes_before + chunk.index[i].offset);
}

WallMicros SegmentLog::oldest_commit() const {
  const std::lock_guard hold(chunks_lock_);
  return chunks_.empty() ? std::numeric_limits<WallMicros>::max() : chunks_.front()->last_commit_us.load(std::memory_order_relaxed);
}

std::shared_ptr<const LogChunk> SegmentLog::oldest() const {
  const std::lock_guard hold(chunks_lock_);
  return chunks_.empty() ? nullptr : chunks_.front();
}

std::shared_ptr<const LogChunk> SegmentLog::drop_oldest() {
  std::shared_ptr<LogChunk> chunk;
  const std::lock_guard hold(chunks_lock_);
  chunk = std::move(chunks_.front());
  chunks_.pop_front();
  if (chunk.get() == current_) current_ = nullptr;
  account_->fetch_sub(chunk->footprint_bytes, std::memory_order_relaxed);
  forget_spilled_locked(chunk->last());
  memory_floor_.store(chunk->last().value() + 1, std::memory_order_release);
  floor_.store(chunk->last().value() + 1, std::memory_order_release);
  return chunk;
}

void SegmentLog::restart(Revision head) {
  const std::lock_guard hold(chunks_lock_);
  ZARIS_ASSERT(chunks_.empty() && spilled_.empty(), chunks_.size(), spilled_.size());
  memory_floor_.store(head.value() + 1, std::memory_order_release);
  floor_.store(head.value() + 1, std::memory_order_release);
  head_.store(head.value(), std::memory_order_release);
}

std::optional<SpilledChunk> SegmentLog::spilled_with(Revision revision) const {
  const std::lock_guard hold(chunks_lock_);
  if (spilled_.empty() || revision < spilled_.front().first || spilled_.back().last() < revision) return std::nullopt;
  return *spilled_of(revision);
}

std::optional<SpilledChunk> SegmentLog::oldest_spilled() const {
  const std::lock_guard hold(chunks_lock_);
  return spilled_.empty() ? std::nullopt : std::optional(spilled_.front());
}

std::shared_ptr<LogChunk> SegmentLog::first_staying() const {
  const std::lock_guard hold(chunks_lock_);
  const auto at = std::find_if(chunks_.begin(), chunks_.end(), [](const auto& chunk) { return !chunk->leaving; });
  return at == chunks_.end() ? nullptr : *at;
}

void SegmentLog::seal(const LogChunk& chunk) {
  if (current_ == &chunk) current_ = nullptr;
}

bool SegmentLog::spill_oldest(const LogChunk& chunk, const SpillPlace& place) {
  std::shared_ptr<LogChunk> gone;  // freed, unless somebody reads it, after the lock
  const std::lock_guard hold(chunks_lock_);
  if (chunks_.empty() || chunks_.front().get() != &chunk) return false;
  gone = std::move(chunks_.front());
  chunks_.pop_front();
  if (current_ == gone.get()) current_ = nullptr;
  account_->fetch_sub(gone->footprint_bytes, std::memory_order_relaxed);
  spilled_.push_back(SpilledChunk{gone->generation, gone->first, gone->count(), gone->used, gone->bytes_before,
                                  gone->last_commit_us.load(std::memory_order_relaxed), place});
  share_.spilled_bytes.fetch_add(place.length, std::memory_order_relaxed);
  memory_floor_.store(gone->last().value() + 1, std::memory_order_release);
  return true;
}

std::uint64_t SegmentLog::forget_spilled(Revision through) {
  const std::lock_guard hold(chunks_lock_);
  return forget_spilled_locked(through);
}

std::uint64_t SegmentLog::forget_spilled_locked(Revision through) {
  std::uint64_t records = 0;
  while (!spilled_.empty() && spilled_.front().first <= through) {
    const SpilledChunk& chunk = spilled_.front();
    records += chunk.count;
    share_.spilled_bytes.fetch_sub(chunk.place.length, std::memory_order_relaxed);
    share_.spill->drop(chunk.place);
    floor_.store(chunk.last().value() + 1, std::memory_order_release);
    spilled_.pop_front();
  }
  return records;
}

void SegmentLog::count_as_owned(bool owned) {
  std::atomic<std::uint64_t>* to = owned ? &share_.bytes : &share_.replica_bytes;
  if (to == account_) return;
  for (const auto& chunk : chunks_) {
    account_->fetch_sub(chunk->footprint_bytes, std::memory_order_relaxed);
    to->fetch_add(chunk->footprint_bytes, std::memory_order_relaxed);
  }
  account_ = to;
}

}  // namespace zaris::store
