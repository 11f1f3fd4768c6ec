// When which key must be looked at: one-second buckets for the next minutes, coarser ones beyond (a hierarchical timing
// wheel, Varghese and Lauck 1987). An entry only says "look at this key then": it is not removed when the key is
// overwritten; the sweep checks the record. Under the segment's lock.
#pragma once
#include <cstdint>
#include <map>
#include <vector>

#include "cluster/record/position.hpp"

namespace zaris::store {

struct ExpiryEntry {
  std::uint64_t hash;
  std::uint32_t due_s;  // seconds since 1970, rounded up
  Slot slot;
};

class ExpiryWheel {
 public:
  explicit ExpiryWheel(WallMicros now) : now_s_(static_cast<std::uint32_t>(now / 1'000'000)) {}

  void add(Slot slot, std::uint64_t hash, WallMicros expires_us);
  // At most `most` entries that are due at `now`; appended to `out`.
  void take_due(WallMicros now, std::size_t most, std::vector<ExpiryEntry>& out);
  [[nodiscard]] std::size_t backlog(WallMicros now) const;
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  // Level n has buckets of 64^n seconds; an entry lies in the finest level whose 64 buckets reach it from where the wheel
  // stands now. Buckets that hold nothing take no memory.
  static constexpr unsigned levels = 5;
  void put(const ExpiryEntry& entry);

  std::map<std::uint32_t, std::vector<ExpiryEntry>> level_[levels];  // by the bucket's number
  std::uint32_t now_s_;
  std::size_t size_ = 0;
};

}  // namespace zaris::store
