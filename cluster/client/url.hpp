// Connection strings: zaris://host[:7861][,host…]/store[?option=value&…], zariss:// for TLS (port 7863).
//   ca, cert, key      files (PEM)            server_name   what the certificate must name, instead of the host dialled
//   token_file         bearer token, first line of a file
//   timeout            of one operation, retries included (10s)
//   connect_timeout    (5s)
//   retry_unknown      1: a write whose outcome is unknown is sent again (it may then be done twice)
//   cluster_id         16 hex digits: refuse any other cluster
// An option or a store may be percent-encoded. Secrets are not taken in the text itself.
#pragma once
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/base/result.hpp"
#include "cluster/client/connection.hpp"

namespace zaris::client {

struct Seed {
  std::string host;
  std::uint16_t port = 0;
  friend bool operator==(const Seed&, const Seed&) = default;
};

struct ClientOptions {
  std::vector<Seed> seeds;
  std::string store;                                 // empty: whichever the cluster has
  TlsOptions tls;
  std::string token;                                 // read from token_file
  std::optional<ClusterId> cluster_expected;
  std::chrono::milliseconds timeout{10'000};
  std::chrono::milliseconds connect_timeout{5'000};
  std::chrono::milliseconds silence{4'000};          // a node that is asked and says nothing for so long is gone; 0: never
  bool retry_unknown = false;
  bool retry_undurable = false;                      // unconditional puts of a bulk that end DurabilityNotMet are sent again; not in the URL
  std::string program = "zaris-client";
  protocol::PeerRole role = protocol::PeerRole::client;
};

// Errors: `url_invalid` (what is wrong and what would be right), `file_unreadable` (token_file).
[[nodiscard]] Result<ClientOptions> parse_url(std::string_view url);

// The port of the client protocol without and with TLS.
inline constexpr std::uint16_t default_port = 7861;
inline constexpr std::uint16_t default_tls_port = 7863;

// "500ms", "10s", "2m", "1h", "3d"; a bare number is seconds. Errors: `duration_invalid`.
[[nodiscard]] Result<std::chrono::milliseconds> parse_duration(std::string_view text);

}  // namespace zaris::client
