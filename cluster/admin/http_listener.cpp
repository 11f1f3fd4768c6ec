#include "cluster/admin/http_listener.hpp"

#include <fmt/format.h>

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <list>
#include <thread>

namespace zaris::admin {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using tcp = asio::ip::tcp;
using boost::system::error_code;

constexpr std::size_t header_max = 16u << 10;
constexpr auto io_timeout = std::chrono::seconds(10);

std::string decode(std::string_view text, bool plus) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto digit = [&](std::size_t at) -> int {
      if (at >= text.size()) return -1;
      const char c = text[at];
      return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
    };
    if (text[i] == '%' && digit(i + 1) >= 0 && digit(i + 2) >= 0) {
      out += static_cast<char>(digit(i + 1) * 16 + digit(i + 2));
      i += 2;
    } else {
      out += plus && text[i] == '+' ? ' ' : text[i];
    }
  }
  return out;
}

HttpRequest to_request(const http::request<http::string_body>& from) {
  HttpRequest out;
  out.method = std::string(from.method_string());
  const std::string_view target(from.target().data(), from.target().size());
  const auto mark = target.find('?');
  out.path = decode(target.substr(0, mark), false);
  std::string_view query = mark == std::string_view::npos ? std::string_view{} : target.substr(mark + 1);
  while (!query.empty()) {
    const auto end = query.find('&');
    const std::string_view part = query.substr(0, end);
    const auto equals = part.find('=');
    if (!part.empty()) {
      out.query[decode(part.substr(0, equals), true)] = equals == std::string_view::npos ? std::string{} : decode(part.substr(equals + 1), true);
    }
    query = end == std::string_view::npos ? std::string_view{} : query.substr(end + 1);
  }
  out.accept = std::string(from[http::field::accept]);
  out.body = from.body();
  return out;
}

class Listener : public HttpListener {
 public:
  Listener(const AdminOptions& options, Handler handler) : options_(options), handler_(std::move(handler)), acceptor_(io_), tick_(io_) {}
  ~Listener() override {
    io_.stop();
    if (thread_.joinable()) thread_.join();
  }

  Result<void> open() {
    const auto colon = options_.address.rfind(':');
    std::string host = options_.address.substr(0, colon);
    if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
    error_code error;
    const auto fail = [&] {
      return failure("listen_failed", fmt::format("listeners.admin.address: cannot listen on {}: {}", options_.address, error.message()),
                     error == asio::error::address_in_use ? "another process has that port: stop it, or choose another" : "");
    };
    tcp::resolver resolver(io_);
    const auto found = resolver.resolve(host, options_.address.substr(colon + 1), tcp::resolver::passive | tcp::resolver::numeric_service, error);
    if (error) return fail();
    const tcp::endpoint endpoint = found.begin()->endpoint();
    if (acceptor_.open(endpoint.protocol(), error); error) return fail();
    acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (acceptor_.bind(endpoint, error); error) return fail();
    if (acceptor_.listen(128, error); error) return fail();
    port_ = acceptor_.local_endpoint().port();
    asio::co_spawn(io_, accept(), asio::detached);
    asio::co_spawn(io_, beat(), asio::detached);
    thread_ = std::thread([this] { io_.run(); });
    return {};
  }

  std::uint16_t port() const override { return port_; }
  std::uint64_t rounds() const override { return rounds_.load(std::memory_order_relaxed); }

 private:
  asio::awaitable<void> beat() {
    while (true) {
      rounds_.fetch_add(1, std::memory_order_relaxed);
      tick_.expires_after(std::chrono::seconds(1));
      co_await tick_.async_wait(asio::use_awaitable);
    }
  }

  asio::awaitable<void> accept() {
    asio::steady_timer pause(io_);
    while (true) {
      error_code error;
      tcp::socket socket = co_await acceptor_.async_accept(asio::redirect_error(asio::use_awaitable, error));
      if (error == asio::error::operation_aborted) co_return;
      if (error) {  // out of descriptors: wait, do not spin
        pause.expires_after(std::chrono::milliseconds(100));
        co_await pause.async_wait(asio::use_awaitable);
        continue;
      }
      // Full of connections that say nothing: the one that has said nothing for longest makes room, or a probe would find
      // the process dead which is not.
      if (open_ >= options_.connections_max) {
        if (waiting_.empty()) continue;  // closed by going out of scope
        waiting_.front()->close();
        waiting_.pop_front();
      }
      ++open_;
      asio::co_spawn(io_, serve(beast::tcp_stream(std::move(socket))), asio::detached);
    }
  }

  asio::awaitable<void> serve(beast::tcp_stream stream) {
    beast::flat_buffer buffer;
    error_code error;
    auto token = asio::redirect_error(asio::use_awaitable, error);
    while (true) {
      http::request_parser<http::string_body> parser;
      parser.header_limit(header_max);
      parser.body_limit(options_.body_max);
      stream.expires_after(io_timeout);
      waiting_.push_back(&stream);
      co_await http::async_read(stream, buffer, parser, token);
      waiting_.remove(&stream);
      if (error) {
        const bool answerable = error == http::error::header_limit || error == http::error::body_limit;
        if (!answerable) break;
        http::response<http::string_body> answer{http::status::payload_too_large, 11};
        answer.keep_alive(false);
        answer.prepare_payload();
        co_await http::async_write(stream, answer, token);
        break;
      }
      const auto& request = parser.get();
      const std::string content_type(request[http::field::content_type]);
      HttpAnswer answer = handler_(to_request(request), content_type);
      http::response<http::string_body> response{static_cast<http::status>(answer.status), request.version()};
      response.set(http::field::content_type, answer.content_type);
      response.set(http::field::cache_control, "no-store");
      response.keep_alive(request.keep_alive());
      response.body() = std::move(answer.body);
      if (request.method() == http::verb::head) {
        const auto length = response.body().size();
        response.body().clear();
        response.content_length(length);
      } else {
        response.prepare_payload();
      }
      stream.expires_after(io_timeout);
      co_await http::async_write(stream, response, token);
      if (error || !response.keep_alive()) break;
    }
    stream.socket().shutdown(tcp::socket::shutdown_send, error);
    --open_;
  }

  AdminOptions options_;
  Handler handler_;
  asio::io_context io_{1};
  tcp::acceptor acceptor_;
  asio::steady_timer tick_;
  std::size_t open_ = 0;
  std::list<beast::tcp_stream*> waiting_;  // for a request, longest first
  std::uint16_t port_ = 0;
  std::atomic<std::uint64_t> rounds_{0};
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<HttpListener>> HttpListener::start(const AdminOptions& options, Handler handler) {
  auto listener = std::make_unique<Listener>(options, std::move(handler));
  if (auto opened = listener->open(); !opened) return tl::unexpected(opened.error());
  return std::unique_ptr<HttpListener>(std::move(listener));
}

}  // namespace zaris::admin
