// Roles, terms, marks and floors of segments that this node may own, follow, or have nothing of. See replica.hpp.
#include <set>

#include "cluster/base/assert.hpp"
#include "cluster/store/store_impl.hpp"

namespace zaris::store {
namespace {

void raise(std::optional<NamedPosition>& to, const std::optional<NamedPosition>& at) {
  if (at && (!to || to->at < at->at)) to = at;
}

}  // namespace

void StoreImpl::change_role(Segment& s, SegmentRole role) {
  const bool was_owned = s.owned(), is_owned = role == SegmentRole::owner;
  s.role.store(role, std::memory_order_relaxed);
  if (was_owned == is_owned) return;
  const std::int64_t held = static_cast<std::int64_t>(s.record_bytes) + s.table_bytes;
  used_.fetch_add(is_owned ? held : s.unreported_bytes - held, std::memory_order_relaxed);
  s.unreported_bytes = 0;
  s.owner_floor = s.owner_memory_floor = Revision{0};
  s.log.count_as_owned(is_owned);
  pins_.owned(s.id, is_owned, options_.cluster);
  owned_changes_.fetch_add(1, std::memory_order_relaxed);
}

void StoreImpl::set_role(SegmentId id, SegmentRole role) {
  ZARIS_ASSERT(options_.cluster_member && role != SegmentRole::owner, id.value());
  Segment& s = segment(id);
  const std::lock_guard hold(s.lock);
  change_role(s, role);
  if (role == SegmentRole::none) pins_.leave(id);
  for (auto& [key, state] : s.marks) s.drop_view(state);
}

Position StoreImpl::begin_term(SegmentId id, const Term& term, WallMicros now) {
  ZARIS_ASSERT(options_.cluster_member && term.id != 0, id.value());
  Segment& s = segment(id);
  Position position;
  {
    const std::lock_guard hold(s.lock);
    ZARIS_ASSERT(s.generation < term.generation, id.value(), s.generation.value(), term.generation.value());
    ZARIS_ASSERT(s.copy == nullptr, id.value());
    const bool blank = s.lineage.entries().empty();
    const WallMicros at = s.commit_time(now);
    position = {term.generation, s.log.head().next()};
    const LineageEntry entry{term.generation, term.id, position.revision, at};
    if (blank) {
      s.lineage = Lineage(Root{term.history, term.generation, at, term.cause}, {entry});
      s.log_complete_since_us = at;
    } else {
      s.lineage.append(entry);
    }
    s.generation = term.generation;
    s.newest_timestamp_us = at;
    const std::string record = make_generation_record(position.revision, at, term.generation, term.id, s.lineage.root().history,
                                                      blank ? term.cause : RootCause::takeover);
    s.log.append(record, nullptr, LogNote{0, s.first, log_flag_generation}, term.generation, position.revision, now);
    change_role(s, SegmentRole::owner);
    s.mark_versions.begin_term(term.generation);
    for (auto& [key, state] : s.marks) {
      if (state.mark.low) raise(state.mark.horizon, state.blind_to);
      state.blind_to.reset();
      s.changed(state);
    }
  }
  moved(id);
  return position;
}

void StoreImpl::put_mark(Segment& s, const MarkKey& key, const std::optional<Mark>& mark) {
  const auto at = s.marks.find(key);
  if (!mark) {
    if (at != s.marks.end()) s.erase_mark(at);
    return;
  }
  if (at != s.marks.end()) {
    MarkState& state = at->second;
    s.drop_view(state);
    if (state.mark.source_cluster != mark->source_cluster || state.mark.history != mark->history) state.blind_to.reset();
    state.mark = *mark;
    s.changed(state);
    return;
  }
  MarkState& state = s.marks[key];
  state.mark = *mark;
  // Of which slots it is we are not told; the next apply says so. Until then it is taken to be of all.
  state.first = s.first;
  state.last = Slot{static_cast<std::uint16_t>(s.first.value() + s.slots - 1)};
  if (s.copied) state.blind_to = mark->high;
  s.mark_versions.there(key);
  s.changed(state);
}

ReplicaAnswer StoreImpl::put_marks(SegmentId id, const MarksSince& marks) {
  Segment& s = segment(id);
  ReplicaAnswer answer;
  const std::lock_guard hold(s.lock);
  answer.head = s.head();
  if (s.role.load(std::memory_order_relaxed) != SegmentRole::replica) {
    answer.outcome = ReplicaOutcome::not_replica;
    answer.reason = "the segment is no replica here";
    return answer;
  }
  if (!s.holds(marks.head)) {
    answer.outcome = ReplicaOutcome::gap;
    answer.reason = fmt::format("marks as of {}; the log here ends at {}", to_string(marks.head), to_string(answer.head));
    return answer;
  }
  if (s.copy) {
    if (marks.everything) s.copy->marks.clear();
    for (const MarkChange& change : marks.changes) {
      if (change.mark) {
        s.copy->marks.insert_or_assign(change.key, *change.mark);
      } else {
        s.copy->marks.erase(change.key);
      }
    }
    return answer;
  }
  if (marks.everything) {
    std::set<MarkKey> named;
    for (const MarkChange& change : marks.changes) named.insert(change.key);
    for (auto it = s.marks.begin(); it != s.marks.end();) it = named.contains(it->first) ? std::next(it) : s.erase_mark(it);
  }
  for (const MarkChange& change : marks.changes) put_mark(s, change.key, change.mark);
  return answer;
}

MarksSince StoreImpl::marks_since(SegmentId id, std::uint64_t since) const {
  Segment& s = segment(id);
  MarksSince out;
  const std::lock_guard hold(s.lock);
  out.head = s.head();
  out.version = s.mark_versions.now();
  out.everything = !s.mark_versions.reaches_back_to(since);
  for (const auto& [key, state] : s.marks) {
    if (out.everything || state.version > since) out.changes.push_back(MarkChange{key, state.mark});
  }
  if (out.everything) return out;
  for (const auto& [key, version] : s.mark_versions.gone()) {
    if (version > since) out.changes.push_back(MarkChange{key, std::nullopt});
  }
  return out;
}

void StoreImpl::set_owner_floor(SegmentId id, Revision floor, Revision memory_floor) {
  Segment& s = segment(id);
  {
    const std::lock_guard hold(s.lock);
    s.owner_floor = floor;
    s.owner_memory_floor = std::max(floor, memory_floor);
  }
  floors_moved_.store(true, std::memory_order_relaxed);
}

}  // namespace zaris::store
