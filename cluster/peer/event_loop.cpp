#include "cluster/peer/event_loop.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

#include "cluster/base/assert.hpp"

namespace zaris::peer {
namespace {
constexpr int round_ms = 1000;  // a loop moves at least this often
}

MonoMicros EventLoop::now() {
  timespec t{};
  ::clock_gettime(CLOCK_BOOTTIME, &t);
  return static_cast<MonoMicros>(t.tv_sec) * 1'000'000 + t.tv_nsec / 1000;
}

EventLoop::EventLoop() : epoll_(::epoll_create1(EPOLL_CLOEXEC)), wake_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  ZARIS_ASSERT(epoll_ >= 0 && wake_ >= 0, errno);
  watch(wake_, EPOLLIN, [this](std::uint32_t) {
    std::uint64_t ignored = 0;
    [[maybe_unused]] const auto n = ::read(wake_, &ignored, sizeof ignored);
    take_posted();
  });
}

EventLoop::~EventLoop() {
  ::close(wake_);
  ::close(epoll_);
}

void EventLoop::run() {
  epoll_event events[64];
  while (!stop_.load(std::memory_order_relaxed)) {
    int timeout = round_ms;
    if (!moments_.empty()) {
      const MonoMicros left = moments_.begin()->first.first - now();
      timeout = static_cast<int>(std::clamp<MonoMicros>((left + 999) / 1000, 0, round_ms));
    }
    const int n = ::epoll_wait(epoll_, events, 64, timeout);
    rounds_.fetch_add(1, std::memory_order_relaxed);
    bool busy = false;
    for (int i = 0; i < n; ++i) {
      const int fd = static_cast<int>(events[i].data.u64 & 0xffffffffu);
      const std::uint64_t life = events[i].data.u64 >> 32;
      const auto found = watched_.find(fd);
      if (found == watched_.end() || found->second.life != life) continue;
      busy = true;
      const auto ready = found->second.ready;  // it may take itself away
      ready(events[i].events);
    }
    busy = run_due() || busy;
    if (busy && after_round_) after_round_();
  }
}

bool EventLoop::run_due() {
  bool any = false;
  const MonoMicros now_us = now();
  while (!moments_.empty() && moments_.begin()->first.first <= now_us) {
    auto node = moments_.extract(moments_.begin());
    moment_of_.erase(node.key().second);
    node.mapped()();
    any = true;
  }
  return any;
}

void EventLoop::stop() {
  stop_.store(true);
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto n = ::write(wake_, &one, sizeof one);
}

void EventLoop::post(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    posted_.push_back(std::move(task));
    if (posted_.size() > 1) return;  // it has been woken
  }
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto n = ::write(wake_, &one, sizeof one);
}

void EventLoop::take_posted() {
  std::vector<std::function<void()>> tasks;
  {
    const std::lock_guard lock(mutex_);
    tasks.swap(posted_);
  }
  for (const auto& task : tasks) task();
}

void EventLoop::watch(int fd, std::uint32_t events, std::function<void(std::uint32_t)> ready) {
  Watched& one = watched_[fd];
  one.life = ++lives_ & 0xffffffffu;
  one.ready = std::move(ready);
  epoll_event event{};
  event.events = events;
  event.data.u64 = static_cast<std::uint64_t>(fd) | one.life << 32;
  ZARIS_ASSERT(::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) == 0, errno, fd);
}

void EventLoop::change(int fd, std::uint32_t events) {
  const auto found = watched_.find(fd);
  if (found == watched_.end()) return;
  epoll_event event{};
  event.events = events;
  event.data.u64 = static_cast<std::uint64_t>(fd) | found->second.life << 32;
  ::epoll_ctl(epoll_, EPOLL_CTL_MOD, fd, &event);
}

void EventLoop::unwatch(int fd) {
  if (watched_.erase(fd) == 0) return;
  ::epoll_ctl(epoll_, EPOLL_CTL_DEL, fd, nullptr);
}

std::uint64_t EventLoop::at(MonoMicros when, std::function<void()> task) {
  const std::uint64_t id = ++moment_ids_;
  moments_.emplace(std::pair{when, id}, std::move(task));
  moment_of_.emplace(id, when);
  return id;
}

void EventLoop::cancel(std::uint64_t id) {
  const auto found = moment_of_.find(id);
  if (found == moment_of_.end()) return;
  moments_.erase({found->second, id});
  moment_of_.erase(found);
}

}  // namespace zaris::peer
