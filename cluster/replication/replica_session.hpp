// The replica's end of replication, towards one node that owns segments (or, for a pull, holds more of them): a state machine on
// top of a Store. No sockets, clocks or threads; one thread at a time. Design page cluster, "Replication inside a region",
// "Coming back". The other end is owner_session.hpp; one connection carries both ends of both nodes, told apart by opcode.
//
// Whatever does not follow from what is held ends the session; the shell connects again and follows from what is held then.
// Nothing of a term older than the newest that this node has heard of for a segment is taken (learn).
//
// The segments must be in role replica. A segment is followed by one session at a time; who moves it to another unfollows first.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "cluster/protocol/frame.hpp"
#include "cluster/replication/message.hpp"
#include "cluster/replication/segment_set.hpp"
#include "cluster/replication/session.hpp"
#include "cluster/store/store.hpp"

namespace zaris::replication {

struct ReplicaOptions {
  std::uint64_t window_bytes = 4u << 20;      // that the owner may have sent and we have not dealt with; and one frame
  std::size_t pins_max = 65'536;              // readers' pins of one owner
  MonoMicros confirm_within_us = 10'000;      // what nobody waits for
  std::uint64_t confirm_bytes = 64u << 10;    // and so much of it at once
};

struct SegmentFollow {
  SegmentId segment;
  Generation generation;                      // the newest term heard of; for a pull the one that this node is to begin
  bool pull = false;                          // only the tail above what is held, from a node that owns or follows
};

// asked: no answer yet (also while it waits for its turn to be copied) · refused: see refusal · superseded: the node that was
// followed is of an older term than one heard of since; follow again, it or another
enum class FollowPhase : std::uint8_t { none, asked, log, copy, refused, superseded };
[[nodiscard]] std::string_view name(FollowPhase phase);

struct FollowState {
  FollowPhase phase = FollowPhase::none;
  Generation term;                            // of the node that is followed
  Position owner_head;                        // its head when it said Following
  // The content is whole and has reached owner_head. Stays true while the session follows by log: what recovery asks for.
  bool synced = false;
  Refusal refusal = Refusal::none;
  std::string reason;                         // for people: why refused, superseded or copied
};

class ReplicaSession {
 public:
  // The store outlives the session.
  explicit ReplicaSession(store::Store& store, ReplicaOptions options = {});
  ReplicaSession(const ReplicaSession&) = delete;
  ReplicaSession& operator=(const ReplicaSession&) = delete;

  // Asks for these segments from what is held when the bytes are taken by next. Again for a segment: begins anew.
  void follow(std::span<const SegmentFollow> segments);
  void unfollow(std::span<const SegmentId> segments);
  // A term that begins or has begun: from now on nothing of an older one is taken.
  void learn(SegmentId segment, Generation generation);

  void on_message(const protocol::Frame& frame, Now now);
  void on_tick(Now now) { now_ = now; }
  // When what has been received is to be confirmed that may be confirmed late; next says it from then on. Empty: there is none.
  [[nodiscard]] std::optional<MonoMicros> confirms_at() const;
  // Appends whole frames: Follow, what has been received since, credit. False: nothing to say.
  [[nodiscard]] bool next(std::string& out);

  [[nodiscard]] const std::optional<SessionEnd>& ended() const { return ended_; }
  [[nodiscard]] FollowState state(SegmentId segment) const;
  [[nodiscard]] Generation learnt(SegmentId segment) const { return at(segment).learnt; }
  // Segments whose state (not only position) has changed since the last call.
  [[nodiscard]] std::vector<SegmentId> take_changed();
  // The newest that the owner has sent; a new owner begins above it.
  [[nodiscard]] WallMicros closed_time() const { return closed_; }

 private:
  struct Segment {
    FollowState state;
    Generation learnt;
    bool pull = false;
    std::uint32_t number = 0;                 // of the Follow that asked last
    Position head;                            // what the store holds of it, by our own doing
    std::uint64_t marks_version = 0;          // of the last whole set; 0: none
  };
  // ---- replica_session.cpp
  void handle(const Following& message);
  void handle(const FollowingRow& row);
  void handle(const RunMessage& message);
  void handle(const PageMessage& message);
  void moved(SegmentId id, const store::ReplicaAnswer& answer, const char* what);
  void end(std::string code, std::string text);
  void enter(SegmentId id, FollowPhase phase, std::string reason = {});
  void forget(SegmentId id);
  void leave(SegmentId id, FollowPhase phase, Refusal refusal, std::string reason);
  void reached(SegmentId id);
  [[nodiscard]] bool known(SegmentId id);
  bool say_follow(std::string& out, bool pull);
  bool say_received(std::string& out);
  bool say_credit(std::string& out);

  // ---- replica_state.cpp: what comes beside the log
  void handle(MarksMessage& message);
  void handle(const Floors& message);
  void handle(const Pins& message);
  void handle(const ClosedTimeMessage& message);
  void settle(std::span<const SegmentId> segments);
  void keep_newer(SegmentId id, store::MarksSince& marks) const;

  [[nodiscard]] bool follows(const Segment& s) const { return s.state.phase == FollowPhase::log || s.state.phase == FollowPhase::copy; }
  Segment& at(SegmentId id) { return segments_[id.value()]; }
  [[nodiscard]] const Segment& at(SegmentId id) const { return segments_[id.value()]; }

  store::Store& store_;
  const ReplicaOptions options_;
  const std::uint32_t segment_count_;
  std::optional<SessionEnd> ended_;
  Now now_;
  std::vector<Segment> segments_;
  SegmentSet to_ask_, to_stop_, received_, changed_;
  std::uint32_t number_ = 0;
  std::uint64_t consumed_;                    // bytes dealt with since the last Credit; at first the window
  std::optional<MarksMessage> marks_;         // a large set that is not here in full
  std::map<store::PinKey, std::set<SegmentId>> pins_told_;
  WallMicros closed_ = 0;
  bool closed_moved_ = false;
  bool may_wait_ = false;                     // the frame at hand says that nobody waits for its Received
  bool confirm_now_ = false;                  // somebody waits for something in received_
  std::optional<MonoMicros> received_since_;  // the oldest in received_ that nobody waits for
  std::uint64_t unconfirmed_bytes_ = 0;       // in such frames
};

}  // namespace zaris::replication
