// Virtual time: one event queue for everything, and what a process believes the time to be.
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "cluster/record/position.hpp"

namespace zaris::simulation {

// True time, in microseconds since the run began. Events of one moment run in the order in which they were scheduled.
class EventQueue {
 public:
  using Event = std::function<void()>;

  [[nodiscard]] MonoMicros now() const { return now_; }
  [[nodiscard]] bool empty() const { return heap_.empty(); }
  [[nodiscard]] std::uint64_t steps() const { return steps_; }

  void at(MonoMicros when, Event event) {
    heap_.push_back(Entry{std::max(when, now_), ++sequence_, std::move(event)});
    std::push_heap(heap_.begin(), heap_.end(), later);
  }
  void after(MonoMicros delay, Event event) { at(now_ + delay, std::move(event)); }

  void step() {
    std::pop_heap(heap_.begin(), heap_.end(), later);
    Entry entry = std::move(heap_.back());
    heap_.pop_back();
    now_ = entry.when;
    ++steps_;
    entry.event();
  }

 private:
  struct Entry {
    MonoMicros when;
    std::uint64_t sequence;
    Event event;
  };
  static bool later(const Entry& a, const Entry& b) {
    return a.when != b.when ? a.when > b.when : a.sequence > b.sequence;
  }

  MonoMicros now_ = 0;
  std::uint64_t sequence_ = 0, steps_ = 0;
  std::vector<Entry> heap_;
};

// The two clocks of one process. The monotonic one starts anywhere and runs a little fast or slow; the wall clock
// drifts besides, and is stepped.
class ProcessClock {
 public:
  ProcessClock() = default;
  ProcessClock(MonoMicros mono_offset, double mono_ppm, std::int64_t wall_offset, double wall_ppm)
      : mono_offset_(mono_offset), mono_ppm_(mono_ppm), wall_offset_(wall_offset), wall_ppm_(wall_ppm) {}

  [[nodiscard]] MonoMicros mono(MonoMicros true_time) const { return mono_offset_ + true_time + drift(true_time, mono_ppm_); }
  [[nodiscard]] WallMicros wall(MonoMicros true_time) const {
    return static_cast<WallMicros>(wall_base + wall_offset_ + true_time + drift(true_time, wall_ppm_));
  }
  void step_wall(std::int64_t by) { wall_offset_ += by; }
  [[nodiscard]] std::int64_t wall_offset() const { return wall_offset_; }

  static constexpr std::int64_t wall_base = 1'790'000'000'000'000;

 private:
  static std::int64_t drift(MonoMicros true_time, double ppm) {
    return static_cast<std::int64_t>(static_cast<double>(true_time) * ppm / 1e6);
  }
  MonoMicros mono_offset_ = 0;
  double mono_ppm_ = 0;
  std::int64_t wall_offset_ = 0;
  double wall_ppm_ = 0;
};

}  // namespace zaris::simulation
