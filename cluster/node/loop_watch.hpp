// Which loops of this process have stopped moving. A loop counts its rounds; whoever asks notes when each count last
// changed. Any thread.
#pragma once
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "cluster/record/position.hpp"

namespace zaris::node {

class LoopWatch {
 public:
  explicit LoopWatch(MonoMicros stuck_after_us = 10'000'000) : stuck_after_us_(stuck_after_us) {}
  void add(std::string name, std::function<std::uint64_t()> rounds);
  // Empty: all move. Otherwise the name of one that has made no round for `stuck_after`. To be asked more often than that.
  [[nodiscard]] std::string stuck(MonoMicros now);

 private:
  struct Loop {
    std::string name;
    std::function<std::uint64_t()> rounds;
    std::uint64_t seen = 0;
    MonoMicros moved = -1;
  };
  MonoMicros stuck_after_us_;
  std::mutex mutex_;
  std::vector<Loop> loops_;
};

}  // namespace zaris::node
