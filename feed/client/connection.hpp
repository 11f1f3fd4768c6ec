// The follower's wire: dials a feed, proves who is there, upgrades, then carries whole messages both ways. Decides nothing:
// reconnecting, credit and liveness are its user's. Design page feed, Transport.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "cluster/base/result.hpp"
#include "feed/client/endpoint.hpp"
#include "feed/transport/loop.hpp"

namespace zaris::feed {

// Everything here is called on the loop's thread (Loop::post brings a caller there), and every handler runs there.
class FeedConnection {
 public:
  struct Handlers {
    std::function<void()> on_open;                                               // upgraded; send Hello
    std::function<void(std::shared_ptr<const std::string>)> on_message;          // one whole message
    std::function<void()> on_part;                                               // more of a message that is not whole yet (optional)
    // Once, and nothing after it; not after close(). Codes: feed_dns_failed, feed_connect_failed, feed_connect_timeout,
    // feed_handshake_timeout, tls_* (unknown_ca, name_mismatch, no_client_cert, cert_expired, client_cert_refused, not_tls, …),
    // feed_refused or the code that the gateway's refusal carries, peer_closed, connection_broken, websocket_*.
    std::function<void(const Error&)> on_closed;
    // Messages given to send() have all gone to the kernel (optional).
    std::function<void()> on_sent;
  };

  [[nodiscard]] static std::unique_ptr<FeedConnection> open(Loop& loop, FeedEndpoint endpoint, Handlers handlers);
  virtual ~FeedConnection() = default;                    // as close()

  // Queues one message. Before on_open and after on_closed it is dropped.
  virtual void send(std::string message) = 0;
  [[nodiscard]] virtual std::size_t bytes_waiting() const = 0;
  // The address that was connected to; empty: none yet.
  [[nodiscard]] virtual const std::string& peer_address() const = 0;
  // Says goodbye and lets go; what is still on its way out gets half a second. No handler is called any more.
  virtual void close() = 0;
};

}  // namespace zaris::feed
