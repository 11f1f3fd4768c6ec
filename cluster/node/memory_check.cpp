#include "cluster/node/memory_check.hpp"

#include <fmt/format.h>

#include "cluster/logging/event_log.hpp"
#include "cluster/placement/slot.hpp"

namespace zaris::node {

void MemoryCheck::step(Clock::time_point now) {
  if (interval_.count() == 0) return;
  constexpr std::uint32_t slots = 16'384;
  const auto until = Clock::now() + std::chrono::milliseconds(1);
  const auto due = std::min<std::int64_t>(slots, (now - began_) / (interval_ / slots + std::chrono::microseconds(1)));
  while (static_cast<std::int64_t>(next_) < due && Clock::now() < until) look(Slot{static_cast<std::uint16_t>(next_++)});
  if (next_ < slots) return;
  next_ = 0;
  began_ = std::max(now, began_ + interval_);
}

void MemoryCheck::look(Slot slot) {
  std::uint64_t count = 0;
  (void)store_.slot_digest(slot, &count);
  if (count == 0 || count > records_most) return;
  const SegmentId segment = segment_of(slot, store_.options().segments);
  const bool changed = store_.memory_slots(segment, slot, slot) != 0;
  if (changed == bad_.contains(slot)) return;
  if (changed) bad_.insert(slot);
  else bad_.erase(slot);
  if (!changed) return;
  logging::write(logging::Level::error, "memory_changed",
                 fmt::format("slot {} of segment {}: the records' bytes in memory are not those that were written; take this machine out of service and start the node elsewhere", slot.value(), segment.value()),
                 {{"segment", std::to_string(segment.value())}, {"slot", std::to_string(slot.value())}});
}

}  // namespace zaris::node
