// A socket with TLS on it, dialled under two deadlines: what FeedConnection and HttpStream have in common.
// Internal to feed/client.
#pragma once
#include <deque>
#include <memory>
#include <string>
#include <string_view>

#include "cluster/tls/channel.hpp"
#include "feed/client/endpoint.hpp"
#include "feed/transport/loop.hpp"

namespace zaris::feed {

// Owned by a shared_ptr: waits hold one, so that a handler may let go of it at any time.
class Dialled : public std::enable_shared_from_this<Dialled> {
 public:
  Dialled(Loop& loop, FeedEndpoint endpoint) : loop_(loop), endpoint_(std::move(endpoint)), deadline_(loop.timer()) {}
  virtual ~Dialled() = default;

  void dial();
  // Queues bytes behind what waits.
  void send_bytes(std::string bytes);
  [[nodiscard]] std::size_t bytes_waiting() const { return waiting_; }
  [[nodiscard]] const std::string& peer_address() const { return peer_; }
  // No callback any more; sends `farewell` and what waits, for half a second at most.
  void let_go(std::string farewell);

 protected:
  virtual void on_ready() = 0;                            // TLS is up
  // Read until want_read (wait) or until enough for now (again: decrypted bytes may be left that the kernel does not know of).
  enum class Next : unsigned char { wait, again, ended };
  virtual Next on_readable() = 0;
  virtual void on_ended(const Error& error) = 0;          // once
  virtual void on_drained() {}

  void end(Error error);                                 // by value: it often lies in the channel, which goes
  void settled() { deadline_->cancel(); }                 // what the handshake deadline was for is done
  [[nodiscard]] bool over() const { return over_; }
  [[nodiscard]] tls::Io read(char* to, std::size_t room, std::size_t& got) { return channel_->read(to, room, got); }
  [[nodiscard]] bool drained() const { return !channel_ || channel_->drained(); }
  [[nodiscard]] const Error& channel_error() const { return channel_->error(); }
  [[nodiscard]] Loop& loop() { return loop_; }
  [[nodiscard]] const FeedEndpoint& endpoint() const { return endpoint_; }
  [[nodiscard]] std::string place() const;

 private:
  void handshake();
  void wait_readable();
  void readable();
  void pump();

  Loop& loop_;
  const FeedEndpoint endpoint_;
  std::string peer_;
  std::shared_ptr<void> dial_;
  std::unique_ptr<Socket> socket_;
  std::unique_ptr<tls::Channel> channel_;                 // goes before the socket
  std::unique_ptr<Timer> deadline_;
  std::deque<std::string> queue_;
  std::size_t front_done_ = 0, waiting_ = 0;
  bool ready_ = false, over_ = false, writing_ = false, leaving_ = false;
};

}  // namespace zaris::feed
