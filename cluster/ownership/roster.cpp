#include "cluster/ownership/roster.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace zaris::ownership {

bool valid_node_name(std::string_view name) {
  return !name.empty() && name.size() <= 63 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
  });
}

Result<Roster> Roster::make(std::vector<Node> nodes) {
  const auto invalid = [](std::string what) { return failure("roster_invalid", std::move(what), "correct `roster` in the configuration of every node"); };
  if (nodes.size() > nodes_max) return invalid(fmt::format("the roster has {} nodes, at most {} are possible", nodes.size(), nodes_max));
  std::set<std::string> addresses;
  for (const Node& node : nodes) {
    if (!valid_node_name(node.name)) {
      return invalid(fmt::format("'{}' is no name of a node: 1 to 63 letters, digits, dots, underscores or dashes", printable(node.name, 64)));
    }
    if (node.host.empty()) return invalid(fmt::format("node {} has no host", node.name));
    if (node.cluster_address.empty()) return invalid(fmt::format("node {} has no cluster address", node.name));
    if (!addresses.insert(node.cluster_address).second) {
      return invalid(fmt::format("cluster address {} belongs to two nodes, one of them is {}", printable(node.cluster_address), node.name));
    }
  }
  std::sort(nodes.begin(), nodes.end(), [](const Node& a, const Node& b) { return a.name < b.name; });
  const auto twice = std::adjacent_find(nodes.begin(), nodes.end(), [](const Node& a, const Node& b) { return a.name == b.name; });
  if (twice != nodes.end()) return invalid(fmt::format("the roster names {} twice", twice->name));
  Roster roster;
  roster.nodes_ = std::move(nodes);
  return roster;
}

const Node* Roster::find(std::string_view name) const {
  const auto at = std::lower_bound(nodes_.begin(), nodes_.end(), name, [](const Node& n, std::string_view wanted) { return n.name < wanted; });
  return at != nodes_.end() && at->name == name ? &*at : nullptr;
}

}  // namespace zaris::ownership
