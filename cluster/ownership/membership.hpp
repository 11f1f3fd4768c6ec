// What the leader holds of each node of the roster, from heartbeats, signals that a node has left, and whether its lease key still
// exists. The first three states touch who serves, never the map; the last three make a node eligible for leaving the map.
// Design page cluster, "Membership" and "Failover" (1).
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/ownership/boot_time.hpp"
#include "cluster/ownership/roster.hpp"

namespace zaris::ownership {

//            silent         confirmed or probe failed      grace           lease gone long enough
//   alive ──────────▶ suspected ──────────▶ unreachable ──────────▶ lost ──────────▶ evicted
//     ▲                   │                     │                     │                 │
//     └───────────────────┴──── heartbeat ──────┴─────────────────────┴─────────────────┘
//   decommissioned: an operator's word, from any state; ends only by another one.
enum class MemberState : std::uint8_t { alive, suspected, unreachable, lost, evicted, decommissioned };
[[nodiscard]] std::string_view name(MemberState state);

struct MembershipTimes {
  BootMicros suspect_us = 2 * boot_second;    // of silence
  BootMicros confirm_us = 10 * boot_second;   // of silence, without any other sign
  BootMicros grace_us = 30 * boot_second;     // unreachable before it is lost
  BootMicros evict_us = 600 * boot_second;    // without a lease key before it is evicted
};

struct MemberChange {
  std::string node;
  MemberState from, to;
  bool restarted = false;                // its process is another one: what the one before it held is gone
  std::string reason;                    // for people
};

// One leader's view; begun anew by the next one. No thread of its own. Moments never go back.
class Membership {
 public:
  // Everybody counts as heard at `now`: a new leader has no silence to judge by.
  Membership(const Roster& roster, MembershipTimes times, BootMicros now);

  // A node that is not in the roster is ignored. A heartbeat of a process that has been replaced already is, too.
  [[nodiscard]] std::vector<MemberChange> heartbeat(std::string_view node, Incarnation incarnation, BootMicros now);
  // Something says that the node is gone (its connection broke, its lease key is gone). True: it is to be probed now; nothing is
  // believed before the answer.
  [[nodiscard]] bool left(std::string_view node, BootMicros now);
  // The probe's end. One that answers stays; one that does not is unreachable at once, without waiting for confirm_us.
  [[nodiscard]] std::vector<MemberChange> probed(std::string_view node, bool answered, BootMicros now);
  // Whether the node's lease key exists, as read from the coordinator at `now`. Eviction counts from the first moment at which it
  // was seen missing, not from silence: a node that the leader does not hear may still renew.
  void lease_seen(std::string_view node, bool exists, BootMicros now);
  // While the coordinator cannot be asked no countdown to eviction runs.
  void coordinator_away();
  [[nodiscard]] std::vector<MemberChange> decommission(std::string_view node);
  [[nodiscard]] std::vector<MemberChange> readmit(std::string_view node, BootMicros now);
  [[nodiscard]] std::vector<MemberChange> tick(BootMicros now);
  // Until then tick() has nothing to say.
  [[nodiscard]] BootMicros next_tick() const;

  [[nodiscard]] MemberState state(std::string_view node) const;  // unknown nodes are decommissioned
  [[nodiscard]] Incarnation incarnation(std::string_view node) const;  // 0: never heard
  [[nodiscard]] std::vector<std::pair<std::string, MemberState>> states() const;

 private:
  struct Entry {
    MemberState state = MemberState::alive;
    Incarnation incarnation, before;     // of the process that is heard, of the one that it replaced
    BootMicros heard = 0;
    BootMicros unreachable_since = 0;    // while it is unreachable or lost
    std::optional<BootMicros> no_lease_since;
    bool probing = false;
  };
  Entry* find(std::string_view node);
  static void move(std::vector<MemberChange>& out, const std::string& node, Entry& entry, MemberState to, std::string reason);

  MembershipTimes times_;
  std::map<std::string, Entry, std::less<>> entries_;
};

}  // namespace zaris::ownership
