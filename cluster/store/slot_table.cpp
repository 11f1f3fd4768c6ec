#include "cluster/store/slot_table.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstring>

#include "cluster/base/assert.hpp"

namespace zaris::store {
namespace {
constexpr std::size_t leaf_bytes(unsigned log2) { return sizeof(Bucket) << log2; }
inline std::uint8_t tag_of(std::uint64_t hash) { return static_cast<std::uint8_t>(hash | 0x80); }
}  // namespace

std::uint64_t hash_of(std::string_view key) { return XXH3_64bits(key.data(), key.size()); }

SlotTable::~SlotTable() {
  visit([](Word w) { free_word(w); });
  destroy(root_.at.load());
}

void SlotTable::destroy(std::uintptr_t at) {
  if (at == 0) return;
  if (is_branch(at)) {
    Branch* branch = as_branch(at);
    for (auto& child : branch->child) destroy(child.at.load());
    delete branch;
  } else {
    release(as_leaf(at).buckets);
  }
}

void SlotTable::make_leaf(Node& node, unsigned log2, std::int64_t& grown) {
  void* memory = allocate_aligned(leaf_bytes(log2), alignof(Bucket));
  std::memset(memory, 0, leaf_bytes(log2));
  grown += static_cast<std::int64_t>(leaf_bytes(log2));
  node.count = 0;
  node.at.store(reinterpret_cast<std::uintptr_t>(memory) | (log2 << 1), std::memory_order_release);
}

Word* SlotTable::place(Leaf leaf, std::uint64_t hash, Word word) {
  std::uint32_t b = leaf.home(hash);
  for (;; b = (b + 1) & leaf.mask()) {
    Bucket& bucket = leaf.buckets[b];
    if (const std::uint32_t vacant = bucket.matching(0); vacant != 0) {
      const auto i = static_cast<unsigned>(std::countr_zero(vacant));
      bucket.tags[i] = tag_of(hash);
      bucket.words[i] = (word & ~word_hash) | hash_bits(hash);
      return bucket.words + i;
    }
    if (bucket.passed != 255) ++bucket.passed;
  }
}

// Moves every word of `from` to the leaf that `to(hash)` names. The keys must be read for their hashes, so they are asked
// for some words ahead.
template <class To>
void SlotTable::move_all(Leaf from, To&& to) {
  constexpr unsigned ahead = 16;
  Word waiting[ahead];
  unsigned n = 0;
  const auto move = [&](Word word) {
    const std::uint64_t hash = hash_of(key_at(record_of(word)));
    place(to(hash), hash, word);
  };
  for (std::uint32_t b = 0; b <= from.mask(); ++b) {
    const Bucket& bucket = from.buckets[b];
    for (std::uint32_t m = ~bucket.matching(0) & 0x7f; m != 0; m &= m - 1) {
      const Word word = bucket.words[std::countr_zero(m)];
      __builtin_prefetch(address_of(word));
      Word& spot = waiting[n % ahead];
      if (n >= ahead) move(spot);
      spot = word;
      ++n;
    }
  }
  for (unsigned i = n < ahead ? 0 : n - ahead; i < n; ++i) move(waiting[i % ahead]);
}

void SlotTable::grow(Node& node, std::int64_t& grown) {
  const Leaf leaf = as_leaf(node.at.load(std::memory_order_relaxed));
  Node bigger;
  make_leaf(bigger, leaf.log2 + 1, grown);
  const Leaf into = as_leaf(bigger.at.load(std::memory_order_relaxed));
  move_all(leaf, [&](std::uint64_t) { return into; });
  node.at.store(bigger.at.load(std::memory_order_relaxed), std::memory_order_release);
  grown -= static_cast<std::int64_t>(leaf_bytes(leaf.log2));
  release(leaf.buckets);
}

Word* SlotTable::find(std::uint64_t hash, std::string_view key) const {
  const Leaf leaf = leaf_for(hash);
  if (leaf.buckets == nullptr) return nullptr;
  const Word more = hash_bits(hash);
  std::uint32_t b = leaf.home(hash);
  for (std::uint32_t n = 0; n <= leaf.mask(); ++n, b = (b + 1) & leaf.mask()) {
    Bucket& bucket = leaf.buckets[b];
    for (std::uint32_t m = bucket.matching(tag_of(hash)); m != 0; m &= m - 1) {
      Word* at = bucket.words + std::countr_zero(m);
      if ((*at & word_hash) == more && key_at(record_of(*at)) == key) return at;
    }
    if (bucket.passed == 0) return nullptr;
  }
  return nullptr;
}

Word* SlotTable::insert(std::uint64_t hash, Word word, std::int64_t& grown) {
  Node* node = &root_;
  unsigned shift = 64;
  for (;;) {
    const std::uintptr_t at = node->at.load(std::memory_order_relaxed);
    if (is_branch(at)) {
      shift -= 4;
      node = &as_branch(at)->child[(hash >> shift) & 15];
      continue;
    }
    if (at == 0) {
      make_leaf(*node, 0, grown);
      continue;
    }
    const Leaf leaf = as_leaf(at);
    if (node->count < room(leaf.log2)) {
      ++node->count;
      return place(leaf, hash, word);
    }
    // A hash that somebody crafted may use up its high bits: then the leaf just grows.
    if (leaf.log2 < leaf_buckets_max_log2 || shift == 0) {
      grow(*node, grown);
      continue;
    }
    auto* branch = new Branch;
    grown += static_cast<std::int64_t>(sizeof(Branch));
    for (auto& child : branch->child) make_leaf(child, leaf_buckets_max_log2 - 3, grown);
    move_all(leaf, [&](std::uint64_t h) {
      Node& child = branch->child[(h >> (shift - 4)) & 15];
      if (child.count == room(as_leaf(child.at.load(std::memory_order_relaxed)).log2)) grow(child, grown);
      ++child.count;
      return as_leaf(child.at.load(std::memory_order_relaxed));
    });
    node->at.store(reinterpret_cast<std::uintptr_t>(branch) | 1, std::memory_order_release);
    grown -= static_cast<std::int64_t>(leaf_bytes(leaf.log2));
    release(leaf.buckets);
  }
}

void SlotTable::erase(std::uint64_t hash, Word* at) {
  Node* node = &root_;
  for (unsigned shift = 60; is_branch(node->at.load(std::memory_order_relaxed)); shift -= 4) {
    node = &as_branch(node->at.load(std::memory_order_relaxed))->child[(hash >> shift) & 15];
  }
  const Leaf leaf = as_leaf(node->at.load(std::memory_order_relaxed));
  auto* bucket = reinterpret_cast<Bucket*>(reinterpret_cast<std::uintptr_t>(at) & ~std::uintptr_t{63});
  ZARIS_ASSERT(bucket >= leaf.buckets && bucket <= leaf.buckets + leaf.mask());
  bucket->tags[at - bucket->words] = 0;
  --node->count;
  // The buckets that this key had passed.
  for (std::uint32_t b = leaf.home(hash); leaf.buckets + b != bucket; b = (b + 1) & leaf.mask()) {
    if (leaf.buckets[b].passed != 255) --leaf.buckets[b].passed;
  }
}

void SlotTable::prefetch_record(std::uint64_t hash) const {
  const Leaf leaf = leaf_for(hash);
  if (leaf.buckets == nullptr) return;
  const Bucket& bucket = leaf.buckets[leaf.home(hash)];
  for (std::uint32_t m = bucket.matching(tag_of(hash)); m != 0; m &= m - 1) {
    const Word w = bucket.words[std::countr_zero(m)];
    if ((w & word_hash) != hash_bits(hash)) continue;
    const char* p = static_cast<const char*>(address_of(w));
    __builtin_prefetch(p);
    __builtin_prefetch(p + 64);
    __builtin_prefetch(p + 128);
  }
}

Word* SlotTable::sample(std::uint64_t random, std::uint64_t& hash_out) const {
  const Leaf leaf = leaf_for(random);
  if (leaf.buckets == nullptr) return nullptr;
  std::uint32_t b = static_cast<std::uint32_t>(random >> 3) & leaf.mask();
  for (unsigned tries = 0; tries < 8; ++tries, b = (b + 1) & leaf.mask()) {
    Bucket& bucket = leaf.buckets[b];
    const std::uint32_t taken = ~bucket.matching(0) & 0x7f;
    if (taken == 0) continue;
    // From a random place on, round the bucket.
    const auto skip = static_cast<unsigned>(random & 7) % Bucket::width;
    const std::uint32_t later = taken & (0x7fu << skip) & 0x7f;
    Word* at = bucket.words + std::countr_zero(later != 0 ? later : taken);
    hash_out = hash_of(key_at(record_of(*at)));
    return at;
  }
  return nullptr;
}

}  // namespace zaris::store
