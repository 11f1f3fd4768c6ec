// How fast the log of what is owned grows, for "how long until a bound is reached": a mean that forgets over half a minute, so that one
// large write or one quiet second hardly moves it. One thread feeds it; any thread reads it.
#pragma once
#include <atomic>
#include <cmath>
#include <cstdint>

#include "cluster/record/position.hpp"

namespace zaris::store {

class WriteRate {
 public:
  // Is it time for the next sample?
  [[nodiscard]] bool due(WallMicros now) const { return !begun_ || now < last_us_ || now - last_us_ >= every_us; }

  // `total`: bytes appended so far, to the logs that `of` numbers. Others than before, or a clock that went back, begin a new stretch.
  void sample(std::uint64_t total, std::uint64_t of, WallMicros now) {
    if (begun_ && now > last_us_ && of == last_of_ && total >= last_total_) {
      const auto passed = static_cast<double>(now - last_us_);
      const double kept = std::exp(-passed / memory_us);
      sum_ = sum_ * kept + static_cast<double>(total - last_total_) / passed * (1 - kept);
      weight_ = weight_ * kept + 1 - kept;
      rate_.store(sum_ / weight_, std::memory_order_relaxed);
    }
    begun_ = true;
    last_total_ = total;
    last_of_ = of;
    last_us_ = now;
  }

  [[nodiscard]] double bytes_per_us() const { return rate_.load(std::memory_order_relaxed); }

 private:
  static constexpr WallMicros every_us = 1'000'000;
  static constexpr double memory_us = 30e6;
  bool begun_ = false;
  std::uint64_t last_total_ = 0, last_of_ = 0;
  WallMicros last_us_ = 0;
  double sum_ = 0, weight_ = 0;      // weight: how much of the mean has been seen at all
  std::atomic<double> rate_{0};
};

}  // namespace zaris::store
