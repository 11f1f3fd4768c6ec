#include "tests/simulation/keys.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cluster/base/assert.hpp"

namespace zaris::simulation {
namespace {

Scope draw_scope(const SimOptions& o, Prng& prng) {
  std::vector<std::string> prefixes;
  std::vector<std::pair<Slot, Slot>> slots;
  const auto some_slots = [&] {
    const auto low = static_cast<std::uint16_t>(prng.below(slot_count - 1));
    const auto high = static_cast<std::uint16_t>(low + prng.below(slot_count - low));
    slots.emplace_back(Slot{low}, Slot{high});
    if (prng.chance(0.5)) slots.emplace_back(Slot{0}, Slot{static_cast<std::uint16_t>(prng.below(4000))});
  };
  switch (o.scope) {
    case ScopeKind::full: break;
    case ScopeKind::one_prefix: prefixes = {"t1:"}; break;
    case ScopeKind::several_prefixes: prefixes = {"t1:", std::string("\0\xff", 2), "t1:inner", "{t1}"}; break;
    case ScopeKind::slots: some_slots(); break;
    case ScopeKind::prefix_and_slots: prefixes = {"t1:"}; some_slots(); break;
  }
  auto scope = Scope::make(std::move(prefixes), std::move(slots));
  ZARIS_ASSERT(scope.has_value());
  return *scope;
}

// Hash tags of every odd shape, single bytes, invalid UTF-8, NUL and CRLF, prefixes of prefixes.
const std::vector<std::string>& odd_keys() {
  static const std::vector<std::string> keys = {
      "", "{}a", "a{}b{c}", "{{a}}", "a{b", "}{a", "{a}{b}", "{", "}", std::string("\0", 1), "\n", "\r\n", "\xff", "\xc3\x28",
      std::string("nul\0in", 6), "t1", "t1:", "T1:a", "t", "t2:a", "t1:{tag}a", "t1:{tag}b", std::string("t1:\0", 4), "t1:\xff\xfe",
      std::string("\0\xff", 2) + "x", std::string("\0", 1) + "x", "{t1}a", "{t1}b", "t1:inner/a", "ascii", "{user1000}.following",
      "{user1000}.followers", std::string(300, 'k')};
  return keys;
}

}  // namespace

const Scope& neighbour_scope() {
  static const Scope scope = *Scope::make({"t1:neighbour:"});
  return scope;
}

Keys::Keys(const SimOptions& options, Prng& prng)
    : source_segments_(options.source_segments), target_segments_(options.target_segments), scope_(draw_scope(options, prng)) {
  std::vector<std::string> odd = odd_keys();
  for (std::uint32_t i = 0; i < options.keys; ++i) {
    if (prng.chance(0.4) && !odd.empty()) {
      const std::size_t at = prng.below(odd.size());
      add(odd[at]);
      odd.erase(odd.begin() + static_cast<std::ptrdiff_t>(at));
    } else {
      constexpr const char* starts[] = {"t1:", "t1:", "t1:", "t2:", "{t1}", "{tag}", "t1:{tag}", ""};
      add(fmt::format("{}k{}", starts[prng.below(std::size(starts))], i));
    }
  }
  if (options.large_slot) {
    // More in one slot than a page holds: either in number or in bytes (the workload gives these long values).
    const std::uint32_t many = prng.chance(0.25) ? 1'100 : 48;
    for (std::uint32_t i = 0; i < many; ++i) add(fmt::format("t1:{{big}}{:04}", i), true);
  }
  if (options.neighbour_every != 0) {
    for (std::uint32_t i = 0; i < 6; ++i) {
      neighbours_.push_back(size());
      add(fmt::format("t1:neighbour:{}", i));
      keys_.back().neighbours = true;
    }
  }
  cells_.resize(static_cast<std::size_t>(source_segments_) * target_segments_);
  for (std::uint32_t i = 0; i < size(); ++i) {
    const Key& key = keys_[i];
    if (key.in_scope) cells_[key.source_segment.value() * target_segments_ + key.target_segment.value()].push_back(i);
  }
}

void Keys::add(std::string bytes, bool large_slot) {
  if (index_.contains(bytes)) return;
  Key key;
  key.slot = slot_of(bytes);
  key.source_segment = segment_of(key.slot, source_segments_);
  key.target_segment = segment_of(key.slot, target_segments_);
  key.in_scope = scope_.has(key.slot, bytes);
  key.large_slot = large_slot;
  index_.emplace(bytes, size());
  key.bytes = std::move(bytes);
  keys_.push_back(std::move(key));
}

bool Keys::overlap(SegmentId source, SegmentId target) const {
  const std::uint32_t s = first_slot(source, source_segments_).value(), t = first_slot(target, target_segments_).value();
  return s < t + slots_per_segment(target_segments_) && t < s + slots_per_segment(source_segments_);
}

}  // namespace zaris::simulation
