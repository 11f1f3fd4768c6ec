// How far the wall clocks of the other nodes are ahead of this one's. A key expires by the clock of the node that owns it: a clock that is
// wrong shows only once its node owns something, so it is looked for before. Heartbeats carry the sender's clocks and echo the receiver's;
// from a round trip the peer's wall clock is known to within half of it. No clock of its own: moments are handed in. One thread.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "cluster/protocol/region_messages.hpp"

namespace zaris::region {

struct ClockEstimate {
  std::int64_t ahead_us = 0;           // of this node's clock; negative: behind
  std::int64_t within_us = 0;          // the truth is no further than this from it
  bool beyond = false;                 // the bound, for certain; until it is well within it again
};

class ClockSkew {
 public:
  enum class Change : std::uint8_t { none, beyond, within };

  explicit ClockSkew(MonoMicros bound_us) : bound_us_(bound_us) {}

  // What goes with a heartbeat to `peer` that leaves now.
  [[nodiscard]] protocol::Heartbeat::Clock stamp(std::string_view peer, MonoMicros now, WallMicros wall) const;
  // A heartbeat of `peer` has come. What cannot be is left out, whatever it says.
  Change heard(const std::string& peer, const protocol::Heartbeat::Clock& clock, MonoMicros now, WallMicros wall);
  void forget(const std::string& peer);  // its process or the connection is another one

  // Nothing before the first round trip.
  [[nodiscard]] std::optional<ClockEstimate> estimate(std::string_view peer) const;

 private:
  struct Sample {
    std::int64_t ahead_us = 0, within_us = 0;
  };
  struct Peer {
    std::uint64_t sent = 0;              // the peer's own clock in its last heartbeat
    MonoMicros heard_at = 0;
    std::array<Sample, 8> samples;       // of the last round trips: the shortest of them says most
    std::size_t count = 0;
    bool beyond = false;
  };
  [[nodiscard]] static Sample best(const Peer& peer);

  const MonoMicros bound_us_;
  std::map<std::string, Peer, std::less<>> peers_;
};

}  // namespace zaris::region
