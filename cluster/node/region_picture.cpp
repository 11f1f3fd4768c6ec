#include "cluster/node/region_picture.hpp"

#include <utility>

#include "cluster/peer/peer_net.hpp"
#include "cluster/region/region_core.hpp"

namespace zaris::node {

// How far each replica of a partition that is served here is behind, in revisions and in time.
void RegionPicture::take_lag(const Of& of, const ownership::Partition& partition, RegionStatus::Partition& to) {
  std::vector<Revision> heads;
  for (std::uint32_t i = 0; i < partition.segments; ++i)
    heads.push_back(of.store.state(SegmentId{static_cast<std::uint16_t>(partition.first.value() + i)}).head.revision);
  ReplicaLag& lag = lags_[to.id];
  for (const std::string& peer : partition.members()) {
    if (peer == of.self) continue;
    const bool here = of.net.up(peer);
    if (!here && lag.knows(peer)) continue;
    std::vector<Revision> received(heads.size());
    for (std::uint32_t i = 0; here && i < partition.segments; ++i) {
      const auto progress = of.core.replicator().progress(peer, SegmentId{static_cast<std::uint16_t>(partition.first.value() + i)});
      if (progress.received) received[i] = progress.received->revision;
      if (heads[i] > received[i]) to.replica_lag_revisions = std::max(to.replica_lag_revisions, heads[i].value() - received[i].value());
    }
    lag.received(peer, std::move(received));
  }
  lag.sample(std::move(heads), of.now);
  for (const auto& [peer, seconds] : lag.seconds()) to.replica_lag_seconds.emplace_back(peer, seconds);
}

RegionStatus RegionPicture::take(const Of& of) {
  RegionStatus s;
  const auto& mirror = of.core.mirror();
  s.self = of.self;
  if (mirror.leader()) {
    s.leader = mirror.leader()->value.name;
    s.leader_term = static_cast<std::uint64_t>(mirror.leader()->created.value());
    if (leader_term_seen_ != 0 && s.leader_term != leader_term_seen_) ++leader_changes_;
    leader_term_seen_ = s.leader_term;
  }
  s.leader_changes = leader_changes_;
  if (mirror.map()) s.map_version = mirror.map()->value.version;
  if (mirror.ownership()) s.ownership_version = mirror.ownership()->value.version;
  s.converged = mirror.map() && mirror.ownership() && mirror.ownership()->value.map_version == mirror.map()->value.version && !of.core.views().differs();
  s.registered = of.core.registration().registered();
  s.name_taken = of.core.registration().name_taken();
  s.name_holder = of.core.registration().holder();
  s.gave_up = of.core.registration().gave_up();
  s.etcd_trouble = !mirror.trouble().empty() ? mirror.trouble() : of.core.registration().trouble();
  s.etcd_silence_seconds = mirror.answered_at() == 0 ? 0 : static_cast<double>(of.now - mirror.answered_at()) / 1e6;
  s.waiting_for = of.core.leader().waiting_for();
  const auto states = of.core.leader().members();
  for (const ownership::Node& node : of.roster.nodes()) {
    RegionStatus::Member m;
    m.name = node.name;
    const auto row = mirror.members().find(node.name);
    m.registered = row != mirror.members().end();
    if (m.registered) m.version = row->second.value.version;
    m.connected = (node.name == of.self || of.net.up(node.name));
    m.leader = node.name == s.leader;
    m.clock = of.core.clocks().estimate(node.name);
    m.draining = mirror.drains().contains(node.name);
    for (const auto& [name, state] : states) {
      if (name == node.name) m.state = ownership::name(state);
    }
    s.members.push_back(std::move(m));
  }
  const auto roles = of.core.roles().states();
  if (mirror.map()) {
    for (const ownership::Partition& partition : mirror.map()->value.partitions) {
      RegionStatus::Partition p;
      p.id = to_string(partition.id);
      p.first = partition.first.value();
      p.segments = partition.segments;
      p.primary = partition.primary;
      p.replicas = partition.replicas;
      if (const auto* row = mirror.ownership() ? mirror.ownership()->value.find(partition.id) : nullptr) {
        p.owner = row->owner.value_or("");
        p.state = ownership::name(row->state);
        p.reason = row->reason;
        p.generation = row->generation;
      }
      if (const auto set = mirror.synchronised().find(partition.id); set != mirror.synchronised().end()) {
        for (const ownership::Member& member : set->second.value.members) p.synchronised.push_back(member.name);
      }
      for (const region::RoleState& role : roles) {
        if (role.id != partition.id) continue;
        p.role = region::name(role.phase);
        p.role_reason = role.reason;
        p.serves_by = ownership::name(role.serves_by);
        if (role.phase != region::RolePhase::serving) continue;
        take_lag(of, partition, p);
      }
      if (p.role != region::name(region::RolePhase::serving)) lags_.erase(p.id);
      s.partitions.push_back(std::move(p));
    }
  }
  const auto& leader = of.core.leader().counters();
  s.promotions = leader.promotions;
  s.hand_overs = leader.hand_overs;
  s.elections = leader.elections_won;
  const auto& counters = of.core.roles().counters();
  s.fenced = counters.fenced;
  s.terms = counters.terms_begun;
  s.set_changes = counters.set_changes;
  s.grants_given = counters.grants_given;
  s.grants_refused = counters.grants_refused;
  s.view_differences = of.core.views().differences();
  s.view_cures = of.core.views().cures();
  s.lists = mirror.counters().lists;
  s.watch_ends = mirror.counters().watch_ends;
  s.sessions_ended = of.core.replicator().counters().sessions_ended;
  s.lease_losses = of.core.registration().losses();
  const auto net = of.net.counters();
  s.peers_lost = net.lost;
  s.peer_sent_bytes = net.sent_bytes;
  s.peer_received_bytes = net.received_bytes;
  return s;
}

}  // namespace zaris::node
