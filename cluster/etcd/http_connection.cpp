#include "cluster/etcd/http_connection.hpp"

#include <fmt/format.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>

namespace zaris::etcd {
namespace {

namespace asio = boost::asio;
namespace ssl = boost::asio::ssl;
namespace beast = boost::beast;
namespace http = beast::http;
using tcp = asio::ip::tcp;
using boost::system::error_code;

constexpr auto idle_most = std::chrono::seconds(60);          // longer, and something between may have forgotten the connection

// Asio has taken the reason out of OpenSSL's queue; it is put back for the words of cluster/tls.
std::string handshake_reason(SSL* handle, const std::string& host, error_code error) {
  if (error.category() == asio::error::get_ssl_category()) {
    const auto code = static_cast<unsigned long>(error.value());
    ERR_clear_error();
    ERR_raise(ERR_GET_LIB(code), ERR_GET_REASON(code));
  }
  const Error words = tls::explain_failure(handle, false, host);
  return fmt::format("{} ({})", words.what, words.code);
}

}  // namespace

bool Connection::stale(std::chrono::steady_clock::time_point now) {
  char byte = 0;
  const auto got = ::recv(tcp_layer().socket().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return now - used > idle_most || got >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
}

asio::awaitable<std::optional<DialFailure>> dial(asio::io_context& io, Connection& connection, const Endpoint& to, const tls::Context* tls, std::chrono::steady_clock::time_point by) {
  error_code error;
  auto token = asio::redirect_error(asio::use_awaitable, error);
  const auto failed = [&](const char* step) {
    return DialFailure{false, error == beast::error::timeout ? fmt::format("{}: not in time", step) : fmt::format("{}: {}", step, error.message())};
  };
  tcp::resolver resolver(io);
  const auto found = co_await resolver.async_resolve(to.host, to.port, token);
  if (error) co_return failed("cannot resolve its name");
  if (to.tls) {
    connection.tls_context.emplace(static_cast<SSL_CTX*>(tls->native_handle()));
    connection.secure.emplace(beast::tcp_stream(io), *connection.tls_context);
  }
  beast::tcp_stream& layer = connection.tcp_layer();
  layer.expires_at(by);
  co_await layer.async_connect(found, token);
  if (error) co_return failed("cannot connect");
  layer.socket().set_option(tcp::no_delay(true), error);
  // A host that is gone says nothing: the kernel finds out, for watches above all.
  const int fd = layer.socket().native_handle();
  const auto set = [fd](int level, int option, int value) { ::setsockopt(fd, level, option, &value, sizeof value); };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 5);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 2);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 11'000);
  if (!to.tls) co_return std::nullopt;
  SSL* handle = connection.secure->native_handle();
  if (tls->verifies_peer()) {
    if (const auto named = zaris::tls::expect_server(handle, to.host); !named) {
      co_return DialFailure{true, named.error().what};
    }
  }
  co_await connection.secure->async_handshake(ssl::stream_base::client, token);
  if (!error) co_return std::nullopt;
  if (error == beast::error::timeout) co_return failed("TLS");  // silent, not wrong
  co_return DialFailure{true, handshake_reason(handle, to.host, error)};
}

http::request<http::string_body> request_for(const Endpoint& to, const char* path, const std::string& body, const std::string& login) {
  http::request<http::string_body> request{http::verb::post, path, 11};
  const bool bracketed = to.host.find(':') != std::string::npos;
  request.set(http::field::host, bracketed ? fmt::format("[{}]:{}", to.host, to.port) : fmt::format("{}:{}", to.host, to.port));
  request.set(http::field::content_type, "application/json");
  if (!login.empty()) request.set(http::field::authorization, login);
  request.body() = body;
  request.prepare_payload();
  return request;
}

}  // namespace zaris::etcd
