// The op-log of one segment: contiguous records by revision, in chunks that readers hold without a lock.
// Design page record, "Op-log". A chunk holds records of one generation only: a generation record begins a new one.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "cluster/record/position.hpp"

namespace zaris::store {

// What a reader may know of a record without decoding it.
struct LogIndex {
  std::uint32_t offset = 0;      // of its bytes in the chunk
  std::uint32_t length = 0;
  std::uint64_t key_prefix = 0;  // first 8 key bytes, big endian, zero-padded (a key shorter than 8 needs its bytes looked at)
  Slot slot;
  std::uint8_t flags = 0;        // log_flag_*
};
inline constexpr std::uint8_t log_flag_tombstone = 1;
inline constexpr std::uint8_t log_flag_foreign = 2;     // origin is not nil: the live tail leaves it out (feed rule 9)
inline constexpr std::uint8_t log_flag_generation = 4;  // a generation record

class LogChunk;

// Consecutive records of one chunk, as far as they were published when it was taken. Valid while `hold` lives.
struct LogStretch {
  std::shared_ptr<const LogChunk> hold;
  Generation generation;
  Revision first;                        // revision of index[0]
  std::span<const LogIndex> index;
  const char* bytes = nullptr;           // of index[0]; records follow each other without gaps
  std::size_t size = 0;                  // of all of them
  WallMicros newest_timestamp_us = 0;    // of the last
  [[nodiscard]] Revision last() const { return Revision{first.value() + index.size() - 1}; }
  [[nodiscard]] std::string_view record(std::size_t i) const {
    return {bytes + (index[i].offset - index[0].offset), index[i].length};
  }
};

// fetching: it lies outside memory and is being brought; its segment is marked dirty (DirtyMap) when it has come, and then it is read again.
enum class LogRead : std::uint8_t { ok, at_head, trimmed, fetching };

}  // namespace zaris::store
