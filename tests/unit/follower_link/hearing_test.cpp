// When what is known of the source's heads may stand.
#include <gtest/gtest.h>

#include "follower/link/hearing.hpp"

namespace zaris::follower {
namespace {

constexpr MonoMicros s = 1'000'000, now = 1'000 * s;
using Moment = std::optional<MonoMicros>;

TEST(Hearing, OneSegment) {
  struct Case {
    const char* name;
    Moment echoed, data, connection;
    bool fresh, backlog, nothing;  // a backlog stands, and one of nothing
    std::uint64_t silent;
  };
  const Case cases[] = {
      {"just heard", now, {}, now, true, true, true, 0},
      {"at the edge", now - 2 * s, {}, now - 2 * s, true, true, true, 0},
      {"past it", now - 2 * s - 1, {}, now - 2 * s - 1, false, false, false, 0},
      {"for long", now - 4 * s - 1, {}, now - 4 * s - 1, false, false, false, 1},
      {"its echo waits behind data", now - 60 * s, now - s, now - 60 * s, false, true, false, 0},
      {"data have stopped too", now - 60 * s, now - 3 * s, now - 60 * s, false, false, false, 1},
      {"data are another segment's, which is echoed", now - 60 * s, now, now, false, false, false, 1},
      {"never heard, asked just now", {}, {}, {}, false, false, false, 0},
      {"never heard, data come", {}, now, {}, false, true, false, 0},
  };
  for (const Case& c : cases) {
    Hearing hearing(now, 200'000);
    hearing.segment({c.echoed, c.echoed ? now - 100 * s : now - s, c.data, c.connection});
    EXPECT_EQ(hearing.fresh(), c.fresh) << c.name;
    EXPECT_EQ(hearing.backlog_stands(true), c.backlog) << c.name;
    EXPECT_EQ(hearing.backlog_stands(false), c.nothing) << c.name;
    EXPECT_EQ(hearing.silent_segments(), c.silent) << c.name;
    EXPECT_EQ(hearing.heads_age_seconds().has_value(), c.echoed.has_value()) << c.name;
  }
}

TEST(Hearing, TheSegmentHeardOfLongestAgoCounts) {
  Hearing hearing(now, 200'000);
  hearing.segment({now, now - 100 * s, {}, now});
  hearing.segment({now - 10 * s, now - 100 * s, {}, now});
  EXPECT_FALSE(hearing.fresh());
  EXPECT_DOUBLE_EQ(*hearing.heads_age_seconds(), 10);
  EXPECT_EQ(hearing.silent_segments(), 1u);
  hearing.segment({{}, now, {}, now});
  EXPECT_FALSE(hearing.heads_age_seconds());
}

TEST(Hearing, ASubscriptionOfAMomentAgoIsNotSilent) {
  Hearing hearing(now, 200'000);
  hearing.segment({now - 60 * s, now - s, {}, now});
  EXPECT_FALSE(hearing.fresh());
  EXPECT_EQ(hearing.silent_segments(), 0u);
}

TEST(Hearing, ASourceThatIsPingedSeldomIsGivenTheTimeOfTenPings) {
  Hearing hearing(now, s);
  hearing.segment({now - 10 * s, now - 100 * s, {}, now - 10 * s});
  EXPECT_TRUE(hearing.fresh());
  hearing.segment({now - 20 * s, now - 100 * s, {}, now - 20 * s});
  EXPECT_FALSE(hearing.fresh());
  EXPECT_EQ(hearing.silent_segments(), 0u);
}

}  // namespace
}  // namespace zaris::follower
