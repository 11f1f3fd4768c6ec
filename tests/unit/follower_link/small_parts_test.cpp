// Back-off, bootstrap progress, log lines that cannot storm.
#include <gtest/gtest.h>

#include <set>

#include "follower/link/backoff.hpp"
#include "follower/link/bootstrap_progress.hpp"
#include "follower/link/event_log.hpp"

namespace zaris::follower {
namespace {

TEST(Backoff, GrowsToItsMostWithJitterAndStartsOver) {
  Random random(7);
  Backoff backoff(100'000, 10'000'000);
  const MonoMicros wholes[] = {100'000, 200'000, 400'000, 800'000, 1'600'000, 3'200'000, 6'400'000, 10'000'000, 10'000'000};
  for (const MonoMicros whole : wholes) {
    const MonoMicros wait = backoff.next(random);
    EXPECT_GE(wait, whole / 2);
    EXPECT_LE(wait, whole);
  }
  for (int i = 0; i < 100; ++i) EXPECT_LE(backoff.next(random), 10'000'000) << "for ever, without overflow";
  backoff.reset();
  EXPECT_LE(backoff.next(random), 100'000);
}

TEST(Random, IsAFunctionOfItsSeed) {
  Random a(1), b(1), c(2);
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 1000; ++i) {
    const auto x = a.next();
    EXPECT_EQ(x, b.next());
    EXPECT_NE(x, c.next());
    EXPECT_TRUE(seen.insert(x).second);
  }
}

TEST(BootstrapProgress, TimeLeftComesFromTheRemainingWork) {
  BootstrapProgress p;
  EXPECT_FALSE(p.eta_seconds(0, 1000, 4));
  for (std::uint16_t s = 0; s < 4; ++s) p.begin(SegmentId{s}, 0);
  p.begin(SegmentId{0}, 0);
  EXPECT_EQ(p.segments_total(), 4u);
  p.records(250);
  EXPECT_DOUBLE_EQ(*p.eta_seconds(1'000'000, 1000, 4), 3.0);
  p.done(SegmentId{1});
  EXPECT_EQ(p.segments_done(), 1u);
  EXPECT_DOUBLE_EQ(*p.eta_seconds(1'000'000, 0, 4), 3.0) << "keys unknown: segments stand for them";
  for (std::uint16_t s = 0; s < 4; ++s) p.done(SegmentId{s});
  EXPECT_FALSE(p.running());
  EXPECT_EQ(p.segments_done(), 4u);
  p.begin(SegmentId{2}, 5'000'000);
  EXPECT_EQ(p.segments_total(), 1u) << "a new round";
  EXPECT_EQ(p.records_done(), 0u);
}

TEST(EventLog, AStormIsHeldBackAndCounted) {
  EventLog log;
  int written = 0;
  for (int i = 0; i < 1'000'000; ++i) written += log.line(LogLine::Level::error, "storm", "again", i * 10).has_value() ? 1 : 0;
  EXPECT_LE(written, EventLog::burst + 2);
  EXPECT_TRUE(log.line(LogLine::Level::error, "other", "x", 0)) << "per event";
  const auto next = log.line(LogLine::Level::error, "storm", "again", 1'000'000'000);
  ASSERT_TRUE(next);
  EXPECT_NE(next->text.find("withheld"), std::string::npos) << next->text;
}

}  // namespace
}  // namespace zaris::follower
