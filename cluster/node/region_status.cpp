#include "cluster/node/region_status.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "cluster/node/node.hpp"
#include "cluster/node/region_settings.hpp"

namespace zaris::node {
namespace {

using admin::MetricFamily;
using admin::MetricType;
using nlohmann::ordered_json;
using protocol::RegionStatusAnswer;

constexpr MetricFamily members{"zaris_cluster_members", MetricType::gauge, "state: registered, missing", "Nodes of the roster whose lease is in etcd, and those whose is not, as this node sees them."};
constexpr MetricFamily members_draining{"zaris_cluster_members_draining", MetricType::gauge, "", "Nodes that somebody wants to be drained, this one included."};
constexpr MetricFamily partitions{"zaris_cluster_partitions", MetricType::gauge, "state: healthy, degraded, recovering, unavailable, not_heard", "Partitions by state as this node sees them; not_heard: healthy or degraded as was written down last, and this node does not hear the owner."};
constexpr MetricFamily accepted{"zaris_cluster_partitions_accepted", MetricType::gauge, "", "Partitions whose loss an operator has accepted and that wait for a node to begin them."};
constexpr MetricFamily without_owner{"zaris_cluster_partitions_without_owner", MetricType::gauge, "", "Partitions that nobody owns: their keys are answered Unavailable."};
constexpr MetricFamily without_replica{"zaris_cluster_partitions_without_replica", MetricType::gauge, "", "Partitions with an owner and no synchronised replica although replication.factor is above 1: losing the owner loses what it took last."};
constexpr MetricFamily leads{"zaris_cluster_leads", MetricType::gauge, "", "1 while this node leads the region, otherwise 0."};
constexpr MetricFamily leader_known{"zaris_cluster_leader_known", MetricType::gauge, "", "1 while this node knows of a leader, otherwise 0."};
constexpr MetricFamily leader_term{"zaris_cluster_leader_term", MetricType::gauge, "", "Leader term that this node knows of; grows with every election."};
constexpr MetricFamily map_version{"zaris_cluster_map_version", MetricType::gauge, "", "Version of the partition map that this node has; 0: none yet."};
constexpr MetricFamily ownership_version{"zaris_cluster_ownership_version", MetricType::gauge, "", "Version of the ownership document that this node has; 0: none yet."};
constexpr MetricFamily converged{"zaris_cluster_view_converged", MetricType::gauge, "", "1 while this node's map and ownership are of one version and no peer's view differs, otherwise 0."};
constexpr MetricFamily registered{"zaris_cluster_registered", MetricType::gauge, "", "1 while this node's own lease is in etcd, otherwise 0."};
constexpr MetricFamily name_taken{"zaris_cluster_name_taken", MetricType::gauge, "", "1 while another process is registered under this node's name, otherwise 0."};
constexpr MetricFamily settings_differ{"zaris_cluster_settings_differ", MetricType::gauge, "", "Registered nodes of which some setting that all should have alike is not this node's; the log's settings_differ names them."};
constexpr MetricFamily peers{"zaris_cluster_peers_connected", MetricType::gauge, "", "Other nodes of the roster that this node is connected with."};
constexpr MetricFamily etcd_up{"zaris_etcd_up", MetricType::gauge, "", "1 while etcd answers this node, otherwise 0."};
constexpr MetricFamily etcd_silence{"zaris_etcd_silence_seconds", MetricType::gauge, "", "Time since etcd last answered a linearizable read of this node."};
constexpr MetricFamily owned{"zaris_partitions_owned", MetricType::gauge, "", "Partitions that this node is the owner of."};
constexpr MetricFamily serving{"zaris_partitions_serving", MetricType::gauge, "", "Partitions that this node serves now; lower than zaris_partitions_owned while it takes possession."};
constexpr MetricFamily lag{"zaris_replication_lag_revisions", MetricType::gauge, "", "Revisions that the connected replica furthest behind has not received yet, of the worst segment that this node owns."};
constexpr MetricFamily lag_seconds{"zaris_replication_lag_seconds", MetricType::gauge, "replica: a node of the roster", "How old the newest state is that this replica has in full of everything that this node serves; 0: it has all. Grows while the replica is away."};
constexpr MetricFamily partition_state{"zaris_partition_state", MetricType::gauge, "segments: first-last; state: healthy, degraded, recovering, unavailable, not_heard", "1 for the state that the partition has as this node sees it."};
constexpr MetricFamily partition_serving{"zaris_partition_serving", MetricType::gauge, "segments: first-last", "1 while this node serves the partition, otherwise 0."};
constexpr MetricFamily partition_copies{"zaris_partition_copies_in_step", MetricType::gauge, "segments: first-last", "Copies of the partition that hold everything acknowledged: its owner and its synchronised replicas; 0 without an owner, and without the owner while it is not heard."};
constexpr MetricFamily partition_generation{"zaris_partition_generation", MetricType::gauge, "segments: first-last", "Generation of the partition's ownership term; changes with every change of owner."};
constexpr MetricFamily clock_skew{"zaris_clock_skew_seconds", MetricType::gauge, "peer: a connected node of the roster", "How far that node's wall clock is ahead of this node's; negative: behind."};
constexpr MetricFamily clock_skew_error{"zaris_clock_skew_error_seconds", MetricType::gauge, "peer: a connected node of the roster", "The true skew is no further than this from zaris_clock_skew_seconds: half of the shortest of the last eight round trips."};
constexpr MetricFamily leader_changes{"zaris_leader_changes_total", MetricType::counter, "", "Times this node saw another leader, or another term of the same, than before."};
constexpr MetricFamily elections{"zaris_leader_elections_total", MetricType::counter, "", "Times this node became the leader."};
constexpr MetricFamily promotions{"zaris_partition_promotions_total", MetricType::counter, "", "Partitions that this node, as the leader, gave to another owner because theirs was gone."};
constexpr MetricFamily hand_overs{"zaris_partition_hand_overs_total", MetricType::counter, "", "Partitions that this node, as the leader, gave to another owner because theirs drains."};
constexpr MetricFamily terms{"zaris_partition_terms_total", MetricType::counter, "", "Ownership terms that began on this node."};
constexpr MetricFamily fenced{"zaris_partition_fenced_total", MetricType::counter, "", "Times this node had to give up a partition because of a higher generation."};
constexpr MetricFamily set_changes{"zaris_synchronised_set_changes_total", MetricType::counter, "", "Changes of synchronised sets that this node wrote as an owner."};
constexpr MetricFamily grants{"zaris_grants_total", MetricType::counter, "result: given, refused", "Grants that this node, as a replica, was asked for by owners."};
constexpr MetricFamily differences{"zaris_cluster_view_differences_total", MetricType::counter, "", "Times a peer's view differed from this node's for so long that the truth was read again."};
constexpr MetricFamily cures{"zaris_cluster_view_cures_total", MetricType::counter, "", "Such differences that have gone."};
constexpr MetricFamily lists{"zaris_etcd_lists_total", MetricType::counter, "", "Times this node read everything of its region from etcd."};
constexpr MetricFamily watch_ends{"zaris_etcd_watch_ends_total", MetricType::counter, "", "Watches on etcd that ended and were begun again."};
constexpr MetricFamily lease_losses{"zaris_etcd_lease_losses_total", MetricType::counter, "", "Times this node's lease ran out or was taken away, and it registered anew."};
constexpr MetricFamily sessions_ended{"zaris_replica_sessions_ended_total", MetricType::counter, "", "Replication sessions with other nodes that ended."};
constexpr MetricFamily peers_lost{"zaris_cluster_peer_connections_lost_total", MetricType::counter, "", "Connections with other nodes that were lost."};
constexpr MetricFamily peer_sent{"zaris_cluster_peer_sent_bytes_total", MetricType::counter, "", "Bytes written to other nodes."};
constexpr MetricFamily peer_received{"zaris_cluster_peer_received_bytes_total", MetricType::counter, "", "Bytes read from other nodes."};

constexpr MetricFamily families[] = {members, members_draining, partitions, accepted, without_owner, without_replica, leads, leader_known, leader_term, map_version, ownership_version,
    converged, registered, name_taken, settings_differ, peers, etcd_up, etcd_silence, owned, serving, lag, lag_seconds, partition_state, partition_serving,
    partition_copies, partition_generation, clock_skew, clock_skew_error, leader_changes, elections, promotions, hand_overs, terms, fenced, set_changes, grants,
    differences, cures, lists, watch_ends, lease_losses, sessions_ended, peers_lost, peer_sent, peer_received};

constexpr std::string_view partition_states[] = {"healthy", "degraded", "recovering", "unavailable", not_heard};

bool serves(const RegionStatus::Partition& partition) { return partition.role == "serving" && partition.serves_by != "nothing"; }
bool unowned(const RegionStatus::Partition& partition) { return partition.owner.empty() || partition.state == "unavailable"; }
std::string segments_of(const RegionStatus::Partition& partition) {
  return fmt::format("{}-{}", partition.first, partition.first + std::max(partition.segments, 1u) - 1);
}

}  // namespace

protocol::RegionStatusAnswer to_answer(const RegionStatus& status, const config::NodeConfig& config) {
  RegionStatusAnswer out;
  out.map_version = status.map_version;
  out.ownership_version = status.ownership_version;
  out.leader_term = status.leader_term;
  out.node = status.self.empty() ? config.node.name : status.self;
  out.leader = status.leader;
  out.converged = status.converged;
  out.registered = status.registered;
  out.name_taken = status.name_taken;
  out.etcd_trouble = status.etcd_trouble;
  out.etcd_silence_us = static_cast<std::uint64_t>(std::max(0.0, status.etcd_silence_seconds) * 1e6);
  out.waiting_for = status.waiting_for;
  out.replication_factor = config.replication.factor;
  out.ack = policy_name(config.replication.ack);
  out.ack_max = policy_name(config.replication.ack_max);
  for (const RegionStatus::Member& member : status.members) {
    RegionStatusAnswer::Member& row = out.members.emplace_back();
    row.name = member.name;
    for (const config::RosterRow& of : config.roster) {
      if (of.name == member.name) row.address = fmt::format("{}:{}", of.host, of.client_port != 0 ? of.client_port : of.client_tls_port);
    }
    row.registered = member.registered;
    row.connected = member.connected;
    row.leader = member.leader;
    row.draining = member.draining;
    row.state = member.state;
    row.version = member.version;
    row.settings_differ = member.settings_differ;
    if (member.clock) row.clock = {member.clock->ahead_us, static_cast<std::uint64_t>(member.clock->within_us), member.clock->beyond};
  }
  for (const RegionStatus::Partition& partition : status.partitions) {
    RegionStatusAnswer::Partition& row = out.partitions.emplace_back();
    row.id = partition.id;
    row.first = partition.first;
    row.segments = partition.segments;
    row.primary = partition.primary;
    row.owner = partition.owner;
    row.state = partition.state;
    row.reason = partition.reason;
    row.replicas = partition.replicas;
    row.synchronised = partition.synchronised;
    row.generation = partition.generation;
    row.role = partition.role;
    row.role_reason = partition.role_reason;
    row.serves_by = partition.serves_by;
    row.lag_revisions = partition.replica_lag_revisions;
    row.accepted = partition.accepted;
    row.waits_for = partition.waits_for;
  }
  return out;
}

ordered_json to_json(const RegionStatus& status, const config::NodeConfig& config) {
  const RegionStatusAnswer s = to_answer(status, config);
  ordered_json all_members = ordered_json::array(), all_partitions = ordered_json::array();
  for (const RegionStatusAnswer::Member& m : s.members) {
    all_members.push_back({{"name", m.name}, {"address", m.address}, {"registered", m.registered}, {"connected", m.connected}, {"leader", m.leader},
                           {"draining", m.draining}, {"state", m.state}, {"version", m.version}, {"settings_differ", m.settings_differ},
                           {"clock_skew_seconds", m.clock ? ordered_json(static_cast<double>(m.clock->ahead_us) / 1e6) : ordered_json(nullptr)},
                           {"clock_skew_error_seconds", m.clock ? ordered_json(static_cast<double>(m.clock->within_us) / 1e6) : ordered_json(nullptr)}});
  }
  for (const RegionStatusAnswer::Partition& p : s.partitions) {
    all_partitions.push_back({{"id", p.id}, {"first", p.first}, {"segments", p.segments}, {"primary", p.primary}, {"replicas", p.replicas}, {"owner", p.owner},
                              {"state", p.state}, {"reason", p.reason}, {"generation", p.generation.value()}, {"synchronised", p.synchronised}, {"role", p.role},
                              {"role_reason", p.role_reason}, {"serves_by", p.serves_by}, {"replica_lag_revisions", p.lag_revisions},
                              {"accepted", p.accepted}, {"waits_for", p.waits_for}});
  }
  return {{"node", s.node}, {"leader", s.leader}, {"leader_term", s.leader_term}, {"map_version", s.map_version}, {"ownership_version", s.ownership_version},
          {"converged", s.converged}, {"registered", s.registered}, {"name_taken", s.name_taken}, {"name_holder", status.name_holder},
          {"etcd", {{"answers", s.etcd_trouble.empty()}, {"trouble", s.etcd_trouble}, {"silence_seconds", static_cast<double>(s.etcd_silence_us) / 1e6}}},
          {"waiting_for", s.waiting_for}, {"catching_up", status.catching_up}, {"without_owner", without_owner_text(status)}, {"replication", {{"factor", s.replication_factor}, {"ack", s.ack}, {"ack_max", s.ack_max}}},
          {"members", std::move(all_members)}, {"partitions", std::move(all_partitions)}, {"promotions", status.promotions}, {"hand_overs", status.hand_overs},
          {"fenced", status.fenced}};
}

std::string waiting_for(const RegionStatus& status) {
  if (!status.etcd_trouble.empty()) return "etcd: " + status.etcd_trouble;
  if (status.name_taken) return "another process is registered under this node's name" + (status.name_holder.empty() ? "" : ": " + status.name_holder);
  if (!status.waiting_for.empty()) return status.waiting_for;
  std::string missing;
  std::size_t count = 0;
  for (const RegionStatus::Member& member : status.members) {
    if (member.registered) continue;
    ++count;
    missing += (missing.empty() ? "" : ", ") + member.name;
  }
  const std::string seen = count == 0 ? "" : fmt::format("; {} of {} nodes are registered, missing: {}", status.members.size() - count, status.members.size(), missing);
  return (status.leader.empty() ? "no leader yet" : status.leader + " leads and has not written it yet") + seen;
}

std::string unserved_here(const RegionStatus& status) {
  std::string out;
  for (const RegionStatus::Partition& p : status.partitions) {
    // While it is being handed over the other one takes it.
    if (p.owner != status.self || serves(p) || (p.role != "serving" && p.role != "asking" && p.role != "pulling" && p.role != "waiting")) continue;
    const std::string& why = p.role == "serving" ? p.reason : p.role_reason;
    out += fmt::format("{}it does not serve segments {}{}", out.empty() ? "" : "; ", segments_of(p), why.empty() ? "" : ": " + why);
  }
  return out;
}

std::string without_owner_text(const RegionStatus& status) {
  std::string first;
  std::size_t count = 0;
  for (const RegionStatus::Partition& p : status.partitions) {
    if (!unowned(p) && p.state != "recovering" && p.state != not_heard) continue;
    if (++count > 1) continue;
    const std::string what = unowned(p) ? "nobody owns them" : p.state == not_heard ? p.owner + " is not heard" : p.owner + " does not serve yet";
    first = fmt::format("segments {}: {}{}", segments_of(p), what, p.reason.empty() ? "" : ": " + p.reason);
  }
  return count == 0 ? "" : fmt::format("{} of {} partitions are not served; {}", count, status.partitions.size(), first);
}

std::span<const MetricFamily> region_families() { return families; }

void put_region_metrics(admin::MetricSink& sink, const RegionStatus& status) {
  const auto d = [](std::uint64_t n) { return static_cast<double>(n); };
  std::uint64_t here = 0, drains = 0, connected = 0;
  for (const RegionStatus::Member& member : status.members) {
    here += member.registered ? 1 : 0;
    drains += member.draining ? 1 : 0;
    connected += member.connected && member.name != status.self ? 1 : 0;
    if (!member.clock) continue;
    sink.put(clock_skew, static_cast<double>(member.clock->ahead_us) / 1e6, {{"peer", member.name}});
    sink.put(clock_skew_error, static_cast<double>(member.clock->within_us) / 1e6, {{"peer", member.name}});
  }
  sink.put(members, d(here), {{"state", "registered"}});
  sink.put(members, d(status.members.size() - here), {{"state", "missing"}});
  sink.put(members_draining, d(drains));
  std::uint64_t by_state[std::size(partition_states)] = {}, nobody = 0, alone = 0, mine = 0, served = 0, behind = 0, wished = 0;
  std::map<std::string, double> replica_seconds;
  for (const RegionStatus::Partition& partition : status.partitions) {
    for (std::size_t i = 0; i < std::size(partition_states); ++i) by_state[i] += partition.state == partition_states[i] ? 1 : 0;
    const bool nobodys = unowned(partition), silent = partition.state == not_heard;
    nobody += nobodys ? 1 : 0;
    wished += partition.accepted ? 1 : 0;
    alone += !nobodys && !silent && !partition.replicas.empty() && partition.synchronised.empty() ? 1 : 0;
    mine += partition.owner == status.self ? 1 : 0;
    served += serves(partition) ? 1 : 0;
    behind = std::max(behind, partition.replica_lag_revisions);
    for (const auto& [replica, seconds] : partition.replica_lag_seconds) replica_seconds[replica] = std::max(replica_seconds[replica], seconds);
    const admin::Labels of{{"segments", segments_of(partition)}};
    sink.put_state(partition_state, "state", partition_states, partition.state.empty() ? "unavailable" : partition.state, of);
    sink.put(partition_serving, serves(partition) ? 1 : 0, of);
    sink.put(partition_copies, nobodys ? 0 : d(partition.synchronised.size() + (silent ? 0 : 1)), of);
    sink.put(partition_generation, partition.generation.value(), of);
  }
  for (const auto& [replica, seconds] : replica_seconds) sink.put(lag_seconds, seconds, {{"replica", replica}});
  for (std::size_t i = 0; i < std::size(partition_states); ++i) sink.put(partitions, d(by_state[i]), {{"state", std::string(partition_states[i])}});
  sink.put(accepted, d(wished));
  sink.put(without_owner, d(nobody));
  sink.put(without_replica, d(alone));
  sink.put(leads, !status.leader.empty() && status.leader == status.self ? 1 : 0);
  sink.put(leader_known, status.leader.empty() ? 0 : 1);
  sink.put(leader_term, d(status.leader_term));
  sink.put(map_version, d(status.map_version));
  sink.put(ownership_version, d(status.ownership_version));
  sink.put(converged, status.converged ? 1 : 0);
  sink.put(registered, status.registered ? 1 : 0);
  sink.put(name_taken, status.name_taken ? 1 : 0);
  sink.put(settings_differ, d(static_cast<std::uint64_t>(std::ranges::count_if(status.members, [](const RegionStatus::Member& m) { return !m.settings_differ.empty(); }))));
  sink.put(peers, d(connected));
  sink.put(etcd_up, status.etcd_trouble.empty() ? 1 : 0);
  sink.put(etcd_silence, status.etcd_silence_seconds);
  sink.put(owned, d(mine));
  sink.put(serving, d(served));
  sink.put(lag, d(behind));
  sink.put(leader_changes, d(status.leader_changes));
  sink.put(elections, d(status.elections));
  sink.put(promotions, d(status.promotions));
  sink.put(hand_overs, d(status.hand_overs));
  sink.put(terms, d(status.terms));
  sink.put(fenced, d(status.fenced));
  sink.put(set_changes, d(status.set_changes));
  sink.put(grants, d(status.grants_given), {{"result", "given"}});
  sink.put(grants, d(status.grants_refused), {{"result", "refused"}});
  sink.put(differences, d(status.view_differences));
  sink.put(cures, d(status.view_cures));
  sink.put(lists, d(status.lists));
  sink.put(watch_ends, d(status.watch_ends));
  sink.put(lease_losses, d(status.lease_losses));
  sink.put(sessions_ended, d(status.sessions_ended));
  sink.put(peers_lost, d(status.peers_lost));
  sink.put(peer_sent, d(status.peer_sent_bytes));
  sink.put(peer_received, d(status.peer_received_bytes));
}

}  // namespace zaris::node
