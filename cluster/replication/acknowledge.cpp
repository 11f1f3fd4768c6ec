#include "cluster/replication/acknowledge.hpp"

#include "cluster/base/assert.hpp"

namespace zaris::replication {
namespace {

constexpr Durability waited_for[] = {Durability::replica, Durability::majority, Durability::all};

std::size_t index_of(Durability policy) {
  ZARIS_ASSERT(policy >= Durability::replica && policy <= Durability::all, static_cast<int>(policy));
  return static_cast<std::size_t>(policy) - static_cast<std::size_t>(Durability::replica);
}

}  // namespace

Acknowledge::Acknowledge(std::uint32_t segments, std::size_t waits_max) : waits_max_(waits_max), segments_(segments) {}

Wait Acknowledge::wait(SegmentId segment, Position position, Durability policy, MonoMicros deadline) {
  if (policy == Durability::owner) return {WaitOutcome::done, {}};
  Segment& s = segments_.at(segment.value());
  if (s.held.by(policy) >= position) return {WaitOutcome::done, {}};
  if (waits_.size() >= waits_max_) return {WaitOutcome::full, {}};
  const Ticket ticket{++last_ticket_};
  const std::size_t index = index_of(policy);
  s.by_position[index].emplace(position, ticket);
  by_deadline_.emplace(deadline, ticket);
  waits_.emplace(ticket, Waiting{segment, index, position, deadline});
  return {WaitOutcome::waiting, ticket};
}

void Acknowledge::advance(SegmentId segment, const Held& held, std::vector<Ticket>& done) {
  Segment& s = segments_.at(segment.value());
  s.held = held;
  for (std::size_t i = 0; i < policies; ++i) {
    const Position up_to = held.by(waited_for[i]);
    auto& waiting = s.by_position[i];
    while (!waiting.empty() && waiting.begin()->first <= up_to) {
      const Ticket ticket = waiting.begin()->second;
      done.push_back(ticket);
      cancel(ticket);
    }
  }
}

void Acknowledge::expire(MonoMicros now, std::vector<Ticket>& given_up) {
  while (!by_deadline_.empty() && by_deadline_.begin()->first <= now) {
    const Ticket ticket = by_deadline_.begin()->second;
    given_up.push_back(ticket);
    cancel(ticket);
  }
}

void Acknowledge::abandon(SegmentId segment, std::vector<Ticket>& given_up) {
  Segment& s = segments_.at(segment.value());
  s.held = {};
  for (auto& waiting : s.by_position) {
    while (!waiting.empty()) {
      const Ticket ticket = waiting.begin()->second;
      given_up.push_back(ticket);
      cancel(ticket);
    }
  }
}

void Acknowledge::cancel(Ticket ticket) {
  const auto found = waits_.find(ticket);
  if (found == waits_.end()) return;
  forget(ticket, found->second);
  waits_.erase(found);
}

void Acknowledge::forget(Ticket ticket, const Waiting& waiting) {
  segments_[waiting.segment.value()].by_position[waiting.policy].erase({waiting.position, ticket});
  by_deadline_.erase({waiting.deadline, ticket});
}

std::optional<MonoMicros> Acknowledge::next_deadline() const {
  if (by_deadline_.empty()) return std::nullopt;
  return by_deadline_.begin()->first;
}

}  // namespace zaris::replication
