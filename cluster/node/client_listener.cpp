#include "cluster/node/client_listener.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <vector>

#include "cluster/config/load.hpp"
#include "cluster/node/worker.hpp"

namespace zaris::node {
namespace {

struct Bound {
  int fd = -1;
  std::uint16_t port = 0;
};

Result<Bound> bind_socket(const std::string& address, const std::string& key) {
  const auto at = config::parse_address(address);
  if (!at) return failure("listen_failed", fmt::format("{}: {} is not an address", key, address));
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  if (const int rc = ::getaddrinfo(at->host.c_str(), std::to_string(at->port).c_str(), &hints, &found); rc != 0) {
    return failure("listen_failed", fmt::format("{}: {}: {}", key, address, ::gai_strerror(rc)));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> freed(found, ::freeaddrinfo);
  Bound bound;
  bound.fd = ::socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (bound.fd < 0) return failure("listen_failed", fmt::format("{}: {}: {}", key, address, std::strerror(errno)));
  const int one = 1;
  ::setsockopt(bound.fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (::bind(bound.fd, found->ai_addr, found->ai_addrlen) != 0 || ::listen(bound.fd, 4096) != 0) {
    const int error = errno;
    ::close(bound.fd);
    return failure("listen_failed", fmt::format("{}: cannot listen on {}: {}", key, address, std::strerror(error)),
                   error == EADDRINUSE ? "another process has that port: stop it, or choose another" : "");
  }
  sockaddr_storage name{};
  socklen_t size = sizeof name;
  ::getsockname(bound.fd, reinterpret_cast<sockaddr*>(&name), &size);
  bound.port = ntohs(name.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&name)->sin6_port : reinterpret_cast<sockaddr_in*>(&name)->sin_port);
  return bound;
}

}  // namespace

struct ClientListener::Impl {
  ClientListenerOptions options;
  std::vector<std::unique_ptr<Worker>> workers;
  std::uint16_t port = 0, tls_port = 0;
  bool running = false;
};

ClientListener::ClientListener(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ClientListener::~ClientListener() { stop(); }
std::uint16_t ClientListener::port() const { return impl_->port; }
std::uint16_t ClientListener::tls_port() const { return impl_->tls_port; }

Result<std::unique_ptr<ClientListener>> ClientListener::bind(NodeShared& node, ClientListenerOptions options) {
  auto impl = std::make_unique<Impl>();
  impl->options = std::move(options);
  Bound plain, secure;
  if (!impl->options.address.empty()) {
    const auto bound = bind_socket(impl->options.address, "listeners.client.address");
    if (!bound) return tl::unexpected(bound.error());
    plain = *bound;
  }
  if (!impl->options.tls_address.empty()) {
    const auto bound = bind_socket(impl->options.tls_address, "listeners.client_tls.address");
    if (!bound) {
      if (plain.fd >= 0) ::close(plain.fd);
      return tl::unexpected(bound.error());
    }
    secure = *bound;
  }
  std::vector<Worker*> peers;
  for (std::uint32_t i = 0; i < impl->options.threads; ++i) {
    node.counts.push_back(std::make_unique<WorkerCounts>());
    impl->workers.push_back(std::make_unique<Worker>(node, *node.counts.back(), impl->options));
    peers.push_back(impl->workers.back().get());
  }
  if (plain.fd >= 0) impl->workers[0]->listen(plain.fd, Protocol::native, peers);
  if (secure.fd >= 0) impl->workers[0]->listen(secure.fd, Protocol::native_tls, peers);
  impl->port = plain.port;
  impl->tls_port = secure.port;
  return std::unique_ptr<ClientListener>(new ClientListener(std::move(impl)));
}

void ClientListener::run() {
  impl_->running = true;
  for (const auto& worker : impl_->workers) worker->start();
}

void ClientListener::drain(MonoMicros within_us, const std::function<bool()>& hurry) {
  for (const auto& worker : impl_->workers) worker->begin_drain();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::microseconds(within_us);
  const auto open = [&] {
    for (const auto& worker : impl_->workers) {
      if (worker->open() > 0) return true;
    }
    return false;
  };
  // The condition is never notified: it only makes the pauses of this poll.
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock lock(mutex);
  while (open() && std::chrono::steady_clock::now() < deadline && !hurry()) never.wait_for(lock, std::chrono::milliseconds(5));
}

void ClientListener::stop() {
  if (!impl_->running) return;
  impl_->running = false;
  for (const auto& worker : impl_->workers) worker->request_stop();
  for (const auto& worker : impl_->workers) worker->join();
  impl_->workers.clear();
}

void ClientListener::notify_held() {
  for (const auto& worker : impl_->workers) worker->notify_held();
}

bool ClientListener::waits() const {
  return std::any_of(impl_->workers.begin(), impl_->workers.end(), [](const auto& worker) { return worker->waits(); });
}

void ClientListener::notify_map() {
  for (const auto& worker : impl_->workers) worker->notify_map();
}

std::vector<std::uint64_t> ClientListener::rounds() const {
  std::vector<std::uint64_t> out;
  for (const auto& worker : impl_->workers) out.push_back(worker->rounds());
  return out;
}

}  // namespace zaris::node
