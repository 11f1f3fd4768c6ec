// Who holds the log's floor, and where (design page record, "Op-log"; page feed, rule 7). One lock of its own; a commit
// never takes it.
#pragma once
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "cluster/store/segment_log.hpp"
#include "cluster/store/store.hpp"

namespace zaris::store {

class Pins {
 public:
  explicit Pins(std::uint32_t segments) : segments_(segments) {}

  void set(const PinKey& key, const Scope& scope, SegmentId segment, PinPlace place, WallMicros now);
  void attach(const PinKey& key, bool attached, WallMicros now);
  bool drop(const PinKey& key);
  [[nodiscard]] std::optional<PinPlace> place(const PinKey& key, SegmentId segment) const;

  [[nodiscard]] std::optional<Revision> lowest(SegmentId segment, ClusterId not_target) const;

  // May the chunk go? Pins of readers that are away are moved over what does not match their scope first. Those that are
  // older than `age_max` lose their place here and now; so does every one that still holds the chunk if `force`.
  [[nodiscard]] bool let_go(SegmentId segment, const LogChunk& chunk, WallMicros now, WallMicros age_max, bool force);

  struct Row {
    PinInfo info;
    std::vector<std::pair<SegmentId, Revision>> at;  // what it keeps: everything above
  };
  [[nodiscard]] std::vector<Row> rows() const;
  [[nodiscard]] std::uint64_t lost() const;

 private:
  struct At {
    bool set = false;
    Position acknowledged;
    Position moved;   // at or above: nothing between the two matches the scope
  };
  struct Pin {
    Scope scope;
    bool attached = false, lost = false;
    WallMicros since_us = 0, moved_us = 0;
    std::vector<At> at;
  };
  const std::uint32_t segments_;
  mutable std::mutex lock_;
  std::map<PinKey, Pin> pins_;
  std::uint64_t lost_ = 0;
};

}  // namespace zaris::store
