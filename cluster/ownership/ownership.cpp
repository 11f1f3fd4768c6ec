#include "cluster/ownership/ownership.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "cluster/base/assert.hpp"
#include "cluster/ownership/compressed_document.hpp"
#include "cluster/placement/slot.hpp"

namespace zaris::ownership {
namespace {

constexpr std::size_t reason_bytes_max = 160;

constexpr PartitionState states[] = {PartitionState::healthy, PartitionState::degraded, PartitionState::recovering, PartitionState::unavailable};

}  // namespace

// Reasons may quote what a peer said: as bytes they must be text, or the document could not be written.
std::string kept_reason(const std::string& reason) {
  std::string out = reason.substr(0, reason_bytes_max);
  const bool plain = std::all_of(out.begin(), out.end(), [](unsigned char c) { return c >= 0x20 && c < 0x7f; });
  return plain ? out : printable(out, reason_bytes_max).substr(0, reason_bytes_max);
}

std::string_view name(PartitionState state) {
  switch (state) {
    case PartitionState::healthy: return "healthy";
    case PartitionState::degraded: return "degraded";
    case PartitionState::recovering: return "recovering";
    case PartitionState::unavailable: return "unavailable";
  }
  return "";
}

const PartitionOwner* Ownership::find(const PartitionId& id) const {
  const auto at = std::find_if(partitions.begin(), partitions.end(), [&](const PartitionOwner& p) { return p.id == id; });
  return at == partitions.end() ? nullptr : &*at;
}

bool Ownership::covers(const PartitionMap& map) const {
  std::set<PartitionId> ids;
  for (const PartitionOwner& p : partitions) ids.insert(p.id);
  return std::all_of(map.partitions.begin(), map.partitions.end(), [&](const Partition& p) { return ids.count(p.id) == 1; });
}

Generation Ownership::highest_generation() const {
  Generation highest;
  for (const PartitionOwner& p : partitions) highest = std::max(highest, p.generation);
  return highest;
}

std::string invalid_because(const Ownership& ownership) {
  if (ownership.partitions.size() > slot_count) return fmt::format("{} partitions are more than there can be", ownership.partitions.size());
  std::set<PartitionId> ids;
  for (const PartitionOwner& p : ownership.partitions) {
    const std::string id = to_string(p.id);
    if (!ids.insert(p.id).second) return fmt::format("partition {} is there twice", id);
    if (!p.owner) {
      if (p.incarnation != Incarnation{}) return fmt::format("partition {} has an incarnation without an owner", id);
      continue;
    }
    if (!valid_node_name(*p.owner)) return fmt::format("partition {} is owned by '{}', which is no node's name", id, printable(*p.owner, 64));
    if (p.incarnation == Incarnation{}) return fmt::format("the owner of partition {} has no incarnation", id);
    if (p.generation == Generation{}) return fmt::format("the owner of partition {} has no generation", id);
  }
  return {};
}

std::string encode(const Ownership& ownership) {
  ZARIS_ASSERT(invalid_because(ownership).empty(), invalid_because(ownership));
  nlohmann::ordered_json document{{"version", ownership.version},
                                  {"map_version", ownership.map_version},
                                  {"leader_term", ownership.leader_term},
                                  {"partitions", nlohmann::ordered_json::array()}};
  for (const PartitionOwner& p : ownership.partitions) {
    nlohmann::ordered_json row{{"id", to_string(p.id)}, {"owner", nullptr}, {"generation", p.generation.value()}, {"state", name(p.state)}};
    if (p.owner) {
      row["owner"] = *p.owner;
      row["incarnation"] = hex16(p.incarnation.value());
    }
    if (p.handed_over) row["handed_over"] = true;
    if (p.root) row["root"] = static_cast<std::uint8_t>(*p.root);
    if (!p.reason.empty()) row["reason"] = kept_reason(p.reason);
    document["partitions"].push_back(std::move(row));
  }
  std::string out = compress_document(document);
  if (out.size() <= document_bytes_max) return out;
  // Only with thousands of partitions, each with a reason of its own: what decides is kept, what explains is not.
  for (auto& row : document["partitions"]) row.erase("reason");
  out = compress_document(document);
  ZARIS_ASSERT(out.size() <= document_bytes_max, out.size());
  return out;
}

Result<Ownership> decode_ownership(std::string_view bytes) {
  constexpr std::string_view what = "the ownership document";
  const auto document = parse_document(bytes, what);
  if (!document) return tl::unexpected(document.error());
  bool ok = true;
  Ownership out;
  out.version = number_in(*document, "version", UINT64_MAX, ok);
  out.map_version = number_in(*document, "map_version", UINT64_MAX, ok);
  out.leader_term = number_in(*document, "leader_term", UINT64_MAX, ok);
  const auto partitions = document->find("partitions");
  ok = ok && partitions != document->end() && partitions->is_array() && partitions->size() <= slot_count;
  if (!ok) return document_malformed(what, "one of its fields is missing or of another kind");
  for (const auto& row : *partitions) {
    if (!row.is_object()) return document_malformed(what, "a partition is no object");
    PartitionOwner p;
    const auto id = parse_partition_id(text_in(row, "id", 32, ok));
    p.generation = Generation{static_cast<std::uint32_t>(number_in(row, "generation", UINT32_MAX, ok))};
    const std::string state = text_in(row, "state", 16, ok);
    const auto known = std::find_if(std::begin(states), std::end(states), [&](PartitionState s) { return name(s) == state; });
    const auto owner = row.find("owner");
    ok = ok && id && known != std::end(states) && owner != row.end() && (owner->is_null() || owner->is_string());
    if (ok && owner->is_string()) {
      p.owner = owner->get<std::string>();
      p.incarnation = Incarnation{hex_in(row, "incarnation", ok)};
    }
    if (const auto handed_over = row.find("handed_over"); handed_over != row.end()) p.handed_over = *handed_over == true;
    if (row.contains("root")) p.root = static_cast<RootCause>(number_in(row, "root", static_cast<std::uint64_t>(RootCause::takeover), ok));
    if (row.contains("reason")) p.reason = text_in(row, "reason", reason_bytes_max, ok);
    if (!ok) return document_malformed(what, "a field of a partition is missing or of another kind");
    p.id = *id;
    p.state = *known;
    out.partitions.push_back(std::move(p));
  }
  if (const std::string why = invalid_because(out); !why.empty()) return document_malformed(what, why);
  return out;
}

Acceptance accept_ownership(const Ownership* held, const Ownership& offered) {
  if (held == nullptr) return {true, fmt::format("version {} is the first", offered.version)};
  if (offered.version <= held->version) return {false, fmt::format("version {} is not newer than {}", offered.version, held->version)};
  return {true, fmt::format("version {} follows {}", offered.version, held->version)};
}

bool SynchronisedSet::has(const Member& member) const { return std::find(members.begin(), members.end(), member) != members.end(); }

std::string encode(const SynchronisedSet& set) {
  ZARIS_ASSERT(set.members.size() < replication_factor_max, set.members.size());
  nlohmann::ordered_json document{{"generation", set.generation.value()}, {"members", nlohmann::ordered_json::array()}};
  for (const Member& m : set.members) document["members"].push_back({{"name", m.name}, {"incarnation", hex16(m.incarnation.value())}});
  return document.dump();
}

Result<SynchronisedSet> decode_synchronised_set(std::string_view text) {
  constexpr std::string_view what = "a set of synchronised replicas";
  constexpr std::size_t text_bytes_max = 16u << 10;
  if (text.size() > text_bytes_max) return document_malformed(what, fmt::format("it has {} bytes", text.size()));
  const auto document = parse_document_text(text, what);
  if (!document) return tl::unexpected(document.error());
  bool ok = true;
  SynchronisedSet set;
  set.generation = Generation{static_cast<std::uint32_t>(number_in(*document, "generation", UINT32_MAX, ok))};
  const auto members = document->find("members");
  ok = ok && members != document->end() && members->is_array() && members->size() < replication_factor_max;
  if (!ok) return document_malformed(what, "one of its fields is missing or of another kind");
  for (const auto& row : *members) {
    Member m;
    if (row.is_object()) {
      m.name = text_in(row, "name", 63, ok);
      m.incarnation = Incarnation{hex_in(row, "incarnation", ok)};
    }
    if (!row.is_object() || !ok || !valid_node_name(m.name) || m.incarnation == Incarnation{}) return document_malformed(what, "a member is no member");
    set.members.push_back(std::move(m));
  }
  std::sort(set.members.begin(), set.members.end());
  if (std::adjacent_find(set.members.begin(), set.members.end(), [](const Member& a, const Member& b) { return a.name == b.name; }) != set.members.end()) {
    return document_malformed(what, "a member is there twice");
  }
  return set;
}

}  // namespace zaris::ownership
