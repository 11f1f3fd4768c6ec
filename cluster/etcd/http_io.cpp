// With http_connection.cpp all of this folder that knows sockets, TLS and threads. What an attempt means is decided in verdict.cpp, whom
// to ask in endpoints.cpp, what bodies say in etcd_json.cpp.
#include "cluster/etcd/http_io.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <time.h>

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_set>

#include "cluster/base/assert.hpp"
#include "cluster/etcd/etcd_json.hpp"
#include "cluster/etcd/http_connection.hpp"

namespace zaris::etcd {
namespace {

namespace asio = boost::asio;
namespace ssl = boost::asio::ssl;
namespace beast = boost::beast;
namespace http = beast::http;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;
using Moment = Clock::time_point;

constexpr std::size_t header_bytes_max = 16u << 10;
constexpr std::size_t part_bytes = 64u << 10;                 // of a watch, at a time
constexpr auto attempt_least = std::chrono::milliseconds(200);  // a share of the timeout is no smaller than this
constexpr Timeout login_timeout{5000};

MonoMicros boottime_us() {
  timespec t{};
  ::clock_gettime(CLOCK_BOOTTIME, &t);
  return static_cast<MonoMicros>(t.tv_sec) * 1'000'000 + t.tv_nsec / 1000;
}

MonoMicros micros(Moment at) { return std::chrono::duration_cast<std::chrono::microseconds>(at.time_since_epoch()).count(); }

using ConnectionPtr = std::unique_ptr<Connection>;

struct Call {
  Call(asio::io_context& io, HttpAsk what) : ask(std::move(what)), deadline(Clock::now() + ask.timeout), timer(io) {}
  HttpAsk ask;
  Moment deadline;
  asio::steady_timer timer;
  bool login = false;
  bool sent = false;                     // of the attempt under way
  bool done = false;
  Error failed_with;                     // the newest attempt, for when the deadline passes
};
using CallPtr = std::shared_ptr<Call>;

// What an attempt brought. Without `answered` nobody answered.
struct Attempt {
  bool answered = false, sent = false, tls_failed = false, too_large = false;
  std::string reason;                    // of no answer
  int status = 0;
  std::string body, token;
  MonoMicros sent_at = 0;
};

struct WatchState {
  WatchRequest request;
  WatchHandlers handlers;
  std::atomic<bool> stopped{false};
  Connection* connection = nullptr;  // I/O thread; while it is listened to
  Moment open_by;
};
using WatchPtr = std::shared_ptr<WatchState>;

class Core : public std::enable_shared_from_this<Core> {
 public:
  Core(HttpEtcdOptions options, std::vector<Endpoint> endpoints)
      : options_(std::move(options)), endpoints_(std::move(endpoints)), choice_(endpoints_.size()) {
    login_done_.emplace(*io_, Moment::max());
  }

  asio::io_context& io() { return *io_; }
  void run() {
    const asio::executor_work_guard<asio::io_context::executor_type> work(io_->get_executor());
    io_->run();
  }
  void post(std::function<void()> work) {
    const std::lock_guard lock(end_mutex_);
    if (io_) asio::post(*io_, std::move(work));
  }
  // No handler is called afterwards but the one under way.
  void stop() {
    alive_->store(false);
    io_->stop();
  }
  // When nothing runs any more: what is under way holds the Core, so it goes first; and what has timers before what serves them.
  void clear() {
    waiting_.clear();
    idle_.clear();
    watches_.clear();
    login_done_.reset();
    std::unique_ptr<asio::io_context> last;  // goes outside the lock: handlers may hold watches, which post
    const std::lock_guard lock(end_mutex_);
    last.swap(io_);
  }

  void start(const CallPtr& call) {
    call->timer.expires_at(call->deadline);
    call->timer.async_wait([self = shared_from_this(), call](error_code error) {
      if (!error) self->late(call);
    });
    if (active_ < options_.connections_max + (call->ask.renewal ? 1 : 0)) return launch(call);
    if (waiting_.size() >= options_.waiting_max)
      return finish(call, {Outcome::unreachable, Error{"etcd_unreachable", fmt::format("{} requests to etcd wait already", waiting_.size()), {}}});
    if (call->ask.renewal) {
      waiting_.push_front(call);
    } else {
      waiting_.push_back(call);
    }
  }

  void watch(const WatchPtr& watch) {
    if (watches_.size() >= options_.watches_max) return end(watch, {WatchEnd::Why::refused, {}, Error{"etcd_refused", "too many watches are open", {}}});
    watches_.insert(watch);
    asio::co_spawn(*io_, [self = shared_from_this(), watch] { return self->follow(watch); }, asio::detached);
  }
  void drop(const WatchPtr& watch) {
    error_code ignored;
    if (watch->connection != nullptr) watch->connection->tcp_layer().socket().close(ignored);
  }

  // Takes a handler's call to where it shall be made.
  void hand(std::function<void()> work) {
    auto alive = [still = alive_, work = std::move(work)] {
      if (still->load()) work();
    };
    if (options_.deliver) {
      options_.deliver(std::move(alive));
    } else {
      alive();
    }
  }

 private:
  // ---- a call

  void launch(const CallPtr& call) {
    ++active_;
    asio::co_spawn(*io_, [self = shared_from_this(), call] { return self->pursue(call); }, asio::detached);
  }

  void finish(const CallPtr& call, HttpEnd end) {
    if (call->done) return;
    call->done = true;
    call->timer.cancel();
    if (call->login) return on_login(std::move(end));
    hand([handler = std::exchange(call->ask.handler, nullptr), end = std::move(end)] { handler(end); });
  }

  // The deadline, wherever the call is: in the queue, at the resolver (which cannot be interrupted), before an answer.
  void late(const CallPtr& call) {
    const bool doubt = call->sent && call->ask.effect == Effect::change;
    std::string why = "no answer from etcd in time";
    if (!call->failed_with.what.empty()) why += "; " + call->failed_with.what;
    const char* code = doubt ? "etcd_outcome_unknown" : "etcd_unreachable";
    if (!doubt && call->failed_with.code == "etcd_tls_failed") code = "etcd_tls_failed";
    finish(call, {doubt ? Outcome::unknown : Outcome::unreachable, Error{code, std::move(why), {}}});
  }

  asio::awaitable<void> pursue(CallPtr call) {
    co_await ask(call);
    --active_;
    while (!waiting_.empty() && active_ < options_.connections_max) {
      const CallPtr next = waiting_.front();
      waiting_.pop_front();
      if (!next->done) launch(next);
    }
  }

  asio::awaitable<void> ask(CallPtr call) {
    std::uint64_t tried = 0;
    std::size_t left = endpoints_.size();
    bool logged_in_again = false;
    std::string reasons;
    while (!call->done) {
      if (!call->login && login_wanted()) {
        co_await logged_in();
        if (call->done) co_return;
        if (login_wanted() && login_failure_.outcome != Outcome::ok) co_return finish(call, login_failure_);
        if (login_wanted()) continue;  // somebody has found the new token stale meanwhile
      }
      const auto endpoint = choice_.pick(tried, micros(Clock::now()));
      if (!endpoint) {
        Error error = call->failed_with;
        error.what = reasons;
        co_return finish(call, {Outcome::unreachable, std::move(error)});
      }
      // Something that may be asked again gives every endpoint its share of the time; a change, once sent, is waited for.
      const Moment now = Clock::now();
      const auto share = std::max<Clock::duration>((call->deadline - now) / static_cast<int>(left), attempt_least);
      const Moment connect_by = std::min(call->deadline, now + std::min<Clock::duration>(share, options_.connect_timeout));
      const Moment answer_by = call->ask.effect == Effect::change ? call->deadline : std::min(call->deadline, now + share);
      Attempt attempt;
      co_await try_endpoint(call, *endpoint, connect_by, answer_by, attempt);
      if (call->done) {
        if (!attempt.answered) choice_.failed(*endpoint, micros(Clock::now()));
        co_return;
      }
      const Verdict verdict = judge(*call, *endpoint, attempt);
      if (verdict.endpoint_bad) {
        choice_.failed(*endpoint, micros(Clock::now()));
      } else {
        choice_.answered(*endpoint);
      }
      if (verdict.token_stale && !options_.user.empty() && !logged_in_again && !call->login) {
        logged_in_again = true;
        if (token_ == attempt.token) token_.clear();
        login_off_ = false;
        continue;
      }
      if (verdict.elsewhere) {
        tried |= std::uint64_t{1} << *endpoint;
        --left;
        if (!reasons.empty()) reasons += "; ";
        reasons += verdict.error.what;
        call->sent = false;
        call->failed_with = verdict.error;
        continue;
      }
      finish(call, {verdict.outcome, verdict.error});
    }
  }

  [[nodiscard]] Verdict judge(const Call& call, std::size_t endpoint, const Attempt& attempt) const {
    const std::string& text = endpoints_[endpoint].text;
    if (attempt.too_large) return judge_too_large(text, call.ask.effect, options_.answer_bytes_max);
    if (!attempt.answered) return judge_silence(text, call.ask.effect, attempt.sent, attempt.tls_failed, attempt.reason);
    if (attempt.status != 200) return judge_error(text, call.ask.effect, read_error(attempt.status, attempt.body));
    if (call.ask.renewal) {
      if (const auto error = stream_error(attempt.body)) return judge_error(text, call.ask.effect, *error);
    }
    if (!call.ask.read(attempt.body, attempt.sent_at)) return judge_malformed(text, call.ask.effect);
    return {Outcome::ok, {}, false, false, false};
  }

  // ---- one attempt

  asio::awaitable<void> try_endpoint(CallPtr call, std::size_t endpoint, Moment connect_by, Moment answer_by, Attempt& out) {
    ConnectionPtr connection = take_idle(endpoint);
    if (!connection) {
      connection = std::make_unique<Connection>(*io_, endpoint);
      if (const auto failed = co_await dial(*connection, connect_by)) {
        out.tls_failed = failed->tls;
        out.reason = failed->reason;
        co_return;
      }
    }
    if (call->done) co_return;
    error_code error;
    auto token = asio::redirect_error(asio::use_awaitable, error);
    http::request<http::string_body> request = request_for(endpoints_[endpoint], call->ask.path, call->ask.body, call->login ? std::string() : token_);
    out.token = call->login ? std::string() : token_;
    beast::tcp_stream& layer = connection->tcp_layer();
    layer.expires_at(answer_by);
    out.sent_at = options_.now ? options_.now() : boottime_us();
    out.sent = call->sent = true;
    std::size_t bytes = 0;
    if (connection->secure) {
      bytes = co_await http::async_write(*connection->secure, request, token);
    } else {
      bytes = co_await http::async_write(connection->plain, request, token);
    }
    if (error) {
      // TLS takes bytes before the kernel does; without it none means none.
      if (bytes == 0 && !connection->secure) out.sent = call->sent = false;
      out.reason = fmt::format("cannot write: {}", error.message());
      co_return;
    }
    http::response_parser<http::string_body> parser;
    parser.header_limit(header_bytes_max);
    parser.body_limit(options_.answer_bytes_max);
    // The head by itself: Beast 1.74 forgets that a Content-Length is over the limit when some of the body has come with the head.
    if (connection->secure) {
      co_await http::async_read_header(*connection->secure, connection->buffer, parser, token);
      if (!error) co_await http::async_read(*connection->secure, connection->buffer, parser, token);
    } else {
      co_await http::async_read_header(connection->plain, connection->buffer, parser, token);
      if (!error) co_await http::async_read(connection->plain, connection->buffer, parser, token);
    }
    if (error == http::error::body_limit) {
      out.too_large = true;
      co_return;
    }
    if (error) {
      // With TLS 1.3 a server that does not like our certificate says so in place of its first answer.
      out.tls_failed = connection->secure && error.category() == asio::error::get_ssl_category() && error != ssl::error::stream_truncated;
      out.reason = error == beast::error::timeout ? "no answer in time" : fmt::format("no whole answer: {}", error.message());
      co_return;
    }
    out.answered = true;
    out.status = parser.get().result_int();
    out.body = std::move(parser.get().body());
    if (parser.get().keep_alive() && idle_.size() < options_.connections_max) {
      layer.expires_never();
      connection->used = Clock::now();
      idle_.push_back(std::move(connection));
    }
  }

  asio::awaitable<std::optional<DialFailure>> dial(Connection& connection, Moment by) {
    return etcd::dial(*io_, connection, endpoints_[connection.endpoint], options_.tls.get(), by);
  }

  [[nodiscard]] ConnectionPtr take_idle(std::size_t endpoint) {
    const Moment now = Clock::now();
    for (auto at = idle_.begin(); at != idle_.end();) {
      if ((*at)->stale(now)) {
        at = idle_.erase(at);
      } else if ((*at)->endpoint == endpoint) {
        ConnectionPtr out = std::move(*at);
        idle_.erase(at);
        return out;
      } else {
        ++at;
      }
    }
    return nullptr;
  }

  // ---- login

  // It may have been changed since the last login.
  [[nodiscard]] std::string password() const {
    auto now = options_.password_now ? options_.password_now() : std::nullopt;
    return now ? std::move(*now) : options_.password;
  }
  [[nodiscard]] bool login_wanted() const { return !options_.user.empty() && token_.empty() && !login_off_; }

  // Returns when there is a token, or none is needed, or login_failure_ says why there is none. One login for all who wait.
  asio::awaitable<void> logged_in() {
    if (!logging_in_) {
      logging_in_ = true;
      auto call = std::make_shared<Call>(*io_, HttpAsk{"/v3/auth/authenticate", encode_login(options_.user, password()), Effect::repeatable, login_timeout});
      call->login = true;
      call->ask.read = [this](std::string_view body, MonoMicros) {
        std::string token;
        if (!decode_login(body, token)) return false;
        token_ = std::move(token);
        return true;
      };
      call->timer.expires_at(call->deadline);
      call->timer.async_wait([self = shared_from_this(), call](error_code error) {
        if (!error) self->late(call);
      });
      ++active_;
      asio::co_spawn(*io_, [self = shared_from_this(), call] { return self->pursue(call); }, asio::detached);
    }
    error_code ignored;
    co_await login_done_->async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }

  void on_login(HttpEnd end) {
    logging_in_ = false;
    // etcd without users: no token is needed, until it says that one is.
    if (end.outcome == Outcome::refused && end.error.what.find("authentication is not enabled") != std::string::npos) login_off_ = true;
    login_failure_ = std::move(end);
    login_done_->cancel();
  }

  // ---- watches

  void end(const WatchPtr& watch, WatchEnd how) {
    watches_.erase(watch);
    if (watch->stopped) return;
    hand([watch, how = std::move(how)] {
      if (!watch->stopped.exchange(true) && watch->handlers.on_end) watch->handlers.on_end(how);
    });
  }

  asio::awaitable<void> follow(WatchPtr watch) {
    watch->open_by = Clock::now() + watch->request.open_timeout;
    const std::string body = encode(watch->request);
    std::uint64_t tried = 0;
    std::size_t left = endpoints_.size();
    bool logged_in_again = false;
    WatchEnd how{WatchEnd::Why::lost, {}, Error{"etcd_unreachable", "no etcd could be asked in time", {}}};
    while (!watch->stopped && Clock::now() < watch->open_by) {
      if (login_wanted()) {
        co_await logged_in();
        if (login_wanted() && login_failure_.outcome == Outcome::ok) continue;
        if (login_wanted()) {
          how = {login_failure_.outcome == Outcome::unauthorized ? WatchEnd::Why::unauthorized : WatchEnd::Why::lost, {}, login_failure_.error};
          break;
        }
      }
      const auto endpoint = choice_.pick(tried, micros(Clock::now()));
      if (!endpoint) break;
      Verdict verdict;
      const std::string token = token_;
      bool opened = false;
      const Moment now = Clock::now();
      const Moment answer_by = std::min(watch->open_by, now + std::max<Clock::duration>((watch->open_by - now) / static_cast<int>(left), attempt_least));
      co_await listen(watch, *endpoint, answer_by, body, verdict, how, opened);
      watch->connection = nullptr;
      if (opened) break;
      if (verdict.endpoint_bad) choice_.failed(*endpoint, micros(Clock::now()));
      // 3.4 calls a token that it does not know a permission denied.
      if (verdict.outcome == Outcome::unauthorized && !options_.user.empty() && !logged_in_again) {
        logged_in_again = true;
        if (token_ == token) token_.clear();
        login_off_ = false;
        continue;
      }
      if (how.why != WatchEnd::Why::compacted) {
        how = {verdict.outcome == Outcome::unauthorized ? WatchEnd::Why::unauthorized : verdict.outcome == Outcome::refused ? WatchEnd::Why::refused : WatchEnd::Why::lost,
               {}, verdict.error};
      }
      if (!verdict.elsewhere) break;
      tried |= std::uint64_t{1} << *endpoint;
      --left;
    }
    end(watch, std::move(how));
  }

  // One watch at one endpoint, to its end. Not `opened`: `verdict` says what that means; else `how` says how it ended.
  asio::awaitable<void> listen(WatchPtr watch, std::size_t endpoint, Moment answer_by, const std::string& body, Verdict& verdict, WatchEnd& how, bool& opened) {
    const std::string& name = endpoints_[endpoint].text;
    Connection connection(*io_, endpoint);
    watch->connection = &connection;
    if (const auto failed = co_await dial(connection, std::min(answer_by, Clock::now() + options_.connect_timeout))) {
      co_return void(verdict = judge_silence(name, Effect::repeatable, false, failed->tls, failed->reason));
    }
    error_code error;
    auto token = asio::redirect_error(asio::use_awaitable, error);
    http::request<http::string_body> request = request_for(endpoints_[endpoint], "/v3/watch", body, token_);
    beast::tcp_stream& layer = connection.tcp_layer();
    layer.expires_at(answer_by);
    http::response_parser<http::buffer_body> parser;
    parser.header_limit(header_bytes_max);
    parser.body_limit(boost::none);  // it never ends; lines are bounded below
    if (connection.secure) {
      co_await http::async_write(*connection.secure, request, token);
      if (!error) co_await http::async_read_header(*connection.secure, connection.buffer, parser, token);
    } else {
      co_await http::async_write(connection.plain, request, token);
      if (!error) co_await http::async_read_header(connection.plain, connection.buffer, parser, token);
    }
    std::string pending;
    std::vector<char> part(part_bytes);
    const int status = error ? 0 : static_cast<int>(parser.get().result_int());
    while (!error && !watch->stopped) {
      parser.get().body().data = part.data();
      parser.get().body().size = part.size();
      parser.get().body().more = true;
      if (connection.secure) {
        co_await http::async_read_some(*connection.secure, connection.buffer, parser, token);
      } else {
        co_await http::async_read_some(connection.plain, connection.buffer, parser, token);
      }
      if (error == http::error::need_buffer) error = {};
      std::size_t looked_at = pending.size();
      pending.append(part.data(), part.size() - parser.get().body().size);
      if (status != 200) {
        if (parser.is_done() || pending.size() > part_bytes) co_return void(verdict = judge_error(name, Effect::repeatable, read_error(status, pending)));
        continue;
      }
      std::size_t begin = 0;
      for (std::size_t end_of_line; (end_of_line = pending.find('\n', std::max(begin, looked_at))) != std::string::npos; begin = looked_at = end_of_line + 1) {
        const std::string_view line = std::string_view(pending).substr(begin, end_of_line - begin);
        if (line.empty()) continue;
        if (!take_line(watch, name, line, layer, verdict, how, opened)) co_return;
      }
      pending.erase(0, begin);
      if (pending.size() > options_.answer_bytes_max) {
        verdict = judge_too_large(name, Effect::repeatable, options_.answer_bytes_max);
        how = {WatchEnd::Why::lost, {}, verdict.error};
        co_return;
      }
      if (parser.is_done()) break;
    }
    const std::string reason = error == beast::error::timeout ? "no answer in time" : error ? error.message() : "it ended the watch";
    verdict = judge_silence(name, Effect::repeatable, true, false, reason);
    how = {WatchEnd::Why::lost, {}, Error{"etcd_watch_lost", fmt::format("{}: {}", name, reason), {}}};
  }

  // False: that was the end.
  bool take_line(const WatchPtr& watch, const std::string& endpoint, std::string_view text, beast::tcp_stream& layer, Verdict& verdict, WatchEnd& how, bool& opened) {
    WatchLine line;
    const bool good = decode(text, line);
    if (const auto over = judge_line(endpoint, good, line)) {
      verdict = over->verdict;
      how = over->end;
      return false;
    }
    if (line.created) {
      // A watch that is refused is created and canceled in one line, or (compacted) in two.
      opened = true;
      layer.expires_never();
      tell(watch, [revision = line.revision](const WatchHandlers& h) {
        if (h.on_open) h.on_open(revision);
      });
    }
    if (!line.events.empty()) {
      // Not the header's revision: behind on a long history etcd names there how far it is itself.
      const EtcdRevision told = line.fragment ? EtcdRevision{} : line.events.back().row.mod_revision;
      tell(watch, [events = std::move(line.events), told](const WatchHandlers& h) {
        if (h.on_events) h.on_events(events, told);
      });
    } else if (!line.created && line.revision.value() > 0) {
      tell(watch, [revision = line.revision](const WatchHandlers& h) {
        if (h.on_progress) h.on_progress(revision);
      });
    }
    return true;
  }

  void tell(const WatchPtr& watch, std::function<void(const WatchHandlers&)> what) {
    hand([watch, what = std::move(what)] {
      if (!watch->stopped) what(watch->handlers);
    });
  }

  const HttpEtcdOptions options_;
  const std::vector<Endpoint> endpoints_;
  const std::shared_ptr<std::atomic<bool>> alive_ = std::make_shared<std::atomic<bool>>(true);
  EndpointChoice choice_;
  std::string token_;
  bool login_off_ = false, logging_in_ = false;
  HttpEnd login_failure_;
  std::size_t active_ = 0;
  std::mutex end_mutex_;                         // over io_ going away
  std::unique_ptr<asio::io_context> io_ = std::make_unique<asio::io_context>(1);
  std::optional<asio::steady_timer> login_done_;  // never; canceled when a login has ended
  std::deque<CallPtr> waiting_;
  std::vector<ConnectionPtr> idle_;
  std::unordered_set<WatchPtr> watches_;
};

class HttpWatch final : public Watch {
 public:
  HttpWatch(std::weak_ptr<Core> core, WatchPtr state) : core_(std::move(core)), state_(std::move(state)) {}
  ~HttpWatch() override {
    state_->stopped = true;
    if (const auto core = core_.lock()) core->post([core, state = state_] { core->drop(state); });
  }

 private:
  std::weak_ptr<Core> core_;
  WatchPtr state_;
};

class HttpIoImpl final : public HttpIo {
 public:
  explicit HttpIoImpl(std::shared_ptr<Core> core) : core_(std::move(core)) {
    thread_ = std::thread([core = core_] { core->run(); });
    pthread_setname_np(thread_.native_handle(), "zaris-etcd");
  }
  ~HttpIoImpl() override {
    ZARIS_ASSERT(thread_.get_id() != std::this_thread::get_id());
    core_->stop();
    thread_.join();
    core_->clear();
  }

  void ask(HttpAsk ask) override {
    auto call = std::make_shared<Call>(core_->io(), std::move(ask));
    core_->post([core = core_, call] { core->start(call); });
  }
  std::unique_ptr<Watch> watch(WatchRequest request, WatchHandlers handlers) override {
    auto state = std::make_shared<WatchState>();
    state->request = std::move(request);
    state->handlers = std::move(handlers);
    core_->post([core = core_, state] { core->watch(state); });
    return std::make_unique<HttpWatch>(core_, state);
  }
  void hand_later(std::function<void()> work) override {
    core_->post([core = core_, work = std::move(work)] { core->hand(work); });
  }

 private:
  const std::shared_ptr<Core> core_;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<HttpIo> HttpIo::start(HttpEtcdOptions options, std::vector<Endpoint> endpoints) {
  return std::make_unique<HttpIoImpl>(std::make_shared<Core>(std::move(options), std::move(endpoints)));
}

}  // namespace zaris::etcd
