// When a node opens its client listener: not before it can say of every key who serves it. Design page cluster, "Ready to serve" (2).
#pragma once
#include <string>

#include "cluster/ownership/boot_time.hpp"
#include "cluster/ownership/ownership.hpp"
#include "cluster/ownership/partition_map.hpp"

namespace zaris::ownership {

// What the node has. Borrowed for the call; null: not there.
struct TrafficView {
  const PartitionMap* map = nullptr;
  const SegmentTable* table = nullptr;
  const Ownership* ownership = nullptr;
};

struct TrafficVerdict {
  bool open = false;
  bool warning = false;                  // it opened, or would, although something is missing
  std::string reason;                    // for people: what is missing, or that nothing is
};

// Open once, open for good: a later map is not waited for, requests get honest answers meanwhile.
class TrafficGate {
 public:
  static constexpr BootMicros backstop_us = 60 * boot_second;
  explicit TrafficGate(BootMicros now, BootMicros backstop = backstop_us) : opens_at_latest_(after(now, backstop)) {}

  // Open if a committed map is there, its table complete, ownership there for every partition (whatever it says), and all three of
  // one map version; or when the backstop is reached.
  [[nodiscard]] TrafficVerdict evaluate(const TrafficView& view, BootMicros now);
  [[nodiscard]] BootMicros opens_at_latest() const { return opens_at_latest_; }

 private:
  BootMicros opens_at_latest_;
  bool open_ = false;
};

// Empty: nothing is missing.
[[nodiscard]] std::string missing_for_traffic(const TrafficView& view);

}  // namespace zaris::ownership
