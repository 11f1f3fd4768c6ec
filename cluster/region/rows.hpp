// What a region keeps in etcd besides the map, the ownership and the synchronised sets (cluster/ownership): names of the keys and
// the small rows behind them, as JSON. Everything lies under one prefix. Bytes: docs/formats/etcd.md; design page cluster.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "cluster/base/result.hpp"
#include "cluster/ownership/ownership.hpp"
#include "cluster/record/position.hpp"

namespace zaris::region {

struct KeyNames {
  std::string prefix;                                  // "/zaris/main/"
  [[nodiscard]] std::string settings() const { return prefix + "settings"; }
  [[nodiscard]] std::string leader() const { return prefix + "leader"; }
  [[nodiscard]] std::string map() const { return prefix + "map"; }
  [[nodiscard]] std::string ownership() const { return prefix + "ownership"; }
  [[nodiscard]] std::string generation() const { return prefix + "generation"; }
  [[nodiscard]] std::string beacon() const { return prefix + "beacon"; }
  [[nodiscard]] std::string links() const { return prefix + "links"; }
  [[nodiscard]] std::string members() const { return prefix + "members/"; }
  [[nodiscard]] std::string member(std::string_view name) const { return members() + std::string(name); }
  [[nodiscard]] std::string synchronised() const { return prefix + "synchronised/"; }
  [[nodiscard]] std::string synchronised(const ownership::PartitionId& id) const { return synchronised() + to_string(id); }
  [[nodiscard]] std::string drains() const { return prefix + "drains/"; }
  [[nodiscard]] std::string drain(std::string_view name) const { return drains() + std::string(name); }
  [[nodiscard]] std::string accepted() const { return prefix + "accepted/"; }
  // An operator's word that what a partition had may be lost; the next leader's act takes it away.
  [[nodiscard]] std::string accepted(const ownership::PartitionId& id) const { return accepted() + to_string(id); }
};

// Written once, by whoever comes first; never changed.
struct SettingsRow {
  ClusterId cluster;
  std::string region, store;
  std::uint32_t segments = 0;
  std::uint32_t partitions = 0;                        // as configured; 0: one per node of the first map
  std::uint32_t replication_factor = 1;
  WallMicros created_us = 0;
  friend bool operator==(const SettingsRow&, const SettingsRow&) = default;
};
[[nodiscard]] std::string encode(const SettingsRow& row);
[[nodiscard]] Result<SettingsRow> decode_settings(std::string_view text);  // errors: `cluster_document_malformed`

// A process that lives: the key is attached to its lease.
struct MemberRow {
  ownership::Incarnation incarnation;
  std::string version;                                 // of the program
  WallMicros started_us = 0;
  std::string host;                                    // as its machine calls itself; empty: of a version that did not say
  std::string address;                                 // where it listens for other nodes
  std::map<std::string, std::string> settings;         // of its configuration, what all nodes of a region should have alike
  friend bool operator==(const MemberRow&, const MemberRow&) = default;
};
[[nodiscard]] std::string encode(const MemberRow& row);
[[nodiscard]] Result<MemberRow> decode_member(std::string_view text);
[[nodiscard]] std::string describe(const MemberRow& row);   // where it runs and since when, for people

// Attached to the leader's lease; the revision that created the key is the leader term.
struct LeaderRow {
  std::string name;
  ownership::Incarnation incarnation;
  friend bool operator==(const LeaderRow&, const LeaderRow&) = default;
};
[[nodiscard]] std::string encode(const LeaderRow& row);
[[nodiscard]] Result<LeaderRow> decode_leader(std::string_view text);

// Small and read by every node all the time: whoever differs from it lists anew.
struct BeaconRow {
  std::uint64_t map_version = 0, ownership_version = 0;
  Generation generation;                               // the highest minted
  friend bool operator==(const BeaconRow&, const BeaconRow&) = default;
};
[[nodiscard]] std::string encode(const BeaconRow& row);
[[nodiscard]] Result<BeaconRow> decode_beacon(std::string_view text);

[[nodiscard]] std::string encode(Generation generation);
[[nodiscard]] Result<Generation> decode_generation(std::string_view text);

}  // namespace zaris::region
