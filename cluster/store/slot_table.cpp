#include "cluster/store/slot_table.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <bit>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "cluster/base/assert.hpp"

namespace zaris::store {
namespace {

constexpr std::uint8_t empty = 0x80;
constexpr std::uint8_t erased = 0xfe;

// Bit i: control byte i of the group is so.
#if defined(__SSE2__)
inline std::uint32_t matches(const std::uint8_t* group, std::uint8_t h2) {
  const __m128i g = _mm_load_si128(reinterpret_cast<const __m128i*>(group));
  return static_cast<std::uint32_t>(_mm_movemask_epi8(_mm_cmpeq_epi8(g, _mm_set1_epi8(static_cast<char>(h2)))));
}
inline std::uint32_t vacant(const std::uint8_t* group) {  // empty or erased
  return static_cast<std::uint32_t>(_mm_movemask_epi8(_mm_load_si128(reinterpret_cast<const __m128i*>(group))));
}
#else
inline std::uint32_t matches(const std::uint8_t* group, std::uint8_t h2) {
  std::uint32_t m = 0;
  for (unsigned i = 0; i < 16; ++i) m |= static_cast<std::uint32_t>(group[i] == h2) << i;
  return m;
}
inline std::uint32_t vacant(const std::uint8_t* group) {
  std::uint32_t m = 0;
  for (unsigned i = 0; i < 16; ++i) m |= static_cast<std::uint32_t>(group[i] >> 7) << i;
  return m;
}
#endif

inline std::uint8_t h2_of(std::uint64_t hash) { return static_cast<std::uint8_t>(hash & 0x7f); }
inline std::uint32_t first_group(std::uint64_t hash, std::uint32_t capacity) {
  return static_cast<std::uint32_t>(hash >> 7) & (capacity / 16 - 1);
}

std::size_t leaf_bytes(std::uint32_t capacity) { return sizeof(Leaf) + capacity * (1 + sizeof(Word)); }

Leaf* make_leaf(std::uint32_t capacity) {
  auto* leaf = static_cast<Leaf*>(allocate(leaf_bytes(capacity)));
  leaf->capacity = capacity;
  leaf->room = capacity / 8 * 7;
  leaf->count = 0;
  leaf->unused = 0;
  std::memset(leaf->control(), empty, capacity);
  return leaf;
}

// The place of a key that is known to be absent.
Word* place(Leaf* leaf, std::uint64_t hash, Word word) {
  const std::uint32_t groups = leaf->capacity / 16;
  std::uint32_t g = first_group(hash, leaf->capacity);
  for (std::uint32_t step = 1;; ++step) {
    std::uint8_t* group = leaf->control() + g * 16;
    if (const std::uint32_t free = vacant(group); free != 0) {
      const auto i = static_cast<std::uint32_t>(std::countr_zero(free));
      if (group[i] == empty) --leaf->room;
      group[i] = h2_of(hash);
      ++leaf->count;
      Word* at = leaf->words() + g * 16 + i;
      *at = (word & ~word_hash) | hash_bits(hash);
      return at;
    }
    g = (g + step) & (groups - 1);
  }
}

// Moves every word of `from` to wherever `to(hash)` says. The keys must be read for their hashes: they are asked for
// some words ahead.
template <class To>
void move_all(Leaf* from, To&& to) {
  constexpr std::uint32_t ahead = 12;
  const std::uint8_t* control = from->control();
  const Word* words = from->words();
  for (std::uint32_t i = 0; i < from->capacity; ++i) {
    if (i + ahead < from->capacity && control[i + ahead] < 0x80) __builtin_prefetch(address_of(words[i + ahead]));
    if (control[i] >= 0x80) continue;
    const std::uint64_t hash = hash_of(trusted_key(record_of(words[i])));
    place(to(hash), hash, words[i]);
  }
}

}  // namespace

std::uint64_t hash_of(std::string_view key) { return XXH3_64bits(key.data(), key.size()); }

SlotTable::~SlotTable() {
  visit([](Word w) { free_word(w); });
  destroy(root_);
}

void SlotTable::destroy(std::uintptr_t node) {
  if (node == 0) return;
  if (is_branch(node)) {
    for (auto child : as_branch(node)->child) destroy(child);
    release(as_branch(node));
  } else {
    release(as_leaf(node));
  }
}

Leaf* SlotTable::leaf_for(std::uint64_t hash) const {
  std::uintptr_t n = root_;
  for (unsigned shift = 60; is_branch(n); shift -= 4) n = as_branch(n)->child[(hash >> shift) & 15];
  return as_leaf(n);
}

Word* SlotTable::find(std::uint64_t hash, std::string_view key) const {
  Leaf* leaf = leaf_for(hash);
  if (leaf == nullptr) return nullptr;
  const std::uint32_t groups = leaf->capacity / 16;
  const Word more = hash_bits(hash);
  std::uint32_t g = first_group(hash, leaf->capacity);
  for (std::uint32_t step = 1; step <= groups; ++step) {
    const std::uint8_t* group = leaf->control() + g * 16;
    for (std::uint32_t m = matches(group, h2_of(hash)); m != 0; m &= m - 1) {
      Word* at = leaf->words() + g * 16 + std::countr_zero(m);
      if ((*at & word_hash) == more && trusted_key(record_of(*at)) == key) return at;
    }
    if (matches(group, empty) != 0) return nullptr;
    g = (g + step) & (groups - 1);
  }
  return nullptr;
}

unsigned SlotTable::find_hash(std::uint64_t hash, Word* out[16]) const {
  Leaf* leaf = leaf_for(hash);
  if (leaf == nullptr) return 0;
  const std::uint32_t groups = leaf->capacity / 16;
  const Word more = hash_bits(hash);
  unsigned n = 0;
  std::uint32_t g = first_group(hash, leaf->capacity);
  for (std::uint32_t step = 1; step <= groups; ++step) {
    const std::uint8_t* group = leaf->control() + g * 16;
    for (std::uint32_t m = matches(group, h2_of(hash)); m != 0 && n < 16; m &= m - 1) {
      Word* at = leaf->words() + g * 16 + std::countr_zero(m);
      if ((*at & word_hash) == more && hash_of(trusted_key(record_of(*at))) == hash) out[n++] = at;
    }
    if (matches(group, empty) != 0) break;
    g = (g + step) & (groups - 1);
  }
  return n;
}

Word* SlotTable::insert(std::uint64_t hash, Word word, std::int64_t& grown) {
  if (root_ == 0) {
    root_ = reinterpret_cast<std::uintptr_t>(make_leaf(16));
    grown += static_cast<std::int64_t>(footprint(leaf_bytes(16)));
  }
  std::uintptr_t* at = &root_;
  unsigned shift = 64;
  while (is_branch(*at)) {
    shift -= 4;
    at = &as_branch(*at)->child[(hash >> shift) & 15];
  }
  Leaf* leaf = as_leaf(*at);
  if (leaf->room != 0) return place(leaf, hash, word);

  // Full: the same size again when much of it is erased, twice the size, or sixteen leaves.
  const std::uint32_t capacity = leaf->count <= leaf->capacity / 2 ? leaf->capacity : leaf->capacity * 2;
  grown -= static_cast<std::int64_t>(footprint(leaf_bytes(leaf->capacity)));
  if (capacity <= leaf_capacity_max || shift == 0) {
    Leaf* bigger = make_leaf(capacity);
    grown += static_cast<std::int64_t>(footprint(leaf_bytes(capacity)));
    move_all(leaf, [&](std::uint64_t) { return bigger; });
    *at = reinterpret_cast<std::uintptr_t>(bigger);
  } else {
    auto* branch = static_cast<Branch*>(allocate(sizeof(Branch)));
    const std::uint32_t each = leaf_capacity_max / 8;
    for (auto& child : branch->child) child = reinterpret_cast<std::uintptr_t>(make_leaf(each));
    grown += static_cast<std::int64_t>(footprint(sizeof(Branch)) + 16 * footprint(leaf_bytes(each)));
    shift -= 4;
    // No child can overflow: at 7/8 of leaf_capacity_max keys, one child would have to get more than twice its share.
    // A hash that somebody crafted could do it, so a child that is full grows as any leaf does.
    move_all(leaf, [&](std::uint64_t h) {
      std::uintptr_t& child = branch->child[(h >> shift) & 15];
      Leaf* c = as_leaf(child);
      if (c->room == 0) {
        Leaf* bigger = make_leaf(c->capacity * 2);
        grown += static_cast<std::int64_t>(footprint(leaf_bytes(bigger->capacity)) - footprint(leaf_bytes(c->capacity)));
        move_all(c, [&](std::uint64_t) { return bigger; });
        release(c);
        child = reinterpret_cast<std::uintptr_t>(bigger);
        c = bigger;
      }
      return c;
    });
    *at = reinterpret_cast<std::uintptr_t>(branch) | 1;
  }
  release(leaf);
  return insert(hash, word, grown);
}

void SlotTable::erase(std::uint64_t hash, Word* at) {
  Leaf* leaf = leaf_for(hash);
  const auto i = static_cast<std::size_t>(at - leaf->words());
  ZARIS_ASSERT(i < leaf->capacity, i, leaf->capacity);
  std::uint8_t* control = leaf->control();
  // A probe never goes past a group with an empty place, so this place may be empty again if the group has another.
  if (matches(control + (i & ~std::size_t{15}), empty) != 0) {
    control[i] = empty;
    ++leaf->room;
  } else {
    control[i] = erased;
  }
  --leaf->count;
}

void SlotTable::prefetch(std::uint64_t hash) const {
  Leaf* leaf = leaf_for(hash);
  if (leaf == nullptr) return;
  const std::uint32_t g = first_group(hash, leaf->capacity);
  __builtin_prefetch(leaf->control() + g * 16);
  __builtin_prefetch(leaf->words() + g * 16);
  __builtin_prefetch(leaf->words() + g * 16 + 8);
}

void SlotTable::prefetch_record(std::uint64_t hash) const {
  Leaf* leaf = leaf_for(hash);
  if (leaf == nullptr) return;
  const std::uint32_t g = first_group(hash, leaf->capacity);
  const Word more = hash_bits(hash);
  for (std::uint32_t m = matches(leaf->control() + g * 16, h2_of(hash)); m != 0; m &= m - 1) {
    const Word w = leaf->words()[g * 16 + std::countr_zero(m)];
    if ((w & word_hash) != more) continue;
    const char* p = static_cast<const char*>(address_of(w));
    __builtin_prefetch(p);
    __builtin_prefetch(p + 64);
    __builtin_prefetch(p + 128);
  }
}

Word* SlotTable::sample(std::uint64_t random, std::uint64_t& hash_out) const {
  Leaf* leaf = leaf_for(random);
  if (leaf == nullptr || leaf->count == 0) return nullptr;
  const std::uint32_t start = static_cast<std::uint32_t>(random) & (leaf->capacity - 1);
  for (std::uint32_t k = 0; k < 32; ++k) {
    const std::uint32_t i = (start + k) & (leaf->capacity - 1);
    if (leaf->control()[i] < 0x80) {
      Word* at = leaf->words() + i;
      hash_out = hash_of(trusted_key(record_of(*at)));
      return at;
    }
  }
  return nullptr;
}

}  // namespace zaris::store
