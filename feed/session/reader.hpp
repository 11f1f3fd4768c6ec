// The follower's end of one feed session: handshake, gap check, parts put together, credit, pings and their echoes,
// liveness. A state machine without I/O; it hands on what its user decides about. Used by follower/link, `zaris feed
// tail` and the simulator. One thread at a time.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "feed/message/message.hpp"

namespace zaris::feed {

struct ReaderOptions {
  std::uint64_t credit_bytes = 32u << 20;
  std::uint64_t message_bytes_max = 0;        // 0: from Welcome's limits
};

// What the user of a reader gets, in order. Views die when on_message returns.
// Batch: runs whose prev has been compared with the position held (a mismatch ends the session as a protocol error).
using ReaderEvent = std::variant<Welcome, Subscribed, Batch, Progress, Chunk, Records, Digests, StreamEnd, Pong, ErrorMessage, GoAway>;

class ReaderSink {
 public:
  virtual ~ReaderSink() = default;
  virtual void on_event(const ReaderEvent& event) = 0;
};

class ReaderSession {
 public:
  [[nodiscard]] static std::unique_ptr<ReaderSession> create(Hello hello, ReaderOptions options, ReaderSink& sink);
  virtual ~ReaderSession() = default;

  virtual void start(MonoMicros now) = 0;                                  // queues Hello
  virtual void on_message(std::string_view bytes, MonoMicros now) = 0;
  virtual void on_tick(MonoMicros now) = 0;                                // pings, liveness
  virtual void subscribe(Subscribe request) = 0;
  virtual void unsubscribe(SegmentId segment) = 0;
  virtual void ack(Ack ack) = 0;
  virtual void fetch(FetchKeys request) = 0;
  virtual void request_digest(DigestRequest request) = 0;
  // The user has room again for so many bytes (of records and tables) that it had been handed.
  virtual void grant(std::uint64_t bytes) = 0;
  virtual bool next_message(std::string& out) = 0;

  // Position up to which runs were handed on, per segment.
  [[nodiscard]] virtual std::optional<Position> position(SegmentId segment) const = 0;
  // Empty while the session is fine; else why it is over (`feed_gap`, `feed_silent`, `feed_message_malformed`, …).
  [[nodiscard]] virtual std::optional<Error> ended() const = 0;
  [[nodiscard]] virtual std::uint64_t bytes_received() const = 0;
};

}  // namespace zaris::feed
