// What the source was at every position: read from its log right after each commit, before anything can be trimmed, and
// compared with what the client was told. Few keys make it cheap to keep all of it.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cluster/store/store.hpp"
#include "tests/simulation/keys.hpp"
#include "tests/simulation/world.hpp"

namespace zaris::simulation {

struct Version {
  static constexpr std::uint32_t no_key = ~0u;  // a generation record
  Position at;
  MonoMicros when = 0;              // true time of the commit
  std::uint32_t key = no_key;
  Deleted deleted = Deleted::no;
  std::uint32_t item_version = 0;
  WallMicros timestamp_us = 0;
  std::uint64_t entry_hash = 0;
  [[nodiscard]] bool live() const { return key != no_key && deleted == Deleted::no; }
};

// One life of the source: from an empty store to the loss of everything.
class History {
 public:
  History(World& world, const Keys& keys, ClusterId cluster, Generation generation, std::uint32_t segments);

  // Takes over what the segment's log has above what is known.
  void absorb(const store::Store& store, SegmentId segment);
  // The source has announced that nothing at or before this time will still be committed; absorb() holds it to that.
  void closed_at(WallMicros time) { closed_us_ = std::max(closed_us_, time); }

  [[nodiscard]] ClusterId cluster() const { return cluster_; }
  [[nodiscard]] Generation generation() const { return generation_; }
  [[nodiscard]] const std::vector<HistoryId>& ids() const { return ids_; }
  [[nodiscard]] bool names(HistoryId id) const;
  [[nodiscard]] Position head(SegmentId segment) const;
  [[nodiscard]] std::uint64_t generation_id(SegmentId segment) const { return segments_[segment.value()].generation_id; }
  // The newest version of the key at or below the revision of its segment; none: never written by then.
  [[nodiscard]] const Version* at(std::uint32_t key, Revision revision) const;
  [[nodiscard]] const Version* newest(std::uint32_t key) const;
  [[nodiscard]] const Version* record(SegmentId segment, Revision revision) const;
  // The first record in scope above `after`; none: everything in scope is at or below it.
  [[nodiscard]] const Version* first_in_scope_after(SegmentId segment, Revision after) const;

 private:
  struct Segment {
    std::vector<Version> log;  // log[r - 1] is revision r
    std::uint64_t generation_id = 0;
    WallMicros own_us = 0;                // of the newest record that this region has committed itself
    std::vector<std::uint64_t> in_scope;  // revisions, ascending
  };
  World& world_;
  const Keys& keys_;
  ClusterId cluster_;
  Generation generation_;
  std::vector<HistoryId> ids_;
  std::vector<Segment> segments_;
  std::vector<std::vector<std::uint64_t>> by_key_;  // revisions, ascending
  WallMicros closed_us_ = 0;
};

// Hash of an entry's bytes, as versions and the target's records are compared by.
[[nodiscard]] std::uint64_t entry_hash(std::string_view entry);

}  // namespace zaris::simulation
