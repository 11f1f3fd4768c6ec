// How old the newest confirmed head is that the target holds in full: one segment's part of staleness. Design page
// operations, "Lag, honestly". Only the follower's own monotonic clock takes part; the number may be too large by a
// round trip and a ping interval, never too small.
#pragma once
#include <optional>
#include <vector>

#include "cluster/record/position.hpp"

namespace zaris::follower {

class HeadEchoes {
 public:
  // `since`: what counts while nothing has been confirmed (the link's start, or earlier when a cursor says so).
  explicit HeadEchoes(MonoMicros since = 0) : since_(since) {}
  void set_since(MonoMicros since) { since_ = since; }

  // A Ping sent at `sent` came back: its owner had confirmed its authority after it came in, and its head was `head`.
  void echoed(MonoMicros sent, Position head);
  // Lowest low of the segment's marks, durable; `in_stream`: all of them are in phase stream. While one is not, nothing
  // new is confirmed: what had been confirmed before counts on.
  void durable(const std::optional<Position>& low, bool in_stream);
  // The marks have gone back to `low` (empty: nothing is held): echoes above it are forgotten, those already confirmed too.
  void went_back(const std::optional<Position>& low);

  // When the newest Ping was sent whose head the target holds in full.
  [[nodiscard]] MonoMicros confirmed_sent() const { return confirmed_ > 0 ? echoes_[confirmed_ - 1].sent : since_; }
  [[nodiscard]] std::optional<Position> confirmed_head() const { return confirmed_ > 0 ? std::optional(echoes_[confirmed_ - 1].head) : std::nullopt; }
  [[nodiscard]] bool ever_confirmed() const { return confirmed_ > 0; }
  [[nodiscard]] MonoMicros newest_echo() const { return echoes_.empty() ? since_ : echoes_.back().sent; }
  // Nothing that was echoed is still to be held.
  [[nodiscard]] bool holds_all() const { return !echoes_.empty() && confirmed_ == echoes_.size(); }

 private:
  struct Echo {
    MonoMicros sent;
    Position head;
  };
  static constexpr std::size_t echoes_max = 64;
  void confirm();
  void thin();

  // Ascending in `sent`. [0, confirmed_) are held in full: kept, since marks may go back; the rest waits.
  std::vector<Echo> echoes_;
  std::size_t confirmed_ = 0;
  std::optional<Position> low_;
  bool in_stream_ = false;
  MonoMicros since_;
};

}  // namespace zaris::follower
