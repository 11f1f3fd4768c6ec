// One connection of the feed's port: handshake, request, then one answer or a stream. Lives on one feed thread.
// Internal to feed/gateway.
//
//   handshake ──▶ request ──▶ answering ──▶ request (kept alive) …
//       │            └──────▶ streaming ──▶ leaving ──▶ dead
//       └── any failure, any deadline ───────▲
#pragma once
#include <memory>
#include <string>

#include "cluster/tls/channel.hpp"
#include "feed/gateway/shared_state.hpp"
#include "feed/gateway/origin.hpp"
#include "feed/gateway/stream.hpp"
#include "feed/transport/http.hpp"
#include "feed/transport/loop.hpp"

namespace zaris::feed {

// What a connection asks of the thread it lives on.
class ConnectionHost {
 public:
  virtual ~ConnectionHost() = default;
  [[nodiscard]] virtual SharedState& shared() = 0;
  [[nodiscard]] virtual Loop& loop() = 0;
  [[nodiscard]] virtual Now now() = 0;                     // of this pass
  virtual void wants_turn(class Connection& c) = 0;        // pump it in this pass
  virtual void read_again(Connection& c) = 0;              // call on_readable in the next pass
  [[nodiscard]] virtual std::string& buffer() = 0;         // for one message; shared by the thread's connections
  virtual void phase_changed() = 0;                        // streams begin and end, connections die
  virtual void stream_finished(Transport transport, const SourceCounters& counters) = 0;
};

class Connection {
 public:
  enum class Phase : std::uint8_t { handshake, request, answering, streaming, leaving, dead };
  enum class Pumped : std::uint8_t { more, idle, blocked, over };

  Connection(ConnectionHost& host, std::unique_ptr<Socket> socket);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void begin() { handshake(); }
  void on_readable();
  // Streaming: sends the next message. The map of dirty segments has been drained, and passed on, just before.
  [[nodiscard]] Pumped pump();
  void tick();                                             // deadlines; at least every 100 ms
  void on_dirty(std::span<const SegmentId> segments);
  void on_authority();

  void go_away(std::uint32_t within_ms);
  void end(EndReason reason, const std::string& text);     // streams; anything else is left at once
  void crowd_out();                                        // makes room for a newer one
  void recheck_access();

  [[nodiscard]] Phase phase() const { return phase_; }
  [[nodiscard]] bool unasked() const { return phase_ == Phase::handshake || phase_ == Phase::request || phase_ == Phase::answering; }
  [[nodiscard]] const Stream* stream() const { return stream_.get(); }
  [[nodiscard]] std::uint64_t held_bytes() const;
  [[nodiscard]] SessionInfo describe();
  [[nodiscard]] const Principal& principal() const { return principal_; }
  [[nodiscard]] std::string link() const;

  // The thread's marks: which list it stands in.
  bool queued_head = false, queued_behind = false, queued_read = false, behind = false;

 private:
  void handshake();
  void handshake_failed(const Error& error);
  void arm_read();
  void arm_write();
  void on_writable();
  void take_requests();
  void answer(const http::Request& request);
  void answer_upgrade(const http::Request& request);
  void answer_changes(const http::Request& request);
  [[nodiscard]] bool admit_session();                      // a place among the sessions, or a refusal sent
  void respond(std::uint16_t status, std::string_view type, std::string_view body);
  void refuse(std::uint16_t status, RefusedReason reason, const Error& error);
  void start_stream(std::unique_ptr<Stream> stream, std::string head);
  void read_stream();
  void send_out();                                         // what is in out_
  void blocked();
  void stream_over(const SessionEnd& why);
  void leave(std::string last);
  void die(DisconnectReason reason, const Error& why);
  void close_stream(DisconnectReason reason, std::string_view code, std::string_view text);
  void set_phase(Phase phase);
  [[nodiscard]] StreamHost stream_host();

  ConnectionHost& host_;
  SharedState& shared_;
  std::unique_ptr<Socket> socket_;
  std::unique_ptr<tls::Channel> channel_;                  // goes before the socket
  Phase phase_ = Phase::handshake;
  MonoMicros born_us_ = 0, deadline_us_ = 0, blocked_since_us_ = 0, heard_us_ = 0;
  Principal principal_;
  bool admitted_ = false;                                  // the access table has a row for this peer
  bool have_place_ = false, blocked_ = false, write_armed_ = false, read_armed_ = false, keep_alive_ = false, read_paused_ = false;
  std::string in_;                                         // of a request
  std::string out_;                                        // what the kernel has not taken of the message being sent
  std::size_t out_at_ = 0;
  std::size_t blocked_read_ = 0;                           // read while the peer takes nothing
  std::uint64_t bytes_sent_ = 0;
  std::unique_ptr<Stream> stream_;
};

}  // namespace zaris::feed
