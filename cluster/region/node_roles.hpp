// What this node is for each partition, and the steps from one role to the next: follow its owner; take possession when the region says
// that it is the owner; serve for as long as it may; keep the synchronised set in etcd true; stop when somebody newer owns it. Rules:
// cluster/ownership (authority, possession), design page cluster. No I/O of its own; one thread; moments come from Outside.
//
//   none ◀──▶ replica ──▶ asking ──▶ pulling ──▶ waiting ──▶ serving ──▶ stopped (handing over)
//                 ▲          └── nobody holds anything: stays, and says so      │        │
//                 └─────────────────── another owner, or a higher generation ◀──┴────────┘
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cluster/etcd/etcd.hpp"
#include "cluster/ownership/authority.hpp"
#include "cluster/ownership/possession.hpp"
#include "cluster/protocol/region_messages.hpp"
#include "cluster/region/mirror.hpp"
#include "cluster/region/outside.hpp"
#include "cluster/region/registration.hpp"
#include "cluster/region/replicator.hpp"
#include "cluster/region/serving_table.hpp"
#include "cluster/store/store.hpp"

namespace zaris::region {

struct NodeRolesOptions {
  std::string self;
  ownership::Incarnation incarnation;
  std::uint32_t replication_factor = 1;
  ownership::AuthorityTimes authority;
  MonoMicros lease_us = 2'000'000;
  MonoMicros heartbeat_us = 500'000;
  MonoMicros suspect_us = 2'000'000;         // a replica that is away for so long leaves the synchronised set
  MonoMicros ask_us = 1'000'000;             // holders are waited for so long before possession goes on without them
  std::chrono::milliseconds call{1000};
};

enum class RolePhase : std::uint8_t { none, replica, asking, pulling, waiting, serving, stopped };
[[nodiscard]] std::string_view name(RolePhase phase);

struct RoleState {
  ownership::PartitionId id;
  SegmentId first;
  std::uint32_t segments = 0;
  RolePhase phase = RolePhase::none;
  Generation generation;                     // of the term, where this node owns
  std::string reason;                        // for people: what it waits for
  ownership::Members synchronised;           // where it owns
  ownership::ServesBy serves_by = ownership::ServesBy::nothing;
};

struct NodeRolesCounters {
  std::uint64_t terms_begun = 0, terms_ended = 0, fenced = 0, grants_given = 0, grants_refused = 0, set_changes = 0;
};

class NodeRoles {
 public:
  NodeRoles(etcd::Etcd& etcd, const Mirror& mirror, const Registration& registration, store::Store& store, Replicator& replicator, ServingTable& serving,
            NodeRolesOptions options, Outside& outside);
  ~NodeRoles();

  // After every change of the mirror, the lease or the replication, and at least every 50 ms.
  void update();
  void peer_up(const std::string& node, ownership::Incarnation incarnation);
  void peer_down(const std::string& node);
  void grant_asked(const std::string& node, const protocol::Grant& question);
  void granted(const std::string& node, const protocol::Grant& answer);
  void fence_asked(const std::string& node, const protocol::Fence& question);
  void fenced(const std::string& node, const protocol::Fenced& answer);
  void hand_over_asked(const std::string& node, const protocol::HandOver& question);

  [[nodiscard]] std::vector<protocol::Heartbeat::Owned> owned() const;
  [[nodiscard]] std::vector<RoleState> states() const;
  [[nodiscard]] std::size_t partitions_owned() const;
  [[nodiscard]] ownership::Incarnation incarnation() const { return options_.incarnation; }
  [[nodiscard]] const NodeRolesCounters& counters() const { return counters_; }

 private:
  struct Role {
    const ownership::PartitionId id;
    SegmentId first;
    std::uint32_t segments = 0;
    std::set<std::string> group;             // the other members
    ownership::Granter granter;
    RolePhase phase = RolePhase::none;
    std::optional<ownership::OwnerTerm> term;
    std::optional<RootCause> root;           // what a blank segment may begin in this term
    MonoMicros from = 0;                     // it serves from then on
    std::string reason;
    MonoMicros asked_at = 0, again_at = 0;
    std::string impossible;                  // why it could not be owned when it was tried last
    std::map<std::string, ownership::Holder> holders;
    std::map<std::string, bool> asked;       // who was sent the question
    std::vector<ownership::Pull> pulls;
    ownership::ServesBy serves_by = ownership::ServesBy::nothing;
    // ---- the synchronised set
    bool set_pending = false, set_writing = false, set_replaced = false;
    MonoMicros set_pending_until = 0;
    ownership::Members set_before;
    MonoMicros set_unknown_since = 0;        // 0: the last write's outcome is known; else when to read it next
    ownership::Members set_wanted;
    MonoMicros set_again_at = 0;             // a write that was certainly not made is tried again then
    etcd::EtcdRevision set_at;               // of this term's newest write that is known to have been made
    std::map<std::string, MonoMicros> behind_since;
    // ---- handing over
    std::string hand_over_to, hand_over_asker;
    MonoMicros stopped_at = 0;
    ServingTable::UnderWay under_way;        // when it stopped
  };
  Role& role_of(const ownership::Partition& partition);
  [[nodiscard]] Role* role_by_low(std::uint64_t low);
  template <class F>
  void each_segment(const Role& role, F&& f) const {
    for (std::uint32_t i = 0; i < role.segments; ++i) f(SegmentId{static_cast<std::uint16_t>(role.first.value() + i)});
  }
  void follow_owner(Role& role, const ownership::Partition& partition, const ownership::PartitionOwner& row);
  void release_pin(const Role& role, const std::string& member);
  void begin_possession(Role& role, const ownership::PartitionOwner& row);
  void step(Role& role);
  void ask_holders(Role& role);
  void plan_pulls(Role& role);
  [[nodiscard]] bool pulled(Role& role);
  [[nodiscard]] std::string cannot_own(const Role& role) const;
  void ask_again(Role& role, Weight weight, std::string_view event, const std::string& why);
  void begin_term(Role& role);
  void end_term(Role& role, const std::string& why);
  void keep_set(Role& role);
  void write_set(Role& role);
  void settle_set(Role& role);
  void count_both(const Role& role, const ownership::Members& wanted);
  void count_wanted(const Role& role);
  void count_only(const Role& role, const ownership::Members& members, bool in_change);
  [[nodiscard]] bool out_of_set(const std::string& peer, SegmentId segment) const;
  void hand_over(Role& role);
  [[nodiscard]] std::optional<SegmentId> reader_below(const Role& role, const std::string& peer) const;
  void publish(Role& role);
  void ask_grants();
  void say(const Role& role, Weight weight, std::string_view event, const std::string& text) const;
  [[nodiscard]] std::vector<Position> heads(const Role& role) const;
  [[nodiscard]] std::vector<replication::ReplicaIndex> indexes(const ownership::Members& members) const;

  etcd::Etcd& etcd_;
  const Mirror& mirror_;
  const Registration& registration_;
  store::Store& store_;
  Replicator& replicator_;
  ServingTable& serving_;
  const NodeRolesOptions options_;
  Outside& outside_;
  std::shared_ptr<int> life_ = std::make_shared<int>(0);
  const MonoMicros started_;
  ownership::Lease lease_;
  MonoMicros asked_grants_at_ = 0, grant_us_;  // the shortest grant that this node counts on
  std::map<std::string, ownership::Incarnation> peers_;   // connected
  std::map<ownership::PartitionId, Role> roles_;
  NodeRolesCounters counters_;
};

}  // namespace zaris::region
