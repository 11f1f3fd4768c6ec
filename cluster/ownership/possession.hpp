// Coming back: possession is proven, never assumed. An empty store cannot tell "I lost it" from "it was emptied"; what is asked
// instead is whether the node is certified for the partition: a flag that sticks once it has proven that it holds what its source
// holds. Five predicates, and what a promoted node fetches before it serves. Design page cluster, "Coming back" and "Failover" (3).
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cluster/ownership/boot_time.hpp"
#include "cluster/record/position.hpp"

namespace zaris::ownership {

struct Decision {
  bool yes = false;
  std::string reason;                    // for people
};

// 1. Pull an owned segment from a replica?
struct PullQuestion {
  bool certified = false;
  bool live_replica = false;             // other than oneself
  bool placement_primary = false;        // irrelevant, and asked for so that nobody adds it
};
[[nodiscard]] Decision pull_from_replica(const PullQuestion& q);

// 2. Serve a segment, if it is to be pulled?
struct ServeQuestion {
  bool sync_completed = false;
  Position head;
  std::optional<Position> source_head;   // as known from the source; none or revision 0 say nothing and do not block
};
[[nodiscard]] Decision serve_segment(const ServeQuestion& q);

// 3. How to take the source's copy?
enum class Take : std::uint8_t {
  log,                                   // what is missing of the log; keeps everything
  position_only,                         // records are equal: log emptied, head, floor and lineage taken over
  ranges,                                // everything range by range; nothing stays that is off the source's lineage
};
struct TakeQuestion {
  bool digests_equal = false;
  bool subordinate = false;              // it never served this segment beside the source: what it has, it has from owners
  bool head_on_lineage = false;          // of the source
  bool behind = false;                   // or level: head ≤ the source's head
  bool log_reaches = false;              // the source's log reaches back to its head
};
struct TakeDecision {
  Take take = Take::ranges;
  std::string reason;
};
[[nodiscard]] TakeDecision take_copy(const TakeQuestion& q);

// 4. Refuse to be a source?
struct SourceQuestion {
  bool owner = false;
  bool certified = false;
  bool segment_synced = false;
  bool holds_nothing = false;            // of the segment
};
[[nodiscard]] Decision refuse_as_source(const SourceQuestion& q);

// 5. Certify?
struct CertifyQuestion {
  bool owner = false;                    // at runtime
  std::uint32_t segments_owned = 0;
  std::uint32_t segments_synced = 0;     // with a source, or found that nobody alive has more
  bool holds_nothing = false;            // in any of them, and no source has proven that there is nothing
  bool placement_primary = false;
  bool live_replica = false;             // other than oneself
};
[[nodiscard]] Decision certify(const CertifyQuestion& q);

// What another node of the partition's group holds, as it answered.
struct Holder {
  std::string name;
  bool live = false;
  BootMicros reported_at = 0;
  std::vector<Position> heads;           // of the partition's segments in order
};
struct Pull {
  std::uint32_t segment = 0;             // of the partition, from 0
  std::string from;
  Position above;                        // own head: the tail after it is asked for
  Position to;                           // the head that the holder reported
  friend bool operator==(const Pull&, const Pull&) = default;
};
struct PullPlan {
  std::vector<Pull> pulls;               // empty: serve at once
  bool degraded = false;                 // it serves without a second copy that is in step
  std::string reason;                    // for people
};
// Per segment the tail above its own head from the highest live holder, ties by smallest name. Reports older than `fresh_us` do not
// count, nor do those about another number of segments. With nobody more complete it serves at once: a sole survivor always does.
[[nodiscard]] PullPlan pull_plan(const std::vector<Position>& own, const std::vector<Holder>& holders, BootMicros fresh_us, BootMicros now);

}  // namespace zaris::ownership
