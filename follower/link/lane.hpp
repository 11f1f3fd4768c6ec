// One target segment's part of a source segment: the mark as it stands there, as it will stand once everything sent has
// been applied, and what is on its way. Decides what may be sent, what an answer means, what is sent again and when.
// Design page protocol, "Marks" and "ApplyBatch". No I/O; one thread.
#pragma once
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "cluster/record/mark.hpp"
#include "follower/link/backoff.hpp"
#include "follower/link/link.hpp"
#include "follower/link/piece.hpp"

namespace zaris::follower {

// A piece on its way.
struct Flight {
  enum class State : std::uint8_t {
    waiting,    // not sent yet
    sent,       // its answer has not come
    applied,    // answered; one before it has not been
    again,      // to be sent again, same bytes
    undurable,  // applied, its durability not yet reached
  };
  Piece piece;
  std::uint64_t id = 0;                   // of the newest attempt
  State state = State::waiting;
  MonoMicros sent_us = 0;                 // the newest attempt
  SessionId session;                      // fixed at the first sending: a repeat is the same bytes
  std::optional<MarkToken> expected;
  MarkToken result;                       // the token that it produces
  std::vector<std::string> may_lose;
  std::vector<std::uint64_t> may_lose_names;  // of each: which write of it is safe
  std::uint32_t named_anew = 0;               // how often one of them had been written again meanwhile
  // From the answer, for whoever counts.
  std::uint64_t applied = 0, skipped = 0, replaced = 0, removed = 0, conflicts = 0;
  std::optional<Mark> mark;
  struct Checked {
    std::uint64_t differing = 0, memory_slots = 0, too_many = 0;
    std::vector<LostRecord> differ;
  };
  std::optional<Checked> checked;         // of a check whose answer has come
};

class Lane {
 public:
  struct Limits {
    std::size_t in_flight = 8;            // pieces
    bool one_range_at_a_time = false;     // or one repair: the removal budget is exact
  };

  Lane(SegmentId source, SegmentId target, Slot first_slot) : source_(source), target_(target), first_slot_(first_slot) {}

  [[nodiscard]] SegmentId source() const { return source_; }
  [[nodiscard]] SegmentId target() const { return target_; }
  [[nodiscard]] Slot first_slot() const { return first_slot_; }

  // ---- the mark
  // As ReadMarks showed it. Nothing of an earlier session is in the queue any more.
  void read_mark(std::optional<Mark> mark, bool durable = true);
  // As the target's newest answer had it.
  [[nodiscard]] const std::optional<Mark>& mark() const { return mark_; }
  // The newest low that is known to have the link's durability, never above the mark's; empty: none is.
  [[nodiscard]] const std::optional<NamedPosition>& durable_low() const { return durable_low_; }
  // As it will stand when everything queued has been applied.
  [[nodiscard]] Phase phase() const { return phase_; }
  [[nodiscard]] bool marked() const { return marked_; }
  [[nodiscard]] bool covers() const { return low_.has_value(); }
  [[nodiscard]] const std::optional<SlotKey>& last_key() const { return last_key_; }
  [[nodiscard]] const std::optional<NamedPosition>& low() const { return low_; }
  [[nodiscard]] const std::optional<NamedPosition>& high() const { return high_; }

  // ---- the queue
  // In order. Small pieces that could not be sent yet are joined.
  void push(Piece piece);
  // The next one to send now, given its id, token and session; null: nothing. Valid until the next call of another method.
  [[nodiscard]] Flight* next_to_send(const Limits& limits, std::uint64_t id, SessionId session, MonoMicros now);
  // Nothing more is sent: what was not is dropped. When `quiet`, clear() forgets the rest. Returns the credit.
  std::uint64_t halt();
  [[nodiscard]] bool quiet() const { return sent_ == 0; }
  // Everything queued is forgotten, whatever becomes of it; the mark is as it was last answered. Returns the credit.
  std::uint64_t clear();
  [[nodiscard]] bool idle() const { return flights_.empty(); }
  [[nodiscard]] bool has_unsent() const { return waiting_ > 0; }
  [[nodiscard]] std::size_t in_flight() const { return sent_; }
  [[nodiscard]] std::size_t queued() const { return flights_.size(); }
  // As of where the first range stands that is queued or on its way; the mark may say so already. Empty: no range.
  [[nodiscard]] std::optional<NamedPosition> first_range() const {
    for (const Flight& flight : flights_) {
      if (flight.piece.range) return flight.piece.range->as_of;
    }
    return std::nullopt;
  }
  // Something waits for a moment to be sent again.
  [[nodiscard]] bool retrying() const { return again_ > 0 && !blocked_; }

  // ---- answers
  enum class Verdict : std::uint8_t {
    unknown,         // an attempt that is over
    progress,        // applied (take_done), or one behind a predecessor that must be sent again
    retry,           // will be sent again by itself
    undurable,       // applied; its low must be waited for (ReadMarks)
    gap,             // another mark stands there: the session is over
    refused,         // the target will never take a record of it as things are: the segment stops
    would_lose,      // records of the target's own stand in the way: blocked until keep_and_retry
    removal_limit,   // too much would be removed: blocked
    differs,         // a delta's unchanged keys are others there: blocked, and to be asked for anew
    superseded,      // another follower or another site has the link
    opened_anew,     // for another source, or by another follower with another scope
    failed,          // anything else that a repeat will not heal: blocked
  };
  [[nodiscard]] Verdict answer(std::uint64_t id, const Result<ApplyAnswer>& answer, MonoMicros now, Random& random);
  // What has been applied since, oldest first; `out` is cleared first.
  void take_done(std::vector<Flight>& out) {
    out.clear();
    std::swap(out, done_);
  }
  // The conflicts of the flight that was answered would_lose are safe: it is sent again, naming them. A key that is written there faster than that goes
  // whatever it is by then, after some tries: the answer says what it was.
  struct Kept {
    std::string key;
    std::uint64_t name = 0;               // record_name
  };
  void keep_and_retry(const std::vector<Kept>& kept);
  [[nodiscard]] const Flight* find_flight(std::uint64_t id) const;
  // ReadMarks shows this mark, durable: flights that wait for it are done.
  void durable_mark(const Mark& mark);
  [[nodiscard]] bool waits_for_durability() const { return undurable_ > 0 || mark_waits_; }
  // Of the mark as everything sent will have left it.
  [[nodiscard]] const std::optional<MarkToken>& newest_token() const { return token_; }
  // Another node answers from now on, in a generation of its own: tokens are foreseen again once it has answered.
  void owner_changed() {
    generation_.reset();
    retry_at_ = 0;  // what waits for a better moment: this is one
    retry_.reset();
  }
  // For whoever compares questions with sendings: a running number that the sender hands in.
  void note_sent(std::uint64_t number) { sent_at_ = number; }
  [[nodiscard]] std::uint64_t sent_at() const { return sent_at_; }
  // Since when the oldest batch that is on its way has had no answer.
  [[nodiscard]] std::optional<MonoMicros> unanswered_since() const;
  // Since when attempts have failed without a success; and the newest one's text.
  [[nodiscard]] std::optional<MonoMicros> failing_since() const { return failing_since_; }
  [[nodiscard]] const std::string& last_failure() const { return last_failure_; }

  // How many live keys the running bootstrap may still remove here.
  std::uint64_t removals_left = ~std::uint64_t{0};

 private:
  void foresee(const Piece& piece);
  void reset_future();
  void set_state(Flight& flight, Flight::State state);
  void again(std::size_t index, MonoMicros now, Random& random);
  void settle();
  [[nodiscard]] std::size_t find(std::uint64_t id) const;
  Verdict on_ok(std::size_t index, const ApplyAnswer& answer, Flight::State reached);
  Verdict on_gap(std::size_t index, const ApplyAnswer& answer, MonoMicros now, Random& random);
  void foresee_tokens(std::size_t from, Generation generation);
  void taken_back(std::size_t from, std::size_t to);
  Verdict block(std::size_t index, Verdict verdict);

  SegmentId source_, target_;
  Slot first_slot_;
  std::optional<Mark> mark_;
  std::optional<NamedPosition> durable_low_;
  bool mark_waits_ = false;               // for its durability: as it was read, with nothing sent since
  bool marked_ = false;
  Phase phase_ = Phase::bootstrap;
  std::optional<SlotKey> last_key_;
  std::optional<NamedPosition> low_, high_, horizon_;
  std::optional<MarkToken> token_;        // after everything sent
  std::optional<Generation> generation_;  // the target's, once it has answered in this session: then tokens can be foreseen

  std::deque<Flight> flights_;            // oldest first; the waiting ones are the last
  std::vector<Flight> done_;
  std::size_t waiting_ = 0, sent_ = 0, again_ = 0, undurable_ = 0;
  bool blocked_ = false, halted_ = false, resending_ = false;
  MonoMicros retry_at_ = 0;
  std::uint64_t sent_at_ = 0;
  Backoff retry_{50'000, 5'000'000};
  std::optional<MonoMicros> failing_since_;
  std::string last_failure_;
};

}  // namespace zaris::follower
