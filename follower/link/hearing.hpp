// Whether what a link says of its source's heads may stand: a backlog of nothing and "caught up" are of the moment of the newest Ping
// that came back, and nobody is reassured by an old one. Design pages feed (rule 2) and operations, "Lag, honestly". One rule for status,
// metrics and command line; per segment that is read:
//
//   fresh    its newest echo was sent no longer than two seconds ago (ten ping intervals): all figures stand
//   delayed  the echo is older, but data come in and no echo of the connection is newer: it waits behind them. A backlog stands, as the
//            least there is; none at all does not
//   neither  the backlog is not known; after four seconds (twenty intervals) the link says that its source is silent
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>

#include "cluster/record/position.hpp"

namespace zaris::follower {

class Hearing {
 public:
  // `fresh_interval`: as the source asked to be pinged.
  Hearing(MonoMicros now, MonoMicros fresh_interval)
      : now_(now), stale_after_(std::max<MonoMicros>(2'000'000, 10 * fresh_interval)), silent_after_(2 * stale_after_) {}

  // Moments; empty: never.
  struct Heard {
    std::optional<MonoMicros> echoed;             // sending of the newest Ping that came back for the segment
    MonoMicros asked = 0;                         // since when echoes can be expected of it
    std::optional<MonoMicros> connection_data;    // records last came over its connection, of any segment
    std::optional<MonoMicros> connection_echoed;  // sending of the newest Ping that came back over it, for any segment
  };
  void segment(const Heard& heard) {
    const MonoMicros expected = std::max(heard.echoed.value_or(heard.asked), heard.asked);
    const bool data = heard.connection_data && now_ - *heard.connection_data <= stale_after_;
    const bool delayed = data && heard.connection_echoed.value_or(expected) - expected <= stale_after_;
    fresh_ = fresh_ && heard.echoed && now_ - *heard.echoed <= stale_after_;
    delayed_ = delayed_ && delayed;
    if (!delayed && now_ - expected > silent_after_) {
      ++silent_;
      longest_ = std::max(longest_, now_ - expected);
    }
    unknown_ = unknown_ || !heard.echoed;
    if (heard.echoed) oldest_ = std::min(oldest_, *heard.echoed);
  }

  [[nodiscard]] bool fresh() const { return fresh_; }
  [[nodiscard]] bool backlog_stands(bool any) const { return fresh_ || (delayed_ && any); }
  // Age of the newest echo of the segment that was heard of longest ago; empty: one was never heard of.
  [[nodiscard]] std::optional<double> heads_age_seconds() const {
    if (unknown_) return std::nullopt;
    return static_cast<double>(now_ - oldest_) / 1e6;
  }
  [[nodiscard]] std::uint64_t silent_segments() const { return silent_; }
  [[nodiscard]] double silent_seconds() const { return static_cast<double>(longest_) / 1e6; }

 private:
  const MonoMicros now_, stale_after_, silent_after_;
  bool fresh_ = true, delayed_ = true, unknown_ = false;
  MonoMicros oldest_ = now_, longest_ = 0;
  std::uint64_t silent_ = 0;
};

}  // namespace zaris::follower
