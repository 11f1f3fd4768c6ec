// What a node does about a replica that wants to follow a segment: send it the log, take its content for equal, copy, or
// refuse. A pure function. Design page cluster, "Coming back"; page record, "Generation and lineage".
#pragma once
#include <string>

#include "cluster/replication/message.hpp"
#include "cluster/store/store.hpp"

namespace zaris::replication {

// The segment as the node that was asked holds it; lineage, head, digest and count as of one moment.
struct SourceView {
  store::SegmentRole role = store::SegmentRole::none;
  bool copying = false;
  Lineage lineage;
  Position head;
  Revision floor;
  std::uint64_t count = 0;
  Digest digest;
  WallMicros newest_timestamp_us = 0;
};

struct FollowDecision {
  FollowHow how = FollowHow::refused;
  Refusal refusal = Refusal::none;
  std::string reason;  // for people: why not by log; empty for log
};

//  refused  a newer term than ours was named; we do not own it (nor, for a pull, hold more than the asker)
//  log      the replica's head is on our lineage and our log leads on from it; a blank one where the log reaches back to the first revision
//  equal    otherwise, where count and digest are ours
//  copy     otherwise; never for a pull
[[nodiscard]] FollowDecision reconcile(const SourceView& source, const FollowRow& replica, bool pull);

// What a store holds of a segment, for reconcile. The lineage is cut at the head, should a term begin between the looks.
[[nodiscard]] SourceView source_view(const store::Store& store, SegmentId segment);
// The same about oneself, to be sent. `generation`: the newest term heard of.
[[nodiscard]] FollowRow follow_row(const store::Store& store, SegmentId segment, Generation generation);

}  // namespace zaris::replication
