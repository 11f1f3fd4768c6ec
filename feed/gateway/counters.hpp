// What the gateway counts, for zaris_feed_* (docs/reference/metrics). Plain numbers; the process that hosts the gateway
// turns them into series.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "feed/message/message.hpp"

namespace zaris::feed {

// zaris_feed_subscriptions_refused_total{reason}
enum class RefusedReason : std::uint8_t { limit, draining, unauthorized, bad_request };
inline constexpr std::array<std::string_view, 4> refused_reason_names{"limit", "draining", "unauthorized", "bad_request"};
// zaris_feed_disconnects_total{reason}
enum class DisconnectReason : std::uint8_t { client, slow_consumer, idle, drain, dropped, protocol_error, error };
inline constexpr std::array<std::string_view, 7> disconnect_reason_names{"client", "slow_consumer", "idle", "drain", "dropped", "protocol_error", "error"};
// zaris_feed_handshakes_failed_total{reason}
enum class HandshakeFailure : std::uint8_t { timeout, no_client_cert, unknown_ca, not_tls, crowded_out, other };
inline constexpr std::array<std::string_view, 6> handshake_failure_names{"timeout", "no_client_cert", "unknown_ca", "not_tls", "crowded_out", "other"};
enum class Transport : std::uint8_t { websocket, ndjson };
inline constexpr std::array<std::string_view, 2> transport_names{"websocket", "ndjson"};

struct GatewaySnapshot {
  struct PerTransport {
    std::uint64_t open = 0;                       // zaris_feed_subscriptions
    std::uint64_t opened_total = 0;               // zaris_feed_subscriptions_total
    std::uint64_t records_sent_total = 0;         // zaris_feed_events_sent_total
    std::uint64_t bytes_sent_total = 0;           // zaris_feed_sent_bytes_total: framing included, before TLS
    std::uint64_t progresses_sent_total = 0;      // zaris_feed_bookmarks_sent_total
    std::array<std::uint64_t, disconnect_reason_names.size()> disconnects_total{};
  };
  std::array<PerTransport, transport_names.size()> transports{};
  std::array<std::uint64_t, refused_reason_names.size()> refused_total{};
  std::array<std::uint64_t, handshake_failure_names.size()> handshakes_failed_total{};
  std::uint64_t connections_open = 0;             // of any kind
  std::uint64_t handshakes_open = 0;              // connections that have not asked for anything yet
  std::uint64_t accept_pauses_total = 0;          // out of descriptors or memory
  std::uint64_t go_aways_total = 0;               // zaris_feed_go_aways_total: sessions told that this process leaves
  std::array<std::uint64_t, end_reasons> stream_ends_total{};   // zaris_feed_stream_ends_total, by EndReason
  std::uint64_t records_filtered_total = 0;       // zaris_feed_events_filtered_total
  std::uint64_t buffered_bytes = 0;               // zaris_feed_buffered_bytes: waiting for peers
  std::uint64_t buffered_bytes_max = 0;           // zaris_feed_buffer_limit_bytes
  bool draining = false;
};

}  // namespace zaris::feed
