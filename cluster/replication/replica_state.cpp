// What comes beside the log: marks, floors, pins, closed time.
#include "cluster/replication/owner_session.hpp"
#include "cluster/replication/replica_session.hpp"

namespace zaris::replication {

// ---- marks --------------------------------------------------------------------------------------------------------
void ReplicaSession::handle(MarksMessage& message) {
  const SegmentId id = message.segment;
  if (!known(id)) return;
  Segment& s = at(id);
  if (!follows(s)) return;
  if (marks_) {
    if (marks_->segment != id) return end("replication_malformed", fmt::format("segment {}: a set of marks within another's", id.value()));
    auto& changes = marks_->marks.changes;
    if (changes.size() + message.marks.changes.size() > mark_changes_max) {
      return end("replication_malformed", fmt::format("segment {}: more than {} marks", id.value(), mark_changes_max));
    }
    changes.insert(changes.end(), message.marks.changes.begin(), message.marks.changes.end());
    message.marks.changes = std::move(changes);
    marks_.reset();
  }
  if (message.more) {
    marks_ = std::move(message);
    return;
  }
  if (s.pull) keep_newer(id, message.marks);
  const store::ReplicaAnswer answer = store_.put_marks(id, message.marks);
  if (answer.outcome == store::ReplicaOutcome::ok) s.marks_version = std::max(s.marks_version, message.marks.version);
  moved(id, answer, "marks");
}

// Whoever pulls has marks of the same history, perhaps newer ones than the node that it pulls from.
void ReplicaSession::keep_newer(SegmentId id, store::MarksSince& marks) const {
  std::map<MarkKey, std::uint64_t> held;
  for (const store::MarkChange& change : store_.marks_since(id, 0).changes) {
    if (change.mark) held[change.key] = change.mark->token.number;
  }
  marks.everything = false;
  std::erase_if(marks.changes, [&](const store::MarkChange& change) {
    const auto own = held.find(change.key);
    return !change.mark || (own != held.end() && own->second >= change.mark->token.number);
  });
}

// ---- floors, closed time ------------------------------------------------------------------------------------------
void ReplicaSession::handle(const Floors& message) {
  for (const FloorRow& row : message.rows) {
    if (!known(row.segment)) return;
    if (follows(at(row.segment)) && !at(row.segment).pull) store_.set_owner_floor(row.segment, row.floor, row.memory_floor);
  }
}

void ReplicaSession::handle(const ClosedTimeMessage& message) {
  if (message.closed_time_us <= closed_) return;
  closed_ = message.closed_time_us;
  closed_moved_ = true;
}

// ---- pins ---------------------------------------------------------------------------------------------------------
void ReplicaSession::handle(const Pins& message) {
  for (const PinMessage& pin : message.pins) {
    if (is_replica_pin(store_, pin.key)) continue;  // nobody else's business
    if (pins_told_.size() >= options_.pins_max && !pins_told_.contains(pin.key)) {
      return end("replication_malformed", fmt::format("more than {} pins", options_.pins_max));
    }
    std::set<SegmentId>& told = pins_told_[pin.key];
    for (const PinRow& row : pin.rows) {
      if (!known(row.segment)) return;
      if (!follows(at(row.segment)) || at(row.segment).pull) continue;
      if (row.place) {
        // The log between `acknowledged` and `moved` may never have been here: what the owner's trimmer found is taken over.
        store_.set_pin_place(pin.key, pin.scope, row.segment, *row.place, now_.wall_us);
        told.insert(row.segment);
      } else {
        told.erase(row.segment);
        store_.clear_pin(pin.key, row.segment);  // its others may be of other owners, or our own
      }
    }
    if (told.empty()) pins_told_.erase(pin.key);
  }
  for (const SegmentId id : message.settled) {
    if (!known(id)) return;
  }
  settle(message.settled);
}

// What is pinned in these segments and was not told since they are followed is from before.
void ReplicaSession::settle(std::span<const SegmentId> segments) {
  if (segments.empty()) return;
  for (const store::PinInfo& info : store_.pins(now_.wall_us)) {
    if (is_replica_pin(store_, info.key)) continue;
    const auto told = pins_told_.find(info.key);
    for (const SegmentId id : segments) {
      if (!follows(at(id)) || at(id).pull || (told != pins_told_.end() && told->second.contains(id))) continue;
      store_.clear_pin(info.key, id);
    }
  }
}

}  // namespace zaris::replication
