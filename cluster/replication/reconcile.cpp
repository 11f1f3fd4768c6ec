#include "cluster/replication/reconcile.hpp"

#include <algorithm>

namespace zaris::replication {
namespace {

FollowDecision refuse(Refusal refusal, std::string reason) { return {FollowHow::refused, refusal, std::move(reason)}; }

bool has_root(const Lineage& lineage) { return !lineage.entries().empty(); }

// Empty: the log leads on from what the replica holds. Otherwise why it does not.
std::string why_not_log(const SourceView& source, const FollowRow& replica) {
  const Revision at = replica.head.at.revision;
  if (replica.copying) return "the replica's copy is not whole";
  if (!replica.history || replica.head.at == Position{}) {
    if (source.floor <= Revision{1}) return {};
    return fmt::format("the replica holds nothing, and the log begins at {}", source.floor.value());
  }
  const LineageVerdict verdict = source.lineage.test(*replica.history, replica.head, source.head);
  if (verdict.verdict != OnLineage::on) return verdict.reason;
  if (at.next() < source.floor) return fmt::format("the replica holds up to {}, and the log begins at {}", at.value(), source.floor.value());
  return {};
}

}  // namespace

FollowDecision reconcile(const SourceView& source, const FollowRow& replica, bool pull) {
  const bool owner = source.role == store::SegmentRole::owner;
  if (owner && replica.generation > source.head.generation) {
    return refuse(Refusal::older_generation, fmt::format("generation {} owns the segment, here {} did", replica.generation.value(), source.head.generation.value()));
  }
  if (!owner && !pull) return refuse(Refusal::not_owner, "this node does not own the segment");
  if (source.role == store::SegmentRole::none || !has_root(source.lineage)) return refuse(Refusal::not_owner, "this node holds nothing of the segment");
  if (pull && source.copying) return refuse(Refusal::nothing_to_pull, "the copy of the segment is not whole here");

  std::string reason = why_not_log(source, replica);
  if (reason.empty()) return {FollowHow::log, Refusal::none, {}};
  if (pull) return refuse(Refusal::nothing_to_pull, std::move(reason));
  if (replica.count == source.count && replica.digest == source.digest) return {FollowHow::equal, Refusal::none, std::move(reason)};
  return {FollowHow::copy, Refusal::none, std::move(reason)};
}

SourceView source_view(const store::Store& store, SegmentId segment) {
  SourceView view;
  // Head, digest and count under one lock hold; what can only have grown since is cut back to that head.
  view.digest = store.segment_digest(segment, &view.count, &view.head);
  const store::SegmentState state = store.state(segment);
  view.role = state.role;
  view.copying = state.copying;
  view.floor = state.floor;
  view.newest_timestamp_us = state.newest_timestamp_us;
  const Lineage now = store.lineage(segment);
  std::vector<LineageEntry> entries = now.entries();
  std::erase_if(entries, [&](const LineageEntry& entry) { return entry.first > view.head.revision; });
  view.lineage = Lineage(now.root(), std::move(entries));
  return view;
}

FollowRow follow_row(const store::Store& store, SegmentId segment, Generation generation) {
  const SourceView view = source_view(store, segment);
  FollowRow row;
  row.segment = segment;
  row.generation = generation;
  row.copying = view.copying;
  row.count = view.count;
  row.digest = view.digest;
  row.floor = view.floor;
  if (!has_root(view.lineage)) return row;
  row.history = view.lineage.root().history;
  row.head = {view.head, view.lineage.id_of(view.head.generation)};
  row.generation = std::max(generation, view.head.generation);
  return row;
}

}  // namespace zaris::replication
