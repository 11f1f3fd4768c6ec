// Who serves each partition now: the second document that a region's nodes agree on, written by the leader, and the set of
// synchronised replicas of one partition, written by its owner. Design page cluster, "Coordination" and "Who may serve"; bytes:
// docs/formats/ownership.md.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/base/result.hpp"
#include "cluster/ownership/partition_map.hpp"
#include "cluster/ownership/roster.hpp"
#include "cluster/record/position.hpp"
#include "cluster/record/record.hpp"

namespace zaris::ownership {

//               promoted               tail pulled, all in step
//  unavailable ──────────▶ recovering ──────────────────────────▶ healthy
//                              │ served with fewer copies            │ a copy is behind or gone
//                              └───────────▶ degraded ◀──────────────┘      (and back after a cool-down)
// Any of them falls to unavailable when nobody is left who holds the partition.
enum class PartitionState : std::uint8_t { healthy, degraded, recovering, unavailable };
[[nodiscard]] std::string_view name(PartitionState state);

// A reason as a document has it: cut, and nothing but text.
[[nodiscard]] std::string kept_reason(const std::string& reason);

struct PartitionOwner {
  PartitionId id;
  std::optional<std::string> owner;      // none: nobody serves it
  Incarnation incarnation;               // of the owner's process; another process of that name owns nothing
  Generation generation;                 // of this ownership term; 0: it never had an owner
  PartitionState state = PartitionState::unavailable;
  std::string reason;                    // for people; cut at 160 bytes, left out of a document that would grow too large
  // What a segment begins of which the owner holds nothing: a region's first owners do, and one that an operator lets begin anew.
  // None: an owner that holds nothing of a segment does not serve it.
  std::optional<RootCause> root;
  // The owner before it has stopped by its own word: nobody waits for grants that it was given to run out.
  bool handed_over = false;
  friend bool operator==(const PartitionOwner&, const PartitionOwner&) = default;
};

struct Ownership {
  std::uint64_t version = 0;             // grows at every change
  std::uint64_t map_version = 0;         // of the map that it was written for
  std::uint64_t leader_term = 0;         // of the leader that wrote it: the revision at which it was elected
  std::vector<PartitionOwner> partitions;

  [[nodiscard]] const PartitionOwner* find(const PartitionId& id) const;
  [[nodiscard]] bool covers(const PartitionMap& map) const;  // has a row for each of its partitions, whatever it says
  [[nodiscard]] Generation highest_generation() const;
  friend bool operator==(const Ownership&, const Ownership&) = default;
};

[[nodiscard]] std::string invalid_because(const Ownership& ownership);
[[nodiscard]] std::string encode(const Ownership& ownership);  // asserts that it is valid
[[nodiscard]] Result<Ownership> decode_ownership(std::string_view bytes);  // errors: `cluster_document_malformed`
// Only if strictly newer.
[[nodiscard]] Acceptance accept_ownership(const Ownership* held, const Ownership& offered);

// One process that may hold promises or data: a name alone is not enough, see Incarnation.
struct Member {
  std::string name;
  Incarnation incarnation;
  friend auto operator<=>(const Member&, const Member&) = default;
};
using Members = std::vector<Member>;     // ordered, each once, where a rule speaks of a set

// Who, beside the owner, holds all that the owner has acknowledged under a policy that promises copies, and whose grants the
// owner needs. In the coordinator; the owner changes it by compare-and-set, and the promoting transaction empties it: nobody is
// known to hold what the new owner has until it has been brought in step.
struct SynchronisedSet {
  Generation generation;                 // of the owner that wrote it
  Members members;
  [[nodiscard]] bool has(const Member& member) const;
  friend bool operator==(const SynchronisedSet&, const SynchronisedSet&) = default;
};
[[nodiscard]] std::string encode(const SynchronisedSet& set);  // plain JSON: it is small and changes alone
[[nodiscard]] Result<SynchronisedSet> decode_synchronised_set(std::string_view text);  // errors: `cluster_document_malformed`

}  // namespace zaris::ownership
