// Which position of each segment is held by how many: what the answers to writes, the feed's `ship: replicated` and ReadMarks'
// durable low rest on. Design page cluster, "Replication inside a region" and "Failover". A plain value, one thread at a time.
//
// The synchronised set is written by the owner under compare-and-set. While such a change is on its way both sets may be the
// one that a failover reads, so a position counts as held only when it is in the old one and in the new one.
//
//   owner     the owner's head
//   replica   at least one member has it
//   majority  more than half of the segment's copies have it (the owner's is one): of the copies that the map gives it, so that a
//             set that has shrunk does not shrink the promise. Never less than replica
//   all       every member has it. Never less than majority
// Where the map gives one copy only, majority and all are the owner's, and replica is never met.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "cluster/record/mark.hpp"
#include "cluster/record/position.hpp"

namespace zaris::replication {

// A replica by its place in the caller's roster; never used for another node while it is in a set.
struct ReplicaIndex : Strong<struct ReplicaIndexTag, std::uint16_t> { using Strong::Strong; };

// What is held under each policy; {0, 0} and 0 where nothing is.
struct Held {
  Position replica, majority, all;
  [[nodiscard]] Position by(Durability policy) const;  // of replica, majority and all
  friend bool operator==(const Held&, const Held&) = default;
};

// Of what the members have (`has`, one each), under what majority and all demand. `copies`: with the owner's.
// Exposed for tests; T is ordered, T{} is nothing, and `everything` is what the owner has.
template <class T>
struct HeldBy { T replica{}, majority{}, all{}; };
template <class T>
[[nodiscard]] HeldBy<T> held_by(std::vector<T> has, std::size_t copies, T everything);

class HeldPositions {
 public:
  explicit HeldPositions(std::uint32_t segments) : segments_(segments) {}

  // What the map gives the segment, with the owner's.
  void set_copies(SegmentId segment, std::uint16_t copies);
  // A change of the set begins: what counts is held in both. The set as known now is the one before; at first it is empty.
  void begin_change(SegmentId segment, std::vector<ReplicaIndex> members);
  // Would these members, alone, hold whatever has counted as held in this term, and its beginning? A set that changes to one which
  // does not takes back promises that were made: by a member that leaves, and by one that joins before it has caught up
  // (a failover trusts any member with what `all` had). So: begin_change, wait for this, write it, end_change; without waiting only
  // where the member that leaves is gone for good. What a connection that broke had confirmed is not forgotten here.
  [[nodiscard]] bool keeps(SegmentId segment, const std::vector<ReplicaIndex>& members) const;
  // Its outcome is known: the new set stands, or the old one does.
  void end_change(SegmentId segment, bool changed);
  // A term begins, with a record at this place (all that was answered before lies below it), or the segment is not owned any
  // more: nothing is known to be held, and the set is empty until it is said again.
  void reset(SegmentId segment, Position begins);

  // From OwnerSession::progress. Positions only grow within a session.
  void received(SegmentId segment, ReplicaIndex replica, Position at, std::optional<std::uint64_t> marks_version);
  // The connection is gone: what the node holds when it comes back is for it to say, since it may come back empty.
  void lost(ReplicaIndex replica);

  [[nodiscard]] Held held(SegmentId segment, Position head) const;
  // The newest version of the segment's marks (MarksSince::version) that is held so; empty: none.
  [[nodiscard]] std::optional<std::uint64_t> held_marks(SegmentId segment, Durability policy, std::uint64_t newest) const;
  // The same under each policy, one more than the version; 0: none.
  [[nodiscard]] HeldBy<std::uint64_t> held_marks(SegmentId segment, std::uint64_t newest) const;
  // What a feed with `ship: replicated` may send up to.
  [[nodiscard]] Position shippable(SegmentId segment, Position head) const { return held(segment, head).replica; }
  // Old and new while a change is on its way.
  [[nodiscard]] std::vector<ReplicaIndex> members(SegmentId segment) const;

 private:
  struct Has {
    Position at;
    std::uint64_t marks = 0;  // version + 1
  };
  struct Segment {
    std::uint16_t copies = 1;
    std::vector<ReplicaIndex> set;
    std::optional<std::vector<ReplicaIndex>> next;
    std::map<ReplicaIndex, Has> has;
    HeldBy<Position> most;    // that ever counted in this term
  };
  template <class T, class F>
  [[nodiscard]] static HeldBy<T> in(const Segment& s, const std::vector<ReplicaIndex>& set, T everything, F&& what);
  template <class T, class F>
  [[nodiscard]] static HeldBy<T> of(const Segment& s, T everything, F&& what);
  static void raise_most(Segment& s);
  [[nodiscard]] const Segment& at(SegmentId id) const { return segments_.at(id.value()); }
  [[nodiscard]] Segment& at(SegmentId id) { return segments_.at(id.value()); }

  std::vector<Segment> segments_;
};

}  // namespace zaris::replication
