// What the region's core asks of the shell around it: moments, random bits, frames to other nodes, lines in the event log.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "cluster/record/position.hpp"

namespace zaris::region {

enum class Weight : std::uint8_t { debug, info, warning, error };

class Outside {
 public:
  virtual ~Outside() = default;
  [[nodiscard]] virtual MonoMicros now() = 0;                  // CLOCK_BOOTTIME
  [[nodiscard]] virtual WallMicros wall_now() = 0;
  [[nodiscard]] virtual std::uint64_t random() = 0;            // 64 bits, never 0
  // Whole frames. False: there is no connection.
  virtual bool send(const std::string& node, std::string_view frames) = 0;
  [[nodiscard]] virtual bool connected(const std::string& node) const = 0;
  // An event of docs/reference/events.md.
  virtual void say(Weight weight, std::string_view event, const std::string& text) = 0;
};

}  // namespace zaris::region
