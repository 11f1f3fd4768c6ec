// The keys of one slot: open addressing in groups of sixteen control bytes (Abseil's "Swiss table": one SSE2 compare finds
// the candidates of a group), 8-byte words beside them. A leaf that passes leaf_capacity_max becomes sixteen, chosen by
// the next four high bits of the hash, so that growing never stops a segment for longer than one leaf takes and a walk
// through the leaves in hash order survives it.
#pragma once
#include <cstdint>
#include <functional>
#include <string_view>

#include "cluster/record/digest.hpp"
#include "cluster/store/block.hpp"

namespace zaris::store {

[[nodiscard]] std::uint64_t hash_of(std::string_view key);

struct Leaf;    // header, control bytes, words in one allocation
struct Branch;  // sixteen children

class SortedView;

class SlotTable {
 public:
  static constexpr std::uint32_t leaf_capacity_max = 8192;

  SlotTable() = default;
  SlotTable(const SlotTable&) = delete;
  SlotTable& operator=(const SlotTable&) = delete;
  ~SlotTable();  // frees the records as well

  // The word of this key, or null. Valid until the next insert or erase.
  [[nodiscard]] Word* find(std::uint64_t hash, std::string_view key) const;
  // The key must not be there. `grown` is raised by the bytes that the table took more (or fewer). Returns its place.
  Word* insert(std::uint64_t hash, Word word, std::int64_t& grown);
  // `at` as find returned it. Frees nothing.
  void erase(std::uint64_t hash, Word* at);

  // Asks the cache for where the key's control bytes are; then, later, for its record.
  void prefetch(std::uint64_t hash) const;
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
  // Words that may be of this hash (their own keys decide; the expiry wheel knows only the hash). At most one is changed
  // by `f`, in place.
  template <class F>
  void visit_hash(std::uint64_t hash, F&& f);
  // Some occupied word, found from a random number; null when the table is empty or the tries were in vain.
  [[nodiscard]] Word* sample(std::uint64_t random, std::uint64_t& hash_out) const;

  // Kept by the segment.
  std::uint32_t live = 0;
  std::uint32_t tombstones = 0;
  std::uint64_t live_bytes = 0;  // of the live records' wire bytes
  Digest digest;
  SortedView* views = nullptr;   // walks that must hear of additions

 private:
  // Low bit: a Branch. 0: empty.
  std::uintptr_t root_ = 0;

  [[nodiscard]] static Leaf* as_leaf(std::uintptr_t n) { return reinterpret_cast<Leaf*>(n); }
  [[nodiscard]] static Branch* as_branch(std::uintptr_t n) { return reinterpret_cast<Branch*>(n - 1); }
  [[nodiscard]] static bool is_branch(std::uintptr_t n) { return (n & 1) != 0; }
  // Words whose key has exactly this hash, at most 16.
  unsigned find_hash(std::uint64_t hash, Word* out[16]) const;
  [[nodiscard]] Leaf* leaf_for(std::uint64_t hash) const;
  static void destroy(std::uintptr_t node);
};

struct alignas(16) Leaf {
  std::uint32_t capacity;  // a power of two, at least 16
  std::uint32_t room;      // inserts into empty places left before it must grow
  std::uint32_t count;
  std::uint32_t unused;
  [[nodiscard]] std::uint8_t* control() { return reinterpret_cast<std::uint8_t*>(this + 1); }
  [[nodiscard]] Word* words() { return reinterpret_cast<Word*>(control() + capacity); }
};
struct Branch {
  std::uintptr_t child[16];
};

template <class F>
void SlotTable::visit_hash(std::uint64_t hash, F&& f) {
  Word* candidates[16];
  const unsigned n = find_hash(hash, candidates);
  for (unsigned i = 0; i < n; ++i) f(candidates[i]);
}

template <class F>
std::uint64_t SlotTable::visit_leaf(std::uint64_t from, F&& f) const {
  std::uintptr_t n = root_;
  unsigned shift = 64;
  while (is_branch(n)) {
    shift -= 4;
    n = as_branch(n)->child[(from >> shift) & 15];
  }
  if (n != 0) {
    Leaf* leaf = as_leaf(n);
    const std::uint8_t* control = leaf->control();
    Word* words = leaf->words();
    for (std::uint32_t i = 0; i < leaf->capacity; ++i) {
      if (control[i] < 0x80) f(words[i]);
    }
  }
  if (shift == 64) return 0;
  return ((from >> shift) + 1) << shift;  // wraps to 0 behind the last
}

}  // namespace zaris::store
