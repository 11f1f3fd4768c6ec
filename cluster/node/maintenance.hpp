// The thread that expires, evicts, trims, and looks whether memory still holds what was written. Expiry takes at most a fifth of a core; eviction and trimming run until
// they are done, since what waits for them is memory.
#pragma once
#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "cluster/node/memory_check.hpp"
#include "cluster/node/node_state.hpp"

namespace zaris::node {

class Maintenance {
 public:
  // `each_second` is called once a second on this thread.
  Maintenance(NodeShared& node, std::function<void()> each_second);
  ~Maintenance();
  [[nodiscard]] std::uint64_t rounds() const { return rounds_.load(std::memory_order_relaxed); }

 private:
  void run();
  NodeShared& node_;
  std::function<void()> each_second_;
  std::unique_ptr<store::Committer> committer_;
  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stop_ = false;
  std::atomic<std::uint64_t> rounds_{0};
  MemoryCheck memory_;
  std::thread thread_;
};

}  // namespace zaris::node
