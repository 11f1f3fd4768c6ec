#include "cluster/store/sorted_view.hpp"

#include <algorithm>

#include "cluster/base/assert.hpp"

namespace zaris::store {

void SortedView::attach(SlotTable& table) {
  next_ = table.views;
  table.views = this;
}

void SortedView::detach(SlotTable& table) {
  SortedView** at = &table.views;
  while (*at != nullptr && *at != this) at = &(*at)->next_;
  ZARIS_ASSERT(*at == this);
  *at = next_;
  next_ = nullptr;
}

std::uint64_t SortedView::collect(const SlotTable& table, std::uint64_t from) {
  return table.visit_leaf(from, [this](Word w) {
    if ((w & word_tombstone) != 0) return;
    const std::string_view key = key_at(record_of(w));
    if (wanted(key)) keys_.emplace_back(key);
  });
}

void SortedView::sort() {
  // By the eight bytes behind what all keys have in common first: one hash tag's keys begin alike.
  if (keys_.size() < 2) return;
  std::size_t common = keys_.front().size();
  for (const std::string& k : keys_) {
    std::size_t n = 0;
    const std::size_t most = std::min(common, k.size());
    while (n < most && k[n] == keys_.front()[n]) ++n;
    common = n;
  }
  struct Item {
    std::uint64_t head;
    std::uint32_t index;
  };
  std::vector<Item> items(keys_.size());
  for (std::uint32_t i = 0; i < keys_.size(); ++i) {
    char head[8] = {};
    const std::string& k = keys_[i];
    std::memcpy(head, k.data() + common, std::min<std::size_t>(8, k.size() - common));
    items[i] = {scan::load64(head), i};
  }
  std::sort(items.begin(), items.end(), [this](const Item& a, const Item& b) {
    return a.head != b.head ? a.head < b.head : keys_[a.index] < keys_[b.index];
  });
  std::vector<std::string> sorted;
  sorted.reserve(keys_.size());
  for (const Item& item : items) sorted.push_back(std::move(keys_[item.index]));
  keys_ = std::move(sorted);
}

void SortedView::advance(std::string_view to) {
  position_ = std::string(to);
  while (first_ < keys_.size() && keys_[first_] <= *position_) keys_[first_++] = {};
  added_.erase(added_.begin(), added_.upper_bound(to));
}

}  // namespace zaris::store
