// A feed session as a stream: WebSocket frames round SourceSession's messages.
#include <deque>
#include <utility>

#include "feed/gateway/gateway.hpp"
#include "feed/gateway/session_log.hpp"
#include "feed/gateway/stream.hpp"
#include "feed/transport/websocket.hpp"

namespace zaris::feed {
namespace {

constexpr std::size_t control_frames_max = 64;    // answers to WebSocket pings that wait; more are dropped

class FeedStream final : public Stream {
 public:
  FeedStream(const StreamSetting& setting, const Principal& principal)
      : principal_(principal),
        session_(SourceSession::create(setting.store, setting.options, principal, setting.confirm, setting.authority)),
        reader_(websocket::Side::server, setting.message_bytes_max, false) {}

  Transport transport() const override { return Transport::websocket; }
  void on_dirty(std::span<const SegmentId> segments) override { session_->on_dirty(segments); }
  void on_authority() override { session_->on_authority(); }
  void on_tick(Now now) override { session_->on_tick(now); }

  std::optional<std::size_t> next(std::string& out, Now now) override {
    if (!control_.empty()) {
      out = std::move(control_.front());
      control_.pop_front();
      return 0;
    }
    out.resize(websocket::header_room);
    if (!session_->next_message(out, now)) return std::nullopt;
    return websocket::put_header(out);
  }

  Result<void> on_bytes(std::string_view bytes, Now now) override {
    using Kind = websocket::Reader::Event::Kind;
    while (!bytes.empty()) {
      auto event = reader_.take(bytes);
      if (!event) return tl::unexpected(event.error());
      if (!*event) break;
      switch ((*event)->kind) {
        case Kind::message: {
          const auto& message = *(*event)->bytes;
          session_->on_message(message, now);
          log_follower_message(message, principal_, session_->hello() ? session_->hello()->link : std::string());
          break;
        }
        case Kind::ping:
          if (control_.size() < control_frames_max) control_.push_back(websocket::frame(websocket::Opcode::pong, *(*event)->bytes));
          break;
        case Kind::pong: break;
        case Kind::close:
          closed_by_peer_ = true;
          return {};
      }
    }
    return {};
  }

  void go_away(std::string_view text, std::uint32_t within_ms) override {
    control_.push_back(websocket::frame(websocket::Opcode::binary, encode(GatewayMessage(GoAway{std::string(text), within_ms}))));
  }
  void end(EndReason reason, std::string_view text) override { session_->end(reason, text); }

  std::optional<SessionEnd> ended() const override {
    if (closed_by_peer_) return SessionEnd{"peer_closed", "the follower ended the session", false};
    return session_->ended();
  }
  std::string farewell(const std::optional<SessionEnd>& why) override {
    return websocket_farewell(why);
  }
  bool introduced() const override { return session_->hello().has_value(); }
  void describe(SessionInfo& to) const override {
    to.principal = principal_.name;
    to.transport = "websocket";
    if (const auto& hello = session_->hello()) {
      to.follower = hello->follower;
      to.link = hello->link;
      to.scope = hello->scope.id();
    }
    to.credit_left = session_->credit_left();
    to.records_sent = session_->counters().records;
  }
  SourceCounters counters() const override { return session_->counters(); }
  std::uint64_t held_bytes() const override { return reader_.held_bytes(); }

 private:
  const Principal principal_;
  std::unique_ptr<SourceSession> session_;
  websocket::Reader reader_;
  std::deque<std::string> control_;
  bool closed_by_peer_ = false;
};

}  // namespace

std::string websocket_farewell(const std::optional<SessionEnd>& why) {
  using websocket::CloseCode;
  CloseCode code = CloseCode::going_away;
  if (why && why->code == "peer_closed") code = CloseCode::normal;
  else if (why && why->code == "websocket_message_too_big") code = CloseCode::too_big;
  else if (why && why->code == "websocket_unsupported") code = CloseCode::unsupported;
  else if (why && why->protocol_error) code = CloseCode::protocol_error;
  return websocket::frame(websocket::Opcode::close, websocket::close_payload(code, why && why->code != "peer_closed" ? why->code : std::string()));
}

std::unique_ptr<Stream> make_feed_stream(const StreamSetting& setting, const Principal& principal) { return std::make_unique<FeedStream>(setting, principal); }

}  // namespace zaris::feed
