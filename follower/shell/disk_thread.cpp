#include "follower/shell/disk_thread.hpp"

#include <utility>

namespace zaris::follower {

DiskThread::DiskThread() : thread_([this] { run(); }) {}

DiskThread::~DiskThread() {
  {
    const std::lock_guard lock(lock_);
    ending_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void DiskThread::post(std::function<void()> work) {
  {
    const std::lock_guard lock(lock_);
    queue_.push_back(std::move(work));
  }
  wake_.notify_one();
}

void DiskThread::run() {
  std::unique_lock lock(lock_);
  for (;;) {
    wake_.wait(lock, [this] { return ending_ || !queue_.empty(); });
    if (queue_.empty()) return;
    const auto work = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    work();
    lock.lock();
  }
}

}  // namespace zaris::follower
