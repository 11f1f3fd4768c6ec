#include "cluster/store/mark_versions.hpp"

#include <algorithm>

namespace zaris::store {

void MarkVersions::begin_term(Generation generation) {
  now_ = std::max(now_ + 1, std::uint64_t{generation.value()} << 32);
  forgotten_ = now_;
  gone_.clear();
}

void MarkVersions::gone(const MarkKey& key) {
  gone_[key] = next();
  if (gone_.size() <= gone_max) return;
  const auto oldest = std::min_element(gone_.begin(), gone_.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  forgotten_ = std::max(forgotten_, oldest->second);
  gone_.erase(oldest);
}

}  // namespace zaris::store
