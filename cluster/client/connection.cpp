// The only file of the client that knows sockets and TLS.
#include "cluster/client/connection.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <linux/sockios.h>
#include <sys/ioctl.h>

#include <cstring>
#include <mutex>

#include "cluster/base/assert.hpp"
#include "cluster/client/loop_context.hpp"
#include "cluster/client/silence.hpp"

namespace asio = boost::asio;
namespace ssl = boost::asio::ssl;
using tcp = boost::asio::ip::tcp;
using boost::system::error_code;

namespace zaris::client {
namespace {

constexpr std::chrono::milliseconds tick{50};        // how fine timeouts are
constexpr std::size_t read_buffer_bytes = 64u << 10; // grows to the frame at hand
constexpr std::size_t first_frame_max = 64u << 10;   // until Welcome has named the limits

constexpr std::size_t answer_room = 8u << 20;        // what an answer may have over a frame of the server's limits

// What is queued for one write: encoded bytes, and views that belong between them.
struct OutQueue {
  struct View {
    std::size_t before = 0;  // offset in `bytes` in front of which it goes
    std::string_view view;
  };
  std::string bytes;
  std::vector<View> views;
  std::vector<std::shared_ptr<const void>> holds;
  std::size_t view_bytes = 0;

  [[nodiscard]] bool empty() const { return bytes.empty(); }
  [[nodiscard]] std::size_t size() const { return bytes.size() + view_bytes; }
  void clear() {
    if (bytes.capacity() > (1u << 20)) bytes = {};
    bytes.clear();
    views.clear();
    holds.clear();
    view_bytes = 0;
  }
};

struct Waiting {
  AnswerHandler handler;
  std::uint64_t deadline_tick = 0;
  bool sent = false;
  bool used = false;
  std::uint16_t life = 0;  // tells an answer that comes after its request timed out from the next user of the place
};
constexpr std::uint32_t place_bits = 20;
constexpr std::uint32_t place_mask = (1u << place_bits) - 1;

class ConnectionImpl final : public Connection, public EndsWithLoop, public std::enable_shared_from_this<ConnectionImpl> {
 public:
  ConnectionImpl(std::shared_ptr<Loop> loop, ConnectionOptions options, Events events)
      : context_(loop->context()), options_(std::move(options)), events_(std::move(events)), resolver_(context_->io()),
        socket_(context_->io()), timer_(context_->io()), silence_(static_cast<unsigned>(options_.silence / tick)), parser_(first_frame_max) {}

  void start() {
    asio::post(context_->io(), [self = shared_from_this()] {
      if (self->state_ == State::down) return;
      if (self->context_->own_io) self->context_->users.insert(self.get());
      self->arm_tick();
      self->resolve();
    });
  }

  void send(const Encoder& encode, std::chrono::milliseconds timeout, AnswerHandler handler, Behind behind) override {
    bool wake = false;
    {
      const std::lock_guard lock(mutex_);
      if (state_ != State::down) {
        const std::uint32_t place = take_place();
        Waiting& waiting = waiting_[place];
        waiting.handler = std::move(handler);
        waiting.deadline_tick = ticks_.load(std::memory_order_relaxed) + 1 + static_cast<std::uint64_t>(timeout / tick);
        encode(queue_.bytes, place | static_cast<std::uint32_t>(waiting.life) << place_bits);
        for (const std::string_view view : behind.bytes) {
          if (view.empty()) continue;
          queue_.views.push_back({queue_.bytes.size(), view});
          queue_.view_bytes += view.size();
        }
        if (behind.hold) queue_.holds.push_back(std::move(behind.hold));
        queued_.emplace_back(place, waiting.life);
        unsent_.store(unsent_without_queue_ + queue_.size(), std::memory_order_relaxed);
        wake = !flush_posted_ && state_ == State::up;
        if (wake) flush_posted_ = true;
        if (!wake) return;
      }
    }
    if (wake) {
      asio::post(context_->io(), [self = shared_from_this()] { self->flush(); });
      return;
    }
    asio::post(context_->io(), [self = shared_from_this(), handler = std::move(handler)] {
      handler(tl::unexpected(Error{"unreachable", "no connection to " + self->address(), {}}));
    });
  }

  void close() override {
    if (context_->ended) return;
    asio::post(context_->io(), [self = shared_from_this()] {
      self->end();
    });
  }

  void end() override {
    const auto self = shared_from_this();
    events_ = {};
    go_down(Error{"connection_lost", "closed here", {}});
  }

  [[nodiscard]] bool up() const override { return state_.load() == State::up; }
  [[nodiscard]] bool down() const override { return state_.load() == State::down; }
  [[nodiscard]] std::size_t unsent_bytes() const override { return unsent_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::size_t outstanding() const override {
    const std::lock_guard lock(mutex_);
    return in_use_;
  }

 private:
  enum class State : std::uint8_t { connecting, handshake, up, down };

  [[nodiscard]] std::string address() const { return options_.host + ":" + std::to_string(options_.port); }

  // ---- places for what waits for an answer (under mutex_)
  std::uint32_t take_place() {
    if (free_.empty()) {
      ZARIS_ASSERT(waiting_.size() < place_mask, waiting_.size());
      if (waiting_.empty()) waiting_.emplace_back();  // place 0 is never used: correlation 0 is a push
      waiting_.emplace_back();
      free_.push_back(static_cast<std::uint32_t>(waiting_.size() - 1));
    }
    const std::uint32_t place = free_.back();
    free_.pop_back();
    Waiting& waiting = waiting_[place];
    waiting.used = true;
    waiting.sent = false;
    waiting.life = static_cast<std::uint16_t>((waiting.life + 1) & 0xfff);
    ++in_use_;
    return place;
  }
  AnswerHandler release(std::uint32_t place) {
    AnswerHandler handler = std::move(waiting_[place].handler);
    waiting_[place].handler = nullptr;
    waiting_[place].used = false;
    free_.push_back(place);
    --in_use_;
    return handler;
  }

  // ---- coming up
  void resolve() {
    error_code not_numeric;
    const auto numeric = asio::ip::make_address(options_.host, not_numeric);
    if (!not_numeric) {
      socket_.async_connect({numeric, options_.port}, [self = shared_from_this()](error_code error) { self->on_connected(error); });
      return;
    }
    resolver_.async_resolve(options_.host, std::to_string(options_.port),
                            [self = shared_from_this()](error_code error, tcp::resolver::results_type found) {
                              if (self->state_ == State::down) return;
                              if (error) return self->fail_connect("cannot resolve " + self->options_.host + ": " + error.message());
                              asio::async_connect(self->socket_, found, [self](error_code failed, const tcp::endpoint&) {
                                self->on_connected(failed);
                              });
                            });
  }

  void fail_connect(const std::string& what) {
    go_down(Error{"unreachable", what, "is the node running, and is this the address of its client listener?"});
  }

  void on_connected(error_code error) {
    if (state_ == State::down) return;
    if (error) return fail_connect("cannot connect to " + address() + ": " + error.message());
    error_code ignored;
    socket_.set_option(tcp::no_delay(true), ignored);
    state_ = State::handshake;
    if (options_.tls.on) return start_tls();
    say_hello();
  }

  void start_tls() {
    error_code error;
    tls_context_.emplace(ssl::context::tls_client);
    tls_context_->set_options(ssl::context::default_workarounds | ssl::context::no_sslv2 | ssl::context::no_sslv3 |
                              ssl::context::no_tlsv1 | ssl::context::no_tlsv1_1);
    tls_context_->set_verify_mode(ssl::verify_peer, error);
    if (options_.tls.ca_file.empty()) {
      tls_context_->set_default_verify_paths(error);
    } else {
      tls_context_->load_verify_file(options_.tls.ca_file, error);
      if (error) return fail_tls("cannot read the certificate authority " + options_.tls.ca_file + ": " + error.message());
    }
    if (!options_.tls.cert_file.empty()) {
      tls_context_->use_certificate_chain_file(options_.tls.cert_file, error);
      if (error) return fail_tls("cannot read the certificate " + options_.tls.cert_file + ": " + error.message());
      const std::string& key = options_.tls.key_file.empty() ? options_.tls.cert_file : options_.tls.key_file;
      tls_context_->use_private_key_file(key, ssl::context::pem, error);
      if (error) return fail_tls("cannot use the key " + key + ": " + error.message());
    }
    tls_.emplace(socket_, *tls_context_);
    const std::string name = options_.tls.server_name.empty() ? options_.host : options_.tls.server_name;
    tls_->set_verify_callback(ssl::host_name_verification(name), error);
    error_code not_numeric;
    asio::ip::make_address(name, not_numeric);
    if (not_numeric) SSL_set_tlsext_host_name(tls_->native_handle(), name.c_str());  // no SNI for addresses (RFC 6066)
    tls_->async_handshake(ssl::stream_base::client, [self = shared_from_this()](error_code failed) {
      if (self->state_ == State::down) return;
      if (failed) return self->fail_tls("TLS with " + self->address() + " failed: " + failed.message());
      self->say_hello();
    });
  }

  void fail_tls(const std::string& what) {
    go_down(Error{"tls_failed", what, "check ca=, cert= and key=, and that the certificate names the host that was dialled"});
  }

  void say_hello() {
    protocol::Hello hello;
    hello.cluster_expected = options_.cluster_expected;
    hello.store = options_.store;
    hello.token = options_.token;
    hello.role = options_.role;
    hello.program = options_.program;
    hello.generation_seen = options_.generation_seen;
    protocol::encode(hello_bytes_, hello_correlation, hello);
    auto self = shared_from_this();
    write_all(asio::buffer(hello_bytes_), [self](error_code error, std::size_t) {
      if (error) self->lost("cannot write", error);
    });
    in_.resize(read_buffer_bytes);
    read();
  }

  void on_welcome(const protocol::Frame& frame) {
    const auto status = static_cast<Status>(frame.header.status);
    if (frame.header.opcode != static_cast<std::uint8_t>(protocol::Opcode::hello)) return malformed("no Welcome");
    if (status != Status::ok) {
      protocol::ErrorAnswer said;
      if (!protocol::decode_error(frame.body, said)) said.reason = std::string(zaris::name(status));
      const char* code = status == Status::target_changed ? "target_changed"
                         : status == Status::unauthorized ? "unauthorized"
                         : status == Status::unsupported  ? "version_unsupported"
                                                          : "unreachable";
      return go_down(Error{code, address() + ": " + said.reason, said.hint});
    }
    protocol::Welcome welcome;
    if (!protocol::decode(frame.body, welcome)) return malformed("a Welcome that cannot be read");
    if (welcome.key_bytes_max > (1u << 30) || welcome.value_bytes_max > (1u << 30)) return malformed("limits over 1 GiB");
    // A page may have a record of the largest size behind all that was asked for.
    parser_.limit(protocol::frame_bytes_max(welcome.key_bytes_max, welcome.value_bytes_max) + answer_room);
    {
      const std::lock_guard lock(mutex_);
      state_ = State::up;
    }
    if (events_.on_up) {
      const auto on_up = events_.on_up;  // it may close()
      on_up(welcome);
    }
    flush();
  }

  // ---- writing
  template <class Buffers, class Handler>
  void write_all(const Buffers& buffers, Handler handler) {
    if (tls_) {
      asio::async_write(*tls_, buffers, std::move(handler));
    } else {
      asio::async_write(socket_, buffers, std::move(handler));
    }
  }

  void flush() {
    {
      const std::lock_guard lock(mutex_);
      flush_posted_ = false;
      if (writing_ || state_ != State::up || queue_.empty()) return;
      std::swap(queue_, leaving_);
      for (const auto& [place, life] : queued_)
        if (waiting_[place].life == life) waiting_[place].sent = true;
      queued_.clear();
      writing_ = true;
      unsent_without_queue_ = leaving_.size();
    }
    ++writes_;
    buffers_.clear();
    std::size_t at = 0;
    for (const OutQueue::View& view : leaving_.views) {
      if (view.before > at) buffers_.emplace_back(leaving_.bytes.data() + at, view.before - at);
      at = view.before;
      buffers_.emplace_back(view.view.data(), view.view.size());
    }
    if (leaving_.bytes.size() > at) buffers_.emplace_back(leaving_.bytes.data() + at, leaving_.bytes.size() - at);
    write_all(buffers_, [self = shared_from_this()](error_code error, std::size_t) {
      self->leaving_.clear();
      {
        const std::lock_guard lock(self->mutex_);
        self->writing_ = false;
        self->unsent_without_queue_ = 0;
        self->unsent_.store(self->queue_.size(), std::memory_order_relaxed);
      }
      if (error) return self->lost("cannot write", error);
      self->flush();
    });
  }

  // ---- reading
  void read() {
    const auto on_read = [self = shared_from_this()](error_code error, std::size_t bytes) { self->on_read(error, bytes); };
    const auto room = asio::buffer(in_.data() + in_end_, in_.size() - in_end_);
    if (tls_) {
      tls_->async_read_some(room, on_read);
    } else {
      socket_.async_read_some(room, on_read);
    }
  }

  void on_read(error_code error, std::size_t bytes) {
    if (state_ == State::down) return;
    if (error) return lost("closed by the peer", error);
    in_end_ += bytes;
    silence_.heard();
    std::size_t wanted = 0;
    if (!take_frames(wanted)) return;
    // What is left is the beginning of one frame; it moves to the front, and there is room for its end.
    if (in_begin_ > 0) {
      std::memmove(in_.data(), in_.data() + in_begin_, in_end_ - in_begin_);
      in_end_ -= in_begin_;
      in_begin_ = 0;
    }
    if (wanted > in_.size()) {
      in_.resize(wanted);
    } else if (in_end_ == 0 && in_.size() > (1u << 20)) {
      in_ = std::vector<char>(read_buffer_bytes);
    }
    read();
  }

  // Hands out all whole frames of the buffer. False: the connection is gone.
  bool take_frames(std::size_t& wanted) {
    while (true) {
      arrived_.clear();
      bool broken = false;
      {
        const std::lock_guard lock(mutex_);
        while (true) {
          protocol::Frame frame;
          const auto step = parser_.parse({in_.data() + in_begin_, in_end_ - in_begin_}, frame);
          if (step.step == protocol::FrameStep::need_more) {
            wanted = step.wanted;
            break;
          }
          if (step.step != protocol::FrameStep::frame) {
            broken = true;
            break;
          }
          in_begin_ += step.consumed;
          AnswerHandler handler;
          if (state_ == State::up && frame.header.correlation != 0) {
            const std::uint32_t place = frame.header.correlation & place_mask;
            if (place < waiting_.size() && waiting_[place].used && waiting_[place].life == frame.header.correlation >> place_bits)
              handler = release(place);  // else: it timed out before
          }
          arrived_.push_back({frame, std::move(handler)});
          if (state_ != State::up) break;  // Welcome changes what may follow
        }
      }
      if (arrived_.empty() && !broken) return true;
      // Handlers may send, but not re-enter here.
      auto batch = std::move(arrived_);
      for (Arrived& one : batch) {
        if (state_ == State::handshake) {
          on_welcome(one.frame);
        } else if (one.handler) {
          one.handler(Answer{static_cast<Status>(one.frame.header.status), one.frame.body});
        } else if (one.frame.header.correlation == 0 && one.frame.header.opcode == static_cast<std::uint8_t>(protocol::Opcode::map)) {
          protocol::MapAnswer map;
          if (events_.on_map && protocol::decode(one.frame.body, map)) events_.on_map(map);
        } else if (one.frame.header.correlation == 0) {
          // An error about something that could not be read as a request.
          protocol::ErrorAnswer said;
          if (protocol::decode_error(one.frame.body, said)) last_words_ = said.reason;
        }
        if (state_ == State::down) {
          for (Arrived& late : batch)
            if (&late > &one && late.handler) late.handler(Answer{static_cast<Status>(late.frame.header.status), late.frame.body});
          return false;
        }
      }
      batch.clear();
      arrived_ = std::move(batch);
      if (broken) {
        malformed("a frame with an impossible length");
        return false;
      }
    }
  }

  // ---- time
  void arm_tick() {
    timer_.expires_after(tick);
    timer_.async_wait([self = shared_from_this()](error_code error) {
      if (error || self->state_ == State::down) return;
      self->on_tick();
    });
  }

  void on_tick() {
    const std::uint64_t now = ticks_.fetch_add(1, std::memory_order_relaxed) + 1;
    if (state_ != State::up && now > static_cast<std::uint64_t>(options_.connect_timeout / tick)) {
      const char* what = state_ == State::connecting ? "no connection to " : options_.tls.on ? "no TLS and Welcome from " : "no Welcome from ";
      return fail_connect(what + address() + " within " + std::to_string(options_.connect_timeout.count()) + " ms");
    }
    std::vector<AnswerHandler> late;
    bool waited_for = false;
    {
      const std::lock_guard lock(mutex_);
      waited_for = in_use_ > 0 && state_ == State::up;
      if (waited_for) {
        for (std::uint32_t place = 1; place < waiting_.size(); ++place)
          if (waiting_[place].used && waiting_[place].deadline_tick < now) late.push_back(release(place));
      }
    }
    for (AnswerHandler& handler : late)
      handler(tl::unexpected(Error{"timed_out", "no answer from " + address() + " in time; whether it was done is not known", {}}));
    if (state_ == State::down) return;
    error_code ignored;
    switch (silence_.tick(waited_for, waited_for && taken())) {
      case Silence::Step::nothing: break;
      case Silence::Step::ask: ask_for_life(); break;
      case Silence::Step::gone:
        // What the kernel still has for it must not arrive later: by then a newer write of the same key may have been acknowledged elsewhere.
        socket_.set_option(asio::socket_base::linger(true, 0), ignored);
        return go_down(Error{"connection_lost", address() + " says nothing any more", "is that machine reachable, and is the process stopped?"});
    }
    arm_tick();
  }

  // Whether the peer's machine has taken something since the last call, although nothing was begun to be sent since then.
  [[nodiscard]] bool taken() {
    int left = 0;
    if (::ioctl(socket_.native_handle(), SIOCOUTQ, &left) != 0) return false;
    const bool moves = left != left_, same = writes_ == writes_seen_;
    left_ = left;
    writes_seen_ = writes_;
    return moves && same;
  }

  // The table of owners: every node answers it at once, and if it is another one by now, that is the news we wait for.
  void ask_for_life() {
    send([](std::string& out, std::uint32_t correlation) { protocol::encode_map_request(out, correlation); }, 2 * options_.silence,
         [self = shared_from_this()](Result<Answer> answer) {
           protocol::MapAnswer map;
           if (answer && answer->status == Status::ok && self->events_.on_map && protocol::decode(answer->body, map)) self->events_.on_map(map);
         },
         {});
  }

  // ---- going down
  void lost(const char* what, error_code error) {
    std::string text = address() + ": " + what;
    if (error != asio::error::eof && error != ssl::error::stream_truncated) text += ": " + error.message();
    if (!last_words_.empty()) text += " (it said: " + last_words_ + ")";
    const bool early = state_ != State::up;
    // With TLS 1.3 a server that wants a client certificate says so after our side of the handshake is over.
    if (early && tls_ && (error.category() == asio::error::get_ssl_category() || options_.tls.cert_file.empty()))
      return go_down(Error{"tls_failed", text, "does it demand a client certificate? give cert= and key="});
    std::string hint;
    if (early && !options_.tls.on) hint = "if that port speaks TLS, use zariss://";
    go_down(Error{early ? "unreachable" : "connection_lost", text, hint});
  }
  void malformed(const char* what) {
    go_down(Error{"protocol_malformed", address() + " sent " + what, "is this the client port of a Zaris node?"});
  }

  void go_down(const Error& why) {
    if (state_ == State::down) return;
    std::vector<std::pair<AnswerHandler, bool>> orphans;
    {
      const std::lock_guard lock(mutex_);
      state_ = State::down;
      // In the order of sending is not promised here; every handler is called once.
      for (std::uint32_t place = 1; place < waiting_.size(); ++place) {
        if (!waiting_[place].used) continue;
        const bool sent = waiting_[place].sent;
        orphans.emplace_back(release(place), sent);
      }
      queued_.clear();
    }
    context_->users.erase(this);
    error_code ignored;
    resolver_.cancel();
    timer_.cancel();
    if (asio::socket_base::linger how; socket_.get_option(how, ignored), !how.enabled()) socket_.shutdown(tcp::socket::shutdown_both, ignored);
    socket_.close(ignored);
    for (auto& [handler, sent] : orphans) {
      Error error = why;
      if (sent) {
        error.code = "connection_lost";
      } else if (error.code == "connection_lost") {
        error.code = "unreachable";
      }
      handler(tl::unexpected(std::move(error)));
    }
    if (const auto on_down = std::move(events_.on_down)) on_down(why);
    events_ = {};
  }

  static constexpr std::uint32_t hello_correlation = 1;

  // --- constant after construction
  const std::shared_ptr<LoopContext> context_;
  const ConnectionOptions options_;

  // --- loop thread
  Events events_;
  tcp::resolver resolver_;
  tcp::socket socket_;
  std::optional<ssl::context> tls_context_;
  std::optional<ssl::stream<tcp::socket&>> tls_;
  asio::steady_timer timer_;
  Silence silence_;
  int left_ = 0;                                 // bytes that the peer's machine had not confirmed at the last tick
  std::uint64_t writes_ = 0, writes_seen_ = 0;   // begun in all, and at the last tick
  protocol::FrameParser parser_;
  std::string hello_bytes_, last_words_;
  std::vector<char> in_;
  std::size_t in_begin_ = 0, in_end_ = 0;
  struct Arrived {
    protocol::Frame frame;
    AnswerHandler handler;
  };
  std::vector<Arrived> arrived_;
  OutQueue leaving_;
  std::vector<asio::const_buffer> buffers_;

  // --- any thread
  std::atomic<State> state_{State::connecting};  // written by the loop thread; to up and down under mutex_
  std::atomic<std::uint64_t> ticks_{0};
  std::atomic<std::size_t> unsent_{0};
  mutable std::mutex mutex_;
  OutQueue queue_;
  std::vector<std::pair<std::uint32_t, std::uint16_t>> queued_;  // place and life of what is in queue_
  std::vector<Waiting> waiting_;
  std::vector<std::uint32_t> free_;
  std::size_t in_use_ = 0, unsent_without_queue_ = 0;
  bool flush_posted_ = false, writing_ = false;
};

}  // namespace

std::shared_ptr<Connection> Connection::open(std::shared_ptr<Loop> loop, ConnectionOptions options, Events events) {
  auto connection = std::make_shared<ConnectionImpl>(std::move(loop), std::move(options), std::move(events));
  connection->start();
  return connection;
}

}  // namespace zaris::client
