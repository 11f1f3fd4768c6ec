#include "cluster/node/held_answers.hpp"

#include "cluster/record/status.hpp"

namespace zaris::node {

using replication::Held;
using replication::Ticket;
using replication::WaitOutcome;

Held HeldAnswers::held_of(const Line& line, const region::HeldRow& row) const {
  if (&line == &positions_) return row.held;
  const auto as_position = [](std::uint64_t version) { return Position{Generation{}, Revision{version}}; };
  return {as_position(row.marks.replica), as_position(row.marks.majority), as_position(row.marks.all)};
}

bool HeldAnswers::hold(std::uint64_t connection, std::string& out, std::size_t at, std::span<const HeldItem> items, Durability policy, MonoMicros deadline) {
  const std::uint64_t number = ++last_;
  std::uint32_t left = 0;
  for (const HeldItem& item : items) {
    Line& line = item.marks == 0 ? positions_ : marks_;
    const Position wanted = item.marks == 0 ? item.position : Position{Generation{}, Revision{item.marks + 1}};
    // What is held now is looked at after this thread has said that it waits: whoever changes it afterwards wakes it.
    const region::HeldRow row = held_.get(item.segment);
    const auto not_met = [&] { give_up(out.data() + at, item.status_at, item.also_at); };
    if (row.term > item.position.generation) {
      not_met();  // another term by now
      continue;
    }
    // A term that has just begun may not be in the table yet; then it is waited for as everything else is.
    if (row.term == item.position.generation && held_of(line, row).by(policy) >= wanted) continue;
    const auto wait = line.acknowledge.wait(item.segment, wanted, policy, deadline);
    if (wait.outcome == WaitOutcome::done) continue;
    if (wait.outcome == WaitOutcome::full) {
      not_met();
      continue;
    }
    line.places[wait.ticket] = {number, item.status_at, item.also_at};
    line.segment_of[wait.ticket] = item.segment;
    auto& waited = line.segments[item.segment];
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

void HeldAnswers::settle(Line& line, std::span<const Ticket> tickets, bool met, std::vector<Ready>& ready) {
  for (const Ticket ticket : tickets) {
    const auto place = line.places.find(ticket);
    if (place == line.places.end()) continue;
    const auto segment = line.segment_of.find(ticket);
    if (const auto waited = line.segments.find(segment->second); --waited->second.second == 0) line.segments.erase(waited);
    line.segment_of.erase(segment);
    const auto answer = answers_.find(place->second.answer);
    if (!met) give_up(answer->second.bytes.data(), place->second.status_at, place->second.also_at);
    line.places.erase(place);
    if (--answer->second.left > 0) continue;
    ready.push_back({answer->second.connection, std::move(answer->second.bytes)});
    answers_.erase(answer);
  }
}

void HeldAnswers::collect(Line& line, MonoMicros now, std::vector<Ready>& ready) {
  std::vector<Ticket> done, given_up;
  for (const auto& [segment, waited] : line.segments) {
    const region::HeldRow row = held_.get(segment);
    if (row.term > waited.first) line.acknowledge.abandon(segment, given_up);
    else if (row.term == waited.first) line.acknowledge.advance(segment, held_of(line, row), done);
  }
  line.acknowledge.expire(now, given_up);
  settle(line, done, true, ready);
  settle(line, given_up, false, ready);
}

void HeldAnswers::collect(MonoMicros now, std::vector<Ready>& ready) {
  collect(positions_, now, ready);
  collect(marks_, now, ready);
}

}  // namespace zaris::node
