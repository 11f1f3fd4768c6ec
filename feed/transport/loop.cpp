#include "feed/transport/loop.hpp"

#include "feed/transport/asio_loop.hpp"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

namespace zaris::feed {
namespace {

constexpr std::size_t poll_handlers_max = 256;

namespace asio = boost::asio;
using boost::asio::ip::tcp;
using boost::system::error_code;

// A handler may come after its object is gone (the operation had already completed): the token says so.
using Alive = std::shared_ptr<bool>;

class AsioTimer final : public Timer {
 public:
  explicit AsioTimer(asio::io_context& io) : timer_(io) {}
  ~AsioTimer() override { *alive_ = false; }
  void after(std::chrono::microseconds delay, std::function<void()> then) override {
    const std::uint64_t shot = ++shot_;
    timer_.expires_after(delay);
    timer_.async_wait([this, alive = alive_, shot, then = std::move(then)](error_code e) {
      if (*alive && !e && shot == shot_) then();
    });
  }
  void cancel() override {
    ++shot_;
    timer_.cancel();
  }

 private:
  asio::steady_timer timer_;
  std::uint64_t shot_ = 0;
  Alive alive_ = std::make_shared<bool>(true);
};

class AsioWaker final : public Waker {
 public:
  explicit AsioWaker(asio::io_context& io) : event_(io, ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) { next(); }
  ~AsioWaker() override { *alive_ = false; }
  void wake() override {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto ignored = ::write(event_.native_handle(), &one, sizeof one);
  }

 private:
  void next() {
    event_.async_wait(asio::posix::stream_descriptor::wait_read, [this, alive = alive_](error_code e) {
      if (!*alive || e) return;
      std::uint64_t times = 0;
      [[maybe_unused]] const auto ignored = ::read(event_.native_handle(), &times, sizeof times);
      next();
    });
  }
  asio::posix::stream_descriptor event_;
  Alive alive_ = std::make_shared<bool>(true);
};

class AsioSocket final : public Socket {
 public:
  AsioSocket(tcp::socket socket, std::string peer, int notsent_low_bytes) : socket_(std::move(socket)), peer_(std::move(peer)) {
    error_code ignored;
    socket_.non_blocking(true, ignored);
    socket_.set_option(tcp::no_delay(true), ignored);
    if (notsent_low_bytes > 0) {
      ::setsockopt(socket_.native_handle(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &notsent_low_bytes, sizeof notsent_low_bytes);
    }
  }
  ~AsioSocket() override {
    *alive_ = false;
    error_code ignored;
    socket_.close(ignored);
  }
  int handle() const override { return handle_; }
  void when_readable(std::function<void()> then) override { wait(tcp::socket::wait_read, std::move(then)); }
  void when_writable(std::function<void()> then) override { wait(tcp::socket::wait_write, std::move(then)); }
  const std::string& peer_address() const override { return peer_; }

 private:
  void wait(tcp::socket::wait_type kind, std::function<void()> then) {
    socket_.async_wait(kind, [alive = alive_, then = std::move(then)](error_code e) {
      if (*alive && e != asio::error::operation_aborted) then();
    });
  }
  tcp::socket socket_;
  int handle_ = socket_.native_handle();
  std::string peer_;
  Alive alive_ = std::make_shared<bool>(true);
};

class AsioListener final : public Listener {
 public:
  AsioListener(asio::io_context& io, tcp::acceptor acceptor) : acceptor_(std::move(acceptor)), pause_(io) {}
  ~AsioListener() override { *alive_ = false; }
  std::uint16_t port() const override {
    error_code ignored;
    return acceptor_.local_endpoint(ignored).port();
  }
  void accept(std::function<void(int, std::string)> then, std::function<void(const std::string&)> paused) override {
    then_ = std::move(then);
    paused_ = std::move(paused);
    next();
  }

 private:
  void next() {
    acceptor_.async_accept([this, alive = alive_](error_code e, tcp::socket socket) {
      if (!*alive || e == asio::error::operation_aborted) return;
      if (!e) {
        error_code gone;
        const auto peer = socket.remote_endpoint(gone);
        const int raw = gone ? -1 : socket.release(gone);
        if (raw >= 0 && !gone) then_(raw, peer.address().to_string());
        return next();
      }
      if (e == asio::error::connection_aborted || e == asio::error::interrupted) return next();
      paused_(e.message());
      pause_.after(std::chrono::milliseconds(100), [this] { next(); });
    });
  }
  tcp::acceptor acceptor_;
  AsioTimer pause_;
  std::function<void(int, std::string)> then_;
  std::function<void(const std::string&)> paused_;
  Alive alive_ = std::make_shared<bool>(true);
};

class Dial : public std::enable_shared_from_this<Dial> {
 public:
  using Then = std::function<void(Result<std::unique_ptr<Socket>>)>;
  Dial(asio::io_context& io, std::string host, std::uint16_t port, std::string after, Then then)
      : resolver_(io), socket_(io), deadline_(io), host_(std::move(host)), after_(std::move(after)), port_(port), then_(std::move(then)) {}

  void start(std::chrono::microseconds deadline) {
    deadline_.expires_after(deadline);
    deadline_.async_wait([self = shared_from_this()](error_code e) {
      if (e) return;
      self->finish(failure("feed_connect_timeout", fmt::format("{}:{} did not answer in time{}", self->host_, self->port_, self->last_error_),
                           "is the address right, and does a firewall drop the packets?"));
    });
    resolver_.async_resolve(host_, std::to_string(port_), tcp::resolver::numeric_service, [self = shared_from_this()](error_code e, tcp::resolver::results_type found) {
      if (!self->then_) return;
      if (e) return self->finish(failure("feed_dns_failed", fmt::format("{} cannot be resolved: {}", self->host_, e.message()), "check the name and the resolver"));
      for (const auto& entry : found) self->addresses_.push_back(entry.endpoint());
      const auto last = std::find_if(self->addresses_.begin(), self->addresses_.end(), [&](const tcp::endpoint& at) { return at.address().to_string() == self->after_; });
      if (last != self->addresses_.end()) std::rotate(self->addresses_.begin(), last + 1, self->addresses_.end());
      self->connect_next();
    });
  }
  // Called on the loop's thread.
  void give_up() {
    then_ = nullptr;
    error_code ignored;
    resolver_.cancel();
    deadline_.cancel();
    socket_.close(ignored);
  }

 private:
  void connect_next() {
    if (next_ == addresses_.size()) {
      return finish(failure("feed_connect_failed", fmt::format("{}:{} cannot be reached{}", host_, port_, last_error_), "is the process there running and listening on this address?"));
    }
    const auto to = addresses_[next_++];
    error_code ignored;
    socket_.close(ignored);
    socket_.async_connect(to, [self = shared_from_this(), to](error_code e) {
      if (!self->then_) return;
      if (e) {
        self->last_error_ = fmt::format(" ({}: {})", to.address().to_string(), e.message());
        return self->connect_next();
      }
      self->finish(std::unique_ptr<Socket>(std::make_unique<AsioSocket>(std::move(self->socket_), to.address().to_string(), 0)));
    });
  }
  void finish(Result<std::unique_ptr<Socket>> result) {
    if (!then_) return;
    const Then then = std::exchange(then_, nullptr);
    give_up();
    then(std::move(result));
  }

  tcp::resolver resolver_;
  tcp::socket socket_;
  asio::steady_timer deadline_;
  const std::string host_, after_;
  const std::uint16_t port_;
  Then then_;
  std::vector<tcp::endpoint> addresses_;
  std::size_t next_ = 0;
  std::string last_error_;
};

struct DialHandle {
  explicit DialHandle(std::shared_ptr<Dial> d) : dial(std::move(d)) {}
  ~DialHandle() { dial->give_up(); }
  std::shared_ptr<Dial> dial;
};

std::optional<tcp::endpoint> parse_address(const std::string& text) {
  const auto colon = text.rfind(':');
  if (colon == std::string::npos) return std::nullopt;
  std::string host = text.substr(0, colon);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  if (host == "localhost") host = "127.0.0.1";
  if (host.empty() || host == "*") host = "0.0.0.0";
  std::uint16_t port = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data() + colon + 1, end, port);
  if (parsed.ec != std::errc{} || parsed.ptr != end) return std::nullopt;
  error_code e;
  const auto address = asio::ip::make_address(host, e);
  if (e) return std::nullopt;
  return tcp::endpoint(address, port);
}

class AsioLoop final : public Loop {
 public:
  AsioLoop() : io_(1), work_(io_.get_executor()) {}

  void post(std::function<void()> task) override { asio::post(io_, std::move(task)); }
  void stop() override { io_.stop(); }
  void run() override { io_.run(); }
  std::size_t poll() override {
    std::size_t n = 0;
    while (n < poll_handlers_max && io_.poll_one() != 0) ++n;
    return n;
  }
  void run_one() override { io_.run_one(); }

  std::unique_ptr<Timer> timer() override { return std::make_unique<AsioTimer>(io_); }
  std::unique_ptr<Waker> waker() override { return std::make_unique<AsioWaker>(io_); }

  std::unique_ptr<Socket> adopt(int raw, std::string peer, int notsent_low_bytes) override {
    tcp::socket socket(io_);
    error_code ignored;
    socket.assign(peer.find(':') == std::string::npos ? tcp::v4() : tcp::v6(), raw, ignored);
    return std::make_unique<AsioSocket>(std::move(socket), std::move(peer), notsent_low_bytes);
  }

  Result<std::unique_ptr<Listener>> listen(const std::string& address) override {
    const auto endpoint = parse_address(address);
    if (!endpoint) return failure("listen_address_invalid", fmt::format("'{}' is not ADDRESS:PORT", address), "for example 127.0.0.1:7871 or [::1]:7871");
    tcp::acceptor acceptor(io_);
    error_code e;
    acceptor.open(endpoint->protocol(), e);
    if (!e) acceptor.set_option(tcp::acceptor::reuse_address(true), e);
    if (!e) acceptor.bind(*endpoint, e);
    if (!e) acceptor.listen(4096, e);
    if (e) return failure("listen_failed", fmt::format("cannot listen on {}: {}", address, e.message()), "is another process using the port?");
    return std::unique_ptr<Listener>(std::make_unique<AsioListener>(io_, std::move(acceptor)));
  }

  std::shared_ptr<void> dial(const std::string& host, std::uint16_t port, const std::string& after, std::chrono::microseconds deadline,
                             std::function<void(Result<std::unique_ptr<Socket>>)> then) override {
    auto dial = std::make_shared<Dial>(io_, host, port, after, std::move(then));
    dial->start(deadline);
    return std::make_shared<DialHandle>(std::move(dial));
  }

  asio::io_context& context() { return io_; }

 private:
  asio::io_context io_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
};

}  // namespace

std::unique_ptr<Loop> Loop::create() { return std::make_unique<AsioLoop>(); }

asio::io_context& io_context_of(Loop& loop) { return static_cast<AsioLoop&>(loop).context(); }

}  // namespace zaris::feed
