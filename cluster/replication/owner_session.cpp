#include "cluster/replication/owner_session.hpp"

#include <algorithm>

#include "cluster/base/assert.hpp"

namespace zaris::replication {
namespace {

constexpr std::int64_t credit_max = std::int64_t{1} << 40;
constexpr std::size_t following_bytes = 64u << 10;  // of rows in one frame; one of any size passes

bool outside(SegmentId id, std::uint32_t segments) { return id.value() >= segments; }

}  // namespace

store::PinKey replica_pin(const store::Store& store, const std::string& replica) {
  return {"replica", replica, ScopeId{0}, store.options().cluster};
}

bool is_replica_pin(const store::Store& store, const store::PinKey& key) { return key.target == store.options().cluster; }

OwnerSession::OwnerSession(store::Store& store, OwnerOptions options, std::function<bool(SegmentId)> may_copy)
    : store_(store),
      options_(std::move(options)),
      may_copy_(std::move(may_copy)),
      segment_count_(store.options().segments),
      own_pin_(replica_pin(store, options_.replica)),
      segments_(segment_count_),
      undecided_(segment_count_),
      copies_waiting_(segment_count_),
      stopped_(segment_count_),
      tail_(segment_count_),
      marks_due_(segment_count_),
      changed_(segment_count_),
      unsettled_(segment_count_),
      settling_(segment_count_) {}

OwnerSession::~OwnerSession() {
  if (pins_attached_) store_.attach_pin(own_pin_, false, now_.wall_us);
}

void OwnerSession::end(std::string code, std::string text) {
  if (!ended_) ended_ = SessionEnd{std::move(code), std::move(text)};
}

// ---- messages in --------------------------------------------------------------------------------------------------
void OwnerSession::on_message(const protocol::Frame& frame, Now now) {
  now_ = now;
  if (ended_) return;
  const auto read = [&](auto message) {
    if (!decode(frame.body, message)) return false;
    handle(message);
    return true;
  };
  bool good = false;
  switch (static_cast<protocol::Opcode>(frame.header.opcode)) {
    case protocol::Opcode::follow: good = read(Follow{}); break;
    case protocol::Opcode::replica_received: good = read(Received{}); break;
    case protocol::Opcode::replica_credit: good = read(Credit{}); break;
    default: break;
  }
  if (!good) end("replication_malformed", fmt::format("a frame of opcode {} that is no message of a replica", frame.header.opcode));
}

void OwnerSession::handle(Follow& message) {
  for (const SegmentId id : message.stop) {
    if (outside(id, segment_count_)) return end("replication_malformed", fmt::format("segment {} of {}", id.value(), segment_count_));
    if (!at(id).pull) store_.clear_pin(own_pin_, id);  // who does not follow needs no log
    leave(id);
  }
  for (FollowRow& row : message.rows) {
    const SegmentId id = row.segment;
    if (outside(id, segment_count_)) return end("replication_malformed", fmt::format("segment {} of {}", id.value(), segment_count_));
    leave(id);
    asked_[id] = Asked{std::move(row), message.number, message.pull};
    undecided_.insert(id);
  }
}

void OwnerSession::handle(const Credit& message) {
  const std::int64_t more = message.bytes > static_cast<std::uint64_t>(credit_max) ? credit_max : static_cast<std::int64_t>(message.bytes);
  credit_ = std::min(credit_ + more, credit_max);
}

void OwnerSession::handle(const Received& message) {
  closed_received_ = std::max(closed_received_, std::min(message.closed_time_us, closed_sent_));
  for (const ReceivedRow& row : message.rows) {
    if (outside(row.segment, segment_count_)) return end("replication_malformed", fmt::format("segment {} of {}", row.segment.value(), segment_count_));
    Segment& s = at(row.segment);
    // While a copy runs nothing is held in full, whatever a row says.
    if (s.phase != ReplicaPhase::log) continue;
    if (row.head > s.sent || row.head.revision > s.sent.revision) {
      return end("replication_malformed", fmt::format("segment {}: {} is said to be held, {} was sent", row.segment.value(), to_string(row.head), to_string(s.sent)));
    }
    if (s.received && row.head < *s.received) continue;
    s.received = row.head;
    s.marks_received = std::max(s.marks_received, std::min(row.marks_version, s.marks_told));
    changed(row.segment);
    update_synchronised(row.segment);
  }
}

// Nothing more goes to the replica for this segment.
void OwnerSession::leave(SegmentId id) {
  Segment& s = at(id);
  if (follows(s)) --(s.pull ? pulled_ : owned_);
  if (s.phase == ReplicaPhase::copy) end_walk(id);
  if (page_ && page_->segment == id) page_.reset();
  if (marks_ && marks_->segment == id) marks_.reset();
  for (SegmentSet* set : {&undecided_, &copies_waiting_, &stopped_, &tail_, &marks_due_, &unsettled_, &settling_}) set->erase(id);
  asked_.erase(id);
  floors_.erase(id);
  closed_waits_.erase(id);
  for (auto& [key, pin] : pins_) pin.told.erase(id.value());
  if (s.phase != ReplicaPhase::none) changed(id);
  s = {};
}

void OwnerSession::heard(SegmentId id, Generation generation) {
  Generation& newest = heard_[id];
  newest = std::max(newest, generation);
}

// ---- what the shell asks ------------------------------------------------------------------------------------------
ReplicaProgress OwnerSession::progress(SegmentId segment) const {
  const Segment& s = at(segment);
  // A term that ended a moment ago, perhaps at a node that owns the segment again: what was confirmed in it counts no more.
  if (follows(s) && !still_source(segment, s, nullptr)) return {};
  const auto marks = s.marks_received == 0 ? std::nullopt : std::optional(s.marks_received - 1);
  return {s.phase, s.received, marks, s.synchronised, s.floor};
}

std::vector<SegmentId> OwnerSession::take_changed() {
  std::vector<SegmentId> out;
  while (const auto id = changed_.take()) out.push_back(*id);
  return out;
}

std::vector<HeardGeneration> OwnerSession::take_heard() {
  std::vector<HeardGeneration> out;
  for (const auto& [segment, generation] : heard_) out.push_back({segment, generation});
  heard_.clear();
  return out;
}

std::size_t OwnerSession::held_bytes() const {
  std::size_t bytes = segments_.size() * sizeof(Segment) + asked_.size() * sizeof(Asked);
  if (page_) bytes += page_->page.table.size() + page_->page.records.size();
  if (marks_) bytes += marks_->marks.changes.size() * sizeof(store::MarkChange);
  for (const auto& [key, pin] : pins_) bytes += sizeof pin + pin.told.size() * sizeof(store::PinPlace);
  return bytes;
}

// ---- what is said -------------------------------------------------------------------------------------------------
bool OwnerSession::next(std::string& out) {
  const std::size_t start = out.size();
  while (!ended_ && credit_ > 0 && out.size() - start < options_.output_bytes) {
    const std::size_t before = out.size();
    if (!say_one(out)) break;
    credit_ -= static_cast<std::int64_t>(out.size() - before);
  }
  return out.size() != start;
}

// One frame. What waits for nothing goes first; it is little, since a tick or a Follow brings each of it once.
bool OwnerSession::say_one(std::string& out) {
  if (say_following(out) || say_floors(out) || say_pins(out) || say_closed_time(out)) return true;
  if (say_marks(out) || say_page(out)) return true;  // whose log has been sent
  const bool pages_turn = tails_in_row_ >= options_.tails_between_pages;
  if (pages_turn && (take_copy(out) || (take_page() && say_page(out)))) {
    tails_in_row_ = 0;
    return true;
  }
  if (say_run(out)) {
    ++tails_in_row_;
    return true;
  }
  if (say_marks(out)) return true;                   // a run that was just found to be there already
  tails_in_row_ = 0;
  return take_copy(out) || (take_page() && (say_page(out) || say_run(out)));
}

// Rows of one Follow, as many as fit.
bool OwnerSession::say_following(std::string& out) {
  if (const auto id = stopped_.take()) {
    stop(out, *id, Refusal::ended, "this node's term as the owner of the segment has ended");
    return true;
  }
  Following message;
  std::size_t bytes = 0;
  std::uint32_t from = 0;
  while (bytes < following_bytes && message.rows.size() < rows_max) {
    const auto id = undecided_.next(from);
    if (!id || id->value() < from) break;
    from = id->value() + 1u;
    const Asked& asked = asked_.at(*id);
    if (!message.rows.empty() && asked.number != message.number) continue;
    undecided_.erase(*id);
    FollowingRow row = decide(*id, asked, false);
    if (row.how == FollowHow::copy) continue;  // it is told when it begins
    message.number = asked.number;
    bytes += 64 + row.reason.size() + row.lineage.entries().size() * 32;
    message.rows.push_back(std::move(row));
    asked_.erase(*id);
  }
  if (message.rows.empty()) return false;
  encode(out, message);
  return true;
}

// The next copy begins, when one may. What would have been a copy a while ago is looked at anew.
bool OwnerSession::take_copy(std::string& out) {
  if (walks_.size() >= options_.walks_at_once) return false;
  std::optional<SegmentId> id = copies_waiting_.next(copy_from_);
  const auto first = id;
  while (id && !may_copy_(*id)) {
    id = copies_waiting_.next(id->value() + 1u);
    if (id == first) return false;
  }
  if (!id) return false;
  copy_from_ = id->value() + 1u;
  copies_waiting_.erase(*id);
  const Asked asked = asked_.at(*id);
  Following message;
  message.number = asked.number;
  message.rows.push_back(decide(*id, asked, true));
  asked_.erase(*id);
  encode(out, message);
  return true;
}

// Looks at what is held and begins what was decided; a copy only if `copy_now`, else it is queued.
FollowingRow OwnerSession::decide(SegmentId id, const Asked& asked, bool copy_now) {
  Segment& s = at(id);
  SourceView view = source_view(store_, id);
  FollowDecision decision = reconcile(view, asked.row, asked.pull);
  if (view.role != store::SegmentRole::none && asked.row.generation > view.head.generation) heard(id, asked.row.generation);

  FollowingRow row;
  row.segment = id;
  row.how = decision.how;
  row.refusal = decision.refusal;
  row.reason = std::move(decision.reason);
  row.generation = decision.how == FollowHow::refused ? std::max(view.head.generation, asked.row.generation) : view.head.generation;
  row.head = view.head;
  row.floor = view.floor;
  changed(id);
  s = {};
  if (decision.how == FollowHow::refused) return row;
  if (decision.how == FollowHow::copy && !copy_now) {
    s.phase = ReplicaPhase::waiting;
    copies_waiting_.insert(id);
    return row;
  }
  s.number = asked.number;
  s.pull = asked.pull;
  ++(s.pull ? pulled_ : owned_);
  if (decision.how == FollowHow::log) {
    begin_log(s, id, view, asked.row.head.at);
    s.received = asked.row.head.at;
    s.floor = asked.row.floor;
    s.sent_id = asked.row.head.generation_id;
    return row;
  }
  row.as_of = decision.how == FollowHow::copy ? copy_begins(id, view) : view.head;
  row.lineage = view.lineage.until(row.as_of.revision);
  row.newest_timestamp_us = view.newest_timestamp_us;
  begin_log(s, id, view, row.as_of);
  s.floor = row.as_of.revision.next();
  if (decision.how == FollowHow::copy) {
    s.phase = ReplicaPhase::copy;
    walks_.push_back({id, store_.begin_walk(id, Scope{}, std::nullopt)});
  }
  return row;
}

// With the content comes the log from where the furthest reader stands, so that nobody is below the floor once that node owns the segment
// (page cluster, "Replication inside a region").
Position OwnerSession::copy_begins(SegmentId id, const SourceView& view) const {
  const auto lowest = store_.lowest_pin(id, store_.options().cluster);
  if (!lowest || *lowest >= view.head.revision || view.lineage.entries().empty()) return view.head;
  const Revision held = std::max(*lowest, Revision{std::max<std::uint64_t>(view.floor.value(), 1) - 1});
  const LineageEntry last = view.lineage.until(held).entries().back();
  return {last.generation, std::max(held, last.first)};
}

void OwnerSession::begin_log(Segment& s, SegmentId id, const SourceView& view, Position from) {
  s.phase = ReplicaPhase::log;
  s.term = view.head.generation;
  s.sent = from;
  s.floor_told = s.memory_floor_told = Revision{0};  // a floor is said with the next look
  tail_.insert(id);
  marks_due_.insert(id);
  if (!s.pull) unsettled_.insert(id);
  move_own_pin(id);
}

void OwnerSession::stop(std::string& out, SegmentId id, Refusal refusal, std::string reason) {
  Following message;
  message.number = at(id).number;
  FollowingRow& row = message.rows.emplace_back();
  const store::SegmentState state = store_.state(id);
  row.segment = id;
  row.refusal = refusal;
  row.generation = state.head.generation;
  row.head = state.head;
  row.floor = state.floor;
  row.reason = std::move(reason);
  leave(id);
  encode(out, message);
}

}  // namespace zaris::replication
