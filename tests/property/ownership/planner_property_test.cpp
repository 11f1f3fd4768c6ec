// The planner against what it promises, for any roster.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "cluster/ownership/planner.hpp"

namespace zaris::ownership {
namespace {

struct Made {
  std::vector<PlannedNode> nodes;
  std::uint32_t segments, factor, partitions;
};

Made make() {
  Made m;
  const int count = *rc::gen::inRange(1, 14);
  const int hosts = *rc::gen::inRange(1, count + 1);
  for (int i = 0; i < count; ++i) m.nodes.push_back({"n" + std::to_string(i), "h" + std::to_string(*rc::gen::inRange(0, hosts))});
  m.segments = 1u << *rc::gen::inRange(4, 9);
  m.factor = static_cast<std::uint32_t>(*rc::gen::inRange(1, 5));
  m.partitions = *rc::gen::element(0u, 1u, 3u, 7u, 16u);
  return m;
}

PlanRequest request(const Made& m, const PartitionMap* previous = nullptr) {
  return {.nodes = m.nodes, .segments = m.segments, .partitions = m.partitions, .replication_factor = m.factor, .previous = previous, .identity_seed = {7, 9}};
}

std::map<std::string, std::set<std::string>> groups(const PartitionMap& map) {
  std::map<std::string, std::set<std::string>> out;  // node → everybody it shares a partition with, over any number of steps
  for (const Partition& p : map.partitions) {
    std::set<std::string> together;
    for (const std::string& m : p.members()) {
      together.insert(m);
      if (out.count(m) != 0) together.insert(out[m].begin(), out[m].end());
    }
    for (const std::string& m : together) out[m] = together;
  }
  return out;
}

TEST(PlannerProperty, AFirstMapCoversBalancesAndKeepsGroupsApart) {
  EXPECT_TRUE(rc::check("first maps", [] {
    const Made m = make();
    const Plan made = plan(request(m));
    RC_ASSERT(made.changed);
    RC_ASSERT(invalid_because(made.map).empty());
    const std::uint32_t partitions = m.partitions != 0 ? m.partitions : static_cast<std::uint32_t>(m.nodes.size());
    RC_ASSERT(made.map.partitions.size() == partitions);
    std::map<std::string, int> primaries;
    for (const PlannedNode& n : m.nodes) primaries[n.name] = 0;
    std::uint32_t last = m.segments;
    for (const Partition& p : made.map.partitions) {
      RC_ASSERT(p.segments == m.segments / partitions || p.segments == m.segments / partitions + 1);
      RC_ASSERT(p.segments <= last);  // the first ones take the remainder
      last = p.segments;
      RC_ASSERT(p.replicas.size() + 1 == std::min<std::size_t>(m.factor, m.nodes.size()));
      ++primaries.at(p.primary);
    }
    const auto [least, most] = std::minmax_element(primaries.begin(), primaries.end(), [](const auto& x, const auto& y) { return x.second < y.second; });
    RC_ASSERT(most->second - least->second <= 1);
    if (m.nodes.size() >= m.factor) {
      for (const auto& [node, group] : groups(made.map)) RC_ASSERT(group.size() < 2 * m.factor);
    }
  }));
}

TEST(PlannerProperty, CopiesLieOnDistinctHostsWhereAnOrderOfGroupsAllowsIt) {
  EXPECT_TRUE(rc::check("as many hosts as nodes", [] {
    Made m = make();
    for (std::size_t i = 0; i < m.nodes.size(); ++i) m.nodes[i].host = "h" + std::to_string(i);
    for (const std::string& w : plan(request(m)).warnings) RC_ASSERT(w.find("two copies") == std::string::npos);
  }));
  EXPECT_TRUE(rc::check("whenever two copies share a host, a warning says so", [] {
    const Made m = make();
    const Plan made = plan(request(m));
    std::map<std::string, std::string> host;
    for (const PlannedNode& n : m.nodes) host[n.name] = n.host;
    bool shared = false;
    for (const Partition& p : made.map.partitions) {
      std::set<std::string> hosts;
      for (const std::string& member : p.members()) shared = !hosts.insert(host[member]).second || shared;
    }
    RC_ASSERT(shared == std::any_of(made.warnings.begin(), made.warnings.end(), [](const std::string& w) { return w.find("two copies") != std::string::npos; }));
  }));
}

TEST(PlannerProperty, TheSameMembersInAnyOrderGiveTheSameMap) {
  EXPECT_TRUE(rc::check("order", [] {
    Made m = make();
    const Plan first = plan(request(m));
    std::rotate(m.nodes.begin(), m.nodes.begin() + *rc::gen::inRange<int>(0, static_cast<int>(m.nodes.size())), m.nodes.end());
    RC_ASSERT(plan(request(m)).map == first.map);
    const Plan again = plan(request(m, &first.map));  // and planning anew changes nothing
    RC_ASSERT(!again.changed);
    RC_ASSERT(again.map == first.map);
  }));
}

TEST(PlannerProperty, WhoStaysKeepsWhatItHas) {
  EXPECT_TRUE(rc::check("some leave, some come", [] {
    Made m = make();
    const Plan before = plan(request(m));
    const std::vector<PlannedNode> old = m.nodes;
    m.nodes.clear();
    std::set<std::string> stays;
    for (const PlannedNode& n : old) {
      if (*rc::gen::inRange(0, 4) != 0) {
        m.nodes.push_back(n);
        stays.insert(n.name);
      }
    }
    const int come = *rc::gen::inRange(m.nodes.empty() ? 1 : 0, 3);
    for (int i = 0; i < come; ++i) m.nodes.push_back({"x" + std::to_string(i), "hx" + std::to_string(i)});
    m.partitions = 0;
    const Plan after = plan(request(m, &before.map));
    RC_ASSERT(after.map.partitions.size() == before.map.partitions.size());
    for (std::size_t i = 0; i < after.map.partitions.size(); ++i) {
      const Partition &was = before.map.partitions[i], &is = after.map.partitions[i];
      RC_ASSERT(is.id == was.id);
      RC_ASSERT(is.first == was.first);
      const auto members = was.members();
      if (stays.count(was.primary) != 0) RC_ASSERT(is.primary == was.primary);
      else if (std::any_of(members.begin(), members.end(), [&](const std::string& n) { return stays.count(n) != 0; })) RC_ASSERT(was.has_member(is.primary));
      for (const std::string& r : was.members()) {
        if (stays.count(r) != 0) RC_ASSERT(is.has_member(r));
      }
      RC_ASSERT(is.replicas.size() + 1 == std::min<std::size_t>(m.factor, m.nodes.size()));
    }
    RC_ASSERT(after.changed == !(after.map == before.map));
    RC_ASSERT(after.map.version == before.map.version + (after.changed ? 1 : 0));
  }));
}

TEST(PlannerProperty, ANodeThatLeavesAndComesBackChangesNothing) {
  EXPECT_TRUE(rc::check("states of members", [] {
    const Made m = make();
    const PartitionMap map = plan(request(m)).map;
    std::vector<std::pair<std::string, MemberState>> states;
    std::set<std::string> evicted;
    for (const PlannedNode& n : m.nodes) {
      const auto state = *rc::gen::element(MemberState::alive, MemberState::suspected, MemberState::unreachable, MemberState::lost, MemberState::evicted);
      states.emplace_back(n.name, state);
      if (state == MemberState::evicted) evicted.insert(n.name);
    }
    const bool a_group_is_gone = std::any_of(map.partitions.begin(), map.partitions.end(), [&](const Partition& p) {
      const auto members = p.members();
      return std::all_of(members.begin(), members.end(), [&](const std::string& n) { return evicted.count(n) != 0; });
    });
    const MapChange never = map_change_due(map, states, EvictRf1::never), after = map_change_due(map, states, EvictRf1::after);
    RC_ASSERT(after.due == a_group_is_gone);
    RC_ASSERT(never.due == (a_group_is_gone && m.factor > 1));
    for (const std::string& n : after.leaving) RC_ASSERT(evicted.count(n) != 0);
    RC_ASSERT(!after.reason.empty());
  }));
}

TEST(PlannerProperty, IdentitySurvivesRenumbering) {
  EXPECT_TRUE(rc::check("another number of partitions", [] {
    Made m = make();
    m.partitions = *rc::gen::inRange(1u, 16u);
    const Plan before = plan(request(m));
    m.partitions = *rc::gen::inRange(1u, 16u);
    const Plan after = plan(request(m, &before.map));
    std::set<PartitionId> old, kept;
    for (const Partition& p : before.map.partitions) old.insert(p.id);
    for (const Partition& p : after.map.partitions) {
      if (old.count(p.id) == 0) continue;
      kept.insert(p.id);
      RC_ASSERT(before.map.find(p.id)->primary == p.primary);
    }
    RC_ASSERT(kept.size() == std::min(before.map.partitions.size(), after.map.partitions.size()));
  }));
}

}  // namespace
}  // namespace zaris::ownership
