// Leaving on purpose: to whom a node's partitions go, in what order one is handed over, and when the node may go. Design page
// cluster, "Planned migration" (drain to a replica).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "cluster/ownership/boot_time.hpp"
#include "cluster/ownership/membership.hpp"
#include "cluster/ownership/ownership.hpp"
#include "cluster/record/position.hpp"

namespace zaris::ownership {

struct DrainCandidate {
  Member member;
  MemberState state = MemberState::alive;
  bool draining = false;                 // itself
  bool placement_primary = false;        // of the partition
  std::uint32_t partitions_owned = 0;
  std::uint64_t revisions_behind = 0;    // over all segments of the partition
};
struct DrainTarget {
  Member to;                             // empty name: nobody
  std::string reason;                    // for people
};
// Only a synchronised replica that is alive and stays: the placement primary before others, then who is nearest, then who owns
// least, then by name.
[[nodiscard]] DrainTarget drain_target(const SynchronisedSet& set, const std::vector<DrainCandidate>& candidates);

// The hand-over of one partition by its owner, who is alive and consents.
struct HandOver {
  bool target_usable = false;            // still what drain_target would allow
  bool owner_stopped = false;            // the old owner has said that it executes nothing more, and named its heads
  std::vector<Position> owner_heads;     // final ones
  std::vector<Position> target_heads;    // as the target reported after it had refused older generations
  BootMicros began = 0;
  BootMicros give_up_us = 5 * boot_second;
};
struct HandOverStep {
  enum class Kind : std::uint8_t { stop_owner, wait, flip, give_up } kind = Kind::wait;
  std::string reason;                    // for people
};
// Writes pause from stop_owner to flip. A flip needs no lease to run out: the old owner has said that it stopped, and the set's
// version guards the transaction. giving up hands the partition back to the old owner under a new generation.
[[nodiscard]] HandOverStep hand_over(const HandOver& state, BootMicros now);

struct Leaving {
  std::uint32_t partitions_owned = 0;
  std::uint32_t hand_overs_running = 0;
  std::uint32_t without_target = 0;      // of those owned: nobody may take them now
  bool only_copies_stay = false;         // what has no target has no other copy at all (replication factor 1): nothing to wait for
  BootMicros began = 0;
  BootMicros timeout_us = 30 * boot_second;   // drain.timeout
  bool hurried = false;                  // a second signal
};
struct LeaveDecision {
  bool leave = false;
  bool warning = false;                  // it leaves although it owns something
  std::string reason;                    // for people
};
[[nodiscard]] LeaveDecision may_leave(const Leaving& state, BootMicros now);

}  // namespace zaris::ownership
