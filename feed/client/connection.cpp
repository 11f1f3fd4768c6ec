#include "feed/client/connection.hpp"

#include <fmt/format.h>
#include <openssl/rand.h>

#include <array>
#include <utility>

#include "feed/client/dialled.hpp"
#include "feed/transport/http.hpp"
#include "feed/transport/http_error.hpp"
#include "feed/transport/websocket.hpp"

namespace zaris::feed {

// ---- Dialled ------------------------------------------------------------------------------------------------------

std::string Dialled::place() const { return fmt::format("{}:{}", endpoint_.host, endpoint_.port); }

void Dialled::dial() {
  dial_ = loop_.dial(endpoint_.host, endpoint_.port, endpoint_.after, endpoint_.connect_deadline, [self = shared_from_this()](Result<std::unique_ptr<Socket>> socket) {
    self->dial_.reset();
    if (self->over_) return;
    if (!socket) return self->end(socket.error());
    self->socket_ = std::move(*socket);
    self->peer_ = self->socket_->peer_address();
    auto channel = tls::Channel::connect(self->endpoint_.tls.get(), self->socket_->handle(), self->endpoint_.host);
    if (!channel) return self->end(channel.error());
    self->channel_ = std::move(*channel);
    self->deadline_->after(self->endpoint_.handshake_deadline, [weak = self->weak_from_this()] {
      if (const auto me = weak.lock()) {
        me->end({"feed_handshake_timeout", fmt::format("{} took the connection and did not finish the handshake in time", me->place()), "is it a feed port, and is the process there alive?"});
      }
    });
    self->handshake();
  });
}

void Dialled::handshake() {
  if (over_) return;
  switch (channel_->handshake()) {
    case tls::Io::ok: {
      ready_ = true;
      const auto self = shared_from_this();
      on_ready();
      if (!over_) wait_readable();
      return;
    }
    case tls::Io::want_read: return socket_->when_readable([self = shared_from_this()] { self->handshake(); });
    case tls::Io::want_write: return socket_->when_writable([self = shared_from_this()] { self->handshake(); });
    default: return end(channel_->error());
  }
}

void Dialled::wait_readable() {
  socket_->when_readable([self = shared_from_this()] { self->readable(); });
}

void Dialled::readable() {
  if (leaving_) {
    // Lingering: what the peer still says is read away, so that closing sends no reset over our last words.
    static thread_local std::array<char, 16384> away;
    std::size_t got = 0;
    tls::Io io = tls::Io::ok;
    for (int i = 0; i < 64 && io == tls::Io::ok; ++i) io = channel_->read(away.data(), away.size(), got);
    if (io == tls::Io::want_read || io == tls::Io::ok) return wait_readable();
    deadline_->cancel();
    channel_.reset();
    socket_.reset();
    return;
  }
  if (over_) return;
  const auto self = shared_from_this();
  const Next next = on_readable();
  if (leaving_ && socket_) return wait_readable();
  if (over_) return;
  if (next == Next::wait) wait_readable();
  if (next == Next::again) loop_.post([self] { self->readable(); });
}

void Dialled::send_bytes(std::string bytes) {
  if (over_ || !ready_) return;
  waiting_ += bytes.size();
  queue_.push_back(std::move(bytes));
  if (!writing_) pump();
}

void Dialled::pump() {
  const auto self = shared_from_this();
  writing_ = false;
  tls::Io io = channel_->flush();
  while (io == tls::Io::ok && !queue_.empty()) {
    std::size_t taken = 0;
    io = channel_->write(std::string_view(queue_.front()).substr(front_done_), taken);
    front_done_ += taken;
    waiting_ -= taken;
    if (front_done_ == queue_.front().size()) {
      queue_.pop_front();
      front_done_ = 0;
    }
  }
  if (io == tls::Io::want_write) {
    writing_ = true;
    return socket_->when_writable([self] {
      if (self->socket_) self->pump();
    });
  }
  if (io != tls::Io::ok) {
    // The reason may lie unread: a server that refuses our certificate says so, then closes (TLS 1.3 lets us write first).
    const Error sending = channel_->error();
    std::array<char, 512> rest{};
    std::size_t got = 0;
    const bool told = channel_->read(rest.data(), rest.size(), got) == tls::Io::failed && channel_->error().code.starts_with("tls_");
    return end(told ? channel_->error() : sending);
  }
  if (leaving_) return channel_->shutdown();
  on_drained();
}

void Dialled::end(Error error) {
  if (over_) return;
  const auto self = shared_from_this();
  over_ = true;
  dial_.reset();
  deadline_->cancel();
  channel_.reset();
  socket_.reset();
  on_ended(error);
}

void Dialled::let_go(std::string farewell) {
  if (over_) return;
  const auto self = shared_from_this();
  if (!ready_) {
    over_ = true;
    dial_.reset();
    deadline_->cancel();
    channel_.reset();
    socket_.reset();
    return;
  }
  leaving_ = true;
  if (!farewell.empty()) send_bytes(std::move(farewell));
  if (!socket_) return;
  over_ = true;
  if (queue_.empty() && channel_->flushed()) channel_->shutdown();
  // The handler holds the last reference for half a second at most.
  deadline_->after(std::chrono::milliseconds(500), [self] {
    self->channel_.reset();
    self->socket_.reset();
  });
}

// ---- FeedConnection -----------------------------------------------------------------------------------------------
namespace {

constexpr std::size_t scratch_bytes = 64u << 10;
constexpr std::size_t read_turn_bytes = 2u << 20;         // then other connections of the loop have their turn

Error refusal(const std::string& place, const http::Response& response) {
  return error_in(response.body, {"feed_refused", fmt::format("{} answered {} {}", place, response.status, response.reason), {}});
}

class Wire final : public Dialled {
 public:
  Wire(Loop& to, FeedEndpoint endpoint, FeedConnection::Handlers handlers)
      : Dialled(to, std::move(endpoint)), handlers_(std::make_shared<const FeedConnection::Handlers>(std::move(handlers))), reader_(websocket::Side::client, this->endpoint().message_bytes_max, true) {}

  void send(std::string_view message) {
    if (upgraded_) send_bytes(websocket::masked_frame(websocket::Opcode::binary, message, fresh_mask()));
  }
  void close() {
    handlers_.reset();
    let_go(upgraded_ ? websocket::masked_frame(websocket::Opcode::close, websocket::close_payload(websocket::CloseCode::normal, {}), fresh_mask()) : std::string());
  }

 private:
  static std::uint32_t fresh_mask() {
    std::uint32_t mask = 0;
    RAND_bytes(reinterpret_cast<unsigned char*>(&mask), sizeof mask);
    return mask;
  }
  void on_ready() override {
    std::array<char, 16> nonce{};
    RAND_bytes(reinterpret_cast<unsigned char*>(nonce.data()), nonce.size());
    key_ = websocket::base64({nonce.data(), nonce.size()});
    send_bytes(http::upgrade_request(endpoint().host, endpoint().port, "/feed/v1", key_));
  }
  Next on_readable() override {
    came_ = false;
    const Next next = read_turn();
    if (next == Next::ended || !came_ || !reader_.in_message()) return next;
    if (const auto h = handlers_; h && h->on_part) h->on_part();
    return over() ? Next::ended : next;
  }
  Next read_turn() {
    static thread_local std::string scratch;
    scratch.resize(scratch_bytes);
    for (std::size_t turn = 0, got = 0; turn < read_turn_bytes; turn += got) {
      const auto room = upgraded_ ? reader_.direct() : websocket::Reader::Room{};
      const tls::Io io = room.size > 0 ? read(room.at, room.size, got) : read(scratch.data(), scratch.size(), got);
      if (io == tls::Io::want_read) return Next::wait;
      if (io != tls::Io::ok) {
        end(channel_error());
        return Next::ended;
      }
      came_ = true;
      if (room.size > 0) {
        if (auto event = reader_.committed(got); event && !deliver(*event)) return Next::ended;
      } else if (!take({scratch.data(), got})) {
        return Next::ended;
      }
      if (drained()) return Next::wait;
    }
    return Next::again;
  }

  bool take(std::string_view bytes) {
    if (!upgraded_) {
      head_.append(bytes);
      auto response = http::take_response(head_, 64u << 10);
      if (!response) return end(response.error()), false;
      if (!*response) return true;
      if ((*response)->status != 101 || (*response)->websocket_accept != websocket::accept_key(key_)) return end(refusal(place(), **response)), false;
      settled();
      upgraded_ = true;
      const std::string rest = std::exchange(head_, {});
      if (const auto h = handlers_; h && h->on_open) h->on_open();
      return !over() && (rest.empty() || take(rest));
    }
    while (!bytes.empty()) {
      auto event = reader_.take(bytes);
      if (!event) return end(event.error()), false;
      if (*event && !deliver(**event)) return false;
    }
    return true;
  }
  bool deliver(websocket::Reader::Event& event) {
    using Kind = websocket::Reader::Event::Kind;
    switch (event.kind) {
      case Kind::message:
        if (const auto h = handlers_; h && h->on_message) h->on_message(std::move(event.bytes));
        break;
      case Kind::ping: send_bytes(websocket::masked_frame(websocket::Opcode::pong, *event.bytes, fresh_mask())); break;
      case Kind::pong: break;
      case Kind::close: {
        const auto& payload = *event.bytes;
        const unsigned code = payload.size() < 2 ? 1005u : static_cast<unsigned>(static_cast<unsigned char>(payload[0])) << 8 | static_cast<unsigned char>(payload[1]);
        const std::string text = payload.size() > 2 ? ": " + printable(std::string_view(payload).substr(2)) : "";
        end({"peer_closed", fmt::format("{} ended the session (WebSocket {}{})", place(), code, text), {}});
        break;
      }
    }
    return !over();
  }
  void on_ended(const Error& error) override {
    const auto handlers = std::exchange(handlers_, nullptr);
    if (handlers && handlers->on_closed) handlers->on_closed(error);
  }
  void on_drained() override {
    if (const auto h = handlers_; h && h->on_sent) h->on_sent();
  }

  std::shared_ptr<const FeedConnection::Handlers> handlers_;  // held while one runs, since it may close us
  websocket::Reader reader_;
  std::string key_, head_;
  bool upgraded_ = false, came_ = false;
};

class Connection final : public FeedConnection {
 public:
  Connection(Loop& loop, FeedEndpoint endpoint, Handlers handlers) : wire_(std::make_shared<Wire>(loop, std::move(endpoint), std::move(handlers))) { wire_->dial(); }
  ~Connection() override { wire_->close(); }
  void send(std::string message) override { wire_->send(message); }
  std::size_t bytes_waiting() const override { return wire_->bytes_waiting(); }
  const std::string& peer_address() const override { return wire_->peer_address(); }
  void close() override { wire_->close(); }

 private:
  std::shared_ptr<Wire> wire_;
};

}  // namespace

std::unique_ptr<FeedConnection> FeedConnection::open(Loop& loop, FeedEndpoint endpoint, Handlers handlers) {
  return std::make_unique<Connection>(loop, std::move(endpoint), std::move(handlers));
}

}  // namespace zaris::feed
