#include "cluster/client/url.hpp"

#include <charconv>
#include <fstream>

namespace zaris::client {
namespace {

constexpr const char* shape = "write zaris://host:7861/store, or zariss://host:7863/store?ca=ca.pem for TLS";

Result<std::string> percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    unsigned value = 0;
    const char* from = text.data() + i + 1;
    if (i + 2 >= text.size() || std::from_chars(from, from + 2, value, 16).ptr != from + 2)
      return failure("url_invalid", "'%' is not followed by two hex digits in " + printable(text), "write %25 for a percent sign");
    out += static_cast<char>(value);
    i += 2;
  }
  return out;
}

Result<Seed> parse_seed(std::string_view text, std::uint16_t port) {
  Seed seed;
  std::string_view rest;
  if (!text.empty() && text[0] == '[') {
    const auto close = text.find(']');
    if (close == std::string_view::npos) return failure("url_invalid", "no ] in " + printable(text), "write [::1]:7861");
    seed.host = text.substr(1, close - 1);
    rest = text.substr(close + 1);
  } else {
    const auto colon = text.find(':');
    seed.host = text.substr(0, colon);
    if (colon != std::string_view::npos) rest = text.substr(colon);
  }
  if (seed.host.empty()) return failure("url_invalid", "an empty host in the connection string", shape);
  seed.port = port;
  if (!rest.empty()) {
    rest.remove_prefix(rest[0] == ':' ? 1 : 0);
    unsigned value = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    if (error != std::errc{} || end != rest.data() + rest.size() || value == 0 || value > 65'535)
      return failure("url_invalid", "'" + printable(rest) + "' is no port", "a number from 1 to 65535");
    seed.port = static_cast<std::uint16_t>(value);
  }
  return seed;
}

Result<std::string> read_token(const std::string& path) {
  std::ifstream in(path);
  std::string token;
  if (!in || !std::getline(in, token) || token.empty())
    return failure("file_unreadable", "cannot read a token from " + path, "the token is the first line of that file");
  if (token.size() > 4096) return failure("file_unreadable", "the first line of " + path + " is no token: over 4096 bytes", {});
  return token;
}

Result<void> set_option(ClientOptions& out, const std::string& name, const std::string& value) {
  if (name == "ca") {
    out.tls.ca_file = value;
  } else if (name == "cert") {
    out.tls.cert_file = value;
  } else if (name == "key") {
    out.tls.key_file = value;
  } else if (name == "server_name") {
    out.tls.server_name = value;
  } else if (name == "token_file") {
    auto token = read_token(value);
    if (!token) return tl::unexpected(token.error());
    out.token = std::move(*token);
  } else if (name == "timeout" || name == "connect_timeout") {
    const auto duration = parse_duration(value);
    if (!duration || duration->count() == 0) return failure("url_invalid", name + "=" + value + " is no time", "write 500ms, 10s or 2m");
    (name == "timeout" ? out.timeout : out.connect_timeout) = *duration;
  } else if (name == "retry_unknown") {
    if (value != "0" && value != "1") return failure("url_invalid", "retry_unknown=" + value, "0 or 1");
    out.retry_unknown = value == "1";
  } else if (name == "cluster_id") {
    std::uint64_t id = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), id, 16);
    if (value.size() != 16 || error != std::errc{} || end != value.data() + 16)
      return failure("url_invalid", "cluster_id=" + printable(value) + " is no cluster id", "16 hex digits, as zaris status shows them");
    out.cluster_expected = ClusterId{id};
  } else {
    return failure("url_invalid", "unknown option '" + name + "' in the connection string",
                   "known: ca, cert, key, server_name, token_file, timeout, connect_timeout, retry_unknown, cluster_id");
  }
  return {};
}

}  // namespace

Result<std::chrono::milliseconds> parse_duration(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit = error == std::errc{} ? text.substr(static_cast<std::size_t>(end - text.data())) : "?";
  const double ms = unit == "ms"                  ? 1
                    : unit.empty() || unit == "s" ? 1e3
                    : unit == "m"                 ? 60e3
                    : unit == "h"                 ? 3600e3
                    : unit == "d"                 ? 86'400e3
                                                  : 0;
  if (ms == 0 || number < 0 || !(number * ms < 1e15))
    return failure("duration_invalid", "'" + printable(text) + "' is no length of time", "write 500ms, 10s, 2m, 1h or 3d");
  return std::chrono::milliseconds(static_cast<std::int64_t>(number * ms));
}

Result<ClientOptions> parse_url(std::string_view url) {
  ClientOptions out;
  if (url.starts_with("zariss://")) {
    out.tls.on = true;
    url.remove_prefix(9);
  } else if (url.starts_with("zaris://")) {
    url.remove_prefix(8);
  } else {
    return failure("url_invalid", "'" + printable(url) + "' does not begin with zaris:// or zariss://", shape);
  }
  std::string_view options;
  if (const auto question = url.find('?'); question != std::string_view::npos) {
    options = url.substr(question + 1);
    url = url.substr(0, question);
  }
  std::string_view store;
  if (const auto slash = url.find('/'); slash != std::string_view::npos) {
    store = url.substr(slash + 1);
    url = url.substr(0, slash);
  }
  if (url.find('|') != std::string_view::npos)
    return failure("url_invalid", "two regions in one connection string are not supported yet", "name one region");
  if (url.find('@') != std::string_view::npos)
    return failure("url_invalid", "a connection string carries no user or password", "use cert= and key=, or token_file=");
  while (true) {
    const auto comma = url.find(',');
    auto seed = parse_seed(url.substr(0, comma), out.tls.on ? default_tls_port : default_port);
    if (!seed) return tl::unexpected(seed.error());
    out.seeds.push_back(std::move(*seed));
    if (comma == std::string_view::npos) break;
    url.remove_prefix(comma + 1);
  }
  auto decoded = percent_decoded(store);
  if (!decoded) return tl::unexpected(decoded.error());
  if (decoded->find('/') != std::string::npos) return failure("url_invalid", "a store's name has no '/': " + printable(*decoded), shape);
  out.store = std::move(*decoded);
  while (!options.empty()) {
    const auto ampersand = options.find('&');
    const std::string_view option = options.substr(0, ampersand);
    options.remove_prefix(ampersand == std::string_view::npos ? options.size() : ampersand + 1);
    if (option.empty()) continue;
    const auto equals = option.find('=');
    auto value = percent_decoded(equals == std::string_view::npos ? std::string_view{} : option.substr(equals + 1));
    if (!value) return tl::unexpected(value.error());
    if (auto set = set_option(out, std::string(option.substr(0, equals)), *value); !set) return tl::unexpected(set.error());
  }
  return out;
}

}  // namespace zaris::client
