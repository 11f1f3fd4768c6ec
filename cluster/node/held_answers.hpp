// Answers to writes that wait until as many copies have them as was asked for. One per worker thread; not thread-safe. An answer is
// made before it waits, as the Ok that it will be; one that is given up becomes DurabilityNotMet by its status alone.
#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "cluster/region/held_table.hpp"
#include "cluster/replication/acknowledge.hpp"

namespace zaris::node {

// One write that an answer speaks of.
struct HeldItem {
  SegmentId segment;
  Position position;
  std::uint64_t marks = 0;                   // an apply: of the segment's marks, which come behind the log (Store, ApplyAnswer); 0: a write
  std::size_t status_at = 0;                 // of its status' first byte in the answer
  std::size_t also_at = 0;                   // where it stands a second time; 0: it does not
};

class HeldAnswers {
 public:
  static constexpr std::size_t waits_max = 100'000;
  HeldAnswers(const region::HeldTable& held, std::uint32_t segments) : held_(held), positions_(segments), marks_(segments) {}

  // The answer stands at the end of `out`, from `at` on. False: it may leave, perhaps with another status. True: it was taken out.
  [[nodiscard]] bool hold(std::uint64_t connection, std::string& out, std::size_t at, std::span<const HeldItem> items, Durability policy, MonoMicros deadline);

  struct Ready {
    std::uint64_t connection = 0;
    std::string bytes;
  };
  // What is held by now, what was given up, and what has waited too long.
  void collect(MonoMicros now, std::vector<Ready>& ready);
  [[nodiscard]] bool waiting() const { return !answers_.empty(); }
  [[nodiscard]] std::size_t waits() const { return positions_.acknowledge.waiting() + marks_.acknowledge.waiting(); }
  [[nodiscard]] std::uint64_t given_up() const { return given_up_; }

 private:
  struct Answer {
    std::uint64_t connection = 0;
    std::string bytes;
    std::uint32_t left = 0;                  // items that still wait
  };
  struct Place {
    std::uint64_t answer = 0;
    std::size_t status_at = 0, also_at = 0;
  };
  // Those that wait for positions, and those that wait for marks: a version of marks is waited for as a revision of no generation.
  struct Line {
    explicit Line(std::uint32_t count) : acknowledge(count, waits_max) {}
    replication::Acknowledge acknowledge;
    std::unordered_map<replication::Ticket, Place, StrongHash> places;
    std::map<SegmentId, std::pair<Generation, std::size_t>> segments;   // waited for: the term, and how many
    std::unordered_map<replication::Ticket, SegmentId, StrongHash> segment_of;
  };
  void collect(Line& line, MonoMicros now, std::vector<Ready>& ready);
  [[nodiscard]] replication::Held held_of(const Line& line, const region::HeldRow& row) const;
  void give_up(char* answer, std::size_t status_at, std::size_t also_at);
  void settle(Line& line, std::span<const replication::Ticket> tickets, bool met, std::vector<Ready>& ready);

  const region::HeldTable& held_;
  Line positions_, marks_;
  std::unordered_map<std::uint64_t, Answer> answers_;
  std::uint64_t last_ = 0, given_up_ = 0;
};

}  // namespace zaris::node
