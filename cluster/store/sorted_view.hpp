// The keys of one large slot in order, for somebody who goes through them in pages. Between the pages the slot reports
// every key that becomes live in it, so that none falls between sorting and taking the page:
//
//  1. the view collects keys a, c                      3. the walker takes the page (…, c] under the lock and would
//  2. a client puts b: the slot reports it             miss b, had it not been reported
//
// Keys that go away are not reported: whoever takes a page looks each key up.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/placement/scope.hpp"
#include "cluster/store/slot_table.hpp"

namespace zaris::store {

class SortedView {
 public:
  // Keys above `after` only (empty optional: all), and only those of the scope.
  SortedView(const Scope& scope, std::optional<std::string> after) : scope_(scope), position_(std::move(after)) {}
  SortedView(const SortedView&) = delete;
  SortedView& operator=(const SortedView&) = delete;

  // Under the segment's lock. A view must be detached before it dies.
  void attach(SlotTable& table);
  void detach(SlotTable& table);
  void report(std::string_view key) {
    if (!deaf && wanted(key)) added_.emplace(key);
  }
  bool deaf = false;  // while its owner itself puts keys that it is about to pass
  [[nodiscard]] SortedView* next_view() const { return next_; }
  // One leaf of the table; returns where the next begins, 0 after the last.
  std::uint64_t collect(const SlotTable& table, std::uint64_t from);

  // Once, after collecting; needs no lock.
  void sort();

  // Under the lock: keys above the position, ascending, while f(key) is true.
  template <class F>
  void each(F&& f) const {
    std::size_t i = first_;
    auto a = added_.begin();
    while (i < keys_.size() || a != added_.end()) {
      if (a == added_.end() || (i < keys_.size() && keys_[i] <= *a)) {
        if (a != added_.end() && keys_[i] == *a) ++a;
        if (!f(keys_[i])) return;
        ++i;
      } else {
        if (!f(*a)) return;
        ++a;
      }
    }
  }
  void advance(std::string_view to);
  [[nodiscard]] const std::optional<std::string>& position() const { return position_; }

 private:
  [[nodiscard]] bool wanted(std::string_view key) const { return (!position_ || key > *position_) && scope_.has_key(key); }

  const Scope scope_;
  std::optional<std::string> position_;
  std::vector<std::string> keys_;  // ascending from first_ on
  std::size_t first_ = 0;
  std::set<std::string, std::less<>> added_;
  SortedView* next_ = nullptr;
};

}  // namespace zaris::store
