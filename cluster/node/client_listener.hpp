// Serves the native protocol to clients: a fixed number of threads, each with an epoll set of its own; a connection stays
// with the thread that it was given to, and its requests are read, executed and answered there. All requests of one read
// are answered by one write. Why not Asio: docs/decisions, "The request path has its own loop".
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cluster/base/result.hpp"
#include "cluster/node/node_state.hpp"
#include "cluster/tls/context.hpp"

namespace zaris::node {

struct ClientListenerOptions {
  std::string address;                       // host:port; empty: none
  std::string tls_address;
  std::shared_ptr<tls::Context> tls;         // for tls_address
  std::uint32_t threads = 1;
  std::uint32_t connections_max = 10'000;
  std::size_t output_max = 1u << 20;
  bool batch_io = true;                      // many sockets by one system call where the kernel can
  MonoMicros handshake_timeout_us = 5'000'000;
  MonoMicros stalled_timeout_us = 60'000'000;  // a client that takes nothing of a waiting answer
};

class ClientListener {
 public:
  // Binds. Nobody is accepted before run(). Errors: `listen_failed`.
  [[nodiscard]] static Result<std::unique_ptr<ClientListener>> bind(NodeShared& node, ClientListenerOptions options);
  ~ClientListener();                         // stop()s
  ClientListener(const ClientListener&) = delete;
  ClientListener& operator=(const ClientListener&) = delete;

  [[nodiscard]] std::uint16_t port() const;      // as bound; 0: none
  [[nodiscard]] std::uint16_t tls_port() const;

  void run();                                // starts the threads
  // No new connections; every connection is closed once what has arrived on it has been answered and the answers were
  // taken. Returns when the last is gone, or at the deadline, when the rest are cut off. Any thread.
  void drain(MonoMicros within_us, const std::function<bool()>& hurry);
  void stop();                               // ends the threads, cuts off what is left

  // Replicas hold more than before. Any thread, between run() and stop().
  void notify_held();
  // Some answer waits for replicas, or is about to.
  [[nodiscard]] bool waits() const;
  // Another map of the region was published: clients are told. Any thread, between run() and stop().
  void notify_map();

  // Rounds that each loop has made; one that stands still for seconds is stuck.
  [[nodiscard]] std::vector<std::uint64_t> rounds() const;

 private:
  struct Impl;
  explicit ClientListener(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace zaris::node
