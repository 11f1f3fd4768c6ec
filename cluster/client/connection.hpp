// One connection to one node: TCP or TLS, Hello, pipelined requests, answers by correlation id. No retry and no routing:
// when it is gone it says so once and stays gone. Clients and followers are built on it.
//
//   create ──▶ connecting ──▶ handshake (TLS, Hello) ──▶ up ──▶ down       any failure leads to down; down is terminal
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/base/result.hpp"
#include "cluster/client/loop.hpp"
#include "cluster/protocol/admin_messages.hpp"
#include "cluster/protocol/frame.hpp"

namespace zaris::client {

struct TlsOptions {
  bool on = false;
  std::string ca_file;       // empty: the system's
  std::string cert_file, key_file;
  std::string server_name;   // what the certificate must name; empty: the host that was dialled
};

struct ConnectionOptions {
  std::string host;
  std::uint16_t port = 0;
  TlsOptions tls;
  // ---- Hello
  std::optional<ClusterId> cluster_expected;
  std::string store;
  std::string token;
  std::string program = "zaris-client";
  protocol::PeerRole role = protocol::PeerRole::client;
  Generation generation_seen;
  // ---- time
  std::chrono::milliseconds connect_timeout{5000};   // resolve, connect, TLS and Hello together
  std::chrono::milliseconds silence{4000};           // asked and not a byte for so long: it is gone (silence.hpp); 0: never
};

// Views into the read buffer: valid only during the call.
struct Answer {
  Status status = Status::ok;
  std::string_view body;
};

// Error codes that a Connection gives:
//   unreachable        no connection came about, or it went before this request was handed to the kernel: not executed
//   connection_lost    it went after that, or says nothing any more: the outcome is unknown
//   timed_out          no answer in time: the outcome is unknown (the connection stays up)
//   tls_failed         handshake or certificate
//   target_changed, unauthorized, version_unsupported     the peer's answer to Hello
//   protocol_malformed the peer does not speak this protocol
using AnswerHandler = std::function<void(Result<Answer>)>;

// Bytes that are sent right behind a frame's own, from where they lie, and what keeps them there until they are sent.
struct Behind {
  std::string_view bytes[2];
  std::shared_ptr<const void> hold;
};

class Connection {
 public:
  struct Events {
    std::function<void(const protocol::Welcome&)> on_up;
    std::function<void(const Error&)> on_down;             // once, last of all callbacks; not after close()
    std::function<void(const protocol::MapAnswer&)> on_map;  // pushed by the server
  };

  // Starts at once. Callbacks come on the loop's thread.
  [[nodiscard]] static std::shared_ptr<Connection> open(std::shared_ptr<Loop> loop, ConnectionOptions options, Events events);
  virtual ~Connection() = default;

  // Appends the frame that `encode(out, correlation)` writes and calls `handler` exactly once, on the loop's thread.
  // Requests leave in the order of these calls; all that were made while a write was under way leave with the next one.
  // Before the connection is up they wait for it. Any thread.
  using Encoder = std::function<void(std::string& out, std::uint32_t correlation)>;
  virtual void send(const Encoder& encode, std::chrono::milliseconds timeout, AnswerHandler handler, Behind behind = {}) = 0;

  // Ends it without on_down; what is outstanding fails (connection_lost or unreachable). Any thread.
  virtual void close() = 0;

  [[nodiscard]] virtual bool up() const = 0;
  [[nodiscard]] virtual bool down() const = 0;
  [[nodiscard]] virtual std::size_t unsent_bytes() const = 0;   // queued here, not yet handed to the kernel
  [[nodiscard]] virtual std::size_t outstanding() const = 0;    // requests without an answer
};

}  // namespace zaris::client
