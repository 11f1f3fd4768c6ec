// One thread's loop: sockets, moments, and work from other threads. Everything is called on the thread that runs it; post()
// and stop() may be called from any. No Asio: what hangs on it speaks through tls::Channel, which wants readiness only.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "cluster/record/position.hpp"

namespace zaris::peer {

class EventLoop {
 public:
  EventLoop();
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // CLOCK_BOOTTIME: goes on while the machine sleeps, as leases do elsewhere.
  [[nodiscard]] static MonoMicros now();

  // Until stop().
  void run();
  void stop();
  void post(std::function<void()> task);

  // ---- sockets: `ready` gets EPOLLIN | EPOLLOUT | …; it may unwatch itself or others
  void watch(int fd, std::uint32_t events, std::function<void(std::uint32_t)> ready);
  void change(int fd, std::uint32_t events);
  void unwatch(int fd);

  // ---- moments: once each. The id is never 0.
  std::uint64_t at(MonoMicros when, std::function<void()> task);
  void cancel(std::uint64_t id);
  // Runs at the end of every round that had anything to do; replaces the one before.
  void after_each_round(std::function<void()> task) { after_round_ = std::move(task); }

  [[nodiscard]] std::uint64_t rounds() const { return rounds_.load(std::memory_order_relaxed); }

 private:
  void take_posted();
  [[nodiscard]] bool run_due();

  struct Watched {
    std::uint64_t life = 0;   // tells an event of a closed socket from one of the next socket with its number
    std::function<void(std::uint32_t)> ready;
  };
  int epoll_ = -1, wake_ = -1;
  std::map<int, Watched> watched_;
  std::uint64_t lives_ = 0;
  std::map<std::pair<MonoMicros, std::uint64_t>, std::function<void()>> moments_;
  std::map<std::uint64_t, MonoMicros> moment_of_;
  std::uint64_t moment_ids_ = 0;
  std::function<void()> after_round_;
  std::mutex mutex_;
  std::vector<std::function<void()>> posted_;
  std::atomic<bool> stop_{false};
  std::atomic<std::uint64_t> rounds_{0};
};

}  // namespace zaris::peer
