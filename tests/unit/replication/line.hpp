// A connection between the owner's end at one store and the replica's end at another, as bytes in flight. It delivers what it is
// told to, in order, cut anywhere; whoever breaks it makes a new one.
#pragma once
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "cluster/replication/owner_session.hpp"
#include "cluster/replication/replica_session.hpp"
#include "tests/unit/store/store_fixture.hpp"

namespace zaris::replication {

inline std::unique_ptr<store::Store> member_store(std::uint32_t segments, std::uint64_t seed, store::StoreOptions options = {}) {
  options.cluster = ClusterId{0xc1};
  options.segments = segments;
  options.seed = seed;
  options.cluster_member = true;
  return store::Store::create(options, {});
}

class Line {
 public:
  Line(store::Store& owner, store::Store& replica, std::string name, OwnerOptions options = {}, ReplicaOptions replica_options = {})
      : owner_store(owner), replica_store(replica) {
    options.replica = std::move(name);
    dirty_ = owner.dirty_map([] {});
    o = std::make_unique<OwnerSession>(owner, options, [this](SegmentId id) { return !may_copy || may_copy(id); });
    r = std::make_unique<ReplicaSession>(replica, replica_options);
  }

  std::unique_ptr<OwnerSession> o;
  std::unique_ptr<ReplicaSession> r;
  std::string down, up;                 // in flight: to the replica, to the owner
  std::size_t socket_bytes = 64u << 10;  // the owner is asked only while less than this waits
  std::function<bool(SegmentId)> may_copy;
  store::Store& owner_store;
  store::Store& replica_store;

  // The shell's passes.
  void tick(Now now) {
    now_ = now;
    o->on_tick(now);
    std::vector<SegmentId> moved;
    dirty_->drain(moved);
    o->on_dirty(moved);
  }
  bool say() {
    bool said = false;
    if (down.size() < socket_bytes) said |= o->next(down);
    said |= r->next(up);
    return said;
  }
  // Delivers at most so many frames each way; returns whether there was one.
  bool deliver(std::size_t to_replica, std::size_t to_owner) {
    bool any = false;
    for (; to_replica > 0 && !r->ended() && take(down); --to_replica, any = true) r->on_message(frame_, now_), drop(down);
    for (; to_owner > 0 && !o->ended() && take(up); --to_owner, any = true) o->on_message(frame_, now_), drop(up);
    return any;
  }
  // Until nothing moves any more.
  void settle(Now& now) {
    for (int quiet = 0; quiet < 15;) {
      now.mono_us += 200'000;
      now.wall_us += 200'000;
      tick(now);
      bool any = false;
      while (say() | deliver(1000, 1000)) any = true;
      ASSERT_FALSE(o->ended()) << o->ended()->text;
      ASSERT_FALSE(r->ended()) << r->ended()->text;
      // Closed times go on for ever.
      quiet = any ? quiet + 1 : quiet + 3;
    }
  }

 private:
  bool take(const std::string& bytes) {
    const auto step = protocol::FrameParser(16u << 20).parse(bytes, frame_);
    EXPECT_NE(step.step, protocol::FrameStep::malformed);
    consumed_ = step.consumed;
    return step.step == protocol::FrameStep::frame;
  }
  void drop(std::string& bytes) { bytes.erase(0, consumed_); }

  std::unique_ptr<store::DirtyMap> dirty_;
  protocol::Frame frame_;
  std::size_t consumed_ = 0;
  Now now_;
};

// ---- what two stores must have in common ---------------------------------------------------------------------------
inline std::string log_bytes(const store::Store& store, SegmentId segment, Revision after) {
  std::string out;
  store::LogStretch stretch;
  while (store.read_log(segment, after, 1 << 20, stretch) == store::LogRead::ok) {
    out.append(stretch.bytes, stretch.size);
    after = stretch.last();
  }
  return out;
}

inline std::map<MarkKey, Mark> marks_of(const store::Store& store, SegmentId segment) {
  std::map<MarkKey, Mark> out;
  for (const auto& change : store.marks_since(segment, 0).changes) {
    if (change.mark) out[change.key] = *change.mark;
  }
  return out;
}

// Reader's pins that hold something in this segment: where they were acknowledged.
inline std::map<store::PinKey, Position> pins_of(const store::Store& store, SegmentId segment, WallMicros now) {
  std::map<store::PinKey, Position> out;
  for (const auto& pin : store.pins(now)) {
    if (is_replica_pin(store, pin.key)) continue;
    const auto place = store.pin_place(pin.key, segment);
    if (place) out[pin.key] = place->acknowledged;
  }
  return out;
}

inline void expect_equal(const store::Store& owner, const store::Store& replica, SegmentId segment, WallMicros now) {
  SCOPED_TRACE("segment " + std::to_string(segment.value()));
  const auto a = owner.state(segment), b = replica.state(segment);
  EXPECT_EQ(to_string(a.head), to_string(b.head));
  EXPECT_FALSE(b.copying);
  EXPECT_EQ(a.live_keys, b.live_keys);
  EXPECT_EQ(owner.segment_digest(segment), replica.segment_digest(segment));
  EXPECT_EQ(owner.lineage(segment), replica.lineage(segment));
  const Revision from{std::max(a.floor, b.floor).value() - 1};
  EXPECT_TRUE(log_bytes(owner, segment, from) == log_bytes(replica, segment, from));
  EXPECT_TRUE(marks_of(owner, segment) == marks_of(replica, segment));
  EXPECT_TRUE(pins_of(owner, segment, now) == pins_of(replica, segment, now));
}

}  // namespace zaris::replication
