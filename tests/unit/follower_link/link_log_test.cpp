// What a link writes into the log: bounded, whatever the number of segments.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/follower_link/link_world.hpp"

namespace zaris::follower {
namespace {

using testing::HasSubstr;

TEST(LinkLog, ABootstrapOfManySegmentsIsALineAtItsBeginningAndOneAtItsEnd) {
  World w(256, 256);
  w.establish();
  w.run(1'000'000);
  std::size_t loud = 0;
  for (const auto& line : w.lines) {
    if (line.level != LogLine::Level::debug && line.event.find("bootstrap") != std::string::npos) ++loud;
    if (line.event == "bootstrap_begun") {
      EXPECT_THAT(line.text, HasSubstr("256 of 256 segments are copied from the beginning, by reason: 256 new"));
    }
    if (line.event == "bootstrap_done") {
      EXPECT_THAT(line.text, HasSubstr("copied: 256 of 256 segments"));
    }
  }
  EXPECT_EQ(loud, 2u);
  EXPECT_EQ(w.logged("bootstrap_begun"), 1u);
  EXPECT_EQ(w.logged("bootstrap_done"), 1u);
  EXPECT_EQ(w.logged("segment_bootstrap_begun"), 256u);
  EXPECT_EQ(w.logged("segment_bootstrap_done"), 256u);
}

TEST(LinkLog, ALongBootstrapSaysNowAndThenHowFarItIs) {
  World w;
  w.start();
  ASSERT_TRUE(w.until([&] { return w.subscribed.size() >= 2; }));
  w.chunk(0, std::nullopt, std::nullopt, 1);
  w.run(300'000'000);
  EXPECT_GE(w.logged("bootstrap_progress"), 9u);
  EXPECT_LE(w.logged("bootstrap_progress"), 10u);
  EXPECT_EQ(w.logged("bootstrap_done"), 0u);
  w.chunk(1, std::nullopt, std::nullopt, 1);
  w.run(100'000);
  EXPECT_EQ(w.logged("bootstrap_done"), 1u);
}

}  // namespace
}  // namespace zaris::follower
