// What one node makes of the clocks of another: from heartbeats alone, with lines of any speed and peers that say anything.
#include "cluster/region/clock_skew.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

namespace zaris::region {
namespace {

using Clock = protocol::Heartbeat::Clock;
using Change = ClockSkew::Change;
constexpr MonoMicros second = 1'000'000;

// Two nodes with boot and wall clocks of their own, and a line between them.
struct Pair {
  ClockSkew here{500'000}, there{500'000};
  MonoMicros time = 100 * second, boot_apart = 77 * second;
  std::int64_t ahead_us = 0;
  MonoMicros out_us = 300, back_us = 300;
  static constexpr WallMicros epoch = 1'790'000'000'000'000;

  [[nodiscard]] WallMicros wall() const { return epoch + static_cast<WallMicros>(time); }
  [[nodiscard]] WallMicros their_wall() const { return static_cast<WallMicros>(static_cast<std::int64_t>(wall()) + ahead_us); }
  // A heartbeat each way, half a second apart.
  Change round() {
    const Clock asks = here.stamp("there", time, wall());
    time += out_us;
    (void)there.heard("here", asks, time + boot_apart, their_wall());
    time += 500'000;
    const Clock answers = there.stamp("here", time + boot_apart, their_wall());
    time += back_us;
    return here.heard("there", answers, time, wall());
  }
};

TEST(ClockSkew, IsKnownToWithinHalfARoundTrip) {
  for (const std::int64_t ahead : {std::int64_t{0}, 3600 * second, -3600 * second, std::int64_t{250'000}}) {
    for (const auto& [out, back] : {std::pair<MonoMicros, MonoMicros>{300, 300}, {40'000, 100}, {100, 40'000}}) {
      Pair pair;
      pair.ahead_us = ahead;
      pair.out_us = out;
      pair.back_us = back;
      EXPECT_FALSE(pair.here.estimate("there"));
      (void)pair.round();
      const auto found = pair.here.estimate("there");
      ASSERT_TRUE(found);
      EXPECT_LE(std::abs(found->ahead_us - ahead), found->within_us);
      EXPECT_LE(found->within_us, (out + back) / 2 + 6'000);
      EXPECT_EQ(found->beyond, std::abs(ahead) > 500'000);
    }
  }
}

TEST(ClockSkew, IsSaidOnceAndTakenBackOnce) {
  Pair pair;
  EXPECT_EQ(pair.round(), Change::none);
  pair.ahead_us = 600'000;
  int said = 0, gone = 0;
  for (int i = 0; i < 40; ++i) said += pair.round() == Change::beyond ? 1 : 0;
  EXPECT_EQ(said, 1);
  EXPECT_TRUE(pair.here.estimate("there")->beyond);
  pair.ahead_us = 490'000;
  for (int i = 0; i < 40; ++i) EXPECT_EQ(pair.round(), Change::none) << "just inside the bound is not well";
  pair.ahead_us = 0;
  for (int i = 0; i < 40; ++i) gone += pair.round() == Change::within ? 1 : 0;
  EXPECT_EQ(gone, 1);
  EXPECT_FALSE(pair.here.estimate("there")->beyond);
}

// A line of seconds says nothing against a clock that may be right.
TEST(ClockSkew, IsNotSaidWhereARoundTripExplainsIt) {
  Pair pair;
  pair.back_us = 3 * second;
  EXPECT_EQ(pair.round(), Change::none);
  EXPECT_GT(std::abs(pair.here.estimate("there")->ahead_us), second);
  EXPECT_FALSE(pair.here.estimate("there")->beyond);
  pair.back_us = 300;
  (void)pair.round();
  EXPECT_LT(std::abs(pair.here.estimate("there")->ahead_us), 10'000) << "the shortest round trip counts";
}

TEST(ClockSkew, WhatCannotBeIsLeftOut) {
  const std::uint64_t most = ~std::uint64_t{0};
  for (const Clock& clock : {Clock{most, most, most, most}, Clock{1, Pair::epoch, 0, 0}, Clock{1, Pair::epoch, 200 * 1'000'000ull, 0}, Clock{1, Pair::epoch, 99'000'000, 2'000'000},
                             Clock{1, most, 99'000'000, 0}, Clock{1, Pair::epoch, 1, 0}}) {
    Pair pair;
    EXPECT_EQ(pair.here.heard("there", clock, pair.time, pair.wall()), Change::none);
    EXPECT_FALSE(pair.here.estimate("there"));
    (void)pair.here.stamp("there", pair.time, pair.wall());
  }
}

// A version that does not know of clocks sends four places, and skips the fifth.
TEST(ClockSkew, AHeartbeatWithoutClocksIsWhatItWas) {
  std::string bytes;
  protocol::Heartbeat sent{1, 2, 3, {}, std::nullopt}, read;
  encode(bytes, sent);
  EXPECT_EQ(bytes.at(protocol::frame_header_bytes), '\x94');
  ASSERT_TRUE(decode(std::string_view(bytes).substr(protocol::frame_header_bytes), read));
  EXPECT_EQ(read, sent);
  EXPECT_FALSE(read.clock);
}

TEST(ClockSkew, OfAnotherProcessIsAnotherOne) {
  Pair pair;
  (void)pair.round();
  pair.here.forget("there");
  EXPECT_FALSE(pair.here.estimate("there"));
  EXPECT_EQ(pair.here.stamp("there", pair.time, pair.wall()).echo, 0u) << "its clock may have begun anew";
}

}  // namespace
}  // namespace zaris::region
