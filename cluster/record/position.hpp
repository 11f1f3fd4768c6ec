// The names of places, histories and parties. Rules: docs/formats/record.md (lineage), design page record.
#pragma once
#include <cstdint>
#include <fmt/format.h>
#include <string>

#include "cluster/base/strong.hpp"

namespace zaris {

struct Generation : Strong<struct GenerationTag, std::uint32_t> { using Strong::Strong; };
struct Revision : Strong<struct RevisionTag, std::uint64_t> {
  using Strong::Strong;
  [[nodiscard]] constexpr Revision next() const { return Revision{value() + 1}; }
};
struct ClusterId : Strong<struct ClusterIdTag, std::uint64_t> { using Strong::Strong; };
struct HistoryId : Strong<struct HistoryIdTag, std::uint64_t> { using Strong::Strong; };
struct SessionId : Strong<struct SessionIdTag, std::uint64_t> { using Strong::Strong; };   // one opening of a link
struct ScopeId : Strong<struct ScopeIdTag, std::uint64_t> { using Strong::Strong; };       // 0: the full scope
struct SegmentId : Strong<struct SegmentIdTag, std::uint16_t> { using Strong::Strong; };   // 0 … segments − 1
struct Slot : Strong<struct SlotTag, std::uint16_t> { using Strong::Strong; };             // 0 … 16383
struct FollowerTerm : Strong<struct FollowerTermTag, std::uint64_t> { using Strong::Strong; };
struct SiteEpoch : Strong<struct SiteEpochTag, std::uint64_t> { using Strong::Strong; };

// A place in a segment's log, ordered as a pair. (0, 0) is before everything and names no record.
struct Position {
  Generation generation;
  Revision revision;
  friend constexpr auto operator<=>(const Position&, const Position&) = default;
};

// A position with the random id of the generation record that began its generation, by which a lineage knows it.
// Two of them are compared by `at` only where both are known to lie on one lineage.
struct NamedPosition {
  Position at;
  std::uint64_t generation_id = 0;
  friend constexpr bool operator==(const NamedPosition&, const NamedPosition&) = default;
};

[[nodiscard]] constexpr const NamedPosition& later(const NamedPosition& a, const NamedPosition& b) { return a.at < b.at ? b : a; }

// Where a replicated record stood in the log of the region that it was received from.
struct Origin {
  ClusterId cluster;
  Position at;
  friend constexpr bool operator==(const Origin&, const Origin&) = default;
};

// A place in the ordered walk through the keys: slots ascending, keys as unsigned bytes within a slot.
// "Nothing yet" is an empty optional, never an empty key: the empty key in slot 0 is legal.
struct SlotKey {
  Slot slot;
  std::string key;
  friend auto operator<=>(const SlotKey&, const SlotKey&) = default;
};

// "g:r", as the command line and logs show positions.
[[nodiscard]] inline std::string to_string(const Position& p) {
  return fmt::format("{}:{}", p.generation.value(), p.revision.value());
}

// Moments. Wall: microseconds since 1970 UTC. Monotonic: microseconds of a clock that never steps; only differences
// mean anything. Both are handed in; no core reads a clock.
using WallMicros = std::uint64_t;
using MonoMicros = std::int64_t;

}  // namespace zaris
