// Pins at a node of several: what of them is this node's own, what another owner has said, and how long until a bound cuts them.
#include "cluster/store/write_rate.hpp"
#include "tests/unit/store/replica_fixture.hpp"

namespace zaris::store {
namespace {

constexpr SegmentId seg1{1};
const PinKey reader{"cn", "l", ScopeId{0}, ClusterId{0xb}};
const PinKey of_replica{"replica", "n3", ScopeId{0}, ClusterId{0xc}};

void trim(Store& store, WallMicros now = start_time) {
  while (store.trim_log(now)) {
  }
}
void fill(Store& store, SegmentId segment, int records, WallMicros now = start_time) {
  for (int i = 0; i < records; ++i) ASSERT_EQ(put(store, key_in(segment, 2, 1), std::string(100, 'v'), now).status, Status::ok);
}

// Of two segments the first is this node's, the second another's.
class MemberPins : public testing::Test {
 protected:
  MemberPins() {
    own(*other, 50, seg1);
    own(*store, 60, seg0);
    store->set_role(seg1, SegmentRole::replica);
    EXPECT_EQ(catch_up(*other, *store, seg1).outcome, ReplicaOutcome::ok);
    store->set_pin(reader, {}, seg0, store->state(seg0).head, start_time);
    told(other->state(seg1).head);
  }
  void told(Position at, WallMicros now = start_time) { store->set_pin_place(reader, {}, seg1, {at, at}, now); }
  void lose() {
    fill(*store, seg0, 3000);
    trim(*store);
    ASSERT_TRUE(info().lost);
  }
  PinInfo info(WallMicros now = start_time) {
    const auto pins = store->pins(now);
    EXPECT_EQ(pins.size(), 1u);
    return pins.empty() ? PinInfo{} : pins[0];
  }
  static StoreOptions small() {
    StoreOptions options;
    options.log_budget_bytes = 64 << 10;
    options.log_pin_bytes = 256 << 10;
    options.log_pin_age_us = 100 * second;
    return options;
  }

  std::unique_ptr<Store> other = make_member(2, 1), store = make_member(2, 2, small());
};

TEST_F(MemberPins, WhatWasLostIsNamedUntilItsReaderHasBeenToldWhateverOtherOwnersSay) {
  lose();
  EXPECT_FALSE(store->pin_place(reader, seg0));
  ASSERT_TRUE(store->pin_place(reader, seg1)) << "there its owner says what is lost";
  fill(*other, seg1, 10);
  told(other->state(seg1).head);
  EXPECT_TRUE(info().lost);
  EXPECT_EQ(store->pin_place(reader, seg1)->acknowledged, other->state(seg1).head);
  store->clear_pin(reader, seg1);
  EXPECT_FALSE(store->pin_place(reader, seg1));
  EXPECT_TRUE(info().lost);
  store->attach_pin(reader, false, start_time);
  store->set_pin(reader, {}, seg0, store->state(seg0).head, start_time);
  EXPECT_TRUE(info().lost) << "not before it is dropped";
  EXPECT_EQ(store->counters().pins_lost, 1u);
  EXPECT_TRUE(store->drop_pin(reader));
  EXPECT_TRUE(store->pins(start_time).empty());
}

TEST_F(MemberPins, WhatWasLostIsFoundWhenTheNextOwnerHasItsReader) {
  lose();
  store->clear_pin(reader, seg1);
  store->set_role(seg0, SegmentRole::replica);
  EXPECT_TRUE(info().lost);
  store->set_pin_place(reader, {}, seg0, {store->state(seg0).head, store->state(seg0).head}, start_time);
  EXPECT_FALSE(info().lost);
  EXPECT_FALSE(info().holds_here());
  EXPECT_TRUE(store->pin_place(reader, seg0));
}

TEST_F(MemberPins, HeldIsOfTheLogOfWhatIsOwned) {
  fill(*store, seg0, 100);
  const auto before = info();
  EXPECT_GT(before.held_bytes, 10'000u);
  fill(*other, seg1, 5000);
  ASSERT_EQ(catch_up(*other, *store, seg1).outcome, ReplicaOutcome::ok);
  EXPECT_EQ(info().held_bytes, before.held_bytes) << "the other's log is held by the other";
  EXPECT_EQ(info().held_records, 100u);
  EXPECT_EQ(info().segments, 1u);
  EXPECT_LE(info().held_bytes, store->memory().log);
}

TEST_F(MemberPins, WhatAnOwnerKeptForItsReplicasGoesWithTheOwnership) {
  store->drop_pin(reader);
  store->set_pin(of_replica, {}, seg0, store->state(seg0).head, start_time);
  store->attach_pin(of_replica, true, start_time);
  fill(*store, seg0, 2000);
  EXPECT_GT(info().held_bytes, 200'000u);
  store->set_role(seg0, SegmentRole::replica);
  EXPECT_FALSE(info().holds_here()) << "its session may still be on it";
  EXPECT_EQ(info().held_bytes, 0u);
  EXPECT_FALSE(store->pin_place(of_replica, seg0));
  // The next owner's word alone counts then.
  store->set_owner_floor(seg0, store->state(seg0).head.revision.next());
  trim(*store);
  EXPECT_EQ(store->state(seg0).floor, store->state(seg0).head.revision.next());
  store->attach_pin(of_replica, false, start_time);
  EXPECT_TRUE(store->pins(start_time).empty());
}

TEST_F(MemberPins, WhatAReplicaLostIsForgottenWhenItFollowsNoMore) {
  store->drop_pin(reader);
  store->set_pin(of_replica, {}, seg0, store->state(seg0).head, start_time);
  lose();
  store->clear_pin(of_replica, seg0);
  EXPECT_TRUE(store->pins(start_time).empty());
}

TEST_F(MemberPins, AReadersPlacesStayForTheNextOwnerAndGoWithTheCopy) {
  store->set_role(seg0, SegmentRole::replica);
  EXPECT_TRUE(store->pin_place(reader, seg0));
  store->set_role(seg0, SegmentRole::none);
  EXPECT_FALSE(store->pin_place(reader, seg0));
  store->set_role(seg1, SegmentRole::none);
  EXPECT_TRUE(store->pins(start_time).empty());
}

TEST_F(MemberPins, WhatAnOwnerRepeatsMakesNoPinYounger) {
  const Position at = other->state(seg1).head;
  told(at, start_time + 60 * second);
  EXPECT_EQ(info().moved_us, start_time);
  fill(*store, seg0, 1000);
  trim(*store, start_time + 101 * second);
  EXPECT_TRUE(info().lost);
  fill(*other, seg1, 1);
  told(other->state(seg1).head, start_time + 102 * second);
  EXPECT_EQ(info().moved_us, start_time + 102 * second);
}

TEST_F(MemberPins, TheTimeLeftIsThatOfTheWritesOfTheLastHalfMinute) {
  WallMicros now = start_time;
  std::optional<double> before;
  trim(*store, now);
  for (int i = 1; i <= 40; ++i) {
    fill(*store, seg0, 10, now += second / 2);
    // Now and then the reader moves a little: that says nothing of the writes.
    if (i % 8 == 0) store->set_pin(reader, {}, seg0, Position{Generation{60}, Revision{static_cast<std::uint64_t>(i)}}, now);
    trim(*store, now);
    if (i < 4) continue;
    const auto left = info(now).seconds_left;
    ASSERT_TRUE(left) << i;
    if (before) {
      EXPECT_NEAR(*left, *before, *before / 10) << i;
    }
    before = left;
  }
  const PinInfo last = info(now);
  const double per_second = static_cast<double>(last.held_bytes) / static_cast<double>(last.held_records) * 20;
  EXPECT_NEAR(*last.seconds_left, static_cast<double>(last.bytes_max - last.held_bytes) / per_second, 3);
  // Who is there and keeps up is in no danger.
  store->set_pin(reader, {}, seg0, Position{Generation{60}, Revision{store->state(seg0).head.revision.value() - 1}}, now);
  store->attach_pin(reader, true, now);
  EXPECT_FALSE(info(now).seconds_left);
}

TEST(WriteRate, IsNotMovedByWhoOwnsWhatNorByTheClock) {
  WriteRate rate;
  WallMicros now = start_time;
  std::uint64_t total = 0;
  for (int i = 0; i < 60; ++i) rate.sample(total += 1'000'000, 0, now += second);
  EXPECT_NEAR(rate.bytes_per_us(), 1.0, 0.001);
  rate.sample(total += 500'000'000, 1, now += second);  // a segment more, with all that was ever written to it
  rate.sample(total += 1'000'000, 1, now += second);
  rate.sample(total, 1, now -= 100 * second);
  EXPECT_NEAR(rate.bytes_per_us(), 1.0, 0.001);
  for (int i = 0; i < 300; ++i) rate.sample(total, 1, now += second);
  EXPECT_LT(rate.bytes_per_us(), 0.001);
}

}  // namespace
}  // namespace zaris::store
