// Until when this node may serve each segment, for the threads that execute requests: they look when they execute, not by timer, and
// once more before they answer. Written by the region's thread. Design page cluster, "Who may serve".
#pragma once
#include <atomic>
#include <cstdint>
#include <vector>

#include "cluster/record/position.hpp"

namespace zaris::region {

class ServingTable {
 public:
  explicit ServingTable(std::uint32_t segments) : until_(segments) {}
  // CLOCK_BOOTTIME, exclusive; 0: it may not serve.
  void set(SegmentId segment, MonoMicros until) { until_[segment.value()].store(until, std::memory_order_release); }
  [[nodiscard]] bool serves(SegmentId segment, MonoMicros now) const { return now < until_[segment.value()].load(std::memory_order_acquire); }
  [[nodiscard]] MonoMicros until(SegmentId segment) const { return until_[segment.value()].load(std::memory_order_acquire); }
  [[nodiscard]] std::uint32_t segments() const { return static_cast<std::uint32_t>(until_.size()); }

 private:
  std::vector<std::atomic<MonoMicros>> until_;
};

}  // namespace zaris::region
