// What the feed threads of one gateway share. Internal to feed/gateway.
#pragma once
#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "feed/gateway/gateway.hpp"
#include "feed/gateway/origin.hpp"

namespace zaris::feed {

struct SharedCounters {
  struct PerTransport {
    std::atomic<std::uint64_t> open{0}, opened{0}, bytes_sent{0};
    std::array<std::atomic<std::uint64_t>, disconnect_reason_names.size()> disconnects{};
  };
  std::array<PerTransport, transport_names.size()> transports{};
  std::array<std::atomic<std::uint64_t>, refused_reason_names.size()> refused{};
  std::array<std::atomic<std::uint64_t>, handshake_failure_names.size()> handshakes_failed{};
  std::atomic<std::uint64_t> connections_open{0}, handshakes_open{0}, accept_pauses{0}, go_aways{0};
};

struct SharedState {
  SharedState(GatewayOptions o, std::unique_ptr<Origin> s, std::shared_ptr<tls::Context> c, GatewayHooks h, std::shared_ptr<const AccessTable> a)
      : options(std::move(o)), origin(std::move(s)), context(std::move(c)), hooks(std::move(h)), access_(std::move(a)) {}

  const GatewayOptions options;
  const std::unique_ptr<Origin> origin;
  const std::shared_ptr<tls::Context> context;
  const GatewayHooks hooks;
  SharedCounters counters;
  std::atomic<bool> draining{false};

  [[nodiscard]] std::shared_ptr<const AccessTable> access() const {
    const std::lock_guard lock(mutex_);
    return access_;
  }
  void set_access(std::shared_ptr<const AccessTable> table) {
    const std::lock_guard lock(mutex_);
    access_ = std::move(table);
  }

  // A place among the sessions; false: the bound is reached.
  [[nodiscard]] bool take_place(const std::string& address) {
    const std::lock_guard lock(mutex_);
    auto& here = by_address_[address];
    const bool full = sessions_ >= options.sessions_max || (options.sessions_per_address != 0 && here >= options.sessions_per_address);
    if (!full) ++sessions_, ++here;
    if (here == 0) by_address_.erase(address);
    return !full;
  }
  void give_place(const std::string& address) {
    const std::lock_guard lock(mutex_);
    --sessions_;
    if (const auto found = by_address_.find(address); found != by_address_.end() && --found->second == 0) by_address_.erase(found);
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const AccessTable> access_;
  std::uint32_t sessions_ = 0;
  std::map<std::string, std::uint32_t> by_address_;
};

}  // namespace zaris::feed
