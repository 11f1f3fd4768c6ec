// A link whose place the source's log does not reach any more copies what changed since, and falls back, step by step, where that is not enough.
#include <gtest/gtest.h>

#include "tests/unit/follower_link/link_world.hpp"

namespace zaris::follower {
namespace {

constexpr auto summed = feed::Chunk::Others{500, {1, 2}, {}};

struct DeltaWorld : World {
  explicit DeltaWorld(std::uint32_t sources = 2, std::uint32_t targets = 2) : World(sources, targets) {}

  // Segment 0 stood at 10; its log begins at 50 now.
  void fall_behind() {
    segments[0].floor = Revision{50};
    segments[0].head = {Generation{1}, Revision{60}};
    before = subscribed.size();
    end(0, feed::EndReason::below_floor, {}, 50);
    ASSERT_TRUE(until([&] { return subscribed.size() > before; }));
  }
  [[nodiscard]] const feed::SubscribeSegment& asked() const { return subscribed.back(); }
  [[nodiscard]] const ApplyBatch& last() const { return applied.back().batch; }
  // The target holds something else than the source says did not change.
  void differs_next() {
    refuse = [this](const ApplyRequest& r) -> std::optional<ApplyAnswer> {
      if (r.batch.kind != ApplyKind::delta) return std::nullopt;
      refuse = nullptr;
      ApplyAnswer answer;
      answer.status = status_of_delta;
      return answer;
    };
  }
  void differs_and_is_asked_anew(std::optional<SlotKey> from = {}, std::optional<SlotKey> to = {}) {
    const std::size_t asked_before = subscribed.size();
    differs_next();
    chunk(0, from, to, 60, {3}, summed);
    ASSERT_TRUE(until([&] { return subscribed.size() > asked_before; }));
  }

  std::size_t before = 0;
  Status status_of_delta = Status::range_differs;
};

TEST(LinkDelta, BelowTheFloorWhatChangedSinceIsAskedForAndTheRestIsCompared) {
  DeltaWorld w;
  w.establish();
  w.fall_behind();
  ASSERT_TRUE(w.asked().walk.has_value());
  EXPECT_EQ(w.asked().walk->since->at.revision, Revision{10});
  EXPECT_FALSE(w.asked().walk->names);
  w.chunk(0, std::nullopt, std::nullopt, 60, {3, 4}, summed);
  ASSERT_TRUE(w.caught_up());
  EXPECT_EQ(w.last().kind, ApplyKind::delta);
  EXPECT_EQ(w.last().range->equal->count, 500u);
  EXPECT_EQ(w.last().range->equal->digest, (Digest{1, 2}));
  const auto s = w.status();
  EXPECT_EQ(s.bootstraps_by_reason[static_cast<std::size_t>(BootstrapReason::below_floor)], 1u);
  EXPECT_EQ(s.kept_records, 500u);
  EXPECT_FALSE((w.marks[{SegmentId{0}, SegmentId{0}}].since.has_value()));
}

TEST(LinkDelta, WhereTheRestDiffersItIsAskedForByNameAndThenWhole) {
  DeltaWorld w;
  w.establish();
  w.fall_behind();
  w.differs_and_is_asked_anew();
  EXPECT_TRUE(w.asked().walk->names) << "keys are gone there: which?";
  EXPECT_EQ(w.asked().walk->since->at.revision, Revision{10});
  w.differs_and_is_asked_anew();
  EXPECT_FALSE(w.asked().walk->since.has_value()) << "all of it";
  w.chunk(0, std::nullopt, std::nullopt, 60, {3, 4});
  ASSERT_TRUE(w.caught_up());
  EXPECT_EQ(w.last().kind, ApplyKind::range);
  EXPECT_EQ(w.status().bootstraps_by_reason[static_cast<std::size_t>(BootstrapReason::below_floor)], 1u) << "one copy, however it goes on";
}

TEST(LinkDelta, WhatWasCoveredStaysCovered) {
  DeltaWorld w;
  w.establish();
  w.fall_behind();
  const SlotKey middle{Slot{100}, "k"};
  w.chunk(0, std::nullopt, middle, 60, {3}, summed);
  w.differs_and_is_asked_anew(middle);
  EXPECT_EQ(w.asked().walk->from, middle);
  EXPECT_TRUE(w.asked().walk->names);
}

TEST(LinkDelta, AnOwnerThatKnowsNoDeltasIsGivenAllOfIt) {
  DeltaWorld w;
  w.status_of_delta = Status::unsupported;
  w.establish();
  w.fall_behind();
  w.differs_and_is_asked_anew();
  w.differs_and_is_asked_anew();
  w.chunk(0, std::nullopt, std::nullopt, 60, {3, 4});
  EXPECT_TRUE(w.caught_up());
}

TEST(LinkDelta, AFollowerThatTakesOverGoesOnWithIt) {
  DeltaWorld w;
  w.establish();
  w.fall_behind();
  const SlotKey middle{Slot{100}, "k"};
  w.chunk(0, std::nullopt, middle, 60, {3}, summed);
  const std::size_t asked_before = w.subscribed.size();
  w.start();  // another process, the same marks
  ASSERT_TRUE(w.until([&] { return w.subscribed.size() >= asked_before + 2; }));
  const auto at = std::find_if(w.subscribed.begin() + static_cast<std::ptrdiff_t>(asked_before), w.subscribed.end(), [](const auto& s) { return s.segment == SegmentId{0}; });
  ASSERT_NE(at, w.subscribed.end());
  EXPECT_EQ(at->walk->from, middle);
  EXPECT_EQ(at->walk->since->at.revision, Revision{10});
}

TEST(LinkDelta, WithNamesRangesGoOneAtATimeWhereThereIsSomethingToLose) {
  DeltaWorld w;
  w.target_live_keys = 10'000;
  w.establish();
  w.fall_behind();
  w.differs_and_is_asked_anew();
  ASSERT_TRUE(w.asked().walk->names);
  w.hold_applies = true;
  const SlotKey first{Slot{10}, "a"}, second{Slot{20}, "b"};
  const std::string names(2000, 'n');
  const feed::Chunk::Others named{500, {1, 2}, names};
  w.chunk(0, std::nullopt, first, 60, {3}, named);
  w.chunk(0, first, second, 60, {12}, named);
  EXPECT_EQ(w.waiting.size(), 1u) << "what one removes is known before the next may remove anything";
  EXPECT_LE(w.waiting.front().batch.removals_left, 10'000u);
  w.hold_applies = false;
  w.deliver_waiting();
  EXPECT_TRUE(w.until([&] { return w.status().kept_records == 1000; }));
}

TEST(LinkDelta, OtherReasonsAndSeveralTargetSegmentsCopyAll) {
  DeltaWorld several(1, 2);
  several.establish();
  several.fall_behind();
  EXPECT_FALSE(several.asked().walk->since.has_value()) << "a chunk's digest is of both segments' keys";
  DeltaWorld unknown;
  unknown.establish();
  const std::size_t before = unknown.subscribed.size();
  unknown.end(0, feed::EndReason::unknown_lineage);
  ASSERT_TRUE(unknown.until([&] { return unknown.subscribed.size() > before; }));
  ASSERT_TRUE(unknown.subscribed.back().walk.has_value());
  EXPECT_FALSE(unknown.subscribed.back().walk->since.has_value());
}

}  // namespace
}  // namespace zaris::follower
