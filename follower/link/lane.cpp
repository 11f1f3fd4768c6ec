#include "follower/link/lane.hpp"

#include <algorithm>

#include "cluster/base/assert.hpp"

namespace zaris::follower {

using State = Flight::State;

void Lane::read_mark(std::optional<Mark> mark, bool durable) {
  ZARIS_ASSERT(flights_.empty(), flights_.size());
  mark_ = std::move(mark);
  mark_waits_ = mark_ && mark_->low && !durable;
  if (!mark_ || !mark_->low) durable_low_.reset();
  else if (durable || (durable_low_ && mark_->low->at < durable_low_->at)) durable_low_ = mark_->low;
  generation_.reset();
  blocked_ = halted_ = resending_ = false;
  retry_at_ = 0;
  retry_.reset();
  failing_since_.reset();
  reset_future();
}

void Lane::reset_future() {
  marked_ = mark_.has_value();
  token_ = mark_ ? std::optional(mark_->token) : std::nullopt;
  phase_ = mark_ ? mark_->phase : Phase::bootstrap;
  last_key_ = mark_ ? mark_->last_key : std::nullopt;
  low_ = mark_ ? mark_->low : std::nullopt;
  high_ = mark_ ? mark_->high : std::nullopt;
  horizon_ = mark_ ? mark_->horizon : std::nullopt;
}

// The mark after this piece, as the owner will make it.
void Lane::foresee(const Piece& piece) {
  switch (piece.kind) {
    case ApplyKind::open:
      marked_ = true;
      phase_ = Phase::bootstrap;
      last_key_.reset();
      low_.reset();
      high_.reset();
      horizon_.reset();
      break;
    case ApplyKind::stream:
      if (!low_ || low_->at < piece.last->at) low_ = piece.last;
      if (!high_ || high_->at < piece.last->at) high_ = piece.last;
      break;
    case ApplyKind::range:
    case ApplyKind::delta:
      low_ = high_ = horizon_ = piece.range->as_of;
      last_key_ = piece.range->to;
      phase_ = piece.range->final ? Phase::stream : Phase::bootstrap;
      if (piece.range->final) last_key_.reset();
      break;
    case ApplyKind::repair:
      horizon_ = horizon_ ? later(*horizon_, piece.repair->as_of) : piece.repair->as_of;
      high_ = later(*high_, piece.repair->as_of);
      phase_ = piece.repair->final ? Phase::stream : Phase::repair;
      if (!piece.repair->final) break;
      if (piece.repair->surviving.at < low_->at) low_ = piece.repair->surviving;
      high_ = later(piece.repair->surviving, *horizon_);
      break;
    case ApplyKind::check: break;
  }
}

void Lane::set_state(Flight& flight, State state) {
  const auto count = [this](State s) -> std::size_t* {
    switch (s) {
      case State::waiting: return &waiting_;
      case State::sent: return &sent_;
      case State::again: return &again_;
      case State::undurable: return &undurable_;
      case State::applied: return nullptr;
    }
    return nullptr;
  };
  if (auto* before = count(flight.state)) --*before;
  if (auto* after = count(state)) ++*after;
  flight.state = state;
}

void Lane::push(Piece piece) {
  ZARIS_ASSERT(!halted_, target_.value());
  foresee(piece);
  if (waiting_ > 0 && join(flights_.back().piece, piece)) return;
  flights_.emplace_back();
  flights_.back().piece = std::move(piece);
  ++waiting_;
}

Flight* Lane::next_to_send(const Limits& limits, std::uint64_t id, SessionId session, MonoMicros now) {
  if (blocked_ || halted_) return nullptr;
  if (again_ > 0) {
    // Those behind the one that failed are refused for want of it: all answers first, then the same bytes in order.
    if (!resending_ && (sent_ > 0 || now < retry_at_)) return nullptr;
    resending_ = true;
    for (auto& flight : flights_) {
      if (flight.state != State::again) continue;
      set_state(flight, State::sent);
      flight.id = id;
      flight.sent_us = now;
      return &flight;
    }
  }
  resending_ = false;
  if (waiting_ == 0) return nullptr;
  const std::size_t busy = sent_ + undurable_;
  // Which generation the target is in is known from its first answer only; before it no token can be foreseen.
  if (busy >= (generation_ ? limits.in_flight : 1)) return nullptr;
  Flight& flight = flights_[flights_.size() - waiting_];
  if (limits.one_range_at_a_time && busy > 0 && flight.piece.may_remove()) return nullptr;
  flight.session = session;
  flight.expected = token_;
  flight.result = MarkToken{generation_.value_or(token_ ? token_->target_generation : Generation{}), session,
                            (token_ ? token_->number : 0) + 1};
  token_ = flight.result;
  flight.id = id;
  flight.sent_us = now;
  set_state(flight, State::sent);
  return &flight;
}

std::optional<MonoMicros> Lane::unanswered_since() const {
  if (sent_ == 0) return std::nullopt;
  for (const auto& flight : flights_) {
    if (flight.state == State::sent) return flight.sent_us;
  }
  return std::nullopt;
}

std::uint64_t Lane::halt() {
  halted_ = true;
  std::uint64_t credit = 0;
  for (; waiting_ > 0; --waiting_) {
    credit += flights_.back().piece.credit;
    flights_.pop_back();
  }
  return credit;
}

std::uint64_t Lane::clear() {
  std::uint64_t credit = 0;
  for (const auto& flight : flights_) credit += flight.piece.credit;
  flights_.clear();
  waiting_ = sent_ = again_ = undurable_ = 0;
  blocked_ = halted_ = resending_ = false;
  reset_future();
  return credit;
}

std::size_t Lane::find(std::uint64_t id) const {
  for (std::size_t i = 0; i < flights_.size(); ++i) {
    if (flights_[i].state == State::waiting) break;
    if (flights_[i].id == id && flights_[i].state == State::sent) return i;
  }
  return flights_.size();
}

const Flight* Lane::find_flight(std::uint64_t id) const {
  for (const auto& flight : flights_) {
    if (flight.id == id) return &flight;
  }
  return nullptr;
}

void Lane::settle() {
  while (!flights_.empty() && flights_.front().state == State::applied) {
    Flight& flight = flights_.front();
    if (flight.mark) {
      mark_ = flight.mark;
      durable_low_ = mark_->low;
      mark_waits_ = false;
    }
    done_.push_back(std::move(flight));
    flights_.pop_front();
  }
}

void Lane::again(std::size_t index, MonoMicros now, Random& random) {
  set_state(flights_[index], State::again);
  if (again_ == 1 || resending_) retry_at_ = now + retry_.next(random);
  resending_ = false;
  if (!failing_since_) failing_since_ = now;
}

Lane::Verdict Lane::block(std::size_t index, Verdict verdict) {
  set_state(flights_[index], State::again);
  blocked_ = true;
  resending_ = false;
  return verdict;
}

Lane::Verdict Lane::on_ok(std::size_t index, const ApplyAnswer& answer, State reached) {
  Flight& flight = flights_[index];
  flight.applied = answer.applied;
  flight.skipped = answer.skipped;
  flight.replaced = answer.replaced;
  flight.removed = answer.removed;
  flight.conflicts = answer.conflicts;
  flight.mark = answer.mark;
  if (flight.piece.kind == ApplyKind::check) flight.checked = Flight::Checked{answer.differing, answer.memory_slots, answer.removal_count, answer.would_lose};
  // One that was thought to have failed must have been applied: this one stands on it.
  // And a mark that is durable leaves nothing before it that is not.
  for (std::size_t i = 0; i < index; ++i) {
    if (flights_[i].state == State::again || (flights_[i].state == State::undurable && reached == State::applied)) set_state(flights_[i], reached);
  }
  set_state(flight, reached);
  if (answer.mark) {
    flight.result = answer.mark->token;
    foresee_tokens(index, answer.mark->token.target_generation);
  }
  retry_.reset();
  failing_since_.reset();
  settle();
  return reached == State::applied ? Verdict::progress : Verdict::undurable;
}

Lane::Verdict Lane::on_gap(std::size_t index, const ApplyAnswer& answer, MonoMicros now, Random& random) {
  // Refused only because one before it has to be sent again.
  for (std::size_t i = 0; i < index; ++i) {
    if (flights_[i].state != State::again) continue;
    set_state(flights_[index], State::again);
    return Verdict::progress;
  }
  const auto is_result_of = [&](const Flight& flight) {
    return answer.mark && answer.mark->token.session == flight.result.session && answer.mark->token.number == flight.result.number;
  };
  for (std::size_t j = 0; j < flights_.size() - waiting_; ++j) {
    if (!is_result_of(flights_[j])) continue;
    if (j < index) {
      // It stands on one whose answer has not come yet, or those between have been taken back.
      taken_back(j + 1, index);
      flights_[j].result = answer.mark->token;
      foresee_tokens(j, answer.mark->token.target_generation);
      again(index, now, random);
      return Verdict::retry;
    }
    // The mark is ours: an earlier attempt had been applied although its answer never came. How durable it is nobody has said. Those behind it
    // whose answers had come are not in this mark: taken back since, or applied after this answer was made.
    for (std::size_t i = 0; i < flights_.size() - waiting_; ++i) {
      const State state = flights_[i].state;
      if (i <= j ? state != State::applied : state == State::applied) set_state(flights_[i], State::undurable);
    }
    flights_[j].result = answer.mark->token;
    flights_[j].mark = answer.mark;
    foresee_tokens(j, answer.mark->token.target_generation);
    retry_.reset();
    failing_since_.reset();
    return Verdict::undurable;
  }
  // It stands on the batch that it names, applied by another owner than was foreseen: session and number name the bytes, the generation who
  // wrote the mark.
  Flight& flight = flights_[index];
  if (answer.mark && flight.expected && answer.mark->token.session == flight.expected->session && answer.mark->token.number == flight.expected->number) {
    flight.expected = answer.mark->token;
    again(index, now, random);
    foresee_tokens(index, answer.mark->token.target_generation);
    return Verdict::retry;
  }
  const bool nothing_of_ours = answer.mark ? flights_.front().expected == answer.mark->token : !flights_.front().expected;
  if (index > 0 && nothing_of_ours) {
    taken_back(0, index);
    again(index, now, random);
    return Verdict::retry;
  }
  return block(index, Verdict::gap);
}

// The target's owner is in this generation: what has not been answered will be written in it, each standing on the one before it.
void Lane::foresee_tokens(std::size_t from, Generation generation) {
  if (!generation_ || *generation_ < generation) generation_ = generation;
  const auto is_answered = [](const Flight& flight) { return flight.state == State::applied || flight.state == State::undurable; };
  std::optional<MarkToken> before;
  for (std::size_t i = from; i < flights_.size() - waiting_; ++i) {
    Flight& flight = flights_[i];
    if (i > from) flight.expected = before;
    if (!is_answered(flight)) flight.result.target_generation = std::max(flight.result.target_generation, generation);
    before = flight.result;
  }
  token_ = before;
}

// The mark stands before these: what of them had been applied without its durability went with the owner that had it. The same bytes
// are sent again, in order; nobody else would say that they are missing, since no answer of theirs is waited for.
void Lane::taken_back(std::size_t from, std::size_t to) {
  for (std::size_t i = from; i < to; ++i) {
    if (flights_[i].state != State::undurable) continue;
    flights_[i].mark.reset();
    set_state(flights_[i], State::again);
  }
}

Lane::Verdict Lane::answer(std::uint64_t id, const Result<ApplyAnswer>& answer, MonoMicros now, Random& random) {
  const std::size_t index = find(id);
  if (index == flights_.size()) return Verdict::unknown;
  if (!answer) {
    last_failure_ = answer.error().text();
    again(index, now, random);
    return Verdict::retry;
  }
  if (answer->status != Status::ok) last_failure_ = std::string(name(answer->status)) + (answer->reason.empty() ? "" : ": " + answer->reason);
  switch (answer->status) {
    case Status::ok: return on_ok(index, *answer, State::applied);
    case Status::durability_not_met: return on_ok(index, *answer, State::undurable);
    case Status::mark_gap: return on_gap(index, *answer, now, random);
    case Status::moved:
    case Status::ownership_changing:
    case Status::migrating:
    case Status::replica_sync_pending:
    case Status::replica_write_rejected:
    case Status::unavailable:
    case Status::timed_out: again(index, now, random); return Verdict::retry;
    case Status::item_too_large:
    case Status::capacity_exceeded: return block(index, Verdict::refused);
    case Status::would_lose: return block(index, Verdict::would_lose);
    case Status::range_differs: return block(index, Verdict::differs);
    case Status::unsupported:  // an owner of an older build: all of the range then
      return block(index, flights_[index].piece.kind == ApplyKind::delta ? Verdict::differs : Verdict::failed);
    case Status::removal_limit: return block(index, Verdict::removal_limit);
    case Status::term_superseded:
    case Status::epoch_superseded: return block(index, Verdict::superseded);
    case Status::source_changed:
    case Status::scope_mismatch: return block(index, Verdict::opened_anew);
    default: return block(index, Verdict::failed);
  }
}

void Lane::keep_and_retry(const std::vector<Kept>& kept) {
  constexpr std::uint32_t named_anew_most = 8;
  for (auto& flight : flights_) {
    if (flight.state != State::again) continue;
    bool anew = false;
    for (const Kept& one : kept) {
      const auto at = std::find(flight.may_lose.begin(), flight.may_lose.end(), one.key);
      if (at == flight.may_lose.end()) {
        flight.may_lose.push_back(one.key);
        flight.may_lose_names.push_back(one.name);
      } else {
        anew = true;
        flight.may_lose_names[static_cast<std::size_t>(at - flight.may_lose.begin())] = flight.named_anew >= named_anew_most ? 0 : one.name;
      }
    }
    flight.named_anew += anew ? 1 : 0;
    break;
  }
  blocked_ = false;
  retry_at_ = 0;
}

void Lane::durable_mark(const Mark& mark) {
  for (auto& flight : flights_) {
    if (flight.state != State::undurable) continue;
    if (mark.token.session != flight.result.session || mark.token.number < flight.result.number) break;
    set_state(flight, State::applied);
  }
  settle();
  if (mark_ && mark_->token == mark.token) {
    durable_low_ = mark_->low;
    mark_waits_ = false;
  }
}

}  // namespace zaris::follower
