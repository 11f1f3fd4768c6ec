#include "cluster/replication/replica_session.hpp"

#include <algorithm>
#include <array>

#include "cluster/replication/reconcile.hpp"

namespace zaris::replication {
namespace {

constexpr std::size_t follow_rows_in_frame = 1024;
constexpr std::uint64_t credit_step = 4;  // a Credit says at least this part of the window

}  // namespace

std::string_view name(FollowPhase phase) {
  switch (phase) {
    case FollowPhase::none: return "none";
    case FollowPhase::asked: return "asked";
    case FollowPhase::log: return "log";
    case FollowPhase::copy: return "copy";
    case FollowPhase::refused: return "refused";
    case FollowPhase::superseded: return "superseded";
  }
  return "unknown";
}

ReplicaSession::ReplicaSession(store::Store& store, ReplicaOptions options)
    : store_(store),
      options_(options),
      segment_count_(store.options().segments),
      segments_(segment_count_),
      to_ask_(segment_count_),
      to_stop_(segment_count_),
      received_(segment_count_),
      changed_(segment_count_),
      consumed_(options.window_bytes) {}

void ReplicaSession::end(std::string code, std::string text) {
  if (!ended_) ended_ = SessionEnd{std::move(code), std::move(text)};
}

bool ReplicaSession::known(SegmentId id) {
  if (id.value() < segment_count_) return true;
  end("replication_malformed", fmt::format("segment {} of {}", id.value(), segment_count_));
  return false;
}

// ---- what the shell says and asks ---------------------------------------------------------------------------------
void ReplicaSession::follow(std::span<const SegmentFollow> segments) {
  for (const SegmentFollow& asked : segments) {
    Segment& s = at(asked.segment);
    s.learnt = std::max(s.learnt, asked.generation);
    s.pull = asked.pull;
    forget(asked.segment);
    enter(asked.segment, FollowPhase::asked);
    to_ask_.insert(asked.segment);
    to_stop_.erase(asked.segment);
  }
}

void ReplicaSession::unfollow(std::span<const SegmentId> segments) {
  for (const SegmentId id : segments) {
    if (at(id).state.phase != FollowPhase::none) leave(id, FollowPhase::none, Refusal::none, {});
  }
}

void ReplicaSession::learn(SegmentId id, Generation generation) {
  Segment& s = at(id);
  s.learnt = std::max(s.learnt, generation);
  if (!follows(s) || s.pull || s.state.term >= s.learnt) return;
  leave(id, FollowPhase::superseded, Refusal::none,
        fmt::format("generation {} owns the segment, generation {} was followed", s.learnt.value(), s.state.term.value()));
}

FollowState ReplicaSession::state(SegmentId segment) const { return at(segment).state; }

std::vector<SegmentId> ReplicaSession::take_changed() {
  std::vector<SegmentId> out;
  while (const auto id = changed_.take()) out.push_back(*id);
  return out;
}

void ReplicaSession::enter(SegmentId id, FollowPhase phase, std::string reason) {
  Segment& s = at(id);
  s.state.phase = phase;
  s.state.synced = false;
  s.state.refusal = Refusal::none;
  s.state.reason = std::move(reason);
  changed_.insert(id);
}

// What was said of this segment so far counts no more: everything is said again.
void ReplicaSession::forget(SegmentId id) {
  at(id).marks_version = 0;
  received_.erase(id);
  if (marks_ && marks_->segment == id) marks_.reset();
  for (auto told = pins_told_.begin(); told != pins_told_.end();) {
    told->second.erase(id);
    told = told->second.empty() ? pins_told_.erase(told) : std::next(told);
  }
}

// Nothing more is taken for this segment; the other end is told, unless it was the one that said so.
void ReplicaSession::leave(SegmentId id, FollowPhase phase, Refusal refusal, std::string reason) {
  forget(id);
  enter(id, phase, std::move(reason));
  at(id).state.refusal = refusal;
  to_ask_.erase(id);
  if (refusal == Refusal::none) to_stop_.insert(id);
}

// ---- messages in --------------------------------------------------------------------------------------------------
void ReplicaSession::on_message(const protocol::Frame& frame, Now now) {
  now_ = now;
  if (ended_) return;
  consumed_ += protocol::frame_header_bytes + frame.body.size();
  may_wait_ = (frame.header.status & protocol::flag_answer_may_wait) != 0;
  if (may_wait_) unconfirmed_bytes_ += frame.body.size();
  const auto read = [&](auto message) {
    if (!decode(frame.body, message)) return false;
    handle(message);
    return true;
  };
  bool good = false;
  switch (static_cast<protocol::Opcode>(frame.header.opcode)) {
    case protocol::Opcode::following: good = read(Following{}); break;
    case protocol::Opcode::replica_run: good = read(RunMessage{}); break;
    case protocol::Opcode::replica_marks: good = read(MarksMessage{}); break;
    case protocol::Opcode::replica_page: good = read(PageMessage{}); break;
    case protocol::Opcode::replica_floors: good = read(Floors{}); break;
    case protocol::Opcode::replica_pins: good = read(Pins{}); break;
    case protocol::Opcode::replica_closed_time: good = read(ClosedTimeMessage{}); break;
    default: break;
  }
  if (!good) end("replication_malformed", fmt::format("a frame of opcode {} that is no message of an owner", frame.header.opcode));
}

void ReplicaSession::handle(const Following& message) {
  for (const FollowingRow& row : message.rows) {
    if (!known(row.segment)) return;
    const Segment& s = at(row.segment);
    // An answer to what was asked before this, or to what is not wanted any more.
    const bool wanted = (s.state.phase == FollowPhase::asked && !to_ask_.contains(row.segment)) || follows(s);
    if (wanted && s.number == message.number) handle(row);
  }
}

void ReplicaSession::handle(const FollowingRow& row) {
  const SegmentId id = row.segment;
  Segment& s = at(id);
  s.state.term = row.generation;
  s.state.owner_head = row.head;
  if (row.how == FollowHow::refused) {
    s.learnt = std::max(s.learnt, row.generation);
    if (row.refusal == Refusal::trimmed) return follow(std::array{SegmentFollow{id, s.learnt, s.pull}});
    return leave(id, FollowPhase::refused, row.refusal == Refusal::none ? Refusal::not_owner : row.refusal, row.reason);
  }
  if (!s.pull && row.generation < s.learnt) {
    return leave(id, FollowPhase::superseded, Refusal::none,
                 fmt::format("generation {} owns the segment, generation {} answered", s.learnt.value(), row.generation.value()));
  }
  if (!s.pull) s.learnt = row.generation;
  forget(id);
  const store::SegmentState held = store_.state(id);
  if (row.how == FollowHow::log) {
    if (held.role != store::SegmentRole::replica) return leave(id, FollowPhase::none, Refusal::none, "the segment is no copy any more");
    if (held.copying) return end("replication_gap", fmt::format("segment {}: the log alone does not make a half copy whole", id.value()));
    s.head = held.head;
    enter(id, FollowPhase::log);
    return reached(id);
  }
  if (s.pull) return end("replication_malformed", fmt::format("segment {}: a pull was answered with content", id.value()));
  store::ReplicaAnswer answer = store_.begin_copy(id, {row.lineage, row.as_of, row.newest_timestamp_us}, now_.wall_us);
  const bool equal = row.how == FollowHow::equal;
  if (answer.outcome == store::ReplicaOutcome::ok) {
    store_.set_owner_floor(id, row.floor, row.floor);
    if (equal) answer = store_.finish_copy(id);
    enter(id, equal ? FollowPhase::log : FollowPhase::copy, row.reason);
  }
  moved(id, answer, "the beginning of a copy");
}

// The content is whole: what is held counts.
void ReplicaSession::reached(SegmentId id) {
  Segment& s = at(id);
  if (s.state.phase != FollowPhase::log) return;
  received_.insert(id);
  if (!may_wait_ || !s.state.synced) confirm_now_ = true;
  else if (!received_since_) received_since_ = now_.mono_us;
  if (s.state.synced || s.head < s.state.owner_head) return;
  s.state.synced = true;
  changed_.insert(id);
}

void ReplicaSession::handle(const RunMessage& message) {
  if (!known(message.segment)) return;
  Segment& s = at(message.segment);
  if (!follows(s)) return;  // on its way when it was left
  const Generation generation = message.run.generation;
  if (s.pull ? generation >= s.learnt : generation > s.state.term) {
    return end("replication_malformed", fmt::format("segment {}: a run of generation {} from term {}", message.segment.value(), generation.value(), s.state.term.value()));
  }
  moved(message.segment, store_.append_run(message.segment, message.run, now_.wall_us), "a run");
}

void ReplicaSession::handle(const PageMessage& message) {
  if (!known(message.segment)) return;
  Segment& s = at(message.segment);
  if (!follows(s)) return;
  if (s.state.phase != FollowPhase::copy) {
    return end("replication_malformed", fmt::format("segment {}: a page outside a copy", message.segment.value()));
  }
  const store::ReplicaAnswer answer = store_.copy_page(message.segment, message.page, now_.wall_us);
  if (answer.outcome == store::ReplicaOutcome::ok && !message.page.to) enter(message.segment, FollowPhase::log, s.state.reason);
  moved(message.segment, answer, "a page");
}

void ReplicaSession::moved(SegmentId id, const store::ReplicaAnswer& answer, const char* what) {
  switch (answer.outcome) {
    case store::ReplicaOutcome::ok:
      at(id).head = answer.head;
      return reached(id);
    case store::ReplicaOutcome::gap:
      return end("replication_gap", fmt::format("segment {}: {}: {}", id.value(), what, answer.reason));
    case store::ReplicaOutcome::malformed:
      return end("replication_malformed", fmt::format("segment {}: {}: {}", id.value(), what, answer.reason));
    case store::ReplicaOutcome::not_replica:
      return leave(id, FollowPhase::none, Refusal::none, "the segment is no copy any more");
  }
}

// ---- what is said -------------------------------------------------------------------------------------------------
bool ReplicaSession::next(std::string& out) {
  const std::size_t start = out.size();
  if (ended_) return false;
  while (say_follow(out, false)) continue;
  while (say_follow(out, true)) continue;
  while (say_received(out)) continue;
  (void)say_credit(out);
  return out.size() != start;
}

bool ReplicaSession::say_follow(std::string& out, bool pull) {
  Follow message;
  message.pull = pull;
  message.number = number_ + 1;
  std::uint32_t from = 0;
  while (message.rows.size() < follow_rows_in_frame) {
    const auto id = to_ask_.next(from);
    if (!id || id->value() < from) break;
    from = id->value() + 1u;
    Segment& s = at(*id);
    if (s.pull != pull) continue;
    to_ask_.erase(*id);
    if (store_.state(*id).role != store::SegmentRole::replica) {
      enter(*id, FollowPhase::none, "the segment is no copy");
      continue;
    }
    s.number = message.number;
    message.rows.push_back(follow_row(store_, *id, s.learnt));
    s.learnt = message.rows.back().generation;
  }
  while (const auto id = to_stop_.take()) message.stop.push_back(*id);
  if (message.rows.empty() && message.stop.empty()) return false;
  ++number_;
  encode(out, message);
  return true;
}

std::optional<MonoMicros> ReplicaSession::confirms_at() const {
  if (!received_since_) return std::nullopt;
  return *received_since_ + options_.confirm_within_us;
}

bool ReplicaSession::say_received(std::string& out) {
  // What nobody waits for is confirmed with what somebody does, before much has gathered, or when its time has come.
  if (!confirm_now_ && !closed_moved_ && unconfirmed_bytes_ < options_.confirm_bytes && (!received_since_ || now_.mono_us < *confirms_at())) return false;
  confirm_now_ = false;
  received_since_.reset();
  unconfirmed_bytes_ = 0;
  Received message;
  while (const auto id = received_.take()) message.rows.push_back({*id, at(*id).head, at(*id).marks_version});
  if (message.rows.empty() && !closed_moved_) return false;
  message.closed_time_us = closed_;
  closed_moved_ = false;
  encode(out, message);
  return true;
}

bool ReplicaSession::say_credit(std::string& out) {
  if (consumed_ == 0 || consumed_ < options_.window_bytes / credit_step) return false;
  encode(out, Credit{consumed_});
  consumed_ = 0;
  return true;
}

}  // namespace zaris::replication
