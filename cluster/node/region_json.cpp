#include "cluster/node/region_json.hpp"

#include <nlohmann/json.hpp>

namespace zaris::node {

nlohmann::json region_json(const RegionStatus& s) {
  nlohmann::json members = nlohmann::json::array(), partitions = nlohmann::json::array();
  for (const RegionStatus::Member& m : s.members) {
    members.push_back({{"name", m.name}, {"registered", m.registered}, {"connected", m.connected}, {"leader", m.leader}, {"draining", m.draining}, {"state", m.state}, {"version", m.version}});
  }
  for (const RegionStatus::Partition& p : s.partitions) {
    partitions.push_back({{"id", p.id}, {"first", p.first}, {"segments", p.segments}, {"primary", p.primary}, {"replicas", p.replicas}, {"owner", p.owner}, {"state", p.state},
                          {"reason", p.reason}, {"generation", p.generation.value()}, {"synchronised", p.synchronised}, {"role", p.role}, {"role_reason", p.role_reason},
                          {"serves_by", p.serves_by}, {"replica_lag_revisions", p.replica_lag_revisions}});
  }
  return {{"node", s.self}, {"leader", s.leader}, {"leader_term", s.leader_term}, {"map_version", s.map_version}, {"ownership_version", s.ownership_version}, {"converged", s.converged},
          {"registered", s.registered}, {"name_taken", s.name_taken}, {"waiting_for", s.waiting_for}, {"etcd", {{"trouble", s.etcd_trouble}, {"silence_seconds", s.etcd_silence_seconds}}},
          {"members", members}, {"partitions", partitions}, {"promotions", s.promotions}, {"hand_overs", s.hand_overs}, {"fenced", s.fenced}};
}

}  // namespace zaris::node
