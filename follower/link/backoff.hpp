// Waiting times that grow and are jittered, and the seeded numbers behind them and behind session ids. No clock: callers
// hand in what time it is.
#pragma once
#include <algorithm>
#include <cstdint>

#include "cluster/record/position.hpp"

namespace zaris::follower {

// SplitMix64: every number a function of the seed, so that a run can be replayed.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  [[nodiscard]] std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  [[nodiscard]] std::uint64_t below(std::uint64_t bound) { return bound == 0 ? 0 : next() % bound; }

 private:
  std::uint64_t state_;
};

// first, 2·first, 4·first … most; each between half of it and the whole.
class Backoff {
 public:
  Backoff(MonoMicros first, MonoMicros most) : first_(first), most_(most) {}
  [[nodiscard]] MonoMicros next(Random& random) {
    const MonoMicros whole = std::min(most_, first_ << std::min(attempts_, 20));
    ++attempts_;
    return whole / 2 + static_cast<MonoMicros>(random.below(static_cast<std::uint64_t>(whole - whole / 2) + 1));
  }
  void reset() { attempts_ = 0; }
  [[nodiscard]] int attempts() const { return attempts_; }

 private:
  MonoMicros first_, most_;
  int attempts_ = 0;
};

}  // namespace zaris::follower
