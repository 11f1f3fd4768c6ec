#include "cluster/peer/peer_net.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <optional>
#include <utility>

#include "cluster/logging/event_log.hpp"
#include "cluster/tls/channel.hpp"

namespace zaris::peer {
namespace {

using logging::Level;

constexpr std::size_t read_bytes = 256u << 10;
constexpr std::size_t drained_below = 64u << 10;
constexpr std::size_t keep_bytes = 1u << 20;          // a buffer that grew beyond this gives its memory back
constexpr std::size_t hello_bytes_max = 16u << 10;
constexpr MonoMicros dial_first_us = 50'000, dial_longest_us = 1'000'000;
constexpr MonoMicros refusal_us = 60'000'000;          // one that repeats is said once in so long
constexpr std::size_t refusals_max = 64;               // that are told apart

struct Addresses {
  addrinfo* list = nullptr;
  ~Addresses() {
    if (list != nullptr) ::freeaddrinfo(list);
  }
};

int resolve(const std::string& host, std::uint16_t port, bool passive, Addresses& out) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (passive ? AI_PASSIVE : 0);
  return ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &out.list);
}

class Net final : public PeerNet {
 public:
  Net(EventLoop& loop, PeerNetOptions options, PeerEvents& events) : loop_(loop), options_(std::move(options)), events_(events), buffer_(read_bytes, '\0') {
    for (const PeerAddress& address : options_.roster) {
      if (address.name != options_.self.name) peers_[address.name].address = address;
    }
  }

  ~Net() override {
    for (auto& [fd, connection] : connections_) {
      loop_.unwatch(fd);
      connection->channel.reset();
      ::close(fd);
    }
    loop_.unwatch(listen_);
    if (listen_ >= 0) ::close(listen_);
    if (ticker_ != 0) loop_.cancel(ticker_);
    for (auto& [name, peer] : peers_) forget_redial(peer);
  }

  Result<void> listen() {
    Addresses found;
    if (const int failed = resolve(options_.host, options_.port, true, found); failed != 0) {
      return failure("listen_failed", "listeners.cluster: " + options_.host + ": " + ::gai_strerror(failed));
    }
    listen_ = ::socket(found.list->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    const int one = 1;
    ::setsockopt(listen_, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (listen_ < 0 || ::bind(listen_, found.list->ai_addr, found.list->ai_addrlen) != 0 || ::listen(listen_, 128) != 0) {
      return failure("listen_failed", "listeners.cluster: cannot listen on " + options_.host + ":" + std::to_string(options_.port) + ": " + std::strerror(errno),
                     "is another process using the port?");
    }
    sockaddr_storage bound{};
    socklen_t size = sizeof bound;
    ::getsockname(listen_, reinterpret_cast<sockaddr*>(&bound), &size);
    port_ = ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(bound).sin6_port : reinterpret_cast<sockaddr_in&>(bound).sin_port);
    return {};
  }

  void start(ClusterId cluster) override {
    if (cluster != options_.self.cluster) {
      for (auto& [name, peer] : peers_) peer.wait = dial_first_us;   // whoever was turned away is dialled again soon
    }
    options_.self.cluster = cluster;
    if (std::exchange(started_, true)) return;
    loop_.watch(listen_, EPOLLIN, [this](std::uint32_t) { accept_some(); });
    for (auto& [name, peer] : peers_) {
      if (dials(name)) dial(name);
    }
    if (ticker_ == 0) tick();
  }

  void pause(const std::string& reason) override {
    if (!std::exchange(started_, false)) return;
    loop_.unwatch(listen_);
    for (auto& [name, peer] : peers_) forget_redial(peer);
    std::vector<int> all;
    for (const auto& [fd, connection] : connections_) all.push_back(fd);
    for (const int fd : all) {
      if (const auto found = connections_.find(fd); found != connections_.end()) close(*found->second, reason);
    }
  }

  std::uint16_t port() const override { return port_; }

  bool up(const std::string& name) const override {
    const auto found = peers_.find(name);
    return found != peers_.end() && found->second.connection != nullptr;
  }

  bool send(const std::string& name, std::string_view frames) override {
    const auto found = peers_.find(name);
    if (found == peers_.end() || found->second.connection == nullptr) return false;
    Connection& connection = *found->second.connection;
    connection.out.append(frames);
    if (!connection.wants_flush) {
      connection.wants_flush = true;
      to_flush_.push_back(connection.fd);
    }
    return true;
  }

  std::size_t unsent_bytes(const std::string& name) const override {
    const auto found = peers_.find(name);
    if (found == peers_.end() || found->second.connection == nullptr) return 0;
    const Connection& connection = *found->second.connection;
    return connection.out.size() - connection.out_at + connection.channel->waiting_bytes();
  }

  MonoMicros heard(const std::string& name) const override {
    const auto found = peers_.find(name);
    return found == peers_.end() ? 0 : found->second.heard;
  }

  std::map<std::string, ClusterId> told() const override {
    std::map<std::string, ClusterId> out;
    for (const auto& [name, peer] : peers_) {
      if (peer.told) out.emplace(name, *peer.told);
    }
    return out;
  }

  void drop(const std::string& name, const std::string& reason) override {
    const auto found = peers_.find(name);
    if (found != peers_.end() && found->second.connection != nullptr) close(*found->second.connection, reason);
  }

  void flush() override {
    for (const int fd : std::exchange(to_flush_, {})) {
      const auto found = connections_.find(fd);
      if (found == connections_.end() || !found->second->wants_flush) continue;
      found->second->wants_flush = false;
      write_some(*found->second);
    }
    dead_.clear();
  }

  PeerCounters counters() const override { return counters_; }

 private:
  enum class Phase : std::uint8_t { connecting, handshake, hello, up };
  struct Connection {
    int fd = -1;
    Phase phase = Phase::handshake;
    bool dialled = false;
    std::string name;            // dialled: who is expected; else who it said it is
    std::unique_ptr<tls::Channel> channel;
    std::string in;
    std::size_t in_at = 0;
    std::string out;
    std::size_t out_at = 0;
    bool wants_flush = false;
    std::uint32_t events = EPOLLIN;
    MonoMicros deadline = 0;     // until it is up
    MonoMicros up_since = 0;
  };
  struct Refusal {
    MonoMicros said = 0;
    std::uint64_t more = 0;      // since then
  };
  struct Peer {
    PeerAddress address;
    Connection* connection = nullptr;   // that is up
    bool dialling = false;
    std::uint64_t redial = 0;           // the moment of the next attempt; one at a time
    MonoMicros wait = dial_first_us;
    MonoMicros heard = 0;
    std::optional<ClusterId> told;      // what it said last that it belongs to
  };

  [[nodiscard]] bool dials(const std::string& name) const { return options_.self.name < name; }

  // ---- coming up
  void accept_some() {
    for (int i = 0; i < 16; ++i) {
      const int fd = ::accept4(listen_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd < 0) return;
      if (unknown_ >= options_.connections_max) {
        ++counters_.refused;
        ::close(fd);
        continue;
      }
      ++counters_.accepted;
      adopt(fd, Phase::handshake, false, {}, tls::Channel::accept(options_.server.get(), fd));
    }
  }

  void dial(const std::string& name) {
    Peer& peer = peers_.at(name);
    forget_redial(peer);
    if (!started_ || peer.dialling || peer.connection != nullptr) return;
    peer.dialling = true;
    ++counters_.dialled;
    Addresses found;
    const auto failed = [&](const std::string& why) {
      peer.dialling = false;
      again(name, why);
    };
    // Names are looked up on this thread: the roster's are few, and a resolver that hangs holds up dialling alone no more than
    // it would hold up everything else that this node is.
    if (const int bad = resolve(peer.address.host, peer.address.port, false, found); bad != 0) return failed(::gai_strerror(bad));
    const int fd = ::socket(found.list->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return failed(std::strerror(errno));
    if (::connect(fd, found.list->ai_addr, found.list->ai_addrlen) != 0 && errno != EINPROGRESS) {
      const std::string why = std::strerror(errno);
      ::close(fd);
      return failed(why);
    }
    auto channel = tls::Channel::connect(options_.client.get(), fd, peer.address.host);
    if (!channel) {
      ::close(fd);
      return failed(channel.error().text());
    }
    Connection& connection = adopt(fd, Phase::connecting, true, name, std::move(*channel));
    set_events(connection, EPOLLOUT);
  }

  void again(const std::string& name, const std::string& why) {
    Peer& peer = peers_.at(name);
    logging::write(Level::debug, "peer_unreachable", name + ": " + why, {{"peer", name}});
    const MonoMicros wait = peer.wait;
    peer.wait = std::min(peer.wait * 2, dial_longest_us);
    forget_redial(peer);
    peer.redial = loop_.at(EventLoop::now() + wait, [this, name, &peer] {
      peer.redial = 0;
      dial(name);
    });
  }

  void forget_redial(Peer& peer) {
    if (peer.redial != 0) loop_.cancel(std::exchange(peer.redial, 0));
  }

  Connection& adopt(int fd, Phase phase, bool dialled, std::string name, std::unique_ptr<tls::Channel> channel) {
    const int one = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    auto owned = std::make_unique<Connection>();
    owned->fd = fd;
    owned->phase = phase;
    owned->dialled = dialled;
    owned->name = std::move(name);
    owned->channel = std::move(channel);
    owned->deadline = EventLoop::now() + options_.handshake_us;
    Connection& connection = *owned;
    connections_[fd] = std::move(owned);
    ++unknown_;
    loop_.watch(fd, EPOLLIN, [this, fd](std::uint32_t events) {
      if (const auto found = connections_.find(fd); found != connections_.end()) on_event(*found->second, events);
    });
    return connection;
  }

  void on_event(Connection& connection, std::uint32_t events) {
    if (connection.phase == Phase::connecting) {
      int error = 0;
      socklen_t size = sizeof error;
      ::getsockopt(connection.fd, SOL_SOCKET, SO_ERROR, &error, &size);
      if (error != 0) return close(connection, std::strerror(error));
      connection.phase = Phase::handshake;
    }
    if (connection.phase == Phase::handshake) {
      switch (connection.channel->handshake()) {
        case tls::Io::ok: break;
        case tls::Io::want_read: return set_events(connection, EPOLLIN);
        case tls::Io::want_write: return set_events(connection, EPOLLOUT);
        default: return close(connection, connection.channel->error().what.empty() ? "the connection was closed" : connection.channel->error().text());
      }
      connection.phase = Phase::hello;
      encode(connection.out, options_.self);
      if (!write_some(connection)) return;
    }
    if ((events & EPOLLOUT) != 0 && !write_some(connection)) return;
    if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) read_some(connection);
  }

  // ---- bytes
  void read_some(Connection& connection) {
    do {
      std::size_t got = 0;
      switch (connection.channel->read(buffer_.data(), buffer_.size(), got)) {
        case tls::Io::ok: break;
        case tls::Io::want_read:
        case tls::Io::want_write: return;
        default: return close(connection, connection.channel->error().what.empty() ? "the peer closed the connection" : connection.channel->error().text());
      }
      counters_.received_bytes += got;
      connection.in.append(buffer_, 0, got);
      if (connection.phase == Phase::up) peers_.at(connection.name).heard = EventLoop::now();
      if (!take_frames(connection)) return;
    } while (!connection.channel->drained());
  }

  // False: the connection is gone.
  bool take_frames(Connection& connection) {
    const int fd = connection.fd;
    while (true) {
      protocol::Frame frame;
      const std::size_t bound = connection.phase == Phase::up ? options_.frame_max : hello_bytes_max;
      const auto step = protocol::FrameParser(bound).parse(std::string_view(connection.in).substr(connection.in_at), frame);
      if (step.step == protocol::FrameStep::need_more) break;
      if (step.step != protocol::FrameStep::frame) return close(connection, "it sent what is no frame, or one that is too long"), false;
      connection.in_at += step.consumed;
      if (connection.phase == Phase::hello) {
        if (!greet(connection, frame)) return false;
        continue;
      }
      events_.peer_frame(connection.name, frame);
      const auto found = connections_.find(fd);
      if (found == connections_.end() || found->second.get() != &connection) return false;
    }
    if (connection.in_at == connection.in.size()) {
      connection.in.clear();
      connection.in_at = 0;
      if (connection.in.capacity() > keep_bytes) std::string().swap(connection.in);
    } else if (connection.in_at > read_bytes) {
      connection.in.erase(0, connection.in_at);
      connection.in_at = 0;
    }
    return true;
  }

  // A process that is no node of this region comes again and again, for as long as nobody looks.
  void say_refused(const std::string& peer, const std::string& why) {
    const MonoMicros now = EventLoop::now();
    const std::pair key{peer, why};
    auto at = refusals_.find(key);
    if (at != refusals_.end() && now - at->second.said < refusal_us) {
      ++at->second.more;
      return logging::write(Level::debug, "peer_refused", why, {{"peer", peer}});
    }
    if (at == refusals_.end()) {
      if (refusals_.size() >= refusals_max) refusals_.clear();   // texts may be a stranger's
      at = refusals_.emplace(key, Refusal{}).first;
    }
    at->second.said = now;
    logging::write(Level::warning, "peer_refused", why, {{"peer", peer}, logging::number("repeated", std::exchange(at->second.more, 0))});
  }

  bool greet(Connection& connection, const protocol::Frame& frame) {
    PeerHello hello;
    const auto refuse = [&](const std::string& why) {
      ++counters_.refused;
      say_refused(printable(connection.name.empty() ? hello.name : connection.name), why);
      close(connection, why);
      return false;
    };
    if (frame.header.opcode != static_cast<std::uint8_t>(protocol::Opcode::peer_hello) || !decode(frame.body, hello)) return refuse("it does not speak the protocol between nodes");
    if (hello.store != options_.self.store || hello.segments != options_.self.segments) return refuse("its store or its number of segments is another one");
    if (!peers_.contains(hello.name)) return refuse("node " + printable(hello.name) + " is not in the roster");
    if (connection.dialled && connection.name != hello.name) return refuse("node " + printable(hello.name) + " answers at the address of " + connection.name);
    if (options_.server) {
      const tls::Peer peer = connection.channel->peer();
      if (!may_speak_for(hello.name, peer.common_name, peer.names)) {
        return refuse("it says that it is node " + printable(hello.name) + "; its certificate is that of " + printable(peer.common_name));
      }
    }
    peers_.at(hello.name).told = hello.cluster;
    // One of both has not learnt yet what region it joins: nothing is wrong, and it comes again.
    if (hello.cluster == ClusterId{} || options_.self.cluster == ClusterId{}) {
      logging::write(Level::debug, "peer_not_joined", "node " + hello.name + " or this one has not joined its region yet", {{"peer", hello.name}});
      close(connection, "one of both has not joined its region yet");
      return false;
    }
    if (hello.cluster != options_.self.cluster) return refuse("it belongs to cluster " + hex16(hello.cluster.value()) + ", not " + hex16(options_.self.cluster.value()));
    connection.name = hello.name;
    connection.phase = Phase::up;
    --unknown_;
    connection.deadline = 0;
    Peer& peer = peers_.at(hello.name);
    peer.dialling = false;
    connection.up_since = EventLoop::now();
    std::erase_if(refusals_, [&](const auto& one) { return one.first.first == hello.name; });
    // A restarted peer comes before its old connection is known to be dead.
    if (peer.connection != nullptr) close(*peer.connection, "it has connected anew");
    peer.connection = &connection;
    peer.heard = EventLoop::now();
    events_.peer_up(hello.name, hello);
    return peer.connection == &connection;
  }

  // False: the connection is gone.
  bool write_some(Connection& connection) {
    if (connection.phase == Phase::connecting || connection.phase == Phase::handshake) return true;
    tls::Io io = connection.channel->flush();
    if (io == tls::Io::ok && connection.out_at < connection.out.size()) {
      std::size_t taken = 0;
      io = connection.channel->write(std::string_view(connection.out).substr(connection.out_at), taken);
      connection.out_at += taken;
      counters_.sent_bytes += taken;
    }
    if (io == tls::Io::closed || io == tls::Io::failed) {
      close(connection, "the peer closed the connection");
      return false;
    }
    if (connection.out_at == connection.out.size()) {
      connection.out.clear();
      connection.out_at = 0;
      if (connection.out.capacity() > keep_bytes) std::string().swap(connection.out);
    } else if (connection.out_at > keep_bytes) {
      connection.out.erase(0, connection.out_at);
      connection.out_at = 0;
    }
    const bool waits = connection.out_at < connection.out.size() || !connection.channel->flushed();
    set_events(connection, EPOLLIN | (waits ? EPOLLOUT : 0u));
    if (connection.phase == Phase::up && connection.out.size() - connection.out_at + connection.channel->waiting_bytes() < drained_below) events_.peer_drained(connection.name);
    return connections_.contains(connection.fd);
  }

  void set_events(Connection& connection, std::uint32_t events) {
    if (connection.events == events) return;
    connection.events = events;
    loop_.change(connection.fd, events);
  }

  // ---- going down
  void close(Connection& connection, const std::string& reason) {
    const auto found = connections_.find(connection.fd);
    if (found == connections_.end() || found->second.get() != &connection) return;
    loop_.unwatch(connection.fd);
    connection.channel->shutdown();
    ::close(connection.fd);
    const bool was_up = connection.phase == Phase::up;
    if (!was_up) --unknown_;
    dead_.push_back(std::move(found->second));  // its caller may still look at it
    connections_.erase(found);
    const std::string name = connection.name;
    const auto peer = peers_.find(name);
    if (peer == peers_.end()) return;
    if (connection.dialled) peer->second.dialling = false;
    // Not at once: what is up here and refused there would be dialled at the fastest pace for ever.
    if (was_up && EventLoop::now() - connection.up_since >= dial_longest_us) peer->second.wait = dial_first_us;
    if (was_up && peer->second.connection == &connection) {
      peer->second.connection = nullptr;
      ++counters_.lost;
      events_.peer_down(name, reason);
    }
    if (started_ && dials(name) && peer->second.connection == nullptr && connection.dialled) again(name, reason);
  }

  void tick() {
    const MonoMicros now = EventLoop::now();
    std::vector<std::pair<int, std::string>> late;
    for (const auto& [fd, connection] : connections_) {
      if (connection->phase != Phase::up && now >= connection->deadline) late.emplace_back(fd, "no handshake within " + std::to_string(options_.handshake_us / 1000) + " ms");
      else if (connection->phase == Phase::up && now - peers_.at(connection->name).heard > options_.silence_us) late.emplace_back(fd, "nothing was heard from it for " + std::to_string(options_.silence_us / 1000) + " ms");
    }
    for (const auto& [fd, why] : late) {
      if (const auto found = connections_.find(fd); found != connections_.end()) close(*found->second, why);
    }
    ticker_ = loop_.at(now + std::min<MonoMicros>(options_.silence_us / 4, 250'000), [this] { tick(); });
  }

  EventLoop& loop_;
  PeerNetOptions options_;
  PeerEvents& events_;
  std::string buffer_;
  int listen_ = -1;
  std::uint16_t port_ = 0;
  std::uint64_t ticker_ = 0;
  bool started_ = false;
  std::map<std::string, Peer> peers_;
  std::map<int, std::unique_ptr<Connection>> connections_;
  std::vector<std::unique_ptr<Connection>> dead_;   // freed at the end of the round
  std::vector<int> to_flush_;
  std::size_t unknown_ = 0;
  std::map<std::pair<std::string, std::string>, Refusal> refusals_;   // by peer and reason
  PeerCounters counters_;
};

}  // namespace

bool may_speak_for(const std::string& node, const std::string& common_name, const std::vector<std::string>& names) {
  return common_name == node || std::ranges::find(names, node) != names.end();
}

Result<std::unique_ptr<PeerNet>> PeerNet::open(EventLoop& loop, PeerNetOptions options, PeerEvents& events) {
  auto net = std::make_unique<Net>(loop, std::move(options), events);
  if (auto listening = net->listen(); !listening) return tl::unexpected(listening.error());
  return net;
}

}  // namespace zaris::peer
