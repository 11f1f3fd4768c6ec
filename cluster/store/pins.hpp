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
  // `owned`: whether every segment is from the start.
  Pins(std::uint32_t segments, bool owned) : segments_(segments), owned_(segments, owned) {}

  // In a segment that is owned here a place that was cut stays so until the pin is dropped; elsewhere its owner knows better.
  void set(const PinKey& key, const Scope& scope, SegmentId segment, PinPlace place, WallMicros now);
  void attach(const PinKey& key, bool attached, WallMicros now);
  bool drop(const PinKey& key);
  // Holds nothing in this segment any more; what was lost here is forgotten by who owns it alone. A pin that holds nothing at all,
  // has lost nothing and is not attached is none.
  void clear(const PinKey& key, SegmentId segment);
  // Who owns a segment here and who follows it change places. What the former owner kept for its replicas (`replicas`: their
  // pins' target) is nobody's need any more; readers' places stay, as the next owner's.
  void owned(SegmentId segment, bool owned, ClusterId replicas);
  // Nothing is kept of this segment here.
  void leave(SegmentId segment);
  [[nodiscard]] std::optional<PinPlace> place(const PinKey& key, SegmentId segment) const;

  [[nodiscard]] std::optional<Revision> lowest(SegmentId segment, ClusterId not_target) const;

  // Readers that are away are moved over what of the chunk does not match their scope.
  void pass_over(SegmentId segment, const LogChunk& chunk);
  // May the log go, up to `last`? Pins that are older than `age_max` lose their places here and now; so does every one that still holds
  // some of it if `force`. Lost are all places in what is owned here, and it is said (PinInfo::lost); in a segment of another owner that
  // one says what is lost.
  [[nodiscard]] bool let_go(SegmentId segment, Revision last, WallMicros now, WallMicros age_max, bool force);

  struct Row {
    PinInfo info;
    std::vector<std::pair<SegmentId, Revision>> at;  // what it keeps of what is owned here: everything above
  };
  [[nodiscard]] std::vector<Row> rows() const;
  [[nodiscard]] std::uint64_t lost() const;

 private:
  struct At {
    bool set = false;
    bool lost = false;  // cut here; not set then
    Position acknowledged;
    Position moved;   // at or above: nothing between the two matches the scope
  };
  struct Pin {
    Scope scope;
    bool attached = false;
    std::uint32_t set = 0, lost = 0;  // places of each kind
    WallMicros since_us = 0, moved_us = 0;
    std::vector<At> at;
  };
  using Entry = std::map<PinKey, Pin>::iterator;
  static void unset(Pin& pin, At& a);
  static void found(Pin& pin, At& a);
  static bool bare(const Pin& pin) { return pin.set == 0 && pin.lost == 0 && !pin.attached; }
  Entry next(Entry it) { return bare(it->second) ? pins_.erase(it) : std::next(it); }
  void cut(Pin& pin);

  const std::uint32_t segments_;
  std::vector<bool> owned_;
  mutable std::mutex lock_;
  std::map<PinKey, Pin> pins_;
  std::uint64_t lost_ = 0;
};

}  // namespace zaris::store
