// Who a region's nodes are: configuration, not discovery. And which life of a node's process is meant. Design page cluster,
// "Membership".
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/base/result.hpp"
#include "cluster/base/strong.hpp"

namespace zaris::ownership {

// 64 random bits drawn at the start of a process. A node that comes back under its name holds nothing of what the process
// before it held and has forgotten what that one promised: it is another incarnation. 0: none.
struct Incarnation : Strong<struct IncarnationTag, std::uint64_t> { using Strong::Strong; };

// Addresses are "host:port" as others reach them; all but `cluster_address` may be empty (the listener is off).
struct Node {
  std::string name;                // 1 … 63 of a-z A-Z 0-9 . _ -
  std::string host;                // replicas are kept on distinct ones
  std::string cluster_address;
  std::string client_address;
  std::string client_tls_address;
  std::string feed_address;
  std::string admin_address;
  friend bool operator==(const Node&, const Node&) = default;
};

inline constexpr std::size_t nodes_max = 1024;
[[nodiscard]] bool valid_node_name(std::string_view name);

// Immutable, ordered by name. Any thread.
class Roster {
 public:
  Roster() = default;
  // Errors: `roster_invalid` (a name, a host or a cluster address missing or there twice, more than nodes_max).
  [[nodiscard]] static Result<Roster> make(std::vector<Node> nodes);

  [[nodiscard]] const std::vector<Node>& nodes() const { return nodes_; }
  [[nodiscard]] const Node* find(std::string_view name) const;

 private:
  std::vector<Node> nodes_;
};

}  // namespace zaris::ownership
