// What both ends of a replication session share.
#pragma once
#include <limits>
#include <string>

#include "cluster/record/position.hpp"

namespace zaris::replication {

// The moment of a call, from the shell.
struct Now {
  MonoMicros mono_us = 0;
  WallMicros wall_us = 0;
};

// Why a session is over; the shell closes the connection and opens another. Codes: `replication_malformed` (what came is no
// message, or none that could come now), `replication_gap` (a run or page that does not follow what is held).
struct SessionEnd {
  std::string code;
  std::string text;
};

// Where a pin stands in a segment in which it holds nothing, while it still holds others: a store drops pins whole.
inline constexpr Position holds_nothing{Generation{std::numeric_limits<std::uint32_t>::max()},
                                        Revision{std::numeric_limits<std::uint64_t>::max()}};

}  // namespace zaris::replication
