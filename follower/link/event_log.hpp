// Log lines of a core, rate-limited per event so that no loop can fill a disk: a burst of them, then one every ten
// seconds that says how many were withheld.
#pragma once
#include <fmt/format.h>

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "follower/link/link.hpp"

namespace zaris::follower {

class EventLog {
 public:
  static constexpr int burst = 20;
  static constexpr MonoMicros interval_us = 10'000'000;
  static constexpr std::size_t events_max = 512;

  // Empty: withheld.
  [[nodiscard]] std::optional<LogLine> line(LogLine::Level level, std::string_view event, std::string text, MonoMicros now) {
    if (sites_.size() >= events_max) sites_.clear();  // a peer's codes are not ours to choose
    auto [at, fresh] = sites_.try_emplace(std::string(event));
    Site& site = at->second;
    if (fresh || now - site.window >= interval_us) {
      if (site.withheld > 0) text += fmt::format(" ({} more of these were withheld)", site.withheld);
      // Whoever had used the burst up gets one line per interval until an interval stays quiet.
      const bool calm = fresh || site.withheld == 0;
      site = Site{now, calm ? 1 : burst, 0};
      return LogLine{level, std::string(event), std::move(text)};
    }
    if (site.used < burst) {
      ++site.used;
      return LogLine{level, std::string(event), std::move(text)};
    }
    ++site.withheld;
    return std::nullopt;
  }

 private:
  struct Site {
    MonoMicros window = 0;
    int used = 0;
    std::uint64_t withheld = 0;
  };
  std::map<std::string, Site> sites_;
};

}  // namespace zaris::follower
