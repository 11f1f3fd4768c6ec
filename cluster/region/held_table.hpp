// What the synchronised replicas hold of each segment, for the threads whose requests wait for it. Written by the region's thread. A term
// of 0: the segment is not owned here, and nothing that waits for it will be held.
#pragma once
#include <array>
#include <mutex>
#include <vector>

#include "cluster/record/position.hpp"
#include "cluster/replication/held_positions.hpp"

namespace zaris::region {

struct HeldRow {
  Generation term;
  replication::Held held;
  // Likewise of the segment's marks: one more than the newest version of them that is held so (MarksSince::version); 0: none. A
  // replica puts marks behind the log that they came with, so whoever waits for marks need not wait for positions as well.
  replication::HeldBy<std::uint64_t> marks;
};

// Of `marks`, under replica, majority or all.
[[nodiscard]] inline std::uint64_t marks_held(const HeldRow& row, Durability policy) {
  return policy == Durability::replica ? row.marks.replica : policy == Durability::majority ? row.marks.majority : row.marks.all;
}

class HeldTable {
 public:
  explicit HeldTable(std::uint32_t segments) : rows_(segments) {}
  void set(SegmentId segment, const HeldRow& row) {
    const std::lock_guard lock(lock_of(segment));
    rows_[segment.value()] = row;
  }
  [[nodiscard]] HeldRow get(SegmentId segment) const {
    const std::lock_guard lock(lock_of(segment));
    return rows_[segment.value()];
  }

 private:
  [[nodiscard]] std::mutex& lock_of(SegmentId segment) const { return locks_[segment.value() % locks_.size()]; }
  mutable std::array<std::mutex, 64> locks_;
  std::vector<HeldRow> rows_;
};

}  // namespace zaris::region
