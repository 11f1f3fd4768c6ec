// A third region, whose link writes some keys of the source. What it brings is the source's to keep and not its feed's to pass on: a follower of the
// source must have it in a copy, or be held before it, and never look caught up without it (docs/decisions/0013).
#pragma once
#include <map>

#include "tests/simulation/keys.hpp"
#include "tests/simulation/source_region.hpp"
#include "tests/simulation/world.hpp"

namespace zaris::simulation {

class Neighbour {
 public:
  Neighbour(World& world, const Keys& keys, SourceRegion& source) : world_(world), keys_(keys), source_(source) {}

  // A change of one of its keys, applied by its link.
  void write();

 private:
  // False: the source does not take it now.
  bool apply(ApplyBatch& batch);
  bool begin(SegmentId segment);

  World& world_;
  const Keys& keys_;
  SourceRegion& source_;
  const History* life_ = nullptr;                   // of the source that the marks are in
  std::map<SegmentId, Mark> marks_;
  std::uint64_t revision_ = 0;
  std::uint32_t version_ = 0;
};

}  // namespace zaris::simulation
