// How connections come to a worker, and how they go.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "cluster/logging/event_log.hpp"
#include "cluster/node/worker.hpp"

namespace zaris::node {

void Worker::accept_some(const Listening& listening) {
  const auto protocol = static_cast<std::size_t>(listening.protocol);
  for (int i = 0; i < 64; ++i) {
    const int fd = ::accept4(listening.fd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
      // Out of descriptors or memory: the kernel keeps the callers waiting; asking again at once would only spin.
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) pause_accepting();
      return;
    }
    const int one = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    if (node_.connections() >= options_.connections_max) {
      counts_.refused_limit[protocol].add();
      if (listening.protocol == Protocol::native) {
        std::string answer;
        protocol::encode_error(answer, protocol::Opcode::hello, Status::unavailable, 0, "this node has as many connections as it may (limits.connections)");
        [[maybe_unused]] const auto ignored = ::send(fd, answer.data(), answer.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      }
      ::close(fd);
      continue;
    }
    counts_.accepted[protocol].add();
    Worker* const peer = peers_[next_peer_++ % peers_.size()];
    if (peer == this) add(fd, listening.protocol);
    else peer->adopt(fd, listening.protocol);
  }
}

void Worker::pause_accepting() {
  counts_.accept_pauses.add();
  if (!accepting_paused_) {
    logging::write(logging::Level::warning, "accept_paused", "out of file descriptors or memory: no new connections until some are free", {{"error", std::strerror(errno)}});
    for (const Listening& listening : listening_) ::epoll_ctl(epoll_, EPOLL_CTL_DEL, listening.fd, nullptr);
  }
  accepting_paused_ = true;
  resume_at_ = mono_now() + accept_pause_ms * 1000;
}

void Worker::resume_accepting() {
  accepting_paused_ = false;
  if (draining_) return;
  for (Listening& listening : listening_) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.ptr = &listening;
    ::epoll_ctl(epoll_, EPOLL_CTL_ADD, listening.fd, &event);
  }
}

void Worker::add(int fd, Protocol protocol) {
  auto owned = std::make_unique<Connection>(fd, protocol, ClientSession(node_, counts_, protocol, {}));
  Connection& connection = *owned;
  if (protocol == Protocol::native_tls) {
    connection.tls = tls::Channel::accept(options_.tls.get(), fd);
    connection.handshaking = true;
  }
  connection.deadline = mono_now() + options_.handshake_timeout_us;
  connection.index = connections_.size();
  connection.number = ++last_number_;
  if (node_.region) by_number_[connection.number] = &connection;
  connections_.push_back(std::move(owned));
  counts_.connections[static_cast<std::size_t>(protocol)].add();
  open_.store(connections_.size(), std::memory_order_relaxed);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = &connection;
  if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) != 0) return close(connection);
  if (draining_) drain_connection(connection);
}

void Worker::close(Connection& connection) {
  if (connection.fd < 0) return;
  if (connection.starved) std::erase(starved_, &connection);
  if (!connection.put_off.empty()) std::erase(put_off_, &connection);
  if (node_.region) by_number_.erase(connection.number);
  connection.in.clear();
  account(connection);
  if (connection.tls) connection.tls->shutdown();
  counts_.buffered_bytes.sub(connection.out.size() - connection.out_at);
  connection.tls.reset();
  ::close(connection.fd);  // leaves the epoll set with it
  connection.fd = -1;
  counts_.connections[static_cast<std::size_t>(connection.protocol)].sub();
  const std::size_t at = connection.index;
  if (at + 1 != connections_.size()) {
    std::swap(connections_[at], connections_.back());
    connections_[at]->index = at;
  }
  dead_.push_back(std::move(connections_.back()));
  connections_.pop_back();
  open_.store(connections_.size(), std::memory_order_relaxed);
}

}  // namespace zaris::node
