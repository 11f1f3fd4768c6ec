// May this node serve this partition at this moment? At no moment may two owners acknowledge for one partition; what is assumed are
// bounded clock rates and a linearizable coordinator, not bounded pauses or delays. So an owner does not stop by timer: it knows a
// moment up to which it may serve, and looks at it whenever it executes. Design page cluster, "Who may serve"; searched
// exhaustively over these very functions in tests/property/ownership/two_owners_test.cpp.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "cluster/ownership/boot_time.hpp"
#include "cluster/ownership/ownership.hpp"
#include "cluster/ownership/planner.hpp"

namespace zaris::ownership {

struct LeaseId : Strong<struct LeaseIdTag, std::uint64_t> { using Strong::Strong; };

// A node's lease in the coordinator as the node itself counts it. One per process; one renewal at a time.
class Lease {
 public:
  // A lease was taken, and the node's key put under it; the request had been sent at `sent_at`. It is counted from the sending, less
  // the margin: the coordinator cannot have begun to count earlier.
  void taken(LeaseId id, BootMicros sent_at, BootMicros ttl_us);
  // A renewal was answered. Ignored for a lease that is not, or no longer, this one.
  void renewed(LeaseId id, BootMicros sent_at, BootMicros ttl_us);
  // The coordinator said that it does not exist (any more).
  void gone(LeaseId id);

  [[nodiscard]] BootMicros until() const { return until_; }                           // 0: none
  [[nodiscard]] std::optional<BootMicros> renewed_at() const { return renewed_at_; }  // sending of this lease's newest answered renewal
  [[nodiscard]] LeaseId id() const { return id_; }

 private:
  LeaseId id_;
  BootMicros until_ = 0;
  std::optional<BootMicros> renewed_at_;
  bool gone_ = false;
};

enum class ServesBy : std::uint8_t { nothing, lease, grants, alone };
[[nodiscard]] std::string_view name(ServesBy by);

struct Serving {
  BootMicros from = 0;
  BootMicros until = 0;                  // exclusive
  ServesBy by = ServesBy::nothing;       // what `until` comes from
  std::string reason;                    // for people
  [[nodiscard]] bool at(BootMicros now) const { return from <= now && now < until; }
};

struct AuthorityTimes {
  BootMicros grant_us = boot_second;
  BootMicros evict_us = 600 * boot_second;
  EvictRf1 evict_rf1 = EvictRf1::never;
};

// The owner's side, for one partition and one ownership term. Made when the node learns that it is the owner.
class OwnerTerm {
 public:
  // `from`: Granter::may_serve_from() of this node. `set`: as the coordinator has it, of this generation. The term counts no lease
  // before it is confirmed under it.
  OwnerTerm(Generation generation, std::uint32_t replication_factor, AuthorityTimes times, BootMicros from, Members set);

  // The coordinator was read, by a linearizable read sent after the answer to the taking of `lease` came in, and still says that
  // this term is the newest. Why it is asked for:
  //   1. The owner sleeps, its lease runs out, another is promoted.
  //   2. The owner wakes and takes a new lease before it has read of that.
  // Its new lease bars only promotions that come after it.
  void confirmed(LeaseId lease);

  // The compare-and-set that changes the synchronised set is about to be sent: from now on old and new members are counted, until
  // its outcome is known. One at a time; an unknown outcome is none.
  void change_begins(const Members& wanted);
  // What the coordinator is known to have, whichever way it went.
  void change_ended(Members now);
  [[nodiscard]] bool changing() const { return wanted_.has_value(); }
  // Who is counted: for grants, and for a policy that waits for all.
  [[nodiscard]] Members counted() const;

  // A member answered a question that was sent at `asked_at`, for this generation, and granted `for_us`; what is longer than this node's own
  // grants counts as those.
  void granted(const Member& member, BootMicros asked_at, BootMicros for_us);
  // Somebody knows a higher generation: this term is over, whatever runs still.
  void superseded(Generation by);
  // The node was told to hand the partition over and executes nothing more.
  void stop(std::string why);

  [[nodiscard]] Generation generation() const { return generation_; }
  // To be asked for again after every change of the lease, of grants and of this term.
  [[nodiscard]] Serving serving(const Lease& lease) const;
  // The moment up to which every counted member has granted; 0 if there is none to count or one has not.
  [[nodiscard]] BootMicros granted_until() const;

 private:
  Generation generation_;
  std::uint32_t replication_factor_;
  AuthorityTimes times_;
  BootMicros from_;
  std::optional<LeaseId> confirmed_;
  Members set_;
  std::optional<Members> wanted_;
  std::map<Member, BootMicros> grants_;
  std::string ended_;                    // why the term is over; empty: it is not
};

struct GrantAnswer {
  bool granted = false;
  Generation highest;                    // that the replica knows; above the asker's: the asker's term is over
  std::string reason;                    // for people; empty if granted
};

// The replica's side, for one partition: a time-limited consent to its owner. It is forgotten with the process, therefore a new
// process counts as if the one before it had granted at its last moment.
class Granter {
 public:
  Granter(BootMicros process_started, BootMicros grant_us);

  // The owner of `generation` asks. Refused once a higher generation is known, by whatever way.
  [[nodiscard]] GrantAnswer ask(Generation generation, BootMicros now);
  // The coordinator, the leader's fence or a peer said that there is this generation.
  void learn(Generation generation);

  [[nodiscard]] Generation highest() const { return highest_; }
  // If it is promoted: it may serve from then on, when its last grant, lengthened by the margin, has run out.
  [[nodiscard]] BootMicros may_serve_from() const { return last_grant_until_; }

 private:
  BootMicros grant_us_;
  Generation highest_;
  BootMicros last_grant_until_;
};

}  // namespace zaris::ownership
