#include "feed/client/endpoint.hpp"

#include <fmt/format.h>

#include <charconv>

namespace zaris::feed {

Result<FeedUrl> parse_feed_url(std::string_view url) {
  const auto wrong = [&] {
    return failure("feed_url_invalid", fmt::format("'{}' is not the address of a feed", printable(url)), "zariss://HOST:PORT, or zaris://HOST:PORT without TLS");
  };
  FeedUrl out;
  std::string_view rest = url;
  if (rest.starts_with("zariss://")) rest.remove_prefix(9);
  else if (rest.starts_with("zaris://")) out.tls = false, rest.remove_prefix(8);
  else return wrong();
  while (rest.ends_with('/')) rest.remove_suffix(1);
  std::string_view port;
  if (rest.starts_with('[')) {
    const auto end = rest.find(']');
    if (end == std::string_view::npos) return wrong();
    out.host = rest.substr(1, end - 1);
    rest.remove_prefix(end + 1);
    if (!rest.empty() && !rest.starts_with(':')) return wrong();
    if (!rest.empty()) port = rest.substr(1);
    if (!rest.empty() && port.empty()) return wrong();
  } else {
    const auto colon = rest.find(':');
    out.host = rest.substr(0, colon);
    if (colon != std::string_view::npos) {
      port = rest.substr(colon + 1);
      if (port.empty()) return wrong();
    }
  }
  if (out.host.empty() || out.host.find_first_of("/@ ?#") != std::string::npos) return wrong();
  if (!port.empty()) {
    const auto parsed = std::from_chars(port.data(), port.data() + port.size(), out.port);
    if (parsed.ec != std::errc{} || parsed.ptr != port.data() + port.size() || out.port == 0) return wrong();
  }
  return out;
}

}  // namespace zaris::feed
