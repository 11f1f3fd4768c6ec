// An event loop with sockets and timers: Asio behind a small interface, so that only loop.cpp pays for its headers.
//
// A loop belongs to the thread that runs it: everything but `post`, `stop` and `resolve`'s work is called there only, and
// every handler runs there. Handlers are dropped, not called, when the object they belong to is destroyed.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cluster/base/result.hpp"

namespace zaris::feed {

class Timer {
 public:
  virtual ~Timer() = default;
  // One shot; setting it again forgets the earlier one.
  virtual void after(std::chrono::microseconds delay, std::function<void()> then) = 0;
  virtual void cancel() = 0;
};

// A connected, non-blocking TCP socket; closed when destroyed. At most one wait of each kind at a time.
class Socket {
 public:
  virtual ~Socket() = default;
  [[nodiscard]] virtual int handle() const = 0;
  virtual void when_readable(std::function<void()> then) = 0;
  virtual void when_writable(std::function<void()> then) = 0;
  [[nodiscard]] virtual const std::string& peer_address() const = 0;  // without port
};

class Listener {
 public:
  virtual ~Listener() = default;
  [[nodiscard]] virtual std::uint16_t port() const = 0;
  // Raw sockets, to be adopted by whatever loop serves them: `then(socket, peer address)`, until the listener goes. Out of
  // descriptors or memory: pauses for 100 ms, `paused` is told the reason.
  virtual void accept(std::function<void(int, std::string)> then, std::function<void(const std::string&)> paused) = 0;
};

// What another thread wakes a loop with when it has nothing to hand over: run_one() returns soon after wake(). Cheaper than an
// empty task: no lock is shared with the loop's thread, which would run into it just when it wakes.
class Waker {
 public:
  virtual ~Waker() = default;                              // the loop's thread; no wake() is under way any more
  virtual void wake() = 0;                                 // any thread
};

class Loop {
 public:
  [[nodiscard]] static std::unique_ptr<Loop> create();
  virtual ~Loop() = default;

  virtual void post(std::function<void()> task) = 0;       // any thread
  virtual void stop() = 0;                                 // any thread: run() and run_one() return
  virtual void run() = 0;                                  // until stop()
  virtual std::size_t poll() = 0;                          // what is ready, a bounded number; never blocks
  virtual void run_one() = 0;                              // blocks for one handler

  [[nodiscard]] virtual std::unique_ptr<Timer> timer() = 0;
  [[nodiscard]] virtual std::unique_ptr<Waker> waker() = 0;
  // Takes over a connected socket: non-blocking, TCP_NODELAY, `notsent_low_bytes` as TCP_NOTSENT_LOWAT (0: untouched).
  [[nodiscard]] virtual std::unique_ptr<Socket> adopt(int socket, std::string peer_address, int notsent_low_bytes) = 0;
  // `address` "127.0.0.1:7871", "[::1]:7871", port 0: any. Errors: listen_address_invalid, listen_failed.
  [[nodiscard]] virtual Result<std::unique_ptr<Listener>> listen(const std::string& address) = 0;
  // Resolves anew each time, then tries each address in turn until `deadline` from now; the one behind `after`, where that is among them,
  // comes first. Errors: feed_dns_failed, feed_connect_failed, feed_connect_timeout. Destroying the returned object gives the attempt up.
  [[nodiscard]] virtual std::shared_ptr<void> dial(const std::string& host, std::uint16_t port, const std::string& after, std::chrono::microseconds deadline,
                                                   std::function<void(Result<std::unique_ptr<Socket>>)> then) = 0;
};

}  // namespace zaris::feed
