#include "feed/transport/http.hpp"

#include <fmt/format.h>

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/rfc7230.hpp>
#include <boost/beast/http/status.hpp>
#include <boost/beast/http/string_body.hpp>
#include <utility>

#include "feed/transport/websocket.hpp"

namespace zaris::feed::http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::optional<std::string> percent_decode(std::string_view text, bool plus_is_space) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%') {
      const int high = i + 2 < text.size() ? hex_digit(text[i + 1]) : -1, low = i + 2 < text.size() ? hex_digit(text[i + 2]) : -1;
      if (high < 0 || low < 0) return std::nullopt;
      out.push_back(static_cast<char>(high * 16 + low));
      i += 2;
    } else {
      out.push_back(text[i] == '+' && plus_is_space ? ' ' : text[i]);
    }
  }
  return out;
}

bool split_target(std::string_view target, Request& out) {
  const auto mark = target.find('?');
  auto path = percent_decode(target.substr(0, mark), false);
  if (!path) return false;
  out.path = std::move(*path);
  std::string_view rest = mark == std::string_view::npos ? std::string_view{} : target.substr(mark + 1);
  while (!rest.empty()) {
    const auto end = rest.find('&');
    const std::string_view pair = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end + 1);
    if (pair.empty()) continue;
    const auto equals = pair.find('=');
    auto name = percent_decode(pair.substr(0, equals), true);
    auto value = percent_decode(equals == std::string_view::npos ? std::string_view{} : pair.substr(equals + 1), true);
    if (!name || !value) return false;
    out.query.emplace_back(std::move(*name), std::move(*value));
  }
  return true;
}

bool is_websocket_key(beast::string_view key) {  // base64 of 16 bytes: 22 digits and "=="
  return key.size() == 24 && key.ends_with("==");
}

tl::unexpected<Error> malformed(const beast::error_code& e) {
  if (e == beast::http::error::header_limit) return failure("http_head_too_large", fmt::format("an HTTP head of more than {} bytes", head_bytes_max));
  if (e == beast::http::error::body_limit) return failure("http_body_too_large", "an HTTP body is larger than is expected here");
  return failure("http_malformed", "not HTTP/1.1: " + e.message());
}

}  // namespace

Result<std::optional<Request>> take_request(std::string& bytes) {
  const auto end = bytes.find("\r\n\r\n");
  if (end == std::string::npos && bytes.size() <= head_bytes_max) {
    // What is no HTTP at all is told at once and not after the deadline.
    if (!bytes.empty() && (bytes.front() < 'A' || bytes.front() > 'Z')) return failure("http_malformed", "not HTTP/1.1: no method");
    return std::nullopt;
  }
  if (end == std::string::npos || end + 4 > head_bytes_max) return failure("http_head_too_large", fmt::format("an HTTP head of more than {} bytes", head_bytes_max));
  beast::http::request_parser<beast::http::empty_body> parser;
  parser.header_limit(head_bytes_max);
  parser.eager(false);
  beast::error_code e;
  parser.put(asio::buffer(bytes.data(), end + 4), e);
  if (e) return malformed(e);
  const auto& head = parser.get();
  if (parser.content_length().value_or(0) != 0 || parser.chunked()) return failure("http_malformed", "requests here have no body");
  Request out;
  out.method = std::string(head.method_string());
  if (!split_target({head.target().data(), head.target().size()}, out)) return failure("http_malformed", "the request's target is not well-formed");
  out.keep_alive = head.keep_alive();
  out.accept = std::string(head[beast::http::field::accept]);
  out.wants_upgrade = beast::http::token_list{head[beast::http::field::upgrade]}.exists("websocket");
  if (out.wants_upgrade && beast::http::token_list{head[beast::http::field::connection]}.exists("upgrade") && head[beast::http::field::sec_websocket_version] == "13" &&
      is_websocket_key(head[beast::http::field::sec_websocket_key]) && head.version() == 11) {
    out.websocket_key = std::string(head[beast::http::field::sec_websocket_key]);
  }
  bytes.erase(0, end + 4);
  return out;
}

Result<std::optional<Response>> take_response(std::string& bytes, std::size_t body_max) {
  const auto end = bytes.find("\r\n\r\n");
  if (end == std::string::npos) {
    if (bytes.size() > head_bytes_max) return failure("http_head_too_large", fmt::format("an HTTP head of more than {} bytes", head_bytes_max));
    if (!bytes.empty() && bytes.substr(0, 5) != std::string_view("HTTP/").substr(0, std::min<std::size_t>(5, bytes.size()))) return failure("http_malformed", "the other side does not speak HTTP");
    return std::nullopt;
  }
  if (bytes.size() > head_bytes_max + 2 * body_max + 65536) return failure("http_body_too_large", "an HTTP body is larger than is expected here");
  beast::http::response_parser<beast::http::string_body> parser;
  parser.header_limit(head_bytes_max);
  parser.body_limit(body_max);
  parser.eager(true);
  beast::error_code e;
  // The head first: a 101 ends with it, and what follows is no body.
  parser.eager(false);
  std::size_t used = parser.put(asio::buffer(bytes.data(), end + 4), e);
  if (e) return malformed(e);
  Response out;
  out.status = static_cast<std::uint16_t>(parser.get().result_int());
  out.reason = std::string(parser.get().reason());
  out.websocket_accept = std::string(parser.get()[beast::http::field::sec_websocket_accept]);
  if (out.status != 101) {
    parser.eager(true);
    while (!parser.is_done() && used < bytes.size()) {
      const std::size_t n = parser.put(asio::buffer(bytes.data() + used, bytes.size() - used), e);
      if (e == beast::http::error::need_more) break;
      if (e) return malformed(e);
      if (n == 0) break;
      used += n;
    }
    if (!parser.is_done()) return std::nullopt;
    out.body = std::move(parser.get().body());
  }
  bytes.erase(0, used);
  return out;
}

std::string respond(std::uint16_t status, std::string_view content_type, std::string_view body, bool keep_alive) {
  const auto reason = beast::http::obsolete_reason(static_cast<beast::http::status>(status));
  return fmt::format("HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nCache-Control: no-store\r\n{}\r\n{}", status,
                     std::string_view(reason.data(), reason.size()), content_type, body.size(), keep_alive ? "" : "Connection: close\r\n", body);
}

std::size_t put_chunk_header(std::string& out) {
  const std::string header = fmt::format("{:x}\r\n", out.size() - chunk_header_room);
  const std::size_t at = chunk_header_room - header.size();
  out.replace(at, header.size(), header);
  out += "\r\n";
  return at;
}

std::string respond_chunked(std::string_view content_type) {
  return fmt::format("HTTP/1.1 200 OK\r\nContent-Type: {}\r\nTransfer-Encoding: chunked\r\nCache-Control: no-store\r\nX-Accel-Buffering: no\r\nConnection: close\r\n\r\n", content_type);
}
std::string chunk(std::string_view bytes) { return fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes); }

std::string switch_to_websocket(std::string_view key) {
  return fmt::format("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {}\r\n\r\n", websocket::accept_key(key));
}

namespace {
std::string host_field(std::string_view host, std::uint16_t port) {
  return host.find(':') == std::string_view::npos ? fmt::format("{}:{}", host, port) : fmt::format("[{}]:{}", host, port);
}
}  // namespace

std::string upgrade_request(std::string_view host, std::uint16_t port, std::string_view path, std::string_view key) {
  return fmt::format("GET {} HTTP/1.1\r\nHost: {}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {}\r\n\r\n", path,
                     host_field(host, port), key);
}
std::string get_request(std::string_view host, std::uint16_t port, std::string_view target, bool keep_alive) {
  return fmt::format("GET {} HTTP/1.1\r\nHost: {}\r\n{}\r\n", target, host_field(host, port), keep_alive ? "" : "Connection: close\r\n");
}

std::string percent_encode(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_' || c == '~';
    if (plain) out.push_back(c);
    else out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

}  // namespace zaris::feed::http
