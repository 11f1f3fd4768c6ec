#include "feed/session/log_filter.hpp"

#include <algorithm>

#include "cluster/record/record.hpp"

namespace zaris::feed {

LogFilter::LogFilter(const Scope& scope) : scope_(scope), full_(scope.full()) {
  for (const std::string& prefix : scope_.prefixes()) {
    Prefix p;
    for (std::size_t i = 0; i < 8; ++i) {
      const bool there = i < prefix.size();
      p.head = p.head << 8 | (there ? static_cast<unsigned char>(prefix[i]) : 0u);
      p.mask = p.mask << 8 | (there ? 0xffu : 0u);
    }
    p.longer = prefix.size() > 8;
    prefixes_.push_back(p);
  }
  if (!scope_.slot_ranges().empty()) {
    slots_ = std::make_unique<std::array<std::uint64_t, 256>>();
    slots_->fill(0);
    for (const auto& [first, last] : scope_.slot_ranges()) {
      for (std::uint32_t slot = first.value(); slot <= last.value(); ++slot) (*slots_)[slot / 64] |= std::uint64_t{1} << (slot % 64);
    }
  }
}

// The scope's prefixes are sorted and none covers another, so that only the greatest prefix that is not above the key
// can be the key's. Where its eight bytes are below the key's, it is found, and its mask decides; where they are equal
// (prefixes longer than eight bytes; keys shorter than eight; zero bytes) the key itself must be looked at.
bool LogFilter::has_prefix(std::uint64_t key_prefix, const char* record) const {
  auto above = prefixes_.begin();
  if (prefixes_.size() <= 8) {
    while (above != prefixes_.end() && above->head <= key_prefix) ++above;
  } else {
    above = std::upper_bound(prefixes_.begin(), prefixes_.end(), key_prefix, [](std::uint64_t k, const Prefix& p) { return k < p.head; });
  }
  if (above == prefixes_.begin()) return false;
  const Prefix& candidate = *(above - 1);
  if (candidate.head == key_prefix) return scope_.has_key(trusted_key(record));
  return !candidate.longer && (key_prefix & candidate.mask) == candidate.head;
}

}  // namespace zaris::feed
