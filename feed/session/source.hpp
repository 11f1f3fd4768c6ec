// The gateway's end of one feed session: a state machine on top of a Store. No sockets, clocks or threads: the shell
// (feed/gateway) and the simulator drive it. One thread at a time.
//
// Pull, not push: the shell asks for the next message whenever its socket can take one, so that whatever has
// accumulated is one message (feed rule 3), and nothing is queued here beyond small control answers.
//
// One pass of the shell over a session, in this order, is the cheap way to true Pongs and Progresses:
//   1. on_message (what came in), on_tick (the clock)       2. DirtyMap::drain, on_dirty (also when nothing was dirty)
//   3. next_message until the socket is full
// since heads may only be believed unchanged if the map was drained after the Ping came in and after the closed time
// was read. Without step 2 in between, next_message looks at every head of the session itself.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/placement/scope.hpp"
#include "cluster/store/store.hpp"
#include "feed/message/message.hpp"

namespace zaris::feed {

struct SourceOptions {
  std::string cluster_name;
  std::size_t batch_bytes = 256u << 10;
  std::size_t chunk_bytes = 256u << 10;
  std::size_t chunk_records = 1024;
  MonoMicros fresh_interval_us = 200'000;
  MonoMicros heartbeat_us = 5'000'000;
  std::uint32_t walks_at_once = 4;
};

// Of Hello: a reader that holds no pin, and goes on only as far back as the log's budget reaches.
inline constexpr std::string_view feature_no_pin = "no_pin";

// Who is at the other end and what it may ask for; from the certificate and the access table, before Hello.
struct Principal {
  std::string name;
  std::vector<Scope> granted;                 // a scope asked for must lie within one of them
};
// Why `principal` may not read `scope`; empty: it may.
struct ScopeRefusal { std::string code, text; };
[[nodiscard]] std::optional<ScopeRefusal> refuse_scope(const Principal& principal, const Scope& scope);

// One node of several: what a session asks about each segment before it speaks of it. Empty functions: this process alone is the
// region, which serves everything and waits for nobody. Design page feed, rules 2 and 5; cluster, "Who may serve". Any thread.
struct SegmentAuthority {
  // May this node serve the segment at this moment? Asked again after what is to be sent has been read.
  std::function<bool(SegmentId)> serves;
  // The highest revision that may leave (`feed.ship: replicated`: what one synchronised replica has); 0: nothing is known to be held.
  std::function<Revision(SegmentId)> shippable;
};

// The position of a revision: of the generation that it belongs to.
[[nodiscard]] Position position_of(const Lineage& lineage, Revision revision);
// A head as far as `limit` lets it be known: the position of that revision.
[[nodiscard]] Position shippable_head(const store::Store& store, SegmentId segment, Position head, Revision limit);

struct Now { MonoMicros mono_us = 0; WallMicros wall_us = 0; };

// Why a session is over; the shell sends what is queued, then closes.
struct SessionEnd { std::string code; std::string text; bool protocol_error = false; };

struct SourceCounters {
  std::uint64_t batches = 0, records = 0, record_bytes = 0, filtered = 0, chunks = 0, chunk_records = 0, progresses = 0;
  std::array<std::uint64_t, end_reasons> stream_ends{};   // said to the reader, by EndReason
  void count_end(EndReason reason) {
    if (const auto at = static_cast<std::size_t>(reason); at < stream_ends.size()) ++stream_ends[at];
  }
};

class SourceSession {
 public:
  // `confirm` answers whether this node may serve now (standalone: true). Store and principal outlive the session.
  [[nodiscard]] static std::unique_ptr<SourceSession> create(store::Store& store, SourceOptions options, Principal principal,
                                                             std::function<bool()> confirm, SegmentAuthority authority = {});
  virtual ~SourceSession() = default;

  virtual void on_message(std::string_view bytes, Now now) = 0;
  // These segments' logs have moved (from the thread's DirtyMap). Level-triggered: forgetting one is a bug, repeating is free.
  virtual void on_dirty(std::span<const SegmentId> segments) = 0;
  // More may leave than before, or something is served that was not, or the other way round (SegmentAuthority).
  virtual void on_authority() = 0;
  // At least every fresh interval.
  virtual void on_tick(Now now) = 0;
  // Appends the next message to `out` (the shell leaves room for its own header in front). False: nothing to say now;
  // ask again after any of the calls above. A bounded amount of work per call, however much log a scope skips.
  virtual bool next_message(std::string& out, Now now) = 0;
  // An operator dropped this reader's pin, or the process goes away.
  virtual void end(EndReason reason, std::string_view text) = 0;

  [[nodiscard]] virtual std::optional<SessionEnd> ended() const = 0;
  [[nodiscard]] virtual const std::optional<Hello>& hello() const = 0;
  [[nodiscard]] virtual SourceCounters counters() const = 0;
  [[nodiscard]] virtual std::uint64_t credit_left() const = 0;
};

}  // namespace zaris::feed
