// A gateway on a real port of 127.0.0.1 over a real store, and clients of every kind for it. All waiting is on conditions.
#pragma once
#include <gtest/gtest.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cluster/tls/channel.hpp"
#include "feed/client/blocking.hpp"
#include "feed/client/connection.hpp"
#include "feed/client/loop_thread.hpp"
#include "feed/gateway/gateway.hpp"
#include "feed/message/message.hpp"

namespace zaris::feed {

// True as soon as it holds; false after half a minute.
[[nodiscard]] bool eventually(const std::function<bool()>& condition);

struct Region {
  explicit Region(GatewayOptions options = {}, bool require_client = true);
  ~Region();
  void put(const std::string& key, const std::string& value);
  [[nodiscard]] FeedEndpoint endpoint(const std::string& client = "follower", const std::string& host = "127.0.0.1") const;
  [[nodiscard]] std::string file(const std::string& name) const { return directory + "/" + name; }
  [[nodiscard]] std::shared_ptr<const tls::Context> client_context(const std::string& client, const std::string& ca = "ca.crt") const;
  [[nodiscard]] GatewaySnapshot snapshot() const { return gateway->snapshot(); }
  // A connection that asks for a session gets one: Hello answered by Welcome.
  [[nodiscard]] bool serves() const;

  std::string directory;
  std::unique_ptr<store::Store> store;
  std::unique_ptr<store::Committer> committer;
  std::shared_ptr<tls::Context> context;
  std::unique_ptr<Gateway> gateway;
};

[[nodiscard]] Hello hello_of(const std::string& link = "ab", const Scope& scope = {});

// A follower's wire on a thread of its own; collects what comes.
class Follower {
 public:
  explicit Follower(FeedEndpoint endpoint, std::optional<Hello> hello = hello_of());
  ~Follower();
  void send(const FollowerMessage& message);
  void send_raw(std::string bytes);
  void close();
  // The connection's end; empty within half a minute: a failure.
  [[nodiscard]] Error wait_closed();
  [[nodiscard]] bool wait_open();
  // The next message of that kind that has not been waited for; others are skipped.
  template <class T>
  [[nodiscard]] std::optional<T> wait_for();
  [[nodiscard]] std::uint64_t bytes() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<const std::string>> messages_;
  std::size_t looked_at_ = 0;
  std::uint64_t bytes_ = 0;
  bool open_ = false;
  std::optional<Error> closed_;
  LoopThread thread_;
  std::unique_ptr<FeedConnection> connection_;
  friend std::optional<GatewayMessage> next_message(Follower& f);
};
[[nodiscard]] std::optional<GatewayMessage> next_message(Follower& f);

template <class T>
std::optional<T> Follower::wait_for() {
  while (auto message = next_message(*this)) {
    if (auto* wanted = std::get_if<T>(&*message)) return std::move(*wanted);
  }
  return std::nullopt;
}

// A socket with TLS on it (or none), used blockingly, for saying what no client would.
class RawPeer {
 public:
  RawPeer(std::uint16_t port, std::shared_ptr<const tls::Context> context);   // context null: no TLS
  ~RawPeer();
  bool handshake();
  bool upgrade();                                       // and reads the 101
  bool write(std::string_view bytes);                   // false: the peer is gone
  // Everything until the peer closes (half a minute at most), at most `most` bytes.
  std::string read_to_end(std::size_t most = 1u << 20);
  [[nodiscard]] int socket() const { return socket_; }

 private:
  bool wait(short events) const;
  std::shared_ptr<const tls::Context> context_;
  int socket_ = -1;
  std::unique_ptr<tls::Channel> channel_;
};

}  // namespace zaris::feed
