// The connections between the nodes of one region: one for each pair, mutual TLS, frames of the native protocol both ways. The
// node whose name sorts first dials. It comes back by itself; nothing that was sent on a connection that ended is known
// to have arrived. Everything is called on the loop's thread. Design page protocol ("One protocol on the client port and
// between nodes"), page security.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/base/result.hpp"
#include "cluster/peer/event_loop.hpp"
#include "cluster/protocol/region_messages.hpp"
#include "cluster/tls/context.hpp"

namespace zaris::peer {

using protocol::PeerHello;

struct PeerAddress {
  std::string name, host;
  std::uint16_t port = 0;
  friend bool operator==(const PeerAddress&, const PeerAddress&) = default;
};

struct PeerNetOptions {
  std::string host;                          // listen address
  std::uint16_t port = 0;                    // 0: any free one
  std::shared_ptr<tls::Context> server, client;  // both null: plain text (loopback only; the configuration sees to it)
  PeerHello self;
  std::vector<PeerAddress> roster;           // the others (self is skipped)
  std::size_t frame_max = 0;                 // longest frame taken
  MonoMicros silence_us = 5'000'000;         // a peer from which nothing came for so long is given up
  MonoMicros handshake_us = 5'000'000;
  std::size_t connections_max = 64;          // that have not said who they are yet
};

class PeerEvents {
 public:
  virtual ~PeerEvents() = default;
  virtual void peer_up(const std::string& name, const PeerHello& hello) = 0;
  virtual void peer_down(const std::string& name, const std::string& reason) = 0;
  // Views die with the call.
  virtual void peer_frame(const std::string& name, const protocol::Frame& frame) = 0;
  // What was queued for it has left, or nearly.
  virtual void peer_drained(const std::string& name) = 0;
};

struct PeerCounters {
  std::uint64_t accepted = 0, dialled = 0, refused = 0, lost = 0, sent_bytes = 0, received_bytes = 0;
};

// Is a certificate of these names that of the node? Design page security: the common name, or one of the DNS and URI names.
[[nodiscard]] bool may_speak_for(const std::string& node, const std::string& common_name, const std::vector<std::string>& names);

class PeerNet {
 public:
  // Errors: `listen_failed`.
  [[nodiscard]] static Result<std::unique_ptr<PeerNet>> open(EventLoop& loop, PeerNetOptions options, PeerEvents& events);
  virtual ~PeerNet() = default;

  // Takes connections and dials from now on. `cluster` is what both sides must agree on. 0: not known yet; hellos are exchanged, so
  // that each learns what the other belongs to, and no connection comes up. Called again once it is known.
  virtual void start(ClusterId cluster) = 0;
  // What each node that said hello under its own name has said last that it belongs to; 0: it had not joined its region yet.
  [[nodiscard]] virtual std::map<std::string, ClusterId> told() const = 0;
  // Ends every connection; takes none and dials nobody until start() is called again.
  virtual void pause(const std::string& reason) = 0;
  [[nodiscard]] virtual std::uint16_t port() const = 0;
  [[nodiscard]] virtual bool up(const std::string& name) const = 0;
  // Whole frames. False: no connection; they are dropped.
  virtual bool send(const std::string& name, std::string_view frames) = 0;
  [[nodiscard]] virtual std::size_t unsent_bytes(const std::string& name) const = 0;
  // When the last byte came from it; 0: never.
  [[nodiscard]] virtual MonoMicros heard(const std::string& name) const = 0;
  // Ends the connection; it is dialled anew.
  virtual void drop(const std::string& name, const std::string& reason) = 0;
  // Hands what sends have queued to the kernel; called at the end of each round.
  virtual void flush() = 0;
  [[nodiscard]] virtual PeerCounters counters() const = 0;
};

}  // namespace zaris::peer
