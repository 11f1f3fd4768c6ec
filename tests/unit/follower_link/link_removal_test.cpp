// What a bootstrap may remove unasked, and how far an operator's word about more of it reaches.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/follower_link/link_world.hpp"

namespace zaris::follower {
namespace {

// The target holds much that the source has not got any more.
struct Shrunk : World {
  Shrunk() {
    target_live_keys = 10'000;
    for (auto& s : segments) s.head = {Generation{1}, Revision{10}};
  }
  // Ranges of this segment, or of all, would remove 600 keys.
  void refuse_in(std::optional<SegmentId> segment) {
    refuse = [segment](const ApplyRequest& r) -> std::optional<ApplyAnswer> {
      if (r.batch.kind != ApplyKind::range || (segment && r.batch.source_segment != *segment) || r.batch.removals_left > 600) return std::nullopt;
      EXPECT_EQ(r.batch.removals_left, 500u) << "a tenth of a segment's keys";
      ApplyAnswer a;
      a.status = Status::removal_limit;
      a.removal_count = 600;
      return a;
    };
  }
};

TEST(LinkRemoval, ALargeRemovalWaitsForAWordAndIsGrantedOnce) {
  Shrunk w;
  w.refuse_in(w.id(0));
  w.start();
  ASSERT_TRUE(w.until([&] { return w.subscribed.size() >= 2; }));
  w.bootstrap_all();
  ASSERT_TRUE(w.held("large_removal"));
  w.run(30'000'000);
  auto s = w.status();
  EXPECT_EQ(s.state, LinkState::held);
  EXPECT_EQ(s.segments[1].phase, SegmentPhase::stream) << "the other goes on";
  EXPECT_EQ(w.subscribed.size(), 2u) << "no retry without a word";
  w.cut();
  w.run(5'000'000);
  EXPECT_EQ(w.status().state, LinkState::held) << "nor after a reconnect";
  const auto looked = w.subscribed.size();
  ASSERT_TRUE(w.link->pause("the source is put right", w.now));
  w.settle();
  ASSERT_TRUE(w.link->resume(w.now));
  ASSERT_TRUE(w.until([&] { return w.subscribed.size() >= looked + 2; })) << "looked at again";
  w.chunk(0, std::nullopt, std::nullopt, 10);
  ASSERT_TRUE(w.until([&] { return w.held("large_removal"); })) << "and no more goes than at first";
  ASSERT_TRUE(w.link->accept_removal(w.now));
  const auto asked = w.subscribed.size();
  ASSERT_TRUE(w.until([&] { return w.subscribed.size() > asked; }));
  w.chunk(0, std::nullopt, std::nullopt, 10);
  EXPECT_TRUE(w.caught_up());
  EXPECT_EQ(w.status().state, LinkState::running);
  EXPECT_FALSE(w.link->accept_removal(w.now));
}

TEST(LinkRemoval, WhatMayGoUnaskedIsCountedOverAWholeBootstrapHoweverOftenItIsInterrupted) {
  Shrunk w;
  w.start();
  w.range_removes = 200;
  std::optional<SlotKey> from;
  for (std::uint16_t part = 0; part < 3; ++part) {
    const auto asked = w.subscribed.size();
    ASSERT_TRUE(w.until([&] { return w.subscribed.size() >= (part == 0 ? 2 : asked + 2); }));
    const SlotKey to{Slot{part}, "k"};
    w.chunk(0, from, to, 10);
    w.settle();
    EXPECT_EQ(w.applied.back().batch.removals_left, 500u - 200u * part) << part;
    from = to;
    w.cut();
    ASSERT_TRUE(w.link->pause("", w.now));
    w.settle();
    ASSERT_TRUE(w.link->resume(w.now));
  }
}

TEST(LinkRemoval, ARemovalIsAcceptedOfTheSourceAsItWas) {
  Shrunk w;
  w.refuse_in({});
  w.start();
  ASSERT_TRUE(w.until([&] { return w.subscribed.size() >= 2; }));
  w.bootstrap_all();
  ASSERT_TRUE(w.held("large_removal"));
  w.source_up = false;
  w.cut();
  w.run(2'000'000);
  ASSERT_TRUE(w.link->accept_removal(w.now)) << "the source is only away";
  w.lose_source(0x72);  // and comes back with nothing
  w.source_up = true;
  ASSERT_TRUE(w.held("source_reset"));
  EXPECT_FALSE(w.link->accept_removal(w.now)) << "the other question comes first";
  ASSERT_TRUE(w.link->pause("wait", w.now));
  w.settle();
  EXPECT_FALSE(w.link->accept_source(w.now)) << "paused: nobody knows what it will be held for";
  EXPECT_FALSE(w.link->accept_removal(w.now)) << "nor how much would go";
  ASSERT_TRUE(w.link->resume(w.now));
  ASSERT_TRUE(w.held("source_reset"));
  const auto asked = w.subscribed.size();
  ASSERT_TRUE(w.link->accept_source(w.now));
  ASSERT_TRUE(w.until([&] { return w.subscribed.size() >= asked + 2; }));
  w.bootstrap_all();
  EXPECT_TRUE(w.held("large_removal")) << "what goes now is asked once more";
}

}  // namespace
}  // namespace zaris::follower
