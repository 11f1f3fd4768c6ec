#include "cluster/node/held_answers.hpp"

#include "cluster/record/status.hpp"

namespace zaris::node {

using replication::Ticket;
using replication::WaitOutcome;

bool HeldAnswers::hold(std::uint64_t connection, std::string& out, std::size_t at, std::span<const HeldItem> items, Durability policy, MonoMicros deadline) {
  const std::uint64_t number = ++last_;
  std::uint32_t left = 0;
  std::vector<Ticket> done;
  for (const HeldItem& item : items) {
    // What is held now is looked at after this thread has said that it waits: whoever changes it afterwards wakes it.
    const region::HeldRow row = held_.get(item.segment);
    const auto not_met = [&] { give_up(out.data() + at, item.status_at, item.also_at); };
    if (row.term > item.position.generation) {
      not_met();  // another term by now
      continue;
    }
    // A term that has just begun may not be in the table yet; then it is waited for as everything else is.
    if (row.term == item.position.generation && row.held.by(policy) >= item.position) continue;
    const auto wait = acknowledge_.wait(item.segment, item.position, policy, deadline);
    if (wait.outcome == WaitOutcome::done) continue;
    if (wait.outcome == WaitOutcome::full) {
      not_met();
      continue;
    }
    places_[wait.ticket] = {number, item.status_at, item.also_at};
    segment_of_[wait.ticket] = item.segment;
    auto& waited = segments_[item.segment];
    waited.first = item.position.generation;
    ++waited.second;
    ++left;
  }
  if (left == 0) return false;
  answers_[number] = {connection, out.substr(at), left};
  out.resize(at);
  return true;
}

void HeldAnswers::give_up(char* answer, std::size_t status_at, std::size_t also_at) {
  answer[status_at] = static_cast<char>(Status::durability_not_met);
  if (also_at != 0) answer[also_at] = static_cast<char>(Status::durability_not_met);
  ++given_up_;
}

void HeldAnswers::settle(std::span<const Ticket> tickets, bool met, std::vector<Ready>& ready) {
  for (const Ticket ticket : tickets) {
    const auto place = places_.find(ticket);
    if (place == places_.end()) continue;
    const auto segment = segment_of_.find(ticket);
    if (const auto waited = segments_.find(segment->second); --waited->second.second == 0) segments_.erase(waited);
    segment_of_.erase(segment);
    const auto answer = answers_.find(place->second.answer);
    if (!met) give_up(answer->second.bytes.data(), place->second.status_at, place->second.also_at);
    places_.erase(place);
    if (--answer->second.left > 0) continue;
    ready.push_back({answer->second.connection, std::move(answer->second.bytes)});
    answers_.erase(answer);
  }
}

void HeldAnswers::collect(MonoMicros now, std::vector<Ready>& ready) {
  std::vector<Ticket> done, given_up;
  for (const auto& [segment, waited] : segments_) {
    const region::HeldRow row = held_.get(segment);
    if (row.term > waited.first) acknowledge_.abandon(segment, given_up);
    else if (row.term == waited.first) acknowledge_.advance(segment, row.held, done);
  }
  acknowledge_.expire(now, given_up);
  settle(done, true, ready);
  settle(given_up, false, ready);
}

}  // namespace zaris::node
