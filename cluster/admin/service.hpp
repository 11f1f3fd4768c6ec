// How a daemon lives under a service manager: notifications (sd_notify), signals as values. Used by every daemon's main.
#pragma once
#include <cstdint>
#include <string>

namespace zaris::admin {

// Tell the service manager; nothing happens where there is none (NOTIFY_SOCKET unset).
void notify_ready(const std::string& status);
void notify_status(const std::string& status);
void notify_reloading();                       // before taking a new configuration over; notify_ready() after it
void notify_stopping(const std::string& status);
void notify_watchdog();
// Half of what the service manager waits for; 0: it watches nothing.
[[nodiscard]] std::uint64_t watchdog_interval_us();

enum class Signal : std::uint8_t { none, terminate, reload };

// Blocks SIGTERM, SIGINT and SIGHUP for the calling thread and all that it will start, and ignores SIGPIPE: call first
// thing in main, then wait for them here.
class Signals {
 public:
  Signals();
  // The next signal, or none after `timeout_ms`. One thread.
  [[nodiscard]] Signal wait(int timeout_ms);
  // The descriptor becomes readable when a signal is pending.
  [[nodiscard]] int fd() const { return fd_; }
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

 private:
  int fd_ = -1;
};

}  // namespace zaris::admin
