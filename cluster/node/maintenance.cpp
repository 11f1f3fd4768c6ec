#include "cluster/node/maintenance.hpp"

#include <algorithm>
#include <chrono>

namespace zaris::node {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto idle_pause = std::chrono::milliseconds(20);
constexpr int rounds_before_rest = 64;  // bounded steps of eviction and trimming between two looks at the clock

}  // namespace

Maintenance::Maintenance(NodeShared& node, std::function<void()> each_second)
    : node_(node), each_second_(std::move(each_second)), committer_(node.store.committer()),
      memory_(node.store, std::chrono::microseconds(node.config.memory.check_interval_us), Clock::now()), thread_([this] { run(); }) {}

Maintenance::~Maintenance() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stopped_.notify_all();
  thread_.join();
}

void Maintenance::run() {
  const std::function<WallMicros()> clock = [] {
    return static_cast<WallMicros>(
        std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch()).count());
  };
  auto next_second = Clock::now();
  auto sweep_after = Clock::now();
  while (true) {
    rounds_.fetch_add(1, std::memory_order_relaxed);
    const auto begin = Clock::now();
    const WallMicros now = committer_->begin(clock);
    bool more = false;
    for (int i = 0; i < rounds_before_rest; ++i) {
      const bool evict = node_.store.evict(now);
      const bool trim = node_.store.trim_log(now);
      more = evict || trim;
      if (!more) break;
    }
    if (begin >= sweep_after) {
      const auto sweep_begin = Clock::now();
      const bool backlog = node_.store.sweep_expiry(now);
      const auto took = Clock::now() - sweep_begin;
      // A fifth of a core: what was spent is rested four times over.
      sweep_after = Clock::now() + (backlog ? 4 * took : std::max<Clock::duration>(4 * took, idle_pause));
    }
    committer_->idle();
    memory_.step(begin);
    node_.memory_changed_slots.store(memory_.changed(), std::memory_order_relaxed);
    if (begin >= next_second) {
      next_second = begin + std::chrono::seconds(1);
      if (each_second_) each_second_();
    }
    std::unique_lock lock(mutex_);
    const auto until = more ? Clock::now() : std::min<Clock::time_point>(Clock::now() + idle_pause, std::max(sweep_after, Clock::now() + std::chrono::microseconds(200)));
    if (stopped_.wait_until(lock, until, [&] { return stop_; })) return;
  }
}

}  // namespace zaris::node
