// Are the records in memory still what was written there? A slot at a time, all of them once per memory.check_interval: owned or a replica's, whatever their bytes
// add up to is held against the digest that is kept with each write. Where they differ memory has changed by itself. One thread.
#pragma once
#include <chrono>
#include <set>

#include "cluster/store/store.hpp"

namespace zaris::node {

class MemoryCheck {
 public:
  using Clock = std::chrono::steady_clock;
  // interval 0: never. Slots of more records than this are passed over: one is looked at under one hold of its segment's lock.
  static constexpr std::uint64_t records_most = 100'000;

  MemoryCheck(const store::Store& store, std::chrono::microseconds interval, Clock::time_point now) : store_(store), interval_(interval), began_(now) {}

  // Looks at what is due by now, a millisecond's work at most.
  void step(Clock::time_point now);
  // Slots that were found so and have not been found right since.
  [[nodiscard]] std::uint64_t changed() const { return bad_.size(); }

 private:
  void look(Slot slot);

  const store::Store& store_;
  const std::chrono::microseconds interval_;
  Clock::time_point began_;        // of this round
  std::uint32_t next_ = 0;         // slot
  std::set<Slot> bad_;
};

}  // namespace zaris::node
