// Until when this node may serve each segment, for the threads that execute requests: they look when they execute, not by timer, and
// once more before they answer. Written by the region's thread. Design page cluster, "Who may serve".
//
// Who hands a segment over stops new requests first, and looks at what it holds only when every turn that had begun before is over:
// what those turns have executed is then part of what is handed over, and their answers may leave.
#pragma once
#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "cluster/record/position.hpp"

namespace zaris::region {

class ServingTable {
 public:
  explicit ServingTable(std::uint32_t segments) : rows_(segments) {}

  // Deadlines on CLOCK_BOOTTIME, exclusive; 0: it may not serve.
  void set(SegmentId segment, MonoMicros until) { set(segment, until, until); }
  // No new request is taken; what has been executed may be answered until then.
  void stop(SegmentId segment, MonoMicros answers_until) { set(segment, 0, answers_until); }
  // A new request may be executed.
  [[nodiscard]] bool serves(SegmentId segment, MonoMicros now) const { return now < rows_[segment.value()].requests.load(); }
  // What has been executed may be answered.
  [[nodiscard]] bool answers(SegmentId segment, MonoMicros now) const { return now < rows_[segment.value()].answers.load(); }
  [[nodiscard]] MonoMicros until(SegmentId segment) const { return rows_[segment.value()].requests.load(); }
  [[nodiscard]] std::uint32_t segments() const { return static_cast<std::uint32_t>(rows_.size()); }

  // One thread's turns: all that it executes and may answer is between begin() and end(). The number is odd in a turn. A turn that begins
  // after stop() sees it, or whoever asks for the turns under way sees the turn: sequential consistency.
  class Turns {
   public:
    void begin() { number_.store(number_.load(std::memory_order_relaxed) + 1); }
    void end() { number_.store(number_.load(std::memory_order_relaxed) + 1); }

   private:
    friend class ServingTable;
    alignas(64) std::atomic<std::uint64_t> number_{0};
  };
  // Any thread; lives as long as the table.
  [[nodiscard]] Turns& add_thread() {
    const std::lock_guard lock(mutex_);
    return threads_.emplace_back();
  }
  // The turns under way now, and whether all of those are over.
  using UnderWay = std::vector<std::pair<const Turns*, std::uint64_t>>;
  [[nodiscard]] UnderWay under_way() const {
    const std::lock_guard lock(mutex_);
    UnderWay out;
    for (const Turns& turns : threads_) {
      if (const std::uint64_t number = turns.number_.load(); number % 2 == 1) out.emplace_back(&turns, number);
    }
    return out;
  }
  [[nodiscard]] static bool over(const UnderWay& turns) {
    for (const auto& [of, number] : turns) {
      if (of->number_.load() == number) return false;
    }
    return true;
  }

 private:
  struct Row {
    std::atomic<MonoMicros> requests{0}, answers{0};
  };
  void set(SegmentId segment, MonoMicros requests_until, MonoMicros answers_until) {
    rows_[segment.value()].requests.store(requests_until);
    rows_[segment.value()].answers.store(answers_until);
  }
  std::vector<Row> rows_;
  mutable std::mutex mutex_;
  std::deque<Turns> threads_;
};

}  // namespace zaris::region
