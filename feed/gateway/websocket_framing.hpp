// The WebSocket side of a session that a gateway serves: messages out of a follower's bytes, the control frames that go between ours.
// Internal to feed/gateway and feed/routed. One thread.
#pragma once
#include <deque>
#include <string>
#include <string_view>

#include "cluster/base/result.hpp"
#include "feed/message/message.hpp"
#include "feed/transport/websocket.hpp"

namespace zaris::feed {

class WebsocketFraming {
 public:
  explicit WebsocketFraming(std::uint64_t message_bytes_max) : reader_(websocket::Side::server, message_bytes_max, false) {}

  // A control frame that waits, into `out`. False: none does.
  bool next_control(std::string& out) {
    if (control_.empty()) return false;
    out = std::move(control_.front());
    control_.pop_front();
    return true;
  }
  // Each whole message is given to `on_message`. An error ends the connection.
  template <class OnMessage>
  Result<void> take(std::string_view bytes, OnMessage on_message) {
    using Kind = websocket::Reader::Event::Kind;
    while (!bytes.empty()) {
      auto event = reader_.take(bytes);
      if (!event) return tl::unexpected(event.error());
      if (!*event) break;
      switch ((*event)->kind) {
        case Kind::message: on_message(*(*event)->bytes); break;
        case Kind::ping:
          if (control_.size() < control_frames_max) control_.push_back(websocket::frame(websocket::Opcode::pong, *(*event)->bytes));
          break;
        case Kind::pong: break;
        case Kind::close: closed_by_peer_ = true; return {};
      }
    }
    return {};
  }
  void go_away(std::string_view text, std::uint32_t within_ms) {
    control_.push_back(websocket::frame(websocket::Opcode::binary, encode(GatewayMessage(GoAway{std::string(text), within_ms}))));
  }
  [[nodiscard]] bool closed_by_peer() const { return closed_by_peer_; }
  [[nodiscard]] std::uint64_t held_bytes() const { return reader_.held_bytes(); }

 private:
  static constexpr std::size_t control_frames_max = 64;    // answers to pings that wait; more are dropped
  websocket::Reader reader_;
  std::deque<std::string> control_;
  bool closed_by_peer_ = false;
};

}  // namespace zaris::feed
