#include "feed/client/loop_thread.hpp"

#include <future>

namespace zaris::feed {

LoopThread::LoopThread() : loop_(Loop::create()), thread_([this] { loop_->run(); }) {}

LoopThread::~LoopThread() {
  loop_->stop();
  thread_.join();
}

void LoopThread::run(std::function<void()> task) {
  std::promise<void> done;
  loop_->post([&] {
    task();
    done.set_value();
  });
  done.get_future().wait();
}

}  // namespace zaris::feed
