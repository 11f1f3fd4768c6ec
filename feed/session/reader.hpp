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
// Batch: runs whose prev has been compared with the position held (a mismatch ends the session with `feed_gap`). A record
// that came in parts is a run like any other. Revisions that brought nothing come as a run without records, also where
// the source only said so in a Progress: the user moves positions by runs and first Chunks alone.
// Chunk: its from is the to of the one before, its as_of the position held (of a segment without one: the position from
// which the runs go on).
// What was still on its way for an earlier subscription, or for a segment that is unsubscribed, is left out and its
// credit given back.
// ErrorMessage: the session is over; ended() says the same.
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

  virtual void start(MonoMicros now) = 0;                                  // queues Hello; Credit follows Welcome
  virtual void on_message(std::string_view bytes, MonoMicros now) = 0;
  // A message that is not whole yet grows: as good a sign of life as any.
  virtual void on_part(MonoMicros now) = 0;
  // Pings, liveness. A gateway answers every Ping; one that says nothing for four seconds (twenty ping intervals, if that is longer; three
  // heartbeats at most) is given up. Time in which nobody ticked is not counted: who was stopped himself does not blame the gateway.
  virtual void on_tick(MonoMicros now) = 0;
  virtual void subscribe(Subscribe request) = 0;
  virtual void unsubscribe(SegmentId segment) = 0;
  virtual void ack(Ack ack) = 0;
  virtual void fetch(FetchKeys request) = 0;
  virtual void request_digest(DigestRequest request) = 0;
  // The user has room again for so many bytes (of records and tables) that it had been handed.
  virtual void grant(std::uint64_t bytes) = 0;
  virtual bool next_message(std::string& out) = 0;                         // appends; false: nothing to say now

  // Position up to which runs were handed on, per segment.
  [[nodiscard]] virtual std::optional<Position> position(SegmentId segment) const = 0;
  // Empty while the session is fine; else why it is over (`feed_gap`, `feed_silent`, `feed_message_malformed`, …).
  [[nodiscard]] virtual std::optional<Error> ended() const = 0;
  [[nodiscard]] virtual std::uint64_t bytes_received() const = 0;
  // Tables and records that have arrived and not been granted anew.
  [[nodiscard]] virtual std::uint64_t bytes_outstanding() const = 0;
};

}  // namespace zaris::feed
