#include "cluster/cli/http.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <fmt/format.h>

namespace zaris::cli {

namespace asio = boost::asio;
namespace beast = boost::beast;
using tcp = asio::ip::tcp;

std::string url_encoded(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto u = static_cast<unsigned char>(c);
    if (std::isalnum(u) != 0 || c == '-' || c == '_' || c == '.' || c == '~') {
      out += c;
    } else {
      out += fmt::format("%{:02X}", u);
    }
  }
  return out;
}

namespace {

constexpr std::size_t answer_bytes_max = 64u << 20;

// Resolve, connect, write, read, each starting the next; all under one deadline.
struct Exchange {
  explicit Exchange(asio::io_context& io) : resolver(io), stream(io) {}

  void start(const std::string& host, const std::string& port) {
    resolver.async_resolve(host, port, [this](beast::error_code error, const tcp::resolver::results_type& found) {
      if (error) return fail("cannot resolve", error);
      stream.async_connect(found, [this](beast::error_code failed, const tcp::endpoint&) {
        if (failed) return fail("cannot connect", failed);
        beast::http::async_write(stream, request, [this](beast::error_code unwritten, std::size_t) {
          if (unwritten) return fail("cannot write", unwritten);
          written = true;
          answer.body_limit(answer_bytes_max);
          // The head by itself: Beast 1.74 forgets that a Content-Length is over the limit when some of the body has come with the head.
          beast::http::async_read_header(stream, buffer, answer, [this](beast::error_code headless, std::size_t) {
            if (headless) return fail("no whole answer", headless);
            beast::http::async_read(stream, buffer, answer, [this](beast::error_code unread, std::size_t) {
              if (unread) return fail("no whole answer", unread);
              done = true;
            });
          });
        });
      });
    });
  }
  void fail(const char* step, beast::error_code error) {
    too_large = error == beast::http::error::body_limit;
    failed_with = fmt::format("{}: {}", step, error.message());
  }

  tcp::resolver resolver;
  beast::tcp_stream stream;
  beast::http::request<beast::http::string_body> request;
  beast::flat_buffer buffer;
  beast::http::response_parser<beast::http::string_body> answer;
  bool written = false, done = false, too_large = false;
  std::string failed_with;
};

}  // namespace

Result<HttpAnswer> http(const std::string& method, const std::string& url, const std::string& target, const std::string& body,
                        std::chrono::milliseconds timeout) {
  constexpr std::string_view scheme = "http://";
  if (!url.starts_with(scheme))
    return failure("url_invalid", fmt::format("'{}' is no admin address", printable(url)), "write http://127.0.0.1:7891");
  std::string rest = url.substr(scheme.size());
  while (!rest.empty() && rest.back() == '/') rest.pop_back();
  const auto colon = rest.rfind(':');
  const bool has_port = colon != std::string::npos && rest.find(']', colon) == std::string::npos;
  std::string host = rest.substr(0, has_port ? colon : std::string::npos);
  const std::string port = has_port ? rest.substr(colon + 1) : "80";
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  if (host.empty() || host.find('/') != std::string::npos)
    return failure("url_invalid", fmt::format("'{}' is no admin address", printable(url)), "write http://127.0.0.1:7891");

  asio::io_context io;
  Exchange exchange(io);
  exchange.request.version(11);
  exchange.request.method_string(method);
  exchange.request.target(target);
  exchange.request.set(beast::http::field::host, rest);
  exchange.request.set(beast::http::field::accept, "application/json");
  if (method != "GET") exchange.request.set(beast::http::field::content_type, "application/json");
  exchange.request.body() = body;
  exchange.request.prepare_payload();
  exchange.start(host, port);
  io.run_for(timeout);
  if (exchange.done) return HttpAnswer{static_cast<int>(exchange.answer.get().result_int()), exchange.answer.get().body()};
  if (exchange.too_large) return failure("http_body_too_large", fmt::format("the answer of {} is over {} MiB", url, answer_bytes_max >> 20), "is that the admin address of a follower?");
  if (exchange.failed_with.empty()) {
    if (exchange.written) return failure("timed_out", fmt::format("no answer from {} within {} ms", url, timeout.count()));
    exchange.failed_with = fmt::format("no connection within {} ms", timeout.count());
  }
  return failure("unreachable", fmt::format("{}: {}", url, exchange.failed_with), "is the process running, and is that its admin address? name it with --admin");
}

}  // namespace zaris::cli
