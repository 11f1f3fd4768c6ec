// The owner's end of replication, for one connection of one replica: a state machine on top of a Store. No sockets, clocks or
// threads; one thread at a time. Design page cluster, "Replication inside a region"; who decides log, equal or copy: reconcile.hpp.
//
// Pull, not push: nothing is queued here but what is asked and what has changed, one bit or row per segment; the shell asks for
// bytes whenever its socket can take some, so a replica that does not read costs no memory. One pass of the shell, in this order:
//   1. on_message (what came in), on_tick (the clock)     2. DirtyMap::drain, on_dirty (also when nothing was dirty)
//   3. next until it is false or the socket is full
// since a closed time is sent behind the heads that were dirty after it had been read.
//
// Order, per segment: Following; then runs without a gap; marks when the log that they came with has been sent; a page when the
// runs up to its as_of have been; no marks before a copy's last page. Of all segments: what is small first, then tails in
// turn, and pages between them, `walks_at_once` segments at a time.
//
// **Synchronised** is a replica in a segment when it follows by log (so holds all content), has put the owner's marks in full
// once, has been told all readers' pins (nobody shall fall below its floor once it owns the segment), and has confirmed all but at most `synchronised_bytes` of the log; it ceases to be when it does not follow any more,
// or is four times as far behind. An acknowledgement never rests on this distance, only on confirmed positions.
//
// What the replica may still need is kept by a pin of its own (replica_pin), up to the bounds of all pins; it stays while the
// replica is away. Whoever takes a node off the map drops it.
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cluster/protocol/frame.hpp"
#include "cluster/replication/message.hpp"
#include "cluster/replication/reconcile.hpp"
#include "cluster/replication/segment_set.hpp"
#include "cluster/replication/session.hpp"
#include "cluster/store/store.hpp"

namespace zaris::replication {

struct OwnerOptions {
  std::string replica;                          // the node's name
  std::size_t output_bytes = 256u << 10;        // one call of next ends with the frame that passes it
  std::size_t turn_bytes = 64u << 10;           // of one segment's log, before the next has its turn; one record of any size passes
  store::WalkLimits page;
  std::uint32_t walks_at_once = 4;
  std::uint32_t tails_between_pages = 4;        // however far tails are behind
  std::uint64_t synchronised_bytes = 1u << 20;
  MonoMicros closed_interval_us = 100'000;
  MonoMicros pins_interval_us = 1'000'000;      // between rounds, which say what has changed
  MonoMicros pins_first_us = 200'000;           // the same while a segment waits for its first round
  std::uint32_t pins_full_every = 60;           // rounds; one of them says all, since the replica may have dropped a pin for its own segments' sake
  std::uint32_t looks_per_tick = 1024;          // segments whose floor, marks and role are looked at by one on_tick
};

enum class ReplicaPhase : std::uint8_t { none, waiting, copy, log };  // waiting: for its turn to be copied

struct ReplicaProgress {
  ReplicaPhase phase = ReplicaPhase::none;
  std::optional<Position> received;             // what it holds in full, by its own word; empty: not known, or not in full
  std::optional<std::uint64_t> marks_version;   // MarksSince::version that it has put; empty: none in full yet
  bool synchronised = false;
  Revision floor;                               // its log begins there: behind the copy that it was given; 0: not known
};

// A term that is newer than what this node knew of. An owner stops for that segment before it answers anybody again.
struct HeardGeneration {
  SegmentId segment;
  Generation generation;
};

// The pin that keeps the log for a replica, told from readers' pins by the target: no link goes into its own cluster.
[[nodiscard]] store::PinKey replica_pin(const store::Store& store, const std::string& replica);
[[nodiscard]] bool is_replica_pin(const store::Store& store, const store::PinKey& key);

class OwnerSession {
 public:
  // The store outlives the session. A copy empties the log of the replica before the content is whole: until then it holds less than
  // it may have confirmed. `may_copy` answers whether it is out of the segment's synchronised set by the coordinator's word;
  // until it says so the copy waits.
  OwnerSession(store::Store& store, OwnerOptions options, std::function<bool(SegmentId)> may_copy);
  OwnerSession(const OwnerSession&) = delete;
  OwnerSession& operator=(const OwnerSession&) = delete;
  ~OwnerSession();

  void on_message(const protocol::Frame& frame, Now now);
  // These segments' logs or marks have moved. Repeating is free, forgetting is a bug.
  void on_dirty(std::span<const SegmentId> segments);
  void on_tick(Now now);
  // Appends whole frames; false: nothing to say, or no credit. Bounded work per call.
  [[nodiscard]] bool next(std::string& out);

  // Does anybody wait for what the replica confirms? What is sent while nobody does may be confirmed a little later. At first: yes.
  void confirmations_awaited(bool awaited) { awaited_ = awaited; }
  // Some segment is followed: on_dirty is listened to.
  [[nodiscard]] bool followed() const { return owned_ + pulled_ > 0; }

  [[nodiscard]] const std::optional<SessionEnd>& ended() const { return ended_; }
  // As of the term that runs now: of one that has ended nothing is known.
  [[nodiscard]] ReplicaProgress progress(SegmentId segment) const;
  // Segments whose progress has changed since the last call.
  [[nodiscard]] std::vector<SegmentId> take_changed();
  [[nodiscard]] std::vector<HeardGeneration> take_heard();
  // The newest closed time that the replica is known to have.
  [[nodiscard]] WallMicros closed_time_received() const { return closed_received_; }
  [[nodiscard]] std::int64_t credit_left() const { return credit_; }
  // Bytes that the session holds for later, walks' own views apart.
  [[nodiscard]] std::size_t held_bytes() const;

 private:
  struct Segment {
    ReplicaPhase phase = ReplicaPhase::none;
    bool pull = false, synchronised = false;
    std::optional<Position> received;
    std::uint32_t number = 0;               // of the Follow
    Generation term;
    Position sent;
    std::uint64_t sent_id = 0;              // pull: of sent's generation record
    Revision floor_told, memory_floor_told;
    Revision floor;                         // the replica's
    std::optional<WallMicros> pins_told;    // all of them, behind this closed time; empty: not yet
    std::uint64_t marks_since = 0;          // the store's version that has been sent
    std::uint64_t marks_told = 0;           // one more than that, as it travels; 0: none has been sent in full
    std::uint64_t marks_received = 0;
    std::optional<Position> pinned;
  };
  struct Asked {
    FollowRow row;
    std::uint32_t number = 0;
    bool pull = false;
  };
  struct Walking {
    SegmentId segment;
    std::unique_ptr<store::Walk> walk;
  };
  struct PendingPage {
    SegmentId segment;
    store::WalkPage page;
    bool last = false;
  };
  struct PendingMarks {
    SegmentId segment;
    store::MarksSince marks;
    std::size_t done = 0;                   // changes that have been sent
  };
  struct TrackedPin {
    Scope scope;
    bool there = false;
    std::map<std::uint16_t, store::PinPlace> told;
  };
  enum class Turn : std::uint8_t { nothing, said };

  // ---- owner_session.cpp: messages in, and what is said first
  void handle(Follow& message);
  void handle(const Received& message);
  void handle(const Credit& message);
  void end(std::string code, std::string text);
  void leave(SegmentId id);
  bool say_one(std::string& out);
  bool say_following(std::string& out);
  bool take_copy(std::string& out);
  FollowingRow decide(SegmentId id, const Asked& asked, bool copy_now);
  [[nodiscard]] Position copy_begins(SegmentId id, const SourceView& view) const;
  void begin_log(Segment& s, SegmentId id, const SourceView& view, Position from);
  void stop(std::string& out, SegmentId id, Refusal refusal, std::string reason);
  void heard(SegmentId id, Generation generation);
  void changed(SegmentId id) { changed_.insert(id); }

  // ---- owner_tail.cpp: runs, marks and pages
  bool say_run(std::string& out);
  Turn say_run(std::string& out, SegmentId id);
  bool still_source(SegmentId id, const Segment& s, const store::LogStretch* stretch) const;
  void trimmed(std::string& out, SegmentId id);
  [[nodiscard]] bool near_head(SegmentId id) const;
  bool take_marks();
  bool say_marks(std::string& out);
  bool say_page(std::string& out);
  bool take_page();
  void end_walk(SegmentId id);

  // ---- owner_state.cpp: floors, pins, closed time, distance
  void look_at(SegmentId id);
  void update_synchronised(SegmentId id);
  void move_own_pin(SegmentId id);
  void begin_pins_round();
  bool say_pins(std::string& out);
  bool say_floors(std::string& out);
  bool say_closed_time(std::string& out);

  [[nodiscard]] bool follows(const Segment& s) const { return s.phase == ReplicaPhase::log || s.phase == ReplicaPhase::copy; }
  Segment& at(SegmentId id) { return segments_[id.value()]; }
  [[nodiscard]] const Segment& at(SegmentId id) const { return segments_[id.value()]; }

  store::Store& store_;
  const OwnerOptions options_;
  const std::function<bool(SegmentId)> may_copy_;
  const std::uint32_t segment_count_;
  const store::PinKey own_pin_;
  std::optional<SessionEnd> ended_;
  Now now_;

  std::vector<Segment> segments_;
  std::uint32_t owned_ = 0;                    // segments that are followed otherwise than by a pull
  std::uint32_t pulled_ = 0;                   // by one
  bool awaited_ = true;
  std::map<SegmentId, Asked> asked_;           // not decided yet, or waiting to be copied
  SegmentSet undecided_, copies_waiting_;
  SegmentSet stopped_;                         // found to be ours no more: to be said
  SegmentSet tail_;                            // may have log above `sent`
  SegmentSet marks_due_;                       // may have marks that changed
  SegmentSet changed_;
  std::map<SegmentId, Generation> heard_;
  std::uint32_t tail_from_ = 0, marks_from_ = 0, copy_from_ = 0, look_from_ = 0;
  std::uint32_t tails_in_row_ = 0;
  std::int64_t credit_ = 0;                    // may fall below zero by one frame

  std::vector<Walking> walks_;
  std::size_t walk_from_ = 0;
  std::optional<PendingPage> page_;
  std::optional<PendingMarks> marks_;

  std::map<SegmentId, std::pair<Revision, Revision>> floors_;  // to be said: of the log, of what of it is in memory
  std::map<store::PinKey, TrackedPin> pins_;
  std::deque<store::PinKey> pins_round_;       // still to be looked at in this round
  std::uint32_t pins_row_ = 0;                 // where in the front one to go on
  bool pins_attached_ = false;
  SegmentSet unsettled_, settling_;            // followed since: before, and in, the round that runs
  bool round_runs_ = false, full_round_ = false;
  std::uint32_t rounds_ = 0;
  std::optional<MonoMicros> last_pins_, last_closed_;

  WallMicros closed_ = 0;                      // read, to be sent behind closed_waits_; 0: none
  bool closed_heads_known_ = false;
  std::map<SegmentId, Revision> closed_waits_;
  WallMicros closed_sent_ = 0, closed_received_ = 0;
};

}  // namespace zaris::replication
