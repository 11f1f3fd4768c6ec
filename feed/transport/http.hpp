// HTTP/1.1 heads, as the feed's port needs them: Beast's parser behind functions over bytes. No I/O.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/base/result.hpp"

namespace zaris::feed::http {

inline constexpr std::size_t head_bytes_max = 16u << 10;

struct Request {
  std::string method, path;                                   // path decoded, without the query
  std::vector<std::pair<std::string, std::string>> query;     // decoded, in order
  bool keep_alive = true;
  std::string accept;
  std::optional<std::string> websocket_key;                   // a well-formed upgrade to WebSocket version 13
  bool wants_upgrade = false;                                 // asked for one, well-formed or not
};
// Looks for one request head (GET without a body) at the front of `bytes` and removes it. Empty: more bytes are needed.
// Errors: http_malformed, http_head_too_large.
[[nodiscard]] Result<std::optional<Request>> take_request(std::string& bytes);

struct Response {
  std::uint16_t status = 0;
  std::string reason;
  std::string websocket_accept;                               // of a 101
  std::string body;
};
// The client's side: a whole response with its body (Content-Length or chunked), at most `body_max`. A 101 ends with its
// head; what follows stays in `bytes`. Errors as above, and http_body_too_large.
[[nodiscard]] Result<std::optional<Response>> take_response(std::string& bytes, std::size_t body_max);

// A whole response; keep_alive false adds "Connection: close".
[[nodiscard]] std::string respond(std::uint16_t status, std::string_view content_type, std::string_view body, bool keep_alive);
// Head of a chunked response, one chunk, the last chunk.
[[nodiscard]] std::string respond_chunked(std::string_view content_type);
// A chunk written in place: room in front, the content behind it, then this puts the header and the line end; returns where it starts.
inline constexpr std::size_t chunk_header_room = 10;   // eight hex digits and a line end
[[nodiscard]] std::size_t put_chunk_header(std::string& out);
inline constexpr std::string_view ndjson = "application/x-ndjson";
[[nodiscard]] std::string chunk(std::string_view bytes);
inline constexpr std::string_view last_chunk = "0\r\n\r\n";
[[nodiscard]] std::string switch_to_websocket(std::string_view key);

[[nodiscard]] std::string upgrade_request(std::string_view host, std::uint16_t port, std::string_view path, std::string_view key);
[[nodiscard]] std::string get_request(std::string_view host, std::uint16_t port, std::string_view target, bool keep_alive);
[[nodiscard]] std::string percent_encode(std::string_view bytes);

}  // namespace zaris::feed::http
