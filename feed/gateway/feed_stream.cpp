// A feed session as a stream: WebSocket frames round SourceSession's messages.
#include <utility>

#include "feed/gateway/gateway.hpp"
#include "feed/gateway/session_log.hpp"
#include "feed/gateway/stream.hpp"
#include "feed/gateway/websocket_framing.hpp"
#include "feed/transport/websocket.hpp"

namespace zaris::feed {
namespace {

class FeedStream final : public Stream {
 public:
  FeedStream(const StreamSetting& setting, const Principal& principal)
      : principal_(principal),
        session_(SourceSession::create(setting.store, setting.options, principal, setting.confirm, setting.authority)),
        websocket_(setting.message_bytes_max) {}

  Transport transport() const override { return Transport::websocket; }
  void on_dirty(std::span<const SegmentId> segments) override { session_->on_dirty(segments); }
  void on_authority() override { session_->on_authority(); }
  void on_tick(Now now) override { session_->on_tick(now); }

  std::optional<std::size_t> next(std::string& out, Now now) override {
    if (websocket_.next_control(out)) return 0;
    out.resize(websocket::header_room);
    if (!session_->next_message(out, now)) return std::nullopt;
    return websocket::put_header(out);
  }

  Result<void> on_bytes(std::string_view bytes, Now now) override {
    return websocket_.take(bytes, [&](const std::string& message) {
      session_->on_message(message, now);
      log_follower_message(message, principal_, session_->hello() ? session_->hello()->link : std::string());
    });
  }

  void go_away(std::string_view text, std::uint32_t within_ms) override { websocket_.go_away(text, within_ms); }
  void end(EndReason reason, std::string_view text) override { session_->end(reason, text); }

  std::optional<SessionEnd> ended() const override {
    if (websocket_.closed_by_peer()) return SessionEnd{"peer_closed", "the follower ended the session", false};
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
  std::uint64_t held_bytes() const override { return websocket_.held_bytes(); }

 private:
  const Principal principal_;
  std::unique_ptr<SourceSession> session_;
  WebsocketFraming websocket_;
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
