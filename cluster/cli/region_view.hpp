// A region as one: what its nodes say of it, put together. Pure; the verbs that ask are in status.cpp, node.cpp and store.cpp.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cluster/base/result.hpp"
#include "cluster/protocol/admin_messages.hpp"
#include "cluster/protocol/operator_messages.hpp"

namespace zaris::cli {

// What one node of the map answered.
struct NodeWord {
  std::string name, address;
  std::optional<protocol::StatusAnswer> status;
  std::optional<protocol::RegionStatusAnswer> region;
  std::optional<Error> error;               // it does not answer, or not all of it
};

// {healthy, faults, leader, leader_term, map_version, ownership_version, converged, nodes_up, nodes_all, etcd_answers, waiting_for,
//  accepted: [text …], replication, lag_revisions_max, nodes: […], partitions: […]}. What nobody but the leader knows is the leader's word where it answers;
// who owns what is told by the newest ownership; a partition's lag is its owner's word, null where that is not heard. The state of a
// partition is `not_heard` where its owner does not answer and nobody who does hears it.
[[nodiscard]] nlohmann::ordered_json view_of(const std::vector<NodeWord>& words);

// Of the region's nodes, who is not there, or has not got a copy in step that it should have; empty: nobody. Until then the next node must not be
// stopped. `without`: nodes that are not waited for while they are not there.
[[nodiscard]] std::string lacks_copies(const nlohmann::ordered_json& view, const std::vector<std::string>& without = {});

// For people: who begins a partition whose loss has been accepted, and when; a row of `partitions`.
[[nodiscard]] std::string what_becomes_of(const nlohmann::ordered_json& partition, const std::string& leader);

// The region's sums, as one node's status: every segment is counted by its owner. Empty digest: an owner has not answered.
struct RegionSum {
  protocol::StatusAnswer status;
  bool whole = true;
};
[[nodiscard]] RegionSum sum_of(const std::vector<NodeWord>& words, const nlohmann::ordered_json& view);

// A process that alone is its region, as a region of one node.
[[nodiscard]] protocol::RegionStatusAnswer alone(const protocol::StatusAnswer& status);

}  // namespace zaris::cli
