#include "feed/gateway/connection.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <nlohmann/json.hpp>

#include "cluster/logging/event_log.hpp"
#include "feed/session/changes.hpp"
#include "feed/transport/http_error.hpp"
#include "feed/transport/segments.hpp"

namespace zaris::feed {
namespace {

constexpr std::size_t scratch_bytes = 64u << 10;
constexpr std::size_t read_turn_bytes = 512u << 10;        // of one connection, before others have their turn
constexpr std::size_t blocked_read_bytes_max = 1u << 20;   // taken from a peer that takes nothing itself
constexpr MonoMicros leave_us = 1'000'000;
constexpr MonoMicros keep_alive_us = 30'000'000;

template <class E>
std::size_t index(E e) { return static_cast<std::size_t>(e); }

HandshakeFailure failure_of(const std::string& code) {
  if (code == "tls_no_client_cert") return HandshakeFailure::no_client_cert;
  if (code == "tls_unknown_ca" || code == "tls_client_cert_refused") return HandshakeFailure::unknown_ca;
  if (code == "tls_not_tls" || code == "http_malformed") return HandshakeFailure::not_tls;
  return HandshakeFailure::other;
}

}  // namespace

Connection::Connection(ConnectionHost& host, std::unique_ptr<Socket> socket)
    : host_(host), shared_(host.shared()), socket_(std::move(socket)), channel_(tls::Channel::accept(shared_.context.get(), socket_->handle())) {
  born_us_ = heard_us_ = host_.now().mono_us;
  deadline_us_ = born_us_ + shared_.options.handshake_timeout.count();
  ++shared_.counters.connections_open;
  ++shared_.counters.handshakes_open;
}

Connection::~Connection() {
  if (unasked()) --shared_.counters.handshakes_open;
  if (stream_) close_stream(DisconnectReason::drain, "shutting_down", "the process ends");
  if (have_place_) shared_.give_place(socket_->peer_address());
  --shared_.counters.connections_open;
}

void Connection::set_phase(Phase phase) {
  const bool before = unasked();
  phase_ = phase;
  if (before && !unasked()) --shared_.counters.handshakes_open;
  if (!before && unasked()) ++shared_.counters.handshakes_open;
  host_.phase_changed();
}

// ---- handshake ----------------------------------------------------------------------------------------------------

void Connection::handshake() {
  if (phase_ != Phase::handshake) return;
  switch (channel_->handshake()) {
    case tls::Io::ok: break;
    case tls::Io::want_read: return socket_->when_readable([this] { handshake(); });
    case tls::Io::want_write: return socket_->when_writable([this] { handshake(); });
    default: return handshake_failed(channel_->error());
  }
  set_phase(Phase::request);
  if (auto principal = shared_.access()->principal(channel_->peer())) {
    principal_ = std::move(*principal);
    admitted_ = true;
  }
  on_readable();
}

void Connection::handshake_failed(const Error& error) {
  ++shared_.counters.handshakes_failed[index(failure_of(error.code))];
  // Whoever only connects and leaves is a balancer's probe, not news.
  logging::write(error.code == "peer_closed" ? logging::Level::debug : logging::Level::warning, "feed_handshake_failed", error.what, {{"code", error.code}, {"address", socket_->peer_address()}});
  leave({});
}

// ---- reading ------------------------------------------------------------------------------------------------------

void Connection::arm_read() {
  if (read_armed_ || phase_ == Phase::dead) return;
  read_armed_ = true;
  socket_->when_readable([this] {
    read_armed_ = false;
    on_readable();
  });
}

void Connection::on_readable() {
  static thread_local std::string scratch(scratch_bytes, '\0');
  switch (phase_) {
    case Phase::request: {
      std::size_t got = 0;
      const tls::Io io = channel_->read(scratch.data(), std::min(scratch.size(), http::head_bytes_max), got);
      if (io == tls::Io::want_read) return arm_read();
      if (io != tls::Io::ok) {
        if (io == tls::Io::failed && in_.empty()) return handshake_failed(channel_->error());
        return set_phase(Phase::dead);
      }
      heard_us_ = host_.now().mono_us;
      in_.append(scratch.data(), got);
      return take_requests();
    }
    case Phase::streaming: return read_stream();
    case Phase::leaving:
      // What the peer still says is read away, so that closing sends no reset over our last words.
      for (int i = 0; i < 16; ++i) {
        const ssize_t n = ::recv(socket_->handle(), scratch.data(), scratch.size(), MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) return set_phase(Phase::dead);
        if (n < 0) break;
      }
      return arm_read();
    case Phase::handshake:
    case Phase::answering:
    case Phase::dead: return;
  }
}

void Connection::read_stream() {
  static thread_local std::string scratch(scratch_bytes, '\0');
  const Now now = host_.now();
  for (std::size_t turn = 0; turn < read_turn_bytes;) {
    if (blocked_ && blocked_read_ > blocked_read_bytes_max) {
      read_paused_ = true;                                 // until the peer takes something
      return;
    }
    std::size_t got = 0;
    const tls::Io io = channel_->read(scratch.data(), scratch.size(), got);
    if (io == tls::Io::want_read) {
      host_.wants_turn(*this);
      return arm_read();
    }
    if (io != tls::Io::ok) return die(io == tls::Io::closed ? DisconnectReason::client : DisconnectReason::error, channel_->error());
    heard_us_ = now.mono_us;
    turn += got;
    if (blocked_) blocked_read_ += got;
    if (auto r = stream_->on_bytes({scratch.data(), got}, now); !r) return stream_over({r.error().code, r.error().what, true});
    if (phase_ == Phase::streaming && channel_->drained()) {
      host_.wants_turn(*this);
      return arm_read();
    }
  }
  host_.wants_turn(*this);
  host_.read_again(*this);
}

// ---- requests -----------------------------------------------------------------------------------------------------

void Connection::take_requests() {
  auto request = http::take_request(in_);
  if (!request) {
    ++shared_.counters.handshakes_failed[index(HandshakeFailure::not_tls)];
    keep_alive_ = false;
    return respond(request.error().code == "http_head_too_large" ? 431 : 400, "application/json", error_json(request.error()));
  }
  if (!*request) return arm_read();
  keep_alive_ = (*request)->keep_alive;
  answer(**request);
}

void Connection::answer(const http::Request& request) {
  if (request.method != "GET") {
    keep_alive_ = false;
    return respond(405, "application/json", error_json({"http_method_unknown", "only GET is known here", {}}));
  }
  if (request.path == "/healthz") return respond(200, "text/plain", "ok\n");
  if (request.path == "/readyz") {
    auto json = nlohmann::json::object();
    bool ready = !shared_.draining;
    json["draining"] = shared_.draining.load();
    if (shared_.hooks.ready_checks) {
      for (const auto& [name, wrong] : shared_.hooks.ready_checks()) {
        json["checks"][name] = wrong.empty() ? "ok" : wrong;
        ready = ready && wrong.empty();
      }
    }
    json["ready"] = ready;
    return respond(ready ? 200 : 503, "application/json", json.dump() + "\n");
  }
  if (!admitted_) {
    const auto peer = channel_->peer();
    return refuse(403, RefusedReason::unauthorized,
                  {"feed_subject_unknown", fmt::format("feed.access has no row for '{}'", printable(peer.subject.empty() ? "anonymous" : peer.subject)),
                   "add a row with this subject and the prefixes that it may read"});
  }
  if (request.path == "/feed/v1") return answer_upgrade(request);
  if (request.path == "/v1/changes") return answer_changes(request);
  if (request.path == "/v1/segments") {
    return respond(200, "application/json", format_segments(shared_.origin->segments(host_.now())));
  }
  respond(404, "application/json", error_json({"http_path_unknown", fmt::format("there is no {}", printable(request.path)), "/feed/v1, /v1/changes, /v1/segments, /healthz, /readyz"}));
}

void Connection::answer_upgrade(const http::Request& request) {
  if (!request.websocket_key) {
    return refuse(request.wants_upgrade ? 400 : 426, RefusedReason::bad_request,
                  {"feed_upgrade_needed", "the feed is a WebSocket (RFC 6455, version 13)", "open it with a WebSocket client; GET /v1/changes is plain HTTP"});
  }
  if (!admit_session()) return;
  start_stream(shared_.origin->feed(principal_, stream_host()), http::switch_to_websocket(*request.websocket_key));
}

bool Connection::admit_session() {
  if (shared_.draining) {
    refuse(503, RefusedReason::draining, {"shutting_down", "this gateway is being stopped", "connect to another, or again in a moment"});
    return false;
  }
  have_place_ = shared_.take_place(socket_->peer_address());
  if (!have_place_) {
    refuse(503, RefusedReason::limit, {"feed_sessions_limit", fmt::format("{} sessions are open, and no more are allowed (feed.max_sessions)", shared_.options.sessions_max), "raise the limit, or use another gateway"});
  }
  return have_place_;
}

void Connection::answer_changes(const http::Request& request) {
  auto stream = shared_.origin->changes(principal_, request.query, stream_host());
  if (!stream) {
    const unsigned status = changes_http_status(stream.error().code);
    return refuse(static_cast<std::uint16_t>(status), status == 403 ? RefusedReason::unauthorized : RefusedReason::bad_request, stream.error());
  }
  if (!admit_session()) return;
  std::string head = (*stream)->answers_itself() ? std::string() : http::respond_chunked(http::ndjson);
  start_stream(std::move(*stream), std::move(head));
}

StreamHost Connection::stream_host() {
  return {host_.loop(), [this] { return host_.now(); }, [this] { host_.wants_turn(*this); }};
}

void Connection::refuse(std::uint16_t status, RefusedReason reason, const Error& error) {
  ++shared_.counters.refused[index(reason)];
  logging::write(logging::Level::warning, "feed_session_refused", error.what,
                 {{"code", error.code}, {"principal", printable(principal_.name)}, {"address", socket_->peer_address()}});
  keep_alive_ = false;
  respond(status, "application/json", error_json(error));
}

void Connection::respond(std::uint16_t status, std::string_view type, std::string_view body) {
  if (!keep_alive_) return leave(http::respond(status, type, body, false));
  set_phase(Phase::answering);
  out_ = http::respond(status, type, body, true);
  out_at_ = 0;
  send_out();
}

// ---- streaming ----------------------------------------------------------------------------------------------------

void Connection::start_stream(std::unique_ptr<Stream> stream, std::string head) {
  stream_ = std::move(stream);
  set_phase(Phase::streaming);
  auto& counters = shared_.counters.transports[index(stream_->transport())];
  ++counters.open;
  ++counters.opened;
  deadline_us_ = host_.now().mono_us + shared_.options.handshake_timeout.count();
  logging::write(logging::Level::info, "feed_session_opened", "a session begins",
                 {{"transport", std::string(transport_names[index(stream_->transport())])}, {"principal", printable(principal_.name)}, {"address", socket_->peer_address()}, {"tls", channel_->version()}});
  out_ = std::move(head);
  out_at_ = 0;
  const std::string early = std::exchange(in_, {});
  send_out();
  if (phase_ != Phase::streaming) return;
  if (!early.empty()) {
    if (auto r = stream_->on_bytes(early, host_.now()); !r) return stream_over({r.error().code, r.error().what, true});
  }
  read_stream();
}

Connection::Pumped Connection::pump() {
  if (phase_ != Phase::streaming) return Pumped::over;
  if (blocked_) return Pumped::blocked;
  std::string& buffer = host_.buffer();
  const auto at = stream_->next(buffer, host_.now());
  if (!at) {
    if (const auto why = stream_->ended()) {
      stream_over(*why);
      return Pumped::over;
    }
    return Pumped::idle;
  }
  const std::string_view message = std::string_view(buffer).substr(*at);
  bytes_sent_ += message.size();
  shared_.counters.transports[index(stream_->transport())].bytes_sent.fetch_add(message.size(), std::memory_order_relaxed);
  std::size_t taken = 0;
  const tls::Io io = channel_->write(message, taken);
  if (io == tls::Io::ok) return Pumped::more;
  if (io != tls::Io::want_write) {
    die(io == tls::Io::closed ? DisconnectReason::client : DisconnectReason::error, channel_->error());
    return Pumped::over;
  }
  if (taken < message.size()) {
    out_.swap(buffer);
    out_at_ = *at + taken;
  }
  blocked();
  return Pumped::blocked;
}

void Connection::blocked() {
  if (!blocked_) blocked_since_us_ = host_.now().mono_us;
  blocked_ = true;
  arm_write();
}

void Connection::arm_write() {
  if (write_armed_) return;
  write_armed_ = true;
  socket_->when_writable([this] {
    write_armed_ = false;
    on_writable();
  });
}

void Connection::on_writable() {
  if (phase_ == Phase::dead || phase_ == Phase::handshake) return;
  const std::size_t before = channel_->waiting_bytes() + out_.size() - out_at_;
  send_out();
  if (blocked_ && channel_->waiting_bytes() + out_.size() - out_at_ < before) blocked_since_us_ = host_.now().mono_us;
}

// Sends what is left of the message (or answer, or last words) being sent, then goes on as the phase says.
void Connection::send_out() {
  tls::Io io = channel_->flush();
  if (io == tls::Io::ok && out_at_ < out_.size()) {
    std::size_t taken = 0;
    io = channel_->write(std::string_view(out_).substr(out_at_), taken);
    out_at_ += taken;
  }
  if (io == tls::Io::want_write) return blocked();
  if (io != tls::Io::ok) {
    if (phase_ == Phase::streaming) return die(io == tls::Io::closed ? DisconnectReason::client : DisconnectReason::error, channel_->error());
    return set_phase(Phase::dead);
  }
  blocked_ = false;
  blocked_read_ = 0;
  // An idle session keeps no buffer: what a large message needed goes to the thread, or back.
  if (std::string& buffer = host_.buffer(); buffer.capacity() < out_.capacity()) buffer.swap(out_);
  std::string().swap(out_);
  out_at_ = 0;
  switch (phase_) {
    case Phase::answering:
      set_phase(Phase::request);
      deadline_us_ = host_.now().mono_us + keep_alive_us;
      return in_.empty() ? arm_read() : take_requests();
    case Phase::streaming:
      host_.wants_turn(*this);
      if (read_paused_) {
        read_paused_ = false;
        host_.read_again(*this);
      }
      return;
    case Phase::leaving:
      channel_->shutdown();
      ::shutdown(socket_->handle(), SHUT_WR);
      return arm_read();
    default: return;
  }
}

// ---- the end ------------------------------------------------------------------------------------------------------

void Connection::stream_over(const SessionEnd& why) {
  DisconnectReason reason = DisconnectReason::error;
  if (why.protocol_error) reason = DisconnectReason::protocol_error;
  else if (why.code == "peer_closed" || why.code == "end_of_stream") reason = DisconnectReason::client;
  else if (why.code == "feed_silent" || why.code == "feed_hello_timeout") reason = DisconnectReason::idle;
  else if (why.code == "shutting_down") reason = DisconnectReason::drain;
  else if (why.code == "dropped") reason = DisconnectReason::dropped;
  std::string last = stream_->farewell(why);
  close_stream(reason, why.code, why.text);
  leave(std::move(last));
}

void Connection::close_stream(DisconnectReason reason, std::string_view code, std::string_view text) {
  auto& counters = shared_.counters.transports[index(stream_->transport())];
  --counters.open;
  ++counters.disconnects[index(reason)];
  host_.stream_finished(stream_->transport(), stream_->counters());
  SessionInfo info;
  stream_->describe(info);
  const bool plain = reason == DisconnectReason::client || reason == DisconnectReason::drain || reason == DisconnectReason::dropped;
  logging::write(plain ? logging::Level::info : logging::Level::warning, "feed_session_closed", text,
                 {{"reason", std::string(disconnect_reason_names[index(reason)])}, {"code", std::string(code)}, {"principal", printable(principal_.name)}, {"link", printable(info.link)},
                  {"address", socket_->peer_address()}, logging::number("records", info.records_sent), logging::number("bytes", bytes_sent_)});
  stream_.reset();
}

void Connection::leave(std::string last) {
  set_phase(Phase::leaving);
  deadline_us_ = host_.now().mono_us + leave_us;
  std::string().swap(in_);
  if (out_at_ < out_.size()) {
    out_ += last;
  } else {
    out_ = std::move(last);
    out_at_ = 0;
  }
  if (!blocked_) send_out();
}

void Connection::die(DisconnectReason reason, const Error& why) {
  if (stream_) close_stream(reason, why.code, why.what);
  set_phase(Phase::dead);
}

void Connection::tick() {
  const Now now = host_.now();
  switch (phase_) {
    case Phase::handshake:
      if (now.mono_us < deadline_us_) return;
      ++shared_.counters.handshakes_failed[index(HandshakeFailure::timeout)];
      return set_phase(Phase::dead);
    case Phase::request:
    case Phase::answering:
    case Phase::leaving:
      if (now.mono_us >= deadline_us_) set_phase(Phase::dead);
      return;
    case Phase::streaming:
      if (blocked_ && now.mono_us - blocked_since_us_ > shared_.options.write_timeout.count()) {
        return die(DisconnectReason::slow_consumer, {"feed_slow_consumer", fmt::format("the follower took nothing for {} s", (now.mono_us - blocked_since_us_) / 1'000'000), {}});
      }
      if (!stream_->introduced() && now.mono_us >= deadline_us_) return stream_over({"feed_hello_timeout", "no Hello came", false});
      stream_->on_tick(now);
      return host_.wants_turn(*this);
    case Phase::dead: return;
  }
}

void Connection::on_dirty(std::span<const SegmentId> segments) {
  if (stream_) stream_->on_dirty(segments);
}

void Connection::on_authority() {
  if (stream_) stream_->on_authority();
}

void Connection::go_away(std::uint32_t within_ms) {
  if (!stream_) return;
  stream_->go_away("this gateway is being stopped", within_ms);
  ++shared_.counters.go_aways;
  host_.wants_turn(*this);
}

void Connection::end(EndReason reason, const std::string& text) {
  if (phase_ == Phase::streaming) {
    stream_->end(reason, text);
    host_.wants_turn(*this);
  } else if (phase_ == Phase::handshake) {
    set_phase(Phase::dead);
  } else if (unasked()) {
    leave({});
  }
}

void Connection::crowd_out() {
  ++shared_.counters.handshakes_failed[index(HandshakeFailure::crowded_out)];
  set_phase(Phase::dead);
}

void Connection::recheck_access() {
  if (phase_ == Phase::dead || phase_ == Phase::leaving || phase_ == Phase::handshake) return;
  auto principal = shared_.access()->principal(channel_->peer());
  admitted_ = principal.has_value();
  // A session keeps what it was granted when it began; it ends when any of that is taken away.
  const bool same = principal && principal->name == principal_.name && principal->granted == principal_.granted;
  if (same) return;
  if (principal) principal_ = std::move(*principal);
  if (phase_ == Phase::streaming) end(EndReason::scope_revoked, "what this subject may read was changed");
}

std::uint64_t Connection::held_bytes() const {
  return in_.capacity() + (out_.size() - out_at_) + channel_->waiting_bytes() + (stream_ ? stream_->held_bytes() : 0);
}

std::string Connection::link() const {
  if (!stream_) return {};
  SessionInfo info;
  stream_->describe(info);
  return info.link;
}

SessionInfo Connection::describe() {
  SessionInfo out;
  if (stream_) stream_->describe(out);
  out.address = socket_->peer_address();
  out.bytes_sent = bytes_sent_;
  const MonoMicros now = host_.now().mono_us;
  out.age_seconds = static_cast<double>(now - born_us_) / 1e6;
  out.silent_seconds = static_cast<double>(now - heard_us_) / 1e6;
  return out;
}

}  // namespace zaris::feed
