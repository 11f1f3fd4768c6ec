// The one thread of a follower that waits for disks: cursor commits and conflict logs, in the order given.
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace zaris::follower {

class DiskThread {
 public:
  DiskThread();
  // Does what was queued, then ends.
  ~DiskThread();
  DiskThread(const DiskThread&) = delete;
  DiskThread& operator=(const DiskThread&) = delete;

  // Any thread.
  void post(std::function<void()> work);

 private:
  void run();
  std::mutex lock_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> queue_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace zaris::follower
