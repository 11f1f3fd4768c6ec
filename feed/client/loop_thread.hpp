// A thread that runs a loop: for processes that have no loop of their own. Several connections share one.
#pragma once
#include <functional>
#include <memory>
#include <thread>

#include "feed/transport/loop.hpp"

namespace zaris::feed {

class LoopThread {
 public:
  LoopThread();
  ~LoopThread();                                  // stops the loop and joins; objects of the loop must be gone by then
  [[nodiscard]] Loop& loop() { return *loop_; }
  // Runs `task` on the loop's thread and waits for it. Not from that thread itself.
  void run(std::function<void()> task);

 private:
  std::unique_ptr<Loop> loop_;
  std::thread thread_;
};

}  // namespace zaris::feed
