// What both ends of a replication session share.
#pragma once
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

}  // namespace zaris::replication
