// Staleness that never reassures wrongly: a number may be too large by a round trip, never too small.
#include "follower/link/staleness.hpp"

#include <gtest/gtest.h>

namespace zaris::follower {
namespace {

Position at(std::uint64_t revision, std::uint32_t generation = 1) { return {Generation{generation}, Revision{revision}}; }

TEST(HeadEchoes, NothingConfirmedCountsFromTheStart) {
  HeadEchoes e(1000);
  EXPECT_EQ(e.confirmed_sent(), 1000);
  e.echoed(2000, at(10));
  EXPECT_EQ(e.confirmed_sent(), 1000) << "the target holds nothing yet";
  e.durable(at(9), true);
  EXPECT_EQ(e.confirmed_sent(), 1000) << "one below the head";
  e.durable(at(10), true);
  EXPECT_EQ(e.confirmed_sent(), 2000);
  EXPECT_TRUE(e.holds_all());
}

TEST(HeadEchoes, AnIdleSegmentIsAsFreshAsItsLastPing) {
  HeadEchoes e(0);
  e.durable(at(10), true);
  for (MonoMicros t = 200; t <= 100'000; t += 200) {
    e.echoed(t, at(10));
    EXPECT_EQ(e.confirmed_sent(), t);
  }
}

TEST(HeadEchoes, ABacklogConfirmsPingsOneByOne) {
  HeadEchoes e(0);
  e.durable(at(1), true);
  for (int i = 1; i <= 10; ++i) e.echoed(i * 100, at(static_cast<std::uint64_t>(i * 10)));
  EXPECT_EQ(e.confirmed_sent(), 0);
  e.durable(at(35), true);
  EXPECT_EQ(e.confirmed_sent(), 300);
  e.durable(at(99), true);
  EXPECT_EQ(e.confirmed_sent(), 900);
  EXPECT_FALSE(e.holds_all());
}

TEST(HeadEchoes, WhileABootstrapRunsNothingNewIsConfirmed) {
  HeadEchoes e(0);
  e.durable(at(10), true);
  e.echoed(100, at(10));
  e.durable(at(10), false);
  e.echoed(200, at(10));
  e.echoed(300, at(12));
  e.durable(at(20), false);
  EXPECT_EQ(e.confirmed_sent(), 100) << "the newest confirmed before counts";
  e.durable(at(20), true);
  EXPECT_EQ(e.confirmed_sent(), 300);
}

TEST(HeadEchoes, MarksThatGoBackTakeTheirEchoesWithThem) {
  HeadEchoes e(0);
  e.durable(at(5), true);
  e.echoed(100, at(5));
  e.durable(at(8), true);
  e.echoed(200, at(8));
  e.echoed(300, at(9));
  e.durable(at(9), true);
  ASSERT_EQ(e.confirmed_sent(), 300);
  e.went_back(at(8));
  EXPECT_EQ(e.confirmed_sent(), 200) << "what the target still holds still counts";
  e.went_back(at(4));
  EXPECT_EQ(e.confirmed_sent(), 0) << "back to the start: nothing older is known";
  e.durable(at(9), true);
  EXPECT_EQ(e.confirmed_sent(), 0) << "forgotten, until a Ping comes back";
  e.echoed(400, at(9));
  EXPECT_EQ(e.confirmed_sent(), 400);
  e.went_back(std::nullopt);
  EXPECT_EQ(e.confirmed_sent(), 0);
}

TEST(HeadEchoes, AnOwnerThatWasDeposedHasAPositionOfItsGeneration) {
  HeadEchoes e(0);
  e.durable(at(100, 1), true);
  e.echoed(100, at(95, 2));
  EXPECT_EQ(e.confirmed_sent(), 0) << "a newer generation's head is beyond whatever an older one reached";
  e.durable(at(95, 2), true);
  EXPECT_EQ(e.confirmed_sent(), 100);
}

TEST(HeadEchoes, LateAnswersAndASecondNodesAnswerChangeNothing) {
  HeadEchoes e(0);
  e.durable(at(10), true);
  e.echoed(200, at(10));
  e.echoed(100, at(3));
  e.echoed(200, at(11));
  EXPECT_EQ(e.confirmed_sent(), 200);
}

TEST(HeadEchoes, ManyPendingOnesAreThinnedToTheSafeSide) {
  HeadEchoes e(0);
  e.durable(at(1), true);
  e.echoed(1, at(1));
  for (int i = 2; i <= 100'000; ++i) e.echoed(i, at(static_cast<std::uint64_t>(i)));
  EXPECT_EQ(e.confirmed_sent(), 1) << "the confirmed one survives";
  for (std::uint64_t low = 2; low < 100'000; low += 997) {
    e.durable(at(low), true);
    EXPECT_LE(e.confirmed_sent(), static_cast<MonoMicros>(low)) << "never fresher than the truth";
  }
  e.durable(at(100'000), true);
  EXPECT_EQ(e.confirmed_sent(), 100'000) << "the newest survives too";
}

}  // namespace
}  // namespace zaris::follower
