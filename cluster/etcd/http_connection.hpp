// One connection to one etcd, with TLS or without. Internal to cluster/etcd: Asio shows here, so only http_io.cpp includes it. The I/O
// thread's.
#pragma once
#include <utility>  // before Asio 1.74's awaitable, which forgets it

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/ssl.hpp>
#include <chrono>
#include <optional>
#include <string>

#include "cluster/etcd/endpoints.hpp"
#include "cluster/tls/context.hpp"

namespace zaris::etcd {

// Tells TLS from none.
struct Connection {
  Connection(boost::asio::io_context& io, std::size_t to) : endpoint(to), plain(io) {}
  [[nodiscard]] boost::beast::tcp_stream& tcp_layer() { return secure ? secure->next_layer() : plain; }

  // The server has closed it, or said something unasked: what is sent there now would be lost without a trace.
  [[nodiscard]] bool stale(std::chrono::steady_clock::time_point now);

  std::size_t endpoint;
  boost::beast::tcp_stream plain;
  std::optional<boost::asio::ssl::context> tls_context;
  std::optional<boost::beast::ssl_stream<boost::beast::tcp_stream>> secure;
  boost::beast::flat_buffer buffer;
  std::chrono::steady_clock::time_point used;
};

struct DialFailure {
  bool tls = false;                      // somebody was there, but not whom the certificates say
  std::string reason;
};

// Resolves, connects and shakes hands. `tls` for an endpoint with TLS. Empty: connected.
[[nodiscard]] boost::asio::awaitable<std::optional<DialFailure>> dial(boost::asio::io_context& io, Connection& connection, const Endpoint& to,
                                                                      const tls::Context* tls, std::chrono::steady_clock::time_point by);

// A POST of JSON; `login` empty: as nobody.
[[nodiscard]] boost::beast::http::request<boost::beast::http::string_body> request_for(const Endpoint& to, const char* path, const std::string& body, const std::string& login);

}  // namespace zaris::etcd
