// One record in memory, and the 8-byte word by which a slot table knows it.
//
//   word: bits 0–47 address · 48–55 clock of its last use · 56–59 four more bits of the key's hash · 60–63 flags
//
// A live record up to 16 KiB is a block of its own: u16 size, then the record's wire bytes. A larger one is a SharedBuffer
// that the log holds too. A tombstone is no block at all: the word points at the record's bytes in the log, which live
// exactly as long as it is remembered (log_trim drops the word before the chunk).
#pragma once
#include <atomic>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "cluster/record/msgpack_scan.hpp"
#include "cluster/record/record.hpp"
#include "cluster/store/memory.hpp"

namespace zaris::store {

inline constexpr std::size_t inline_record_max = 16u << 10;

struct SharedBuffer {
  std::atomic<std::uint32_t> holders{1};
  std::uint32_t size = 0;
  [[nodiscard]] char* data() { return reinterpret_cast<char*>(this + 1); }
  [[nodiscard]] const char* data() const { return reinterpret_cast<const char*>(this + 1); }

  static SharedBuffer* make(std::size_t size) {
    auto* b = new (allocate(sizeof(SharedBuffer) + size)) SharedBuffer;
    b->size = static_cast<std::uint32_t>(size);
    return b;
  }
  void hold() { holders.fetch_add(1, std::memory_order_relaxed); }
  void drop() {
    if (holders.fetch_sub(1, std::memory_order_acq_rel) == 1) release(this);
  }
};

using Word = std::uint64_t;
inline constexpr Word word_address = (Word{1} << 48) - 1;
inline constexpr Word word_clock_shift = 48;
inline constexpr Word word_clock = Word{0xff} << word_clock_shift;
inline constexpr Word word_hash_shift = 56;
inline constexpr Word word_hash = Word{0xf} << word_hash_shift;
inline constexpr Word word_foreign = Word{1} << 60;    // origin is not nil
inline constexpr Word word_tombstone = Word{1} << 61;
inline constexpr Word word_large = Word{1} << 62;      // a SharedBuffer
inline constexpr Word word_expires = Word{1} << 63;

inline Word hash_bits(std::uint64_t hash) { return ((hash >> 40) & 0xf) << word_hash_shift; }
inline void* address_of(Word w) { return reinterpret_cast<void*>(w & word_address); }

// The header behind the entry: revision, item_version, timestamp, deleted, generation, origin (docs/formats/record.md).
inline constexpr std::size_t trailer_own = 30;
inline constexpr std::size_t trailer_foreign = 53;
struct Trailer {
  const char* p;
  [[nodiscard]] Revision revision() const { return Revision{scan::load64(p + 1)}; }
  [[nodiscard]] std::uint32_t item_version() const { return scan::load32(p + 10); }
  [[nodiscard]] WallMicros timestamp_us() const { return scan::load64(p + 15); }
  [[nodiscard]] Generation generation() const { return Generation{scan::load32(p + 25)}; }
  [[nodiscard]] Position position() const { return {generation(), revision()}; }
  [[nodiscard]] Origin origin() const {  // foreign only
    return {ClusterId{scan::load64(p + 31)}, {Generation{scan::load32(p + 40)}, Revision{scan::load64(p + 45)}}};
  }
  [[nodiscard]] std::uint32_t tag() const { return scan::load32(p - 4); }
};

// trusted_key of a record (not of a generation record), inlined: the first thing that every look-up does with one.
inline std::string_view key_at(const char* record) {
  const char* p = record + 2;
  const auto kind = static_cast<std::uint8_t>(*p);
  if (kind == 0xc4) [[likely]] return {p + 2, static_cast<std::uint8_t>(p[1])};
  if (kind == 0xc5) return {p + 3, scan::load16(p + 1)};
  return {p + 5, scan::load32(p + 1)};
}

// A record that a word points at. `size` of a tombstone is found by scanning its entry.
struct Held {
  const char* data;
  std::size_t size;
  bool foreign;
  [[nodiscard]] std::string_view bytes() const { return {data, size}; }
  [[nodiscard]] std::string_view key() const { return key_at(data); }
  [[nodiscard]] Trailer trailer() const { return {data + size - (foreign ? trailer_foreign : trailer_own)}; }
  [[nodiscard]] std::string_view entry() const { return {data + 1, size - 1 - (foreign ? trailer_foreign : trailer_own)}; }
  [[nodiscard]] ItemToken token() const { return {trailer().item_version(), trailer().tag()}; }
};

// Where the record's bytes begin: enough to compare keys.
inline const char* record_of(Word w) {
  const char* p = static_cast<const char*>(address_of(w));
  if ((w & (word_large | word_tombstone)) == 0) [[likely]] return p + 2;
  return (w & word_large) != 0 ? reinterpret_cast<const SharedBuffer*>(p)->data() : p;
}

inline std::size_t tombstone_size(const char* record, bool foreign) {
  scan::Cursor in(std::string_view(record + 1, std::size_t{1} << 24));
  in.skip();
  return 1 + in.offset() + (foreign ? trailer_foreign : trailer_own);
}

inline Held held(Word w) {
  const bool foreign = (w & word_foreign) != 0;
  const char* p = static_cast<const char*>(address_of(w));
  if ((w & (word_large | word_tombstone)) == 0) [[likely]] {
    std::uint16_t size;
    std::memcpy(&size, p, 2);
    return {p + 2, size, foreign};
  }
  if ((w & word_large) != 0) {
    const auto* b = reinterpret_cast<const SharedBuffer*>(p);
    return {b->data(), b->size, foreign};
  }
  return {p, tombstone_size(p, foreign), foreign};
}

inline std::size_t block_footprint(std::size_t record_bytes) {
  return record_bytes <= inline_record_max ? footprint(record_bytes + 2) : footprint(record_bytes + sizeof(SharedBuffer));
}

// 0: no expiry. Reads forward through the entry.
inline WallMicros expiry_of(Word w, const Held& h) { return (w & word_expires) == 0 ? 0 : trusted_record(h.bytes()).expires_us; }

// Frees what a word owns (nothing, for a tombstone).
inline void free_word(Word w) {
  if ((w & word_tombstone) != 0 || w == 0) return;
  if ((w & word_large) != 0) {
    static_cast<SharedBuffer*>(address_of(w))->drop();
  } else {
    release(address_of(w));
  }
}

// A record being made: allocated and encoded before the lock is taken, owned until a table takes it.
class Block {
 public:
  Block() = default;
  explicit Block(std::size_t record_bytes) : size_(record_bytes) {
    if (record_bytes <= inline_record_max) {
      // The whole class, since a record of another size may take its place.
      char* p = static_cast<char*>(spare_blocks.take(footprint(record_bytes + 2)));
      const auto size = static_cast<std::uint16_t>(record_bytes);
      std::memcpy(p, &size, 2);
      word_ = reinterpret_cast<Word>(p);
    } else {
      word_ = reinterpret_cast<Word>(SharedBuffer::make(record_bytes)) | word_large;
    }
  }
  Block(Block&& other) noexcept : word_(std::exchange(other.word_, 0)), size_(other.size_) {}
  Block& operator=(Block&& other) noexcept {
    std::swap(word_, other.word_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Block() {
    if (word_ == 0) return;
    if ((word_ & word_large) != 0) {
      free_word(word_);
    } else {
      spare_blocks.give(footprint(size_ + 2), address_of(word_));
    }
  }

  [[nodiscard]] char* data() { return const_cast<char*>(record_of(word_)); }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] SharedBuffer* shared() const {
    return (word_ & word_large) != 0 ? static_cast<SharedBuffer*>(address_of(word_)) : nullptr;
  }
  [[nodiscard]] explicit operator bool() const { return word_ != 0; }
  // The table's from here on.
  [[nodiscard]] Word take() { return std::exchange(word_, 0); }

 private:
  Word word_ = 0;
  std::size_t size_ = 0;
};

// A live record's block takes another of the same class in its place: no allocator, no new memory.
inline bool fits_in_place(Word old, std::size_t old_size, std::size_t new_size) {
  return (old & (word_large | word_tombstone)) == 0 && new_size <= inline_record_max && size_class(old_size + 2) == size_class(new_size + 2);
}

// Words to be freed after the lock.
class Garbage {
 public:
  Garbage() = default;
  Garbage(const Garbage&) = delete;
  Garbage& operator=(const Garbage&) = delete;
  ~Garbage() {
    for (unsigned i = 0; i < count_; ++i) free_word(few_[i]);
    for (Word w : more_) free_word(w);
  }
  void add(Word w) {
    if (count_ < 4) {
      few_[count_++] = w;
    } else {
      more_.push_back(w);
    }
  }

 private:
  Word few_[4];
  unsigned count_ = 0;
  std::vector<Word> more_;
};

}  // namespace zaris::store
