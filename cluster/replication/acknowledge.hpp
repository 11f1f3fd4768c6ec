// Writes that wait until enough copies have them. Design page cluster, "Replication inside a region": a policy that cannot be met
// in time gives DurabilityNotMet; the write stands. No clock: moments are handed in. One thread at a time; a node has one per
// thread that answers requests, and tells each what is held (held_positions.hpp).
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "cluster/record/mark.hpp"
#include "cluster/record/position.hpp"
#include "cluster/replication/held_positions.hpp"

namespace zaris::replication {

// A waiting request. Growing; never used twice.
struct Ticket : Strong<struct TicketTag, std::uint64_t> { using Strong::Strong; };

enum class WaitOutcome : std::uint8_t {
  done,      // held already, or the owner's copy is enough
  waiting,   // a ticket was given
  full,      // waits_max are waiting: answer DurabilityNotMet
};
struct Wait {
  WaitOutcome outcome = WaitOutcome::done;
  Ticket ticket;
};

class Acknowledge {
 public:
  Acknowledge(std::uint32_t segments, std::size_t waits_max);

  // `policy`: with the store's default filled in already. `deadline`: when expire gives up on it.
  [[nodiscard]] Wait wait(SegmentId segment, Position position, Durability policy, MonoMicros deadline);
  // What is held now; appends what is done. Held positions may fall when a set changes: what was done stays done.
  void advance(SegmentId segment, const Held& held, std::vector<Ticket>& done);
  // Appends those whose deadline has come: DurabilityNotMet.
  void expire(MonoMicros now, std::vector<Ticket>& given_up);
  // The segment is not owned in this term any more: all that wait for it are given up.
  void abandon(SegmentId segment, std::vector<Ticket>& given_up);
  // Whoever asked has gone.
  void cancel(Ticket ticket);

  [[nodiscard]] std::size_t waiting() const { return waits_.size(); }
  [[nodiscard]] std::optional<MonoMicros> next_deadline() const;

 private:
  static constexpr std::size_t policies = 3;  // replica, majority, all
  struct Waiting {
    SegmentId segment;
    std::size_t policy = 0;
    Position position;
    MonoMicros deadline = 0;
  };
  struct Segment {
    Held held;
    std::set<std::pair<Position, Ticket>> by_position[policies];
  };
  void forget(Ticket ticket, const Waiting& waiting);

  const std::size_t waits_max_;
  std::vector<Segment> segments_;
  std::unordered_map<Ticket, Waiting, StrongHash> waits_;
  std::set<std::pair<MonoMicros, Ticket>> by_deadline_;
  std::uint64_t last_ticket_ = 0;
};

}  // namespace zaris::replication
