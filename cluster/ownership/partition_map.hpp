// Which nodes hold which segments: the one versioned document that a region's nodes agree on, and the table from segment to
// partition that is made from it. Who serves a partition now is another document (ownership.hpp): placement primary and active
// owner are different things. Design page cluster, "The map"; bytes: docs/formats/ownership.md.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/base/result.hpp"
#include "cluster/record/position.hpp"

namespace zaris::ownership {

// Who a partition is, whatever its number and its segments become. 32 lower-case hex digits.
struct PartitionId {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  friend constexpr auto operator<=>(const PartitionId&, const PartitionId&) = default;
};
[[nodiscard]] std::string to_string(const PartitionId& id);
[[nodiscard]] std::optional<PartitionId> parse_partition_id(std::string_view text);

struct Partition {
  PartitionId id;
  SegmentId first;                       // a contiguous run of segments
  std::uint32_t segments = 0;            // how many, at least 1
  std::string primary;                   // whom the plan wants as owner
  std::vector<std::string> replicas;     // the others of its group that hold it, without the primary, by preference
  [[nodiscard]] bool holds(SegmentId s) const { return s.value() >= first.value() && s.value() < first.value() + segments; }
  [[nodiscard]] bool has_member(std::string_view name) const;
  [[nodiscard]] std::vector<std::string> members() const;  // primary first
  friend bool operator==(const Partition&, const Partition&) = default;
};

inline constexpr std::uint32_t replication_factor_max = 9;

// Partitions ascend by segment and cover 0 … segments − 1 without gap or overlap; ids differ. Names are not checked against a
// roster: a node of the map may be gone from it.
struct PartitionMap {
  std::uint64_t version = 0;             // grows at every change
  std::uint64_t topology_version = 0;    // grows when runs, identities or members change
  std::uint32_t segments = 0;
  std::uint32_t replication_factor = 1;
  bool provisional = false;              // of a node that started alone; the first real map supersedes it
  std::vector<Partition> partitions;

  [[nodiscard]] const Partition* find(const PartitionId& id) const;
  [[nodiscard]] const Partition* holder_of(SegmentId segment) const;
  friend bool operator==(const PartitionMap&, const PartitionMap&) = default;
};

// Empty: the map is one. Otherwise why not, for people.
[[nodiscard]] std::string invalid_because(const PartitionMap& map);

// The document; asserts that the map is valid. Unknown fields are skipped when it is read.
[[nodiscard]] std::string encode(const PartitionMap& map);
[[nodiscard]] Result<PartitionMap> decode_partition_map(std::string_view bytes);  // errors: `cluster_document_malformed`

struct Acceptance {
  bool accepted = false;
  std::string reason;                    // for people, in both cases
};
// A map is accepted only if it is strictly newer than the one that is held; any real one is newer than a provisional one, none
// of which follows a real one. The number of segments never changes.
[[nodiscard]] Acceptance accept_map(const PartitionMap* held, const PartitionMap& offered);

// segment → index into the map's partitions, for requests. Immutable.
class SegmentTable {
 public:
  SegmentTable() = default;
  explicit SegmentTable(const PartitionMap& map);
  [[nodiscard]] std::uint64_t map_version() const { return map_version_; }
  [[nodiscard]] std::uint32_t segments() const { return static_cast<std::uint32_t>(partition_of_.size()); }
  [[nodiscard]] bool complete() const { return complete_; }
  [[nodiscard]] std::size_t partition_of(SegmentId segment) const { return partition_of_[segment.value()]; }

 private:
  std::uint64_t map_version_ = 0;
  bool complete_ = false;
  std::vector<std::uint16_t> partition_of_;
};

}  // namespace zaris::ownership
