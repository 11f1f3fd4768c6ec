#include "cluster/replication/held_positions.hpp"

#include <algorithm>
#include <functional>

#include "cluster/base/assert.hpp"

namespace zaris::replication {

Position Held::by(Durability policy) const {
  switch (policy) {
    case Durability::replica: return replica;
    case Durability::majority: return majority;
    case Durability::all: return all;
    case Durability::owner:
    case Durability::store_default: break;
  }
  ZARIS_ASSERT(false, static_cast<int>(policy));
}

template <class T>
HeldBy<T> held_by(std::vector<T> has, std::size_t copies, T everything) {
  std::sort(has.begin(), has.end(), std::greater<>());
  for (T& one : has) one = std::min(one, everything);
  HeldBy<T> out;
  out.replica = has.empty() ? T{} : has.front();
  if (copies <= 1) {
    out.majority = out.all = everything;
    return out;
  }
  const std::size_t replicas_wanted = copies / 2;  // and the owner: more than half
  out.majority = has.size() < replicas_wanted ? T{} : has[replicas_wanted - 1];
  out.all = has.empty() ? T{} : std::min(out.majority, has.back());
  return out;
}
template HeldBy<Position> held_by(std::vector<Position> has, std::size_t copies, Position everything);
template HeldBy<std::uint64_t> held_by(std::vector<std::uint64_t> has, std::size_t copies, std::uint64_t everything);

void HeldPositions::set_copies(SegmentId segment, std::uint16_t copies) { at(segment).copies = copies; }

void HeldPositions::begin_change(SegmentId segment, std::vector<ReplicaIndex> members) {
  Segment& s = at(segment);
  ZARIS_ASSERT(!s.next, segment.value());
  s.next = std::move(members);
}

void HeldPositions::end_change(SegmentId segment, bool changed) {
  Segment& s = at(segment);
  ZARIS_ASSERT(s.next, segment.value());
  if (changed) s.set = std::move(*s.next);
  s.next.reset();
  raise_most(s);
}

void HeldPositions::reset(SegmentId segment, Position begins) {
  Segment& s = at(segment);
  const std::uint16_t copies = s.copies;
  s = {};
  s.copies = copies;
  s.most = {begins, begins, begins};
}

void HeldPositions::received(SegmentId segment, ReplicaIndex replica, Position position, std::optional<std::uint64_t> marks_version) {
  Has& has = at(segment).has[replica];
  has.at = std::max(has.at, position);
  if (marks_version) has.marks = std::max(has.marks, *marks_version + 1);
  raise_most(at(segment));
}

void HeldPositions::lost(ReplicaIndex replica) {
  for (Segment& s : segments_) s.has.erase(replica);
}

template <class T, class F>
HeldBy<T> HeldPositions::in(const Segment& s, const std::vector<ReplicaIndex>& set, T everything, F&& what) {
  std::vector<T> has;
  for (const ReplicaIndex member : set) {
    const auto found = s.has.find(member);
    has.push_back(found == s.has.end() ? T{} : what(found->second));
  }
  return held_by(std::move(has), s.copies, everything);
}

template <class T, class F>
HeldBy<T> HeldPositions::of(const Segment& s, T everything, F&& what) {
  HeldBy<T> out = in(s, s.set, everything, what);
  if (!s.next) return out;
  const HeldBy<T> then = in(s, *s.next, everything, what);
  return {std::min(out.replica, then.replica), std::min(out.majority, then.majority), std::min(out.all, then.all)};
}

namespace {

constexpr Position everything_of_all{Generation{0xffff'ffff}, Revision{~std::uint64_t{0}}};

}  // namespace

void HeldPositions::raise_most(Segment& s) {
  if (s.copies <= 1) return;
  const auto now = of<Position>(s, everything_of_all, [](const Has& has) { return has.at; });
  s.most = {std::max(s.most.replica, now.replica), std::max(s.most.majority, now.majority), std::max(s.most.all, now.all)};
}

bool HeldPositions::keeps(SegmentId segment, const std::vector<ReplicaIndex>& members) const {
  const Segment& s = at(segment);
  // Whoever of them is promoted has all of it. The number of copies does not matter then: with two of four nodes gone a majority cannot be had, and
  // who comes back must be let in all the same.
  const Position most = std::max({s.most.replica, s.most.majority, s.most.all});
  const auto holds_all = [&](ReplicaIndex member) {
    const auto found = s.has.find(member);
    return found != s.has.end() && found->second.at >= most;
  };
  if (!members.empty() && std::all_of(members.begin(), members.end(), holds_all)) return true;
  const auto then = in(s, members, everything_of_all, [](const Has& has) { return has.at; });
  return s.most.replica <= then.replica && s.most.majority <= then.majority && s.most.all <= then.all;
}

Held HeldPositions::held(SegmentId segment, Position head) const {
  const auto by = of<Position>(at(segment), head, [](const Has& has) { return has.at; });
  return {by.replica, by.majority, by.all};
}

std::optional<std::uint64_t> HeldPositions::held_marks(SegmentId segment, Durability policy, std::uint64_t newest) const {
  const auto by = of<std::uint64_t>(at(segment), newest + 1, [](const Has& has) { return has.marks; });
  std::uint64_t marks = newest + 1;
  if (policy == Durability::replica) marks = by.replica;
  if (policy == Durability::majority) marks = by.majority;
  if (policy == Durability::all) marks = by.all;
  if (marks == 0) return std::nullopt;
  return marks - 1;
}

HeldBy<std::uint64_t> HeldPositions::held_marks(SegmentId segment, std::uint64_t newest) const {
  return of<std::uint64_t>(at(segment), newest + 1, [](const Has& has) { return has.marks; });
}

std::vector<ReplicaIndex> HeldPositions::members(SegmentId segment) const {
  const Segment& s = at(segment);
  std::vector<ReplicaIndex> out = s.set;
  if (s.next) out.insert(out.end(), s.next->begin(), s.next->end());
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

}  // namespace zaris::replication
