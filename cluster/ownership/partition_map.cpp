#include "cluster/ownership/partition_map.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "cluster/base/assert.hpp"
#include "cluster/ownership/compressed_document.hpp"
#include "cluster/ownership/roster.hpp"
#include "cluster/placement/slot.hpp"

namespace zaris::ownership {

std::string to_string(const PartitionId& id) { return hex16(id.high) + hex16(id.low); }

std::optional<PartitionId> parse_partition_id(std::string_view text) {
  PartitionId id;
  if (text.size() != 32 || !parse_hex16(text.substr(0, 16), id.high) || !parse_hex16(text.substr(16), id.low)) return std::nullopt;
  return id;
}

bool Partition::has_member(std::string_view name) const {
  return primary == name || std::find(replicas.begin(), replicas.end(), name) != replicas.end();
}

std::vector<std::string> Partition::members() const {
  std::vector<std::string> out{primary};
  out.insert(out.end(), replicas.begin(), replicas.end());
  return out;
}

const Partition* PartitionMap::find(const PartitionId& id) const {
  const auto at = std::find_if(partitions.begin(), partitions.end(), [&](const Partition& p) { return p.id == id; });
  return at == partitions.end() ? nullptr : &*at;
}

const Partition* PartitionMap::holder_of(SegmentId segment) const {
  const auto behind = std::upper_bound(partitions.begin(), partitions.end(), segment,
                                       [](SegmentId s, const Partition& p) { return s.value() < p.first.value(); });
  if (behind == partitions.begin()) return nullptr;
  const Partition& p = *std::prev(behind);
  return p.holds(segment) ? &p : nullptr;
}

std::string invalid_because(const PartitionMap& map) {
  if (!valid_segment_count(map.segments)) return fmt::format("{} is no possible number of segments", map.segments);
  if (map.replication_factor < 1 || map.replication_factor > replication_factor_max) {
    return fmt::format("a replication factor of {} is not between 1 and {}", map.replication_factor, replication_factor_max);
  }
  std::uint32_t next = 0;
  std::set<PartitionId> ids;
  for (const Partition& p : map.partitions) {
    const std::string name = to_string(p.id);
    if (!ids.insert(p.id).second) return fmt::format("partition {} is there twice", name);
    if (p.first.value() != next) {
      return fmt::format("partition {} begins at segment {} instead of {}: the runs {}", name, p.first.value(), next,
                         p.first.value() < next ? "overlap" : "leave a gap");
    }
    if (p.segments < 1 || p.segments > map.segments - next) return fmt::format("partition {} holds {} segments", name, p.segments);
    next += p.segments;
    if (p.replicas.size() >= map.replication_factor) {
      return fmt::format("partition {} has {} replicas at a replication factor of {}", name, p.replicas.size(), map.replication_factor);
    }
    std::set<std::string> members;
    for (const std::string& member : p.members()) {
      if (!valid_node_name(member)) return fmt::format("partition {} names '{}', which is no node's name", name, printable(member, 64));
      if (!members.insert(member).second) return fmt::format("partition {} names node {} twice", name, member);
    }
  }
  if (next != map.segments) return fmt::format("segments {} to {} belong to no partition", next, map.segments - 1);
  return {};
}

std::string encode(const PartitionMap& map) {
  ZARIS_ASSERT(invalid_because(map).empty(), invalid_because(map));
  nlohmann::ordered_json document{{"version", map.version},
                                  {"topology_version", map.topology_version},
                                  {"segments", map.segments},
                                  {"replication_factor", map.replication_factor},
                                  {"provisional", map.provisional},
                                  {"partitions", nlohmann::ordered_json::array()}};
  for (const Partition& p : map.partitions) {
    document["partitions"].push_back(
        {{"id", to_string(p.id)}, {"first", p.first.value()}, {"segments", p.segments}, {"primary", p.primary}, {"replicas", p.replicas}});
  }
  std::string out = compress_document(document);
  ZARIS_ASSERT(out.size() <= document_bytes_max, out.size());
  return out;
}

Result<PartitionMap> decode_partition_map(std::string_view bytes) {
  constexpr std::string_view what = "the partition map";
  const auto document = parse_document(bytes, what);
  if (!document) return tl::unexpected(document.error());
  bool ok = true;
  PartitionMap map;
  map.version = number_in(*document, "version", UINT64_MAX, ok);
  map.topology_version = number_in(*document, "topology_version", UINT64_MAX, ok);
  map.segments = static_cast<std::uint32_t>(number_in(*document, "segments", slot_count, ok));
  map.replication_factor = static_cast<std::uint32_t>(number_in(*document, "replication_factor", replication_factor_max, ok));
  const auto provisional = document->find("provisional");
  ok = ok && provisional != document->end() && provisional->is_boolean();
  const auto partitions = document->find("partitions");
  ok = ok && partitions != document->end() && partitions->is_array() && partitions->size() <= map.segments;
  if (!ok) return document_malformed(what, "one of its fields is missing or of another kind");
  map.provisional = provisional->get<bool>();
  for (const auto& row : *partitions) {
    if (!row.is_object()) return document_malformed(what, "a partition is no object");
    Partition p;
    const auto id = parse_partition_id(text_in(row, "id", 32, ok));
    p.first = SegmentId{static_cast<std::uint16_t>(number_in(row, "first", slot_count - 1, ok))};
    p.segments = static_cast<std::uint32_t>(number_in(row, "segments", slot_count, ok));
    p.primary = text_in(row, "primary", 63, ok);
    const auto replicas = row.find("replicas");
    ok = ok && id && replicas != row.end() && replicas->is_array() && replicas->size() < replication_factor_max;
    if (!ok) return document_malformed(what, "a field of a partition is missing or of another kind");
    p.id = *id;
    for (const auto& replica : *replicas) {
      if (!replica.is_string()) return document_malformed(what, "a replica is no text");
      p.replicas.push_back(replica.get<std::string>());
    }
    map.partitions.push_back(std::move(p));
  }
  if (const std::string why = invalid_because(map); !why.empty()) return document_malformed(what, why);
  return map;
}

Acceptance accept_map(const PartitionMap* held, const PartitionMap& offered) {
  if (held == nullptr) return {true, fmt::format("version {} is the first map", offered.version)};
  if (held->segments != offered.segments) {
    return {false, fmt::format("it divides the keyspace into {} segments, this cluster has {}", offered.segments, held->segments)};
  }
  if (held->provisional && !offered.provisional) return {true, fmt::format("version {} supersedes the provisional map", offered.version)};
  if (!held->provisional && offered.provisional) return {false, "a provisional map never follows a real one"};
  if (offered.version <= held->version) return {false, fmt::format("version {} is not newer than {}", offered.version, held->version)};
  return {true, fmt::format("version {} follows {}", offered.version, held->version)};
}

SegmentTable::SegmentTable(const PartitionMap& map) : map_version_(map.version), partition_of_(map.segments) {
  std::uint32_t covered = 0;
  for (std::size_t i = 0; i < map.partitions.size(); ++i) {
    const Partition& p = map.partitions[i];
    ZARIS_ASSERT(p.first.value() + p.segments <= map.segments, p.first.value(), p.segments, map.segments);
    std::fill_n(partition_of_.begin() + p.first.value(), p.segments, static_cast<std::uint16_t>(i));
    covered += p.segments;
  }
  complete_ = covered == map.segments && covered > 0;
}

}  // namespace zaris::ownership
