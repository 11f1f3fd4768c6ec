// The bytes of the local coordinator's rows: docs/formats/coordinator.md. No I/O.
#pragma once
#include <string>
#include <string_view>

#include "cluster/coordinator/coordinator.hpp"

namespace zaris::coordinator {

inline constexpr std::uint32_t coordinator_format = 1;

struct ClusterRow {
  ClusterId id;
  ClusterSettings settings;
  WallMicros created_us = 0;
};
// What changes from start to start.
struct RunRow {
  Generation generation;                 // the highest minted
  bool had_data = false;
  WallMicros last_start_us = 0;
  bool running = false;                  // a start without a clean stop since
  WallMicros stopped_us = 0;             // the last clean stop
  std::uint64_t keys_at_stop = 0;
};
// The site epoch of a scope outlives its link.
struct ScopeRow {
  std::string text;
  SiteEpoch epoch;
};
struct LeaseRow {
  std::string holder;
  FollowerTerm term;
};

// Keys: "cluster", "run", 'l' link, 's' scope id (8 bytes big endian), 'f' link.
[[nodiscard]] std::string link_key(std::string_view link);
[[nodiscard]] std::string scope_key(ScopeId scope);
[[nodiscard]] std::string lease_key(std::string_view link);

[[nodiscard]] std::string encode(const ClusterRow& row);
[[nodiscard]] std::string encode(const RunRow& row);
[[nodiscard]] std::string encode(const LinkEntry& row);
[[nodiscard]] std::string encode(const ScopeRow& row);
[[nodiscard]] std::string encode(const LeaseRow& row);
// False: not such a row. A row of a newer format: false and `newer` set.
[[nodiscard]] bool decode(std::string_view bytes, ClusterRow& out, bool& newer);
[[nodiscard]] bool decode(std::string_view bytes, RunRow& out, bool& newer);
[[nodiscard]] bool decode(std::string_view bytes, LinkEntry& out, bool& newer);
[[nodiscard]] bool decode(std::string_view bytes, ScopeRow& out, bool& newer);
[[nodiscard]] bool decode(std::string_view bytes, LeaseRow& out, bool& newer);

}  // namespace zaris::coordinator
