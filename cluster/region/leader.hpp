// What the leader of a region does: forms it, promotes where an owner is gone, hands over where one wants to leave, says how healthy each
// partition is. Every write is one transaction guarded by the leader's own election key and by the versions of what it was decided
// from, one at a time; the next decision waits until the mirror shows it. Design page cluster, "Coordination", "Failover",
// "Membership". Everything happens on one thread; the moments come from `clock`.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cluster/etcd/etcd.hpp"
#include "cluster/ownership/drain.hpp"
#include "cluster/ownership/failover.hpp"
#include "cluster/ownership/formation_gate.hpp"
#include "cluster/ownership/membership.hpp"
#include "cluster/ownership/planner.hpp"
#include "cluster/protocol/region_messages.hpp"
#include "cluster/region/mirror.hpp"
#include "cluster/region/outside.hpp"
#include "cluster/region/registration.hpp"

namespace zaris::region {

struct LeaderOptions {
  std::string self;
  ownership::Incarnation incarnation;
  ownership::Roster roster;
  SettingsRow settings;
  ownership::MembershipTimes membership;
  ownership::FormationTimes formation;
  ownership::FailoverTimes failover;
  ownership::AckPolicy promise = ownership::AckPolicy::replica;   // the weakest (ownership::weakest_promise)
  ownership::FailoverMode mode = ownership::FailoverMode::consistent;
  ownership::EvictRf1 evict_rf1 = ownership::EvictRf1::never;
  MonoMicros probe_us = 700'000;           // a node that is silent for so long after it was asked for does not answer
  MonoMicros coordinator_away_us = 3'000'000;
  std::chrono::milliseconds call{1000};
};

struct LeaderCounters {
  std::uint64_t elections_won = 0, promotions = 0, hand_overs = 0, maps = 0, writes = 0, writes_refused = 0;
};

class Leader {
 public:
  Leader(etcd::Etcd& etcd, const Mirror& mirror, const Registration& registration, LeaderOptions options, Outside& outside);
  ~Leader();

  void tick();
  void heard(const std::string& node, ownership::Incarnation incarnation, const protocol::Heartbeat& heartbeat);
  void peer_down(const std::string& node);
  void fenced(const std::string& node, const protocol::Fenced& answer);
  void handed_over(const std::string& node, const protocol::HandedOver& answer);

  [[nodiscard]] bool leads() const { return leads_; }
  [[nodiscard]] const LeaderCounters& counters() const { return counters_; }
  [[nodiscard]] std::vector<std::pair<std::string, ownership::MemberState>> members() const;
  // For people: what holds the region up now; empty: nothing. Of several partitions the first one, and how many there are.
  [[nodiscard]] std::string waiting_for() const;
  // The same of each partition that has no owner, or is to be handed over by a node that drains.
  [[nodiscard]] const std::map<ownership::PartitionId, std::string>& waits() const { return waits_; }

 private:
  // One partition without an owner that lives.
  struct Failover {
    Generation fence;                        // 0: not minted yet
    MonoMicros fenced_at = 0;
    std::map<std::string, ownership::FenceAnswer> answers;
    std::map<std::string, MonoMicros> asked; // who was sent the fence, and when
    std::string said, written;               // the reason that was logged last; that went into the document last
  };
  struct HandOver {
    std::string from, to;
    MonoMicros began = 0;
    bool done = false;
    bool gives_back = false;                 // to the placement primary, which is back
  };
  struct Reported {
    std::string from;
    Generation generation;
    bool serving = false;
    std::vector<std::string> synchronised;
  };

  void campaign();
  void begin_term();
  void end_term();
  void watch_members(MonoMicros now);
  void form(MonoMicros now);
  void look_at_partition(const ownership::Partition& partition, const ownership::PartitionOwner& row, MonoMicros now);
  // Takes back an operator's word about a partition that has an owner by now, or is none any more: it is not meant for the next loss.
  void look_at_accepted();
  void look_at_health(MonoMicros now);
  void look_at_hand_overs(MonoMicros now);
  void begin_hand_over(const ownership::Partition& partition, const ownership::PartitionOwner& row, const ownership::SynchronisedSet& set, MonoMicros now);
  void look_at_map(MonoMicros now);
  void mint(const ownership::PartitionId& id);
  void ask_fences(const ownership::PartitionId& id, Failover& failover, const ownership::Partition& partition, MonoMicros now);
  void promote(const ownership::Partition& partition, const ownership::PartitionOwner& row, const Failover& failover, const ownership::Choice& choice);
  void begin_again(const ownership::Partition& partition, const ownership::PartitionOwner& row);
  void say_row(const ownership::PartitionOwner& row, Failover& failover);
  // Writes `ownership` (one version on) with what else belongs to it. False: another write is under way.
  bool write(ownership::Ownership next, std::vector<etcd::Compare> guards, std::vector<etcd::Operation> with, const std::string& what);
  bool run(std::vector<etcd::Compare> guards, std::vector<etcd::Operation> then, const std::string& what, std::function<void()> done = {});
  [[nodiscard]] std::optional<Generation> next_generation();
  [[nodiscard]] bool lives(const std::string& name, ownership::Incarnation incarnation) const;

  etcd::Etcd& etcd_;
  const Mirror& mirror_;
  const Registration& registration_;
  const LeaderOptions options_;
  Outside& outside_;
  std::shared_ptr<int> life_ = std::make_shared<int>(0);

  bool leads_ = false, campaigning_ = false;
  etcd::EtcdRevision term_;                  // while it leads
  MonoMicros since_ = 0, coordinator_back_at_ = 0, map_look_at_ = 0;
  bool coordinator_away_ = false;
  bool writing_ = false;
  etcd::EtcdRevision written_;               // the mirror has to show it before the next decision
  std::optional<ownership::Membership> membership_;
  std::optional<ownership::FormationGate> formation_;
  std::map<std::string, MonoMicros> heard_, probing_;
  std::map<ownership::PartitionId, Failover> failovers_;
  std::map<ownership::PartitionId, HandOver> hand_overs_;
  struct Refused {
    MonoMicros again_at = 0;                 // no hand-over before
    std::string why;                         // for people
  };
  std::map<ownership::PartitionId, Refused> refused_;
  std::map<ownership::PartitionId, Reported> reported_;
  struct Health {
    ownership::Healing healing;
    std::string written;               // the reason written last: the document may have it cut, or none
  };
  std::map<ownership::PartitionId, Health> healing_;
  Generation highest_reported_;
  std::string forming_;                      // what the first map waits for
  std::map<ownership::PartitionId, std::string> waits_;
  LeaderCounters counters_;
};

}  // namespace zaris::region
