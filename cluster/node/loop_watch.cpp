#include "cluster/node/loop_watch.hpp"

namespace zaris::node {

void LoopWatch::add(std::string name, std::function<std::uint64_t()> rounds) {
  const std::lock_guard lock(mutex_);
  loops_.push_back({std::move(name), std::move(rounds), 0, -1});
}

std::string LoopWatch::stuck(MonoMicros now) {
  const std::lock_guard lock(mutex_);
  std::string out;
  for (Loop& loop : loops_) {
    const std::uint64_t rounds = loop.rounds();
    if (rounds != loop.seen || loop.moved < 0) {
      loop.seen = rounds;
      loop.moved = now;
    } else if (now - loop.moved > stuck_after_us_ && out.empty()) {
      out = loop.name;
    }
  }
  return out;
}

}  // namespace zaris::node
