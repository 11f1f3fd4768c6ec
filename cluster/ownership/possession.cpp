#include "cluster/ownership/possession.hpp"

#include <fmt/format.h>

namespace zaris::ownership {

Decision pull_from_replica(const PullQuestion& q) {
  if (q.certified) return {false, "it is certified for the partition"};
  if (!q.live_replica) return {false, "no other replica is alive"};
  return {true, "it has not proven that it holds the partition, and a replica is alive"};
}

Decision serve_segment(const ServeQuestion& q) {
  if (!q.sync_completed) return {false, "no sync with its source has completed"};
  if (q.source_head && q.source_head->revision != Revision{} && q.head < *q.source_head) {
    return {false, fmt::format("its head {} is below the source's {}", to_string(q.head), to_string(*q.source_head))};
  }
  return {true, "it has reached what its source had"};
}

TakeDecision take_copy(const TakeQuestion& q) {
  // The log before equal digests: where it can be followed it keeps the history that pins and readers stand in.
  if (q.subordinate && q.head_on_lineage && q.behind && q.log_reaches) return {Take::log, "it is only behind, and on the source's lineage"};
  if (q.digests_equal) return {Take::position_only, "the records are equal; the log cannot be followed"};
  if (!q.subordinate) return {Take::ranges, "it may hold writes of its own"};
  if (!q.head_on_lineage) return {Take::ranges, "its head is not on the source's lineage"};
  if (!q.behind) return {Take::ranges, "its head is beyond the source's"};
  return {Take::ranges, "the source's log does not reach back to its head"};
}

Decision refuse_as_source(const SourceQuestion& q) {
  if (!q.owner) return {false, "a replica gives what it holds"};
  if (q.certified) return {false, "it is certified: what it lacks does not exist"};
  if (q.segment_synced) return {false, "the segment is synced"};
  if (!q.holds_nothing) return {false, "what it holds is better than nothing"};
  return {true, "it owns the segment, holds nothing of it and cannot say whether there is something"};
}

Decision certify(const CertifyQuestion& q) {
  if (!q.owner) return {false, "it is not the owner"};
  if (q.segments_owned == 0) return {false, "it owns no segment"};
  if (q.segments_synced < q.segments_owned) return {false, fmt::format("{} of {} segments are synced", q.segments_synced, q.segments_owned)};
  if (!q.holds_nothing) return {true, "every segment is synced"};
  if (!q.placement_primary) return {false, "holding nothing proves nothing, and another node is the placement primary"};
  if (q.live_replica) return {false, "holding nothing proves nothing while a replica is alive"};
  return {true, "nobody holds anything, and it is the placement primary: the partition begins empty"};
}

PullPlan pull_plan(const std::vector<Position>& own, const std::vector<Holder>& holders, BootMicros fresh_us, BootMicros now) {
  PullPlan out;
  std::vector<const Holder*> counted;
  std::uint32_t stale = 0;
  for (const Holder& h : holders) {
    if (!h.live || h.heads.size() != own.size()) continue;
    if (now - h.reported_at > fresh_us) ++stale;
    else counted.push_back(&h);
  }
  for (std::uint32_t s = 0; s < own.size(); ++s) {
    const Holder* best = nullptr;
    for (const Holder* h : counted) {
      if (h->heads[s] <= own[s]) continue;
      if (best == nullptr || h->heads[s] > best->heads[s] || (h->heads[s] == best->heads[s] && h->name < best->name)) best = h;
    }
    if (best != nullptr) out.pulls.push_back({s, best->name, own[s], best->heads[s]});
  }
  if (!out.pulls.empty()) {
    out.reason = fmt::format("{} of {} segments have a tail on another node", out.pulls.size(), own.size());
    return out;
  }
  out.degraded = true;
  if (counted.empty()) {
    out.reason = stale == 0 ? "it is the only holder alive" : fmt::format("the reports of {} other holders are too old to count", stale);
  } else {
    out.reason = fmt::format("none of {} other holders has more", counted.size());
  }
  return out;
}

}  // namespace zaris::ownership
