#include "cluster/node/region_picture.hpp"

#include <fmt/format.h>

#include <utility>

#include "cluster/node/region_status.hpp"
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

void RegionPicture::look_for_owner(const Of& of, const ownership::PartitionOwner& row, RegionStatus::Partition& to) {
  if (!row.owner || (row.state != ownership::PartitionState::healthy && row.state != ownership::PartitionState::degraded)) return;
  if (!of.core.hears(*row.owner, row.incarnation)) {
    to.state = not_heard;
    to.reason = *row.owner == of.self ? "their owner was an earlier process of " + of.self
                                      : fmt::format("{} is not connected with {}, and etcd does not name it as alive, or is silent", of.self, *row.owner);
  } else if (*row.owner == of.self && to.role == region::name(region::RolePhase::serving) && to.serves_by == ownership::name(ownership::ServesBy::nothing)) {
    to.state = not_heard;
    to.reason = fmt::format("neither etcd nor a replica confirms to {} that it still is the owner: it answers nothing", of.self);
  }
}

// What this process does not have yet of a partition that the map gives it; empty: it has all. One that has no owner now is waited
// for, for what this process is to have is still elsewhere; only where nobody that lives holds anything there is nothing to wait for.
std::string RegionPicture::missing_of(const Of& of, const ownership::Partition& partition) {
  const auto& mirror = of.core.mirror();
  const auto* row = mirror.ownership()->value.find(partition.id);
  if (row == nullptr || !partition.has_member(of.self) || row->state == ownership::PartitionState::unavailable) return {};
  if (!row->owner || !of.core.hears(*row->owner, row->incarnation)) return "once they have an owner";
  if (*row->owner == of.self) return {};
  const auto set = mirror.synchronised().find(partition.id);
  if (set != mirror.synchronised().end() && set->second.value.has({of.self, of.core.roles().incarnation()})) return {};
  return "from " + *row->owner;
}

// A process that has just begun holds nothing. Whoever stops one node after the other has to see when the next may go.
void RegionPicture::look_at_copies(const Of& of, RegionStatus& status) {
  const auto& mirror = of.core.mirror();
  if (!mirror.map() || !mirror.ownership()) return;
  status.catching_up.clear();
  if (caught_up_) return;
  for (const ownership::Partition& partition : mirror.map()->value.partitions) {
    if (const std::string missing = missing_of(of, partition); !missing.empty())
      status.catching_up += fmt::format("{}segments {}-{} {}", status.catching_up.empty() ? "" : ", ", partition.first.value(), partition.first.value() + partition.segments - 1, missing);
  }
  caught_up_ = status.catching_up.empty();
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
  if (s.etcd_trouble.empty() && mirror.older()) s.etcd_trouble = "it shows less than another node has seen of it: it was restored from an old copy";
  s.etcd_silence_seconds = mirror.answered_at() == 0 ? 0 : static_cast<double>(of.now - mirror.answered_at()) / 1e6;
  s.waiting_for = of.core.leader().waiting_for();
  const auto states = of.core.leader().members();
  for (const ownership::Node& node : of.roster.nodes()) {
    RegionStatus::Member m;
    m.name = node.name;
    const auto row = mirror.members().find(node.name);
    m.registered = row != mirror.members().end();
    if (m.registered) m.version = row->second.value.version;
    if (const auto differs = of.core.settings().differing().find(node.name); differs != of.core.settings().differing().end()) m.settings_differ = differs->second;
    m.connected = (node.name == of.self || of.net.up(node.name));
    m.leader = node.name == s.leader;
    m.clock = of.core.clocks().estimate(node.name);
    m.draining = mirror.drains().contains(node.name);
    for (const auto& [name, state] : states) {
      if (name == node.name) m.state = ownership::name(state);
    }
    s.members.push_back(std::move(m));
  }
  look_at_copies(of, s);
  const auto roles = of.core.roles().states();
  const auto& waits = of.core.leader().waits();
  if (mirror.map()) {
    for (const ownership::Partition& partition : mirror.map()->value.partitions) {
      RegionStatus::Partition p;
      p.id = to_string(partition.id);
      p.first = partition.first.value();
      p.segments = partition.segments;
      p.primary = partition.primary;
      p.replicas = partition.replicas;
      const auto* row = mirror.ownership() ? mirror.ownership()->value.find(partition.id) : nullptr;
      if (row != nullptr) {
        p.owner = row->owner.value_or("");
        p.state = ownership::name(row->state);
        p.reason = row->reason;
        p.generation = row->generation;
      }
      if (const auto set = mirror.synchronised().find(partition.id); set != mirror.synchronised().end()) {
        // Another process under the name has nothing of what the one that is counted had.
        for (const ownership::Member& member : set->second.value.members) {
          const auto lives = mirror.members().find(member.name);
          if (lives != mirror.members().end() && lives->second.value.incarnation == member.incarnation) p.synchronised.push_back(member.name);
        }
      }
      for (const region::RoleState& role : roles) {
        if (role.id != partition.id) continue;
        p.role = region::name(role.phase);
        p.role_reason = role.reason;
        p.serves_by = ownership::name(role.serves_by);
        if (role.phase != region::RolePhase::serving) continue;
        take_lag(of, partition, p);
      }
      if (row != nullptr) look_for_owner(of, *row, p);
      p.accepted = mirror.accepted().contains(p.id);
      if (const auto waited = waits.find(partition.id); waited != waits.end()) p.waits_for = waited->second;
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
