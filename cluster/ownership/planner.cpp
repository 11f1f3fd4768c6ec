#include "cluster/ownership/planner.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "cluster/base/assert.hpp"
#include "cluster/placement/slot.hpp"

namespace zaris::ownership {
namespace {

using Names = std::vector<std::string>;

std::uint64_t mixed(std::uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// A random UUID's form (version 4), for whoever shows it as one.
PartitionId identity(const PartitionId& seed, std::uint64_t number) {
  PartitionId id{mixed(seed.high ^ mixed(number)), mixed(seed.low + mixed(number ^ seed.high))};
  id.high = (id.high & ~0xf000ULL) | 0x4000;
  id.low = (id.low & ~(3ULL << 62)) | 1ULL << 63;
  return id;
}

struct Run { std::uint32_t first, count; };
std::vector<Run> balanced_runs(std::uint32_t segments, std::uint32_t partitions) {
  std::vector<Run> runs;
  std::uint32_t next = 0;
  for (std::uint32_t i = 0; i < partitions; ++i) {
    const std::uint32_t count = segments / partitions + (i < segments % partitions ? 1 : 0);
    runs.push_back({next, count});
    next += count;
  }
  return runs;
}

// For each run the previous partition whose identity it takes: the largest overlaps first, each partition once.
std::vector<const Partition*> predecessors(const std::vector<Run>& runs, const PartitionMap* previous) {
  std::vector<const Partition*> out(runs.size(), nullptr);
  if (previous == nullptr) return out;
  struct Overlap { std::uint32_t size; std::size_t run, old; };
  std::vector<Overlap> overlaps;
  for (std::size_t r = 0, o = 0; r < runs.size() && o < previous->partitions.size();) {
    const Partition& p = previous->partitions[o];
    const std::uint32_t run_end = runs[r].first + runs[r].count, old_end = p.first.value() + p.segments;
    const std::uint32_t begin = std::max<std::uint32_t>(runs[r].first, p.first.value()), end = std::min(run_end, old_end);
    if (begin < end) overlaps.push_back({end - begin, r, o});
    (run_end <= old_end ? r : o) += 1;
  }
  std::stable_sort(overlaps.begin(), overlaps.end(), [](const Overlap& a, const Overlap& b) { return a.size > b.size; });
  std::set<std::size_t> taken;
  for (const Overlap& o : overlaps) {
    if (out[o.run] == nullptr && taken.insert(o.old).second) out[o.run] = &previous->partitions[o.old];
  }
  return out;
}

class Planner {
 public:
  explicit Planner(const PlanRequest& request) : request_(request) {
    for (const PlannedNode& n : request.nodes) {
      ZARIS_ASSERT(hosts_.emplace(n.name, n.host).second, n.name);
    }
  }

  std::vector<Partition> partitions(const std::vector<Run>& runs, const std::vector<const Partition*>& old) {
    std::vector<Partition> out(runs.size());
    std::set<PartitionId> ids;
    for (const Partition* p : old) {
      if (p != nullptr) ids.insert(p->id);
    }
    std::uint64_t number = 0;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      out[i].first = SegmentId{static_cast<std::uint16_t>(runs[i].first)};
      out[i].segments = runs[i].count;
      if (old[i] != nullptr) {
        out[i].id = old[i]->id;
        keep(*old[i], out[i]);
      } else {
        do out[i].id = identity(request_.identity_seed, number++); while (!ids.insert(out[i].id).second);
      }
    }
    form_groups(out);
    for (Partition& p : out) {  // whoever lost its primary only: a replica holds the data
      if (p.primary.empty() && !p.replicas.empty()) promote(p);
    }
    for (Partition& p : out) {
      if (!p.primary.empty()) fill(p);
    }
    for (Partition& p : out) {
      if (!p.primary.empty()) continue;
      place(p);
      fill(p);
    }
    return out;
  }

  std::set<std::string>& warnings() { return warnings_; }

 private:
  void take(Names& where, const std::string& node) {
    where.push_back(node);
    ++held_[node];
  }
  void take_primary(Partition& p, const std::string& node) {
    p.primary = node;
    ++held_[node];
    ++primaries_[node];
  }
  [[nodiscard]] bool there(const std::string& node) const { return hosts_.count(node) == 1; }

  void keep(const Partition& old, Partition& p) {
    if (there(old.primary)) take_primary(p, old.primary);
    for (const std::string& r : old.replicas) {
      if (p.replicas.size() + 1 < request_.replication_factor && there(r)) take(p.replicas, r);
    }
    // One replica too many where the primary is gone and the factor is one: the first of them will be the primary.
    if (p.primary.empty() && p.replicas.empty() && !old.replicas.empty()) {
      const auto first = std::find_if(old.replicas.begin(), old.replicas.end(), [&](const std::string& r) { return there(r); });
      if (first != old.replicas.end()) take(p.replicas, *first);
    }
  }

  void promote(Partition& p) {
    const auto best = std::min_element(p.replicas.begin(), p.replicas.end(), [&](const std::string& a, const std::string& b) {
      return std::tuple(primaries_[a], a) < std::tuple(primaries_[b], b);
    });
    p.primary = *best;
    ++primaries_[p.primary];
    p.replicas.erase(best);
  }

  // Groups are what the kept partitions tie together; nodes that nothing ties form groups of their own, or join the smallest.
  void form_groups(const std::vector<Partition>& kept) {
    std::map<std::string, std::string> parent;
    for (const auto& [node, host] : hosts_) parent[node] = node;
    const auto root = [&](std::string n) {
      while (parent[n] != n) n = parent[n];
      return n;
    };
    std::set<std::string> tied;
    for (const Partition& p : kept) {
      Names members = p.replicas;
      if (!p.primary.empty()) members.push_back(p.primary);
      for (const std::string& m : members) {
        tied.insert(m);
        parent[root(m)] = root(members.front());
      }
    }
    std::map<std::string, Names> by_root;
    for (const std::string& n : tied) by_root[root(n)].push_back(n);
    std::vector<Names> groups;
    std::vector<Names> small;  // fewer than a full group: free nodes complete them first
    for (auto& [r, members] : by_root) (members.size() < request_.replication_factor ? small : groups).push_back(members);
    std::vector<std::string> untied = free_nodes(tied);
    for (Names& group : small) {
      while (group.size() < request_.replication_factor && !untied.empty()) group.push_back(take_apart(untied, group));
      groups.push_back(group);
    }
    const std::size_t fresh = untied.size() / request_.replication_factor;
    if (fresh > 0 || groups.empty()) {
      const std::size_t count = std::max<std::size_t>(1, fresh), from = groups.size();
      groups.resize(from + count);
      for (std::size_t i = 0; i < untied.size(); ++i) groups[from + i % count].push_back(untied[i]);
    } else {
      for (const std::string& n : untied) {
        std::min_element(groups.begin(), groups.end(), [](const Names& a, const Names& b) { return a.size() < b.size(); })->push_back(n);
      }
    }
    for (std::size_t g = 0; g < groups.size(); ++g) {
      for (std::size_t i = 0; i < groups[g].size(); ++i) place_of_[groups[g][i]] = {g, i};
    }
    groups_ = std::move(groups);
  }

  // Nodes of one host stand together, crowded hosts first: dealt out in turn, they come to lie in different groups.
  std::vector<std::string> free_nodes(const std::set<std::string>& tied) const {
    std::map<std::string, Names> by_host;
    for (const auto& [node, host] : hosts_) {
      if (tied.count(node) == 0) by_host[host].push_back(node);
    }
    std::vector<Names> hosts;
    for (auto& [host, nodes] : by_host) hosts.push_back(nodes);
    std::stable_sort(hosts.begin(), hosts.end(), [](const Names& a, const Names& b) { return a.size() > b.size(); });
    std::vector<std::string> out;
    for (const Names& nodes : hosts) out.insert(out.end(), nodes.begin(), nodes.end());
    return out;
  }

  // Removes and returns the first node whose host is none of the group's, or the first of all.
  std::string take_apart(std::vector<std::string>& from, const Names& group) const {
    auto at = std::find_if(from.begin(), from.end(), [&](const std::string& n) { return shared_hosts(n, group) == 0; });
    if (at == from.end()) at = from.begin();
    std::string out = *at;
    from.erase(at);
    return out;
  }

  [[nodiscard]] std::size_t shared_hosts(const std::string& node, const Names& others) const {
    return static_cast<std::size_t>(std::count_if(others.begin(), others.end(), [&](const std::string& o) { return hosts_.at(o) == hosts_.at(node); }));
  }

  void place(Partition& p) {
    const auto best = std::min_element(hosts_.begin(), hosts_.end(), [&](const auto& a, const auto& b) {
      const auto rank = [&](const std::string& n) { return std::tuple(primaries_[n], held_[n], place_of_.at(n).first, place_of_.at(n).second); };
      return rank(a.first) < rank(b.first);
    });
    take_primary(p, best->first);
  }

  void fill(Partition& p) {
    while (p.replicas.size() + 1 < request_.replication_factor) {
      const Names members = p.members();
      const auto [group, place] = place_of_.at(p.primary);
      std::optional<std::tuple<bool, std::size_t, std::size_t, std::size_t, std::string>> best;
      for (const auto& [node, host] : hosts_) {
        if (p.has_member(node)) continue;
        const auto [other, at] = place_of_.at(node);
        const std::size_t size = groups_[other].size();
        // In its group before others, on a host of its own, whoever holds least, round the group from the primary on.
        const std::tuple rank(other != group, shared_hosts(node, members), held_[node], (at + size - place % size) % size, node);
        if (!best || rank < *best) best = rank;
      }
      if (!best) {
        warnings_.insert(fmt::format("{} nodes are too few for a replication factor of {}", hosts_.size(), request_.replication_factor));
        break;
      }
      if (std::get<0>(*best)) warnings_.insert(fmt::format("node {} serves two groups: there is no other for a partition of {}", std::get<4>(*best), p.primary));
      take(p.replicas, std::get<4>(*best));
    }
    std::set<std::string> hosts;
    for (const std::string& m : p.members()) {
      if (!hosts.insert(hosts_.at(m)).second) {
        warnings_.insert(fmt::format("host {} holds two copies of a partition ({}): losing it loses both", hosts_.at(m), fmt::join(p.members(), ", ")));
      }
    }
  }

  const PlanRequest& request_;
  std::map<std::string, std::string> hosts_;                                    // node → host
  std::map<std::string, std::uint32_t> primaries_, held_;                       // partitions of each node so far
  std::vector<Names> groups_;
  std::map<std::string, std::pair<std::size_t, std::size_t>> place_of_;         // node → group, place in it
  std::set<std::string> warnings_;
};

bool same_topology(const PartitionMap& a, const PartitionMap& b) {
  if (a.replication_factor != b.replication_factor || a.partitions.size() != b.partitions.size()) return false;
  return std::equal(a.partitions.begin(), a.partitions.end(), b.partitions.begin(), [](const Partition& p, const Partition& q) {
    Names mine = p.members(), yours = q.members();
    std::sort(mine.begin(), mine.end());
    std::sort(yours.begin(), yours.end());
    return p.id == q.id && p.first == q.first && p.segments == q.segments && mine == yours;
  });
}

}  // namespace

Plan plan(const PlanRequest& request) {
  ZARIS_ASSERT(!request.nodes.empty());
  ZARIS_ASSERT(valid_segment_count(request.segments), request.segments);
  ZARIS_ASSERT(request.replication_factor >= 1 && request.replication_factor <= replication_factor_max, request.replication_factor);
  ZARIS_ASSERT(request.partitions <= request.segments, request.partitions, request.segments);
  const PartitionMap* previous = request.previous;
  if (previous != nullptr) ZARIS_ASSERT(previous->segments == request.segments, previous->segments, request.segments);
  std::uint32_t count = request.partitions;
  if (count == 0 && previous != nullptr && !previous->provisional) count = static_cast<std::uint32_t>(previous->partitions.size());
  if (count == 0) count = std::min(static_cast<std::uint32_t>(request.nodes.size()), request.segments);

  Plan out;
  out.map.segments = request.segments;
  out.map.replication_factor = request.replication_factor;
  out.map.provisional = request.provisional;
  const std::vector<Run> runs = balanced_runs(request.segments, count);
  Planner planner(request);
  out.map.partitions = planner.partitions(runs, predecessors(runs, previous));
  out.warnings.assign(planner.warnings().begin(), planner.warnings().end());
  if (request.replication_factor == 1) out.warnings.push_back("the replication factor is 1: a node that is lost takes its data with it");

  out.map.version = previous == nullptr ? 0 : previous->version;
  out.map.topology_version = previous == nullptr ? 0 : previous->topology_version;
  out.changed = previous == nullptr || !(out.map == *previous);
  if (out.changed) {
    ++out.map.version;
    if (previous == nullptr || !same_topology(out.map, *previous)) ++out.map.topology_version;
  }
  ZARIS_ASSERT(invalid_because(out.map).empty(), invalid_because(out.map));
  return out;
}

MapChange map_change_due(const PartitionMap& map, const std::vector<std::pair<std::string, MemberState>>& states, EvictRf1 evict_rf1) {
  const auto state_of = [&](const std::string& node) {
    const auto at = std::find_if(states.begin(), states.end(), [&](const auto& s) { return s.first == node; });
    return at == states.end() ? MemberState::alive : at->second;
  };
  MapChange out;
  std::set<std::string> leaving;
  for (const Partition& p : map.partitions) {
    const Names members = p.members();
    for (const std::string& m : members) {
      if (state_of(m) == MemberState::decommissioned && leaving.insert(m).second) {
        out.reason += fmt::format("{}{} is decommissioned", out.reason.empty() ? "" : "; ", m);
      }
    }
    const bool gone = std::all_of(members.begin(), members.end(), [&](const std::string& m) { return state_of(m) == MemberState::evicted; });
    if (!gone || (members.size() == 1 && map.replication_factor == 1 && evict_rf1 == EvictRf1::never)) continue;
    out.reason += fmt::format("{}all that held partition {} are evicted ({})", out.reason.empty() ? "" : "; ", to_string(p.id), fmt::join(members, ", "));
    leaving.insert(members.begin(), members.end());
  }
  out.due = !leaving.empty();
  out.leaving.assign(leaving.begin(), leaving.end());
  if (!out.due) out.reason = "no node is decommissioned and no partition's whole group is evicted";
  return out;
}

}  // namespace zaris::ownership
