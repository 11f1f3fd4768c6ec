// What a leader decides when a partition has lost its owner: whether it may promote at all, whom, what is said of it, and when the
// partition is whole again. The map stands still; only the active owner moves. Design page cluster, "Failover"; the choice is
// searched exhaustively in tests/property/ownership/choice_test.cpp.
//
//   1. mint a generation   2. fence: each replica reached refuses older ones and answers with its heads   3. choose
//   4. promote in one transaction guarded by: leader's election key, the documents' versions, the synchronised set's version (it is
//      emptied in it), and that the old owner's lease key does not exist (unless the old owner itself is chosen)
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cluster/base/result.hpp"
#include "cluster/ownership/boot_time.hpp"
#include "cluster/ownership/ownership.hpp"

namespace zaris::ownership {

struct FailoverTimes {
  BootMicros lease_us = 2 * boot_second;
  BootMicros grant_us = boot_second;
  BootMicros cooldown_us = 5 * boot_second;
  BootMicros report_fresh_us = 10 * boot_second;   // heads reported longer ago count for nothing
};

struct Barrier {
  BootMicros until = 0;
  std::string reason;                    // for people; empty: nothing bars
  [[nodiscard]] bool bars(BootMicros now) const { return now < until; }
};
// A new leader, and a leader after the coordinator was away, promotes nobody before one lease plus one grant has passed: an owner
// that could not renew meanwhile, and serves by grants, gets the time to renew. `coordinator_back_at`: 0, it was never away.
[[nodiscard]] Barrier promotion_barrier(BootMicros leader_since, BootMicros coordinator_back_at, const FailoverTimes& times);

// The copies that a policy waits for, in words of configuration (replication.ack, replication.ack_max).
enum class AckPolicy : std::uint8_t { async, replica, majority, all };

// The weakest policy under which a write was acknowledged with a promise: what a failover must keep is counted by it. A store that
// admits more than `async` has some: its own policy, or `replica`, for which a request may ask.
[[nodiscard]] AckPolicy weakest_promise(AckPolicy ack, AckPolicy ack_max);
// W: copies, the owner's included, that a write acknowledged under the policy has.
[[nodiscard]] std::uint32_t copies_promised(AckPolicy policy, std::uint32_t synchronised, std::uint32_t replication_factor);
// How many members of the synchronised set must have answered the fence before one of them may be chosen: |set| − W + 2, so that
// at least one of them has any write that W copies or more were promised for and can get no more. At least 1. Of an empty set: 1.
[[nodiscard]] std::uint32_t answers_needed(AckPolicy promise, std::uint32_t synchronised, std::uint32_t replication_factor);

enum class FailoverMode : std::uint8_t { consistent, available };

// An answer to the fence of this generation: it refuses older ones from now on, and holds this.
struct FenceAnswer {
  Member from;
  Generation fence;                      // answers to another fence do not count
  Generation highest;                    // generation that it has seen
  std::vector<Position> heads;           // of the partition's segments in order; {0, 0}: nothing, or a copy not complete
  std::uint32_t half = 0;                // copies not complete: better than nothing where nobody has more
};

struct Election {
  Generation fence;                      // minted for this failover
  std::uint32_t segments = 0;            // of the partition
  Member old_owner;                      // empty name: there was none
  bool old_lease_gone = false;           // the coordinator has no lease key of the old owner's process
  SynchronisedSet set;
  AckPolicy promise = AckPolicy::replica;  // the weakest
  std::uint32_t replication_factor = 1;
  FailoverMode mode = FailoverMode::consistent;
  bool operator_accepts_loss = false;    // and vouches that the old owner has stopped
  bool may_begin_empty = false;          // an operator or its formation has said so of what nobody holds
  bool first_term = false;               // it never had an owner (generation 0): there is nothing to lose
  bool serve_after_loss = true;          // node.on_empty_start: serve
  std::string placement_primary;         // wins ties where nothing is held
  std::vector<FenceAnswer> answers;
  BootMicros fenced_at = 0;              // when the first fence was sent
};

struct Choice {
  enum class Kind : std::uint8_t { wait, promote, recovering, unavailable } kind = Kind::wait;
  Member chosen;                         // only for promote
  std::string may_be_gone;               // only for promote: what is accepted as lost; empty: nothing that was promised
  std::string reason;                    // for people
  BootMicros look_again_at = no_end;     // without a further answer
};

// Chosen is the one whose head is highest on most segments, ties by smallest name, once all members have answered, or enough of
// them and the old owner's grants have run out (until then a promoted one could not serve anyway, so waiting for more costs
// nothing). The old owner itself, if the same process answers, goes on under the new generation: it lacks nothing, and what has
// refused its old generation would not take it otherwise. An owner that has come to hold a part only, and serves nothing, gives way to one
// that holds everything it does and all of the rest. Without an operator only members are promoted; with nobody in the set
// no grant is out either, and mode `available` may take another, saying what may be gone. When the owner and all members have
// been replaced by new processes, nothing can be waited for (two processes never run under one name at once).
[[nodiscard]] Choice choose(const Election& election, const FailoverTimes& times, BootMicros now);

// max(counter + 1, highest reported + 1, seconds of UTC now): a coordinator restored from an old copy mints no used one. Errors:
// `generation_exhausted`.
[[nodiscard]] Result<Generation> next_generation(Generation counter, Generation highest_reported, std::uint64_t now_wall_us);
// The partition's row after the promotion: Recovering until possession is proven.
[[nodiscard]] PartitionOwner promotion(const PartitionId& id, Generation fence, const Choice& choice);

struct PartitionHealth {
  bool has_owner = false;
  bool serving = false;                  // possession proven, generation record written
  std::uint32_t in_step = 0;             // replicas
  std::uint32_t replicas = 0;            // that the map names
};
struct HealthVerdict {
  PartitionState state = PartitionState::unavailable;
  std::string reason;
};
// Marking a partition worse is immediate; Healthy comes after all participants have been in step for the cool-down.
class Healing {
 public:
  explicit Healing(BootMicros cooldown) : cooldown_(cooldown) {}
  [[nodiscard]] HealthVerdict evaluate(const PartitionHealth& health, BootMicros now);

 private:
  BootMicros cooldown_;
  std::optional<BootMicros> in_step_since_;
  bool first_ = true;                    // nothing was wrong before: no cool-down
};

}  // namespace zaris::ownership
