#include "cluster/admin/service.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <systemd/sd-daemon.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>

#include "cluster/base/assert.hpp"

namespace zaris::admin {
namespace {

std::string one_line(const std::string& text) {
  std::string out = text;
  for (char& c : out) {
    if (c == '\n') c = ' ';
  }
  return out;
}

}  // namespace

void notify_ready(const std::string& status) { ::sd_notify(0, fmt::format("READY=1\nSTATUS={}", one_line(status)).c_str()); }
void notify_status(const std::string& status) { ::sd_notify(0, fmt::format("STATUS={}", one_line(status)).c_str()); }
void notify_reloading() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  ::sd_notify(0, fmt::format("RELOADING=1\nMONOTONIC_USEC={}", now.tv_sec * 1'000'000 + now.tv_nsec / 1000).c_str());
}
void notify_stopping(const std::string& status) { ::sd_notify(0, fmt::format("STOPPING=1\nSTATUS={}", one_line(status)).c_str()); }
void notify_watchdog() { ::sd_notify(0, "WATCHDOG=1"); }
std::uint64_t watchdog_interval_us() {
  std::uint64_t us = 0;
  return ::sd_watchdog_enabled(0, &us) > 0 ? us / 2 : 0;
}

Signals::Signals() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) ::sigaddset(&set, signal);
  ZARIS_ASSERT(::pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0);
  ::signal(SIGPIPE, SIG_IGN);
  fd_ = ::signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
  ZARIS_ASSERT(fd_ >= 0, errno);
}

Signals::~Signals() { ::close(fd_); }

Signal Signals::wait(int timeout_ms) {
  pollfd p{fd_, POLLIN, 0};
  if (::poll(&p, 1, timeout_ms) <= 0) return Signal::none;
  signalfd_siginfo info{};
  if (::read(fd_, &info, sizeof info) != sizeof info) return Signal::none;
  return info.ssi_signo == SIGHUP ? Signal::reload : Signal::terminate;
}

}  // namespace zaris::admin
