// Where a feed is and how it is dialled.
#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "cluster/base/result.hpp"
#include "cluster/tls/context.hpp"

namespace zaris::feed {

inline constexpr std::uint16_t default_feed_port = 7871;

struct FeedEndpoint {
  std::string host;                                       // name or address; resolved anew at every attempt
  std::uint16_t port = default_feed_port;
  std::shared_ptr<const tls::Context> tls;                // null: plain text (`zaris://`), only where the source is insecure
  std::chrono::microseconds connect_deadline{5'000'000};
  std::chrono::microseconds handshake_deadline{5'000'000};  // TLS and the upgrade, or a whole plain request
  std::uint64_t message_bytes_max = 8u << 20;             // one message from the gateway: a chunk of one largest record
  std::string after;                                      // of several addresses of the name, the one behind this is tried first
};

struct FeedUrl { std::string host; std::uint16_t port = default_feed_port; bool tls = true; };
// `zariss://host[:port]` (TLS), `zaris://host[:port]`; IPv6 addresses in brackets. Error: feed_url_invalid.
[[nodiscard]] Result<FeedUrl> parse_feed_url(std::string_view url);

}  // namespace zaris::feed
