#include "feed/cli/exit_code.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace zaris::feed::cli {
namespace {

struct Row { std::string_view code; int exit; };

constexpr std::array<Row, 21> rows{{
    {"usage", exit_usage},
    {"feed_url_invalid", exit_usage},
    {"changes_invalid", exit_usage},
    {"tls_ca_unreadable", exit_configuration},
    {"tls_ca_invalid", exit_configuration},
    {"tls_cert_unreadable", exit_configuration},
    {"tls_cert_invalid", exit_configuration},
    {"tls_key_unreadable", exit_configuration},
    {"tls_key_invalid", exit_configuration},
    {"tls_key_mismatch", exit_configuration},
    {"tls_options_invalid", exit_configuration},
    {"feed_dns_failed", exit_unreachable},
    {"feed_connect_failed", exit_unreachable},
    {"feed_connect_timeout", exit_unreachable},
    {"feed_handshake_timeout", exit_unreachable},
    {"peer_closed", exit_unreachable},
    {"connection_broken", exit_unreachable},
    {"end_of_stream", exit_unreachable},
    {"unauthorised", exit_not_allowed},
    {"feed_subject_unknown", exit_not_allowed},
    {"position_gone", exit_position_gone},
}};

}  // namespace

int exit_code_of(const Error& error) {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const Row& row) { return row.code == error.code; });
  if (found != rows.end()) return found->exit;
  return error.code.starts_with("tls_") ? exit_authentication : exit_refused;
}

}  // namespace zaris::feed::cli
