// What is held by how many, and who waits for it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "cluster/replication/acknowledge.hpp"

namespace zaris::replication {
namespace {

constexpr SegmentId segment{1};
constexpr ReplicaIndex a{1}, b{2}, c{3};

Position at(std::uint64_t revision) { return {Generation{5}, Revision{revision}}; }

std::vector<std::uint64_t> by(std::vector<std::uint64_t> has, std::size_t copies) {
  const auto held = held_by<std::uint64_t>(std::move(has), copies, 100);
  return {held.replica, held.majority, held.all};
}
using Row = std::vector<std::uint64_t>;

TEST(Held, ByPolicy) {
  // {what each member has}, copies → replica, majority, all
  EXPECT_EQ(by({}, 1), (Row{0, 100, 100}));        // one copy: the owner's
  EXPECT_EQ(by({}, 2), (Row{0, 0, 0}));            // the other copy is away
  EXPECT_EQ(by({40}, 2), (Row{40, 40, 40}));
  EXPECT_EQ(by({}, 3), (Row{0, 0, 0}));            // a set that has shrunk does not shrink the promise
  EXPECT_EQ(by({40}, 3), (Row{40, 40, 40}));       // two of three are a majority
  EXPECT_EQ(by({40, 90}, 3), (Row{90, 90, 40}));
  EXPECT_EQ(by({40, 90}, 5), (Row{90, 40, 40}));
  EXPECT_EQ(by({40}, 5), (Row{40, 0, 0}));         // two of five are none
  EXPECT_EQ(by({10, 40, 60, 90}, 5), (Row{90, 60, 10}));
  EXPECT_EQ(by({70, 80, 90}, 4), (Row{90, 80, 70}));
  EXPECT_EQ(by({120}, 2), (Row{100, 100, 100}));   // nobody holds more than the owner
}

TEST(Held, StrongerPoliciesNeverHoldMore) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::uint64_t> has(random() % 6);
    for (auto& one : has) one = random() % 110;
    const std::size_t copies = std::max<std::size_t>(2, has.size() + 1 + random() % 3);
    const auto held = held_by<std::uint64_t>(has, copies, 100);
    EXPECT_LE(held.majority, held.replica);
    EXPECT_LE(held.all, held.majority);
    // Counted out: that many have it.
    const auto count = [&](std::uint64_t v) { return 1 + std::count_if(has.begin(), has.end(), [&](auto h) { return h >= v; }); };
    if (held.majority > 0) { EXPECT_GT(2 * static_cast<std::size_t>(count(held.majority)), copies); }
    if (held.all > 0) { EXPECT_EQ(static_cast<std::size_t>(count(held.all)), has.size() + 1); }
  }
}

TEST(HeldPositions, OnlyMembersCount) {
  HeldPositions held(4);
  held.set_copies(segment, 3);
  held.received(segment, a, at(50), 3);
  EXPECT_EQ(held.shippable(segment, at(100)), Position{});
  held.begin_change(segment, {a, b});
  held.end_change(segment, true);
  EXPECT_EQ(held.held(segment, at(100)), (Held{at(50), at(50), Position{}}));
  held.received(segment, b, at(40), std::nullopt);
  EXPECT_EQ(held.held(segment, at(100)), (Held{at(50), at(50), at(40)}));
  EXPECT_EQ(held.held_marks(segment, Durability::replica, 9), 3u);
  EXPECT_EQ(held.held_marks(segment, Durability::all, 9), std::nullopt);
  EXPECT_EQ(held.held_marks(segment, Durability::owner, 9), 9u);
}

// Until the outcome of a change is known a failover may read either set: what counts is held in both.
TEST(HeldPositions, AChangeInFlightAsksBothSets) {
  HeldPositions held(4);
  held.set_copies(segment, 3);
  held.begin_change(segment, {a, b});
  held.end_change(segment, true);
  held.received(segment, a, at(90), {});
  held.received(segment, b, at(60), {});
  held.received(segment, c, at(30), {});
  held.begin_change(segment, {b, c});
  EXPECT_THAT(held.members(segment), testing::ElementsAre(a, b, c));
  EXPECT_EQ(held.held(segment, at(100)), (Held{at(60), at(60), at(30)}));
  held.end_change(segment, false);
  EXPECT_EQ(held.held(segment, at(100)), (Held{at(90), at(90), at(60)}));
  held.begin_change(segment, {b, c});
  held.end_change(segment, true);
  EXPECT_EQ(held.held(segment, at(100)), (Held{at(60), at(60), at(30)}));
}

TEST(HeldPositions, ASetThatShrinksMayTakeBackAPromise) {
  HeldPositions held(4);
  held.set_copies(segment, 3);
  held.begin_change(segment, {a, b});
  held.end_change(segment, true);
  held.received(segment, a, at(90), {});
  held.received(segment, b, at(60), {});
  EXPECT_FALSE(held.keeps(segment, {b}));  // 61 … 90 were answered for a's sake
  EXPECT_TRUE(held.keeps(segment, {a}));
  held.received(segment, b, at(90), {});
  EXPECT_TRUE(held.keeps(segment, {b}));
  EXPECT_FALSE(held.keeps(segment, {}));
  // A connection that broke takes nothing back of what was answered for its sake.
  held.received(segment, a, at(95), {});
  held.lost(a);
  EXPECT_FALSE(held.keeps(segment, {b}));
}

TEST(HeldPositions, AMemberJoinsWhenItHasCaughtUp) {
  HeldPositions held(4);
  held.set_copies(segment, 3);
  held.reset(segment, at(10));
  EXPECT_FALSE(held.keeps(segment, {a})) << "nothing is known of what was answered before this term, but that it lies below its beginning";
  held.received(segment, a, at(10), {});
  EXPECT_TRUE(held.keeps(segment, {a}));
  held.begin_change(segment, {a});
  held.end_change(segment, true);
  held.received(segment, a, at(50), {});
  held.received(segment, c, at(40), {});
  EXPECT_FALSE(held.keeps(segment, {a, c})) << "50 was answered under `all`";
  held.begin_change(segment, {a, c});  // from now on `all` waits for it
  held.received(segment, a, at(60), {});
  held.received(segment, c, at(50), {});
  EXPECT_TRUE(held.keeps(segment, {a, c}));
  held.end_change(segment, true);
}

TEST(HeldPositions, WhoIsGoneHoldsNothingUntilItSaysSo) {
  HeldPositions held(4);
  held.set_copies(segment, 2);
  held.begin_change(segment, {a});
  held.end_change(segment, true);
  held.received(segment, a, at(90), 1);
  held.lost(a);
  EXPECT_EQ(held.shippable(segment, at(100)), Position{});
  held.received(segment, a, at(20), {});
  EXPECT_EQ(held.shippable(segment, at(100)), at(20));
  held.reset(segment, at(100));
  EXPECT_TRUE(held.members(segment).empty());
}

TEST(Acknowledge, DoneWhenHeld) {
  Acknowledge waits(4, 100);
  EXPECT_EQ(waits.wait(segment, at(10), Durability::owner, 1000).outcome, WaitOutcome::done);
  const Wait one = waits.wait(segment, at(10), Durability::replica, 1000);
  const Wait two = waits.wait(segment, at(11), Durability::replica, 1000);
  const Wait all = waits.wait(segment, at(10), Durability::all, 1000);
  ASSERT_EQ(one.outcome, WaitOutcome::waiting);
  std::vector<Ticket> done;
  waits.advance(segment, {at(10), at(10), at(9)}, done);
  EXPECT_THAT(done, testing::ElementsAre(one.ticket));
  EXPECT_EQ(waits.wait(segment, at(9), Durability::all, 1000).outcome, WaitOutcome::done);
  done.clear();
  waits.advance(segment, {at(20), at(20), at(20)}, done);
  EXPECT_THAT(done, testing::UnorderedElementsAre(two.ticket, all.ticket));
  EXPECT_EQ(waits.waiting(), 0u);
  EXPECT_EQ(waits.next_deadline(), std::nullopt);
}

TEST(Acknowledge, GivesUpAtTheDeadlineAndIsBounded) {
  Acknowledge waits(4, 3);
  const Wait first = waits.wait(segment, at(1), Durability::majority, 100);
  const Wait second = waits.wait(segment, at(2), Durability::replica, 50);
  const Wait third = waits.wait(SegmentId{2}, at(3), Durability::replica, 200);
  EXPECT_EQ(waits.wait(segment, at(4), Durability::replica, 200).outcome, WaitOutcome::full);
  EXPECT_EQ(waits.next_deadline(), 50);
  std::vector<Ticket> given_up;
  waits.expire(100, given_up);
  EXPECT_THAT(given_up, testing::ElementsAre(second.ticket, first.ticket));
  given_up.clear();
  waits.abandon(segment, given_up);
  EXPECT_TRUE(given_up.empty());
  waits.abandon(SegmentId{2}, given_up);
  EXPECT_THAT(given_up, testing::ElementsAre(third.ticket));
  const Wait gone = waits.wait(segment, at(4), Durability::replica, 200);
  waits.cancel(gone.ticket);
  waits.cancel(gone.ticket);
  EXPECT_EQ(waits.waiting(), 0u);
}

}  // namespace
}  // namespace zaris::replication
