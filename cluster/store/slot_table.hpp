// The keys of one slot. Open addressing by cache line: a bucket of 64 bytes holds seven words, a tag byte for each, and the
// number of keys that found it full and went on (Facebook's F14 has the same idea in larger buckets), so that a look-up
// touches one line here and then the record. A leaf that would pass leaf_buckets_max becomes sixteen, chosen by the next
// four high bits of the hash: growing never stops a segment for longer than one leaf takes, and a walk through the leaves
// in hash order survives it.
#pragma once
#include <atomic>
#include <bit>
#include <cstdint>
#include <string_view>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "cluster/record/digest.hpp"
#include "cluster/store/block.hpp"

namespace zaris::store {

[[nodiscard]] std::uint64_t hash_of(std::string_view key);

struct alignas(64) Bucket {
  static constexpr unsigned width = 7;
  std::uint8_t tags[width];  // 0: vacant
  std::uint8_t passed;       // keys whose place lies further on because this bucket was full; 255: many, for ever
  Word words[width];

  [[nodiscard]] std::uint32_t matching(std::uint8_t tag) const {
#if defined(__SSE2__)
    const __m128i line = _mm_load_si128(reinterpret_cast<const __m128i*>(this));
    return static_cast<std::uint32_t>(_mm_movemask_epi8(_mm_cmpeq_epi8(line, _mm_set1_epi8(static_cast<char>(tag))))) & 0x7f;
#else
    std::uint32_t m = 0;
    for (unsigned i = 0; i < width; ++i) m |= static_cast<std::uint32_t>(tags[i] == tag) << i;
    return m;
#endif
  }
};
static_assert(sizeof(Bucket) == 64);

class SortedView;

class alignas(64) SlotTable {
 public:
  static constexpr unsigned leaf_buckets_max_log2 = 11;

  SlotTable() = default;
  SlotTable(const SlotTable&) = delete;
  SlotTable& operator=(const SlotTable&) = delete;
  ~SlotTable();  // frees the records as well

  // The word of this key, or null. Valid until the next insert.
  [[nodiscard]] Word* find(std::uint64_t hash, std::string_view key) const;
  // The key must not be there. `grown` is raised by the bytes that the table took more. Returns its place.
  Word* insert(std::uint64_t hash, Word word, std::int64_t& grown);
  // `at` as find returned it. Frees nothing.
  void erase(std::uint64_t hash, Word* at);

  // Asks the cache for the key's bucket. Needs no lock: it reads where the bucket lies, never the bucket.
  void prefetch(std::uint64_t hash) const {
    const Leaf leaf = leaf_for(hash);
    if (leaf.buckets != nullptr) __builtin_prefetch(leaf.buckets + leaf.home(hash));
  }
  // Under the lock, after that: for the record.
  void prefetch_record(std::uint64_t hash) const;

  // Every word of the leaf in which `from` lies; returns where the next leaf begins, 0 after the last.
  template <class F>
  std::uint64_t visit_leaf(std::uint64_t from, F&& f) const;
  template <class F>
  void visit(F&& f) const {
    std::uint64_t at = 0;
    do {
      at = visit_leaf(at, f);
    } while (at != 0);
  }
  // Words of this very hash (the expiry wheel knows no more of a key). `f` may change its word in place.
  template <class F>
  void visit_hash(std::uint64_t hash, F&& f);
  // Some word, found from a random number; null when the table is empty or the tries were in vain.
  [[nodiscard]] Word* sample(std::uint64_t random, std::uint64_t& hash_out) const;

  // Kept by the segment.
  std::uint32_t live = 0;
  std::uint32_t tombstones = 0;
  std::uint64_t live_bytes = 0;  // of the live records' wire bytes
  Digest digest;
  SortedView* views = nullptr;   // walks that must hear of additions

 private:
  // A leaf (its buckets' address, log2 of their number shifted left by one) or a branch (its address and a low 1); 0: none.
  // Atomic for prefetch alone: a branch stays one for ever, and its memory with it.
  struct Node {
    std::atomic<std::uintptr_t> at{0};
    std::uint32_t count = 0;  // of a leaf's words
  };
  struct Branch {
    Node child[16];
  };
  struct Leaf {
    Bucket* buckets;
    unsigned log2;
    [[nodiscard]] std::uint32_t mask() const { return (1u << log2) - 1; }
    [[nodiscard]] std::uint32_t home(std::uint64_t hash) const { return static_cast<std::uint32_t>(hash >> 7) & mask(); }
  };

  [[nodiscard]] static bool is_branch(std::uintptr_t at) { return (at & 1) != 0; }
  [[nodiscard]] static Branch* as_branch(std::uintptr_t at) { return reinterpret_cast<Branch*>(at - 1); }
  [[nodiscard]] static Leaf as_leaf(std::uintptr_t at) {
    return {reinterpret_cast<Bucket*>(at & ~std::uintptr_t{63}), static_cast<unsigned>(at & 63) >> 1};
  }
  [[nodiscard]] Leaf leaf_for(std::uint64_t hash) const {
    std::uintptr_t at = root_.at.load(std::memory_order_acquire);
    for (unsigned shift = 60; is_branch(at); shift -= 4) at = as_branch(at)->child[(hash >> shift) & 15].at.load(std::memory_order_acquire);
    return as_leaf(at);
  }
  [[nodiscard]] static std::uint32_t room(unsigned log2) { return log2 == 0 ? 7 : (11u << log2) / 2; }
  static void make_leaf(Node& node, unsigned log2, std::int64_t& grown);
  static Word* place(Leaf leaf, std::uint64_t hash, Word word);
  template <class To>
  static void move_all(Leaf from, To&& to);
  static void grow(Node& node, std::int64_t& grown);
  static void destroy(std::uintptr_t node);

  Node root_;
};

template <class F>
std::uint64_t SlotTable::visit_leaf(std::uint64_t from, F&& f) const {
  std::uintptr_t at = root_.at.load(std::memory_order_relaxed);
  unsigned shift = 64;
  while (is_branch(at)) {
    shift -= 4;
    at = as_branch(at)->child[(from >> shift) & 15].at.load(std::memory_order_relaxed);
  }
  if (at != 0) {
    const Leaf leaf = as_leaf(at);
    for (std::uint32_t b = 0; b <= leaf.mask(); ++b) {
      const Bucket& bucket = leaf.buckets[b];
      for (std::uint32_t m = ~bucket.matching(0) & 0x7f; m != 0; m &= m - 1) f(bucket.words[std::countr_zero(m)]);
    }
  }
  if (shift == 64) return 0;
  return ((from >> shift) + 1) << shift;  // wraps to 0 behind the last
}

template <class F>
void SlotTable::visit_hash(std::uint64_t hash, F&& f) {
  const Leaf leaf = leaf_for(hash);
  if (leaf.buckets == nullptr) return;
  const auto tag = static_cast<std::uint8_t>(hash | 0x80);
  std::uint32_t b = leaf.home(hash);
  for (std::uint32_t n = 0; n <= leaf.mask(); ++n, b = (b + 1) & leaf.mask()) {
    Bucket& bucket = leaf.buckets[b];
    for (std::uint32_t m = bucket.matching(tag); m != 0; m &= m - 1) {
      Word* at = bucket.words + std::countr_zero(m);
      if ((*at & word_hash) == hash_bits(hash) && hash_of(key_at(record_of(*at))) == hash) f(at);
    }
    if (bucket.passed == 0) return;
  }
}

}  // namespace zaris::store
