// The feed's front door: one port with TLS, on it the feed (WebSocket at /feed/v1), GET /v1/changes, /v1/segments, /healthz
// and /readyz. Decides nothing about the feed itself: each session is a feed::SourceSession on a Store. Design page feed
// (Transport, rules 3, 4, 8, 10), page security. `zarisd` hosts one in its process.
//
// start and stop are called by one thread; snapshot, sessions, drop, drain by any. Events go to cluster/logging; at level
// debug every Subscribe and Ack is one (`feed_subscribe`, `feed_ack`).
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cluster/base/result.hpp"
#include "cluster/store/store.hpp"
#include "cluster/tls/context.hpp"
#include "feed/gateway/access.hpp"
#include "feed/gateway/counters.hpp"
#include "feed/session/source.hpp"

namespace zaris::feed {

struct GatewayOptions {
  std::string address = "127.0.0.1:7871";          // host:port; port 0: any (Gateway::port)
  std::vector<AccessRule> access;                  // empty: whoever the TLS context lets in may ask for everything
  SourceOptions session;                           // batch and chunk sizes, intervals, the cluster's name
  std::uint32_t threads = 0;                       // 0: one for each two cores, 1 to 4
  std::uint32_t sessions_max = 1000;               // feed and /v1/changes together
  std::uint32_t sessions_per_address = 0;          // 0: no bound of its own
  std::uint32_t handshakes_max = 1024;             // connections that have not asked for anything yet; the oldest goes first
  std::chrono::microseconds handshake_timeout{5'000'000};   // TLS and the request; then the same again for Hello
  std::chrono::microseconds write_timeout{15'000'000};      // a peer that takes nothing for so long
  std::uint64_t message_bytes_max = 4u << 20;      // of one message from a follower
};

struct GatewayHooks {
  std::function<bool()> confirm;                   // may this node serve now? empty: always
  // Of one node of several, whose readers are gateways; /v1/changes is theirs to answer. Tell Gateway::authority_changed of changes.
  SegmentAuthority authority;
  // Named checks for /readyz: empty text means fine. May be empty.
  std::function<std::vector<std::pair<std::string, std::string>>()> ready_checks;
};

// One open session, for people and tests.
struct SessionInfo {
  std::string principal, follower, link, address;
  ScopeId scope;
  std::string transport;                           // websocket, ndjson
  std::uint64_t records_sent = 0, bytes_sent = 0, credit_left = 0;
  double age_seconds = 0, silent_seconds = 0;      // since it was opened; since a byte came
};

class Origin;

class Gateway {
 public:
  // Listens at once. Store and context outlive the gateway; `context` null: plain text, for `insecure: true` without
  // certificates. A context that does not verify clients makes every principal "anonymous".
  // Errors: listen_address_invalid, listen_failed, feed_access_invalid.
  [[nodiscard]] static Result<std::unique_ptr<Gateway>> start(GatewayOptions options, store::Store& store,
                                                              std::shared_ptr<tls::Context> context, GatewayHooks hooks);
  // The same, of an origin of another kind; of the hooks only ready_checks counts.
  [[nodiscard]] static Result<std::unique_ptr<Gateway>> start(GatewayOptions options, std::unique_ptr<Origin> origin,
                                                              std::shared_ptr<tls::Context> context, GatewayHooks hooks);
  virtual ~Gateway() = default;                    // as stop(0); while others may still ask it something, only stop() will do

  [[nodiscard]] virtual std::uint16_t port() const = 0;
  // No new sessions (503 shutting_down, /readyz says no); those that are open get GoAway and go on until stop.
  virtual void drain(std::chrono::milliseconds within) = 0;
  // Ends every session with shutting_down, gives what is queued `grace` to go out, closes, joins.
  virtual void stop(std::chrono::milliseconds grace) = 0;
  // Ends the sessions of one link of one principal (an operator dropped its pin); returns how many. Empty principal: any.
  virtual std::size_t drop(const std::string& principal, const std::string& link, EndReason reason, const std::string& text) = 0;
  // What the hooks' `authority` answers has changed; wakes the feed threads. Any thread, cheap; nothing happens after stop().
  virtual void authority_changed() = 0;
  // All or nothing; sessions whose principal lost what it was granted end with scope_revoked. Error: feed_access_invalid.
  virtual Result<void> set_access(std::vector<AccessRule> access) = 0;

  [[nodiscard]] virtual GatewaySnapshot snapshot() const = 0;
  [[nodiscard]] virtual bool anybody_reads() const = 0;   // some session is open; cheap
  [[nodiscard]] virtual std::vector<SessionInfo> sessions() = 0;   // waits for each feed thread once; none after stop()
};

}  // namespace zaris::feed
