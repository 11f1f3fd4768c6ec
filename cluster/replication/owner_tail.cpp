// Runs, the marks that go behind them, and the pages of copies.
#include <algorithm>

#include "cluster/base/assert.hpp"
#include "cluster/replication/owner_session.hpp"

namespace zaris::replication {
namespace {

constexpr std::size_t marks_in_frame = 512;  // some 100 bytes each, and a link's name

}  // namespace

void OwnerSession::on_dirty(std::span<const SegmentId> segments) {
  for (const SegmentId id : segments) {
    if (!follows(at(id))) continue;
    tail_.insert(id);
    marks_due_.insert(id);
  }
  if (closed_ == 0 || closed_heads_known_) return;
  // Whatever was committed at or before the closed time lies at or below the heads of now, and what is not sent is in tail_.
  closed_heads_known_ = true;
  tail_.each([&](SegmentId id) {
    const Revision head = store_.state(id).head.revision;
    if (at(id).sent.revision < head) closed_waits_[id] = head;
  });
}

// ---- runs ---------------------------------------------------------------------------------------------------------
// The segment that a page or marks wait for goes first.
bool OwnerSession::say_run(std::string& out) {
  for (const auto waits : {page_ ? std::optional(page_->segment) : std::nullopt, marks_ ? std::optional(marks_->segment) : std::nullopt}) {
    if (waits && tail_.contains(*waits) && say_run(out, *waits) == Turn::said) return true;
  }
  while (const auto id = tail_.next(tail_from_)) {
    tail_from_ = id->value() + 1u;
    if (say_run(out, *id) == Turn::said) return true;
  }
  return false;
}

OwnerSession::Turn OwnerSession::say_run(std::string& out, SegmentId id) {
  Segment& s = at(id);
  store::LogStretch stretch;
  const store::LogRead read = store_.read_log(id, s.sent.revision, options_.turn_bytes, stretch);
  // Looked at after the log was read: whoever is the source now, in this term, was it then.
  if (!still_source(id, s, read == store::LogRead::ok ? &stretch : nullptr)) {
    stop(out, id, Refusal::ended, "this node's term as the owner of the segment has ended");
    return Turn::said;
  }
  switch (read) {
    case store::LogRead::at_head:
      tail_.erase(id);
      closed_waits_.erase(id);
      return Turn::nothing;
    case store::LogRead::fetching:
      tail_.erase(id);  // until it has come
      return Turn::nothing;
    case store::LogRead::trimmed:
      trimmed(out, id);
      return Turn::said;
    case store::LogRead::ok:
      break;
  }
  std::size_t count = stretch.index.size();
  if (page_ && page_->segment == id) {
    // The page is of this place: what came later goes behind it.
    count = std::min<std::size_t>(count, page_->page.as_of.revision.value() - s.sent.revision.value());
    if (count == 0) {
      tail_.erase(id);  // until the page has gone
      return Turn::nothing;
    }
  }
  encode_run(out, id, s.sent, stretch, count, !awaited_);
  s.sent = {stretch.generation, Revision{stretch.first.value() + count - 1}};
  s.sent_id = 0;
  const auto waits = closed_waits_.find(id);
  if (waits != closed_waits_.end() && waits->second <= s.sent.revision) closed_waits_.erase(waits);
  return Turn::said;
}

// Does this node still send what it began to send? As owner: in the same term, which its head names from the first commit on.
// For a pull: what has been sent, and the stretch, lie on what it holds now.
bool OwnerSession::still_source(SegmentId id, const Segment& s, const store::LogStretch* stretch) const {
  const store::SegmentState state = store_.state(id);
  if (!s.pull) return state.role == store::SegmentRole::owner && state.head.generation == s.term;
  if (state.role == store::SegmentRole::none || state.copying) return false;
  const Lineage lineage = store_.lineage(id);
  const auto on = [&](Position at, std::uint64_t generation_id) {
    return lineage.test(lineage.root().history, {at, generation_id}, state.head).verdict == OnLineage::on;
  };
  if (s.sent != Position{} && !on(s.sent, s.sent_id == 0 ? lineage.id_of(s.sent.generation) : s.sent_id)) return false;
  if (stretch == nullptr) return true;
  return on({stretch->generation, stretch->last()}, lineage.id_of(stretch->generation));
}

// The log no longer reaches what this replica needs next. It is to say anew what it holds, and not just to be sent a copy: what it
// confirmed before it heard of that may still be on its way here, and would be taken for what it holds of the copy.
void OwnerSession::trimmed(std::string& out, SegmentId id) {
  stop(out, id, at(id).pull ? Refusal::nothing_to_pull : Refusal::trimmed,
       fmt::format("{} was to be sent next, and the log begins at {}", at(id).sent.revision.next().value(), store_.state(id).floor.value()));
}

// ---- marks --------------------------------------------------------------------------------------------------------
// What waits for a segment's log is taken only when little of it is left: the log that it waits for goes before all others.
bool OwnerSession::near_head(SegmentId id) const { return store_.log_bytes_after(id, at(id).sent.revision) <= options_.turn_bytes; }

bool OwnerSession::take_marks() {
  std::uint32_t from = marks_from_;
  bool round = false;  // past the end of the numbers once
  while (const auto id = marks_due_.next(from)) {
    if (id->value() < from) {
      if (round) return false;
      round = true;
    }
    if (round && id->value() >= marks_from_) return false;
    from = id->value() + 1u;
    Segment& s = at(*id);
    if (s.phase == ReplicaPhase::log && !near_head(*id)) continue;
    marks_due_.erase(*id);
    if (s.phase != ReplicaPhase::log) continue;  // after the last page
    PendingMarks pending{*id, store_.marks_since(*id, s.marks_since), 0};
    if (pending.marks.changes.empty() && !pending.marks.everything && s.marks_told != 0) {
      s.marks_since = pending.marks.version;
      continue;
    }
    marks_ = std::move(pending);
    marks_from_ = from;
    return true;
  }
  return false;
}

bool OwnerSession::say_marks(std::string& out) {
  if (!marks_ && !take_marks()) return false;
  PendingMarks& pending = *marks_;
  const store::MarksSince& marks = pending.marks;
  Segment& s = at(pending.segment);
  if (s.sent.revision < marks.head.revision) {
    tail_.insert(pending.segment);
    return false;
  }
  MarksMessage message;
  message.segment = pending.segment;
  message.marks.head = marks.head;
  message.marks.everything = marks.everything;
  message.marks.version = marks.version + 1;
  const std::size_t count = std::min(marks_in_frame, marks.changes.size() - pending.done);
  const auto first = marks.changes.begin() + static_cast<std::ptrdiff_t>(pending.done);
  message.marks.changes.assign(first, first + static_cast<std::ptrdiff_t>(count));
  pending.done += count;
  message.more = pending.done < marks.changes.size();
  if (!message.more) {
    s.marks_since = marks.version;
    s.marks_told = marks.version + 1;
    marks_.reset();
  }
  encode(out, message);
  return true;
}

// ---- copies -------------------------------------------------------------------------------------------------------
bool OwnerSession::take_page() {
  if (page_) return false;
  for (std::size_t i = 0; i < walks_.size(); ++i) {
    walk_from_ = (walk_from_ + 1) % walks_.size();
    Walking& walking = walks_[walk_from_];
    if (!near_head(walking.segment)) continue;
    page_ = PendingPage{walking.segment, walking.walk->next(options_.page), false};
    page_->last = walking.walk->done();
    tail_.insert(walking.segment);
    return true;
  }
  return false;
}

bool OwnerSession::say_page(std::string& out) {
  if (!page_) return false;
  const SegmentId id = page_->segment;
  Segment& s = at(id);
  if (s.sent.revision < page_->page.as_of.revision) return false;
  if (!still_source(id, s, nullptr)) {
    stop(out, id, Refusal::ended, "this node's term as the owner of the segment has ended");
    return true;
  }
  encode_page(out, id, page_->page);
  const bool last = page_->last;
  page_.reset();
  if (last) {
    end_walk(id);
    s.phase = ReplicaPhase::log;
    marks_due_.insert(id);
    changed(id);
  }
  tail_.insert(id);
  return true;
}

void OwnerSession::end_walk(SegmentId id) {
  std::erase_if(walks_, [&](const Walking& walking) { return walking.segment == id; });
}

}  // namespace zaris::replication
