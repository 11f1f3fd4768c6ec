// Rounds of verification: what is asked, where it is compared, and what becomes of what is found, of lost answers, and of ends that are in doubt.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cluster/placement/slot.hpp"
#include "cluster/record/record.hpp"
#include "tests/unit/follower_link/link_world.hpp"

namespace zaris::follower {
namespace {

constexpr MonoMicros second = 1'000'000;

struct VerifyWorld : World {
  std::uint64_t source_memory_slots = 0;
  std::size_t pages_of_a_lane = 1;
  std::size_t lost_answers = 0;                        // …of the source, still to come
  std::size_t asked_in_lane = 0;
  std::uint64_t page_bytes = 1000;

  explicit VerifyWorld(std::uint32_t sources = 1, std::uint32_t targets = 1, bool repair = false) : World(sources, targets) {
    target_live_keys = 10'000;
    config.verify = {10 * second, 1u << 30, repair};
    digested = [this](std::uint64_t connection, const feed::DigestRequest& m) { answer_digest(connection, m); };
  }
  void answer_digest(std::uint64_t connection, const feed::DigestRequest& m) {
    if (lost_answers > 0) {
      --lost_answers;
      return;
    }
    feed::Digests d;
    d.request = m.request;
    d.segment = m.segment;
    d.as_of = at(m.segment.value(), segments[m.segment.value()].head.revision.value());
    d.count = 7;
    d.bytes = page_bytes;
    std::string table, records;
    if (m.records) {
      d.count = 1;
      d.memory_slots = source_memory_slots;
      records = record_of("key", "source");
      append_row(table, {static_cast<std::uint32_t>(records.size()), 0, slot_of("key"), 0});
      d.table = table;
      d.records = records;
    } else if (++asked_in_lane < pages_of_a_lane) {
      d.to = SlotKey{Slot{static_cast<std::uint16_t>(asked_in_lane)}, "k"};
    } else {
      asked_in_lane = 0;
    }
    tell(connection, d);
  }
  static std::string record_of(const std::string& key, const std::string& value) {
    return make_record(EntryFields{.key = key, .value = value, .expires_us = 0, .tag = 1}, RecordHeader{Revision{3}, 1, 1, Deleted::no, Generation{1}, std::nullopt});
  }
  std::vector<ApplyBatch> checks() const {
    std::vector<ApplyBatch> out;
    for (const auto& r : applied) {
      if (r.batch.kind == ApplyKind::check) out.push_back(r.batch);
    }
    return out;
  }
  bool rounds(std::uint64_t n) {
    return until([&] {
      const auto v = status().verify;
      return v.rounds_equal + v.rounds_repaired + v.rounds_different + v.rounds_incomplete >= n;
    });
  }
  // The target answers checks: digests differ, the records name the key, a mend makes it what the source has.
  void differ() {
    refuse = [this](const ApplyRequest& r) -> std::optional<ApplyAnswer> {
      if (r.batch.kind != ApplyKind::check) return std::nullopt;
      refuse = nullptr;
      ApplyAnswer a = apply(r);
      differ();
      if (a.status != Status::ok || mended) return a;
      a.differing = 1;
      a.applied = 0;
      if (r.batch.range->equal) return a;
      if (r.batch.range->mend) {
        if (too_many > 0) {
          a.removal_count = too_many;
          return a;
        }
        mended = true;
        a.replaced = 1;
        return a;
      }
      a.would_lose.push_back({"key", record_of("key", "target")});
      return a;
    };
  }
  bool mended = false;
  std::uint64_t too_many = 0;
};

TEST(LinkVerify, ARoundLooksAtEveryLaneOnce_AndComesAgain) {
  VerifyWorld w(2, 4);
  w.establish();
  ASSERT_TRUE(w.rounds(1));
  const auto v = w.status().verify;
  EXPECT_EQ(v.rounds_equal, 1u);
  EXPECT_EQ(w.checks().size(), 4u);
  EXPECT_EQ(v.last_records, 28u);
  EXPECT_TRUE(v.equal_as_of_us.has_value());
  ASSERT_TRUE(w.rounds(2));
  EXPECT_EQ(w.checks().size(), 8u);
  EXPECT_EQ(w.logged("verify_equal"), 2u);
}

TEST(LinkVerify, LanesThatShareASegmentAreAskedForTheirOwnSlots) {
  VerifyWorld w(1, 2);
  w.establish();
  ASSERT_TRUE(w.rounds(1));
  ASSERT_EQ(w.digest_requests.size(), 2u);
  EXPECT_FALSE(w.digest_requests[0].from);
  const SlotKey middle{Slot{8192}, ""};
  EXPECT_EQ(w.digest_requests[0].to, middle);
  EXPECT_EQ(w.digest_requests[1].from, middle);
  EXPECT_FALSE(w.digest_requests[1].to);
}

TEST(LinkVerify, PagesFollowEachOther) {
  VerifyWorld w;
  w.pages_of_a_lane = 3;
  w.establish();
  ASSERT_TRUE(w.rounds(1));
  const auto checks = w.checks();
  ASSERT_EQ(checks.size(), 3u);
  EXPECT_FALSE(checks[0].range->from);
  EXPECT_EQ(checks[1].range->from, checks[0].range->to);
  EXPECT_EQ(checks[2].range->from, checks[1].range->to);
  EXPECT_FALSE(checks[2].range->to);
}

TEST(LinkVerify, NoMoreIsReadThanTheRateLets) {
  VerifyWorld w;
  w.config.verify.bytes_per_second = 100'000;
  w.page_bytes = 50'000;
  w.pages_of_a_lane = 11;
  w.establish();
  ASSERT_TRUE(w.rounds(1));
  EXPECT_EQ(w.status().verify.bytes, 550'000u);
  EXPECT_NEAR(w.status().verify.last_seconds, 5.0, 0.5) << "the tenth page is due after 4.5 s, the last half a second later";
}

TEST(LinkVerify, ThePageIsComparedWhereItCame_WhateverFollows) {
  VerifyWorld w;
  w.establish();
  w.hold_applies = true;
  ASSERT_TRUE(w.until([&] { return !w.waiting.empty(); }));
  w.write(0, 10, 12, {{11, 1}, {12, 1}});
  w.hold_applies = false;
  w.deliver_waiting();
  ASSERT_TRUE(w.rounds(1));
  ASSERT_EQ(w.checks().size(), 1u);
  EXPECT_EQ(w.checks()[0].range->as_of.at.revision, Revision{10});
  EXPECT_TRUE(w.caught_up());
}

TEST(LinkVerify, AnAnswerThatIsLostIsAskedForAgain) {
  VerifyWorld w;
  w.lost_answers = 1;
  w.establish();
  ASSERT_TRUE(w.until([&] { return w.status().verify.rounds_equal == 1; }, 60 * second));
  EXPECT_EQ(w.digest_requests.size(), 2u);
}

TEST(LinkVerify, ARoundGoesOnAfterTheConnectionWasLost) {
  VerifyWorld w;
  w.pages_of_a_lane = 3;
  w.establish();
  w.hold_applies = true;
  ASSERT_TRUE(w.until([&] { return !w.waiting.empty(); }));
  w.waiting.clear();
  w.hold_applies = false;
  w.cut();
  ASSERT_TRUE(w.until([&] { return w.status().verify.rounds_equal == 1; }, 60 * second));
  EXPECT_EQ(w.status().verify.left_out, 0u);
}

TEST(LinkVerify, WhatDiffersIsNamed_AndLeftAsItIs) {
  VerifyWorld w;
  w.differ();
  w.establish();
  ASSERT_TRUE(w.rounds(1));
  const auto v = w.status().verify;
  EXPECT_EQ(v.rounds_different, 1u);
  EXPECT_EQ(v.divergent, 1u);
  ASSERT_EQ(v.keys.size(), 1u);
  EXPECT_EQ(v.keys[0].key, "key");
  EXPECT_EQ(v.keys[0].how, DivergentKey::How::different);
  EXPECT_FALSE(v.equal_as_of_us);
  EXPECT_FALSE(w.mended);
  EXPECT_EQ(w.logged("divergent"), 1u);
  EXPECT_EQ(w.logged("verify_different"), 1u);
  EXPECT_EQ(w.status().state, LinkState::running) << "the stream is not the worse for it";
}

TEST(LinkVerify, WhatDiffersIsPutRightWhereConfigured) {
  VerifyWorld w(1, 1, true);
  w.differ();
  w.establish();
  ASSERT_TRUE(w.rounds(1));
  const auto v = w.status().verify;
  EXPECT_TRUE(w.mended);
  EXPECT_EQ(v.mended, 1u);
  EXPECT_EQ(v.divergent, 0u);
  EXPECT_EQ(v.last_result, "repaired");
  EXPECT_EQ(v.rounds_repaired, 1u);
  EXPECT_EQ(v.rounds_equal, 0u);
  EXPECT_FALSE(v.equal_as_of_us.has_value()) << "they were not the same when it began";
  EXPECT_EQ(w.logged("divergence_repaired"), 1u);
}

TEST(LinkVerify, ASourceWhoseMemoryIsInDoubtRepairsNothing) {
  VerifyWorld w(1, 1, true);
  w.source_memory_slots = 1;
  w.differ();
  w.establish();
  ASSERT_TRUE(w.rounds(1));
  const auto v = w.status().verify;
  EXPECT_FALSE(w.mended);
  EXPECT_EQ(v.divergent, 1u);
  EXPECT_GT(v.source_memory_slots, 0u);
  EXPECT_EQ(w.logged("repair_refused"), 1u);
  EXPECT_GT(w.logged("memory_changed"), 0u);
}

TEST(LinkVerify, NoMoreIsRepairedThanMayBeRemoved) {
  VerifyWorld w(1, 1, true);
  w.too_many = 5000;
  w.differ();
  w.establish();
  ASSERT_TRUE(w.rounds(1));
  EXPECT_FALSE(w.mended);
  EXPECT_EQ(w.status().verify.divergent, 1u);
  EXPECT_EQ(w.logged("repair_refused"), 1u);
}

TEST(LinkVerify, ATargetThatDoesNotKnowHow_IsNotAskedAnyMore_AndTheLinkGoesOn) {
  VerifyWorld w;
  w.refuse = [](const ApplyRequest& r) -> std::optional<ApplyAnswer> {
    if (r.batch.kind != ApplyKind::check) return std::nullopt;
    ApplyAnswer a;
    a.status = Status::unsupported;
    return a;
  };
  w.establish();
  ASSERT_TRUE(w.until([&] { return w.logged("verify_refused") == 1; }));
  ASSERT_TRUE(w.caught_up());
  w.run(60 * second);
  EXPECT_EQ(w.logged("verify_refused"), 1u);
  EXPECT_EQ(w.status().state, LinkState::running);
  const auto asked = w.link->verify(w.now);
  ASSERT_FALSE(asked);
  EXPECT_EQ(asked.error().code, "verify_refused");
}

TEST(LinkVerify, SegmentsThatStandStillAreLeftOut_TheOthersAreLookedAt) {
  VerifyWorld w(8, 8);
  w.config.verify.interval_us = 0;
  w.establish();
  w.refuse = [](const ApplyRequest& r) -> std::optional<ApplyAnswer> {
    if (r.batch.kind != ApplyKind::stream || r.batch.source_segment.value() < 4) return std::nullopt;
    ApplyAnswer a;
    a.status = a.refused_status = Status::item_too_large;
    a.refused_index = 0;
    return a;
  };
  for (std::uint16_t s = 4; s < 8; ++s) w.write(s, 10, 11, {{11, static_cast<std::uint16_t>(s * 2048)}});
  ASSERT_TRUE(w.until([&] { return w.status().segments_stopped == 4; }));
  ASSERT_TRUE(w.link->verify(w.now));
  ASSERT_TRUE(w.until([&] { return w.status().verify.rounds_incomplete == 1; }, 40 * second)) << "half a minute for all of them together";
  EXPECT_EQ(w.status().verify.left_out, 4u);
  EXPECT_EQ(w.status().verify.last_records, 28u);
  EXPECT_FALSE(w.status().verify.equal_as_of_us);
}

TEST(LinkVerify, AskedForWhileOneRuns_AnotherFollows) {
  VerifyWorld w;
  w.config.verify.interval_us = 0;
  w.establish();
  w.hold_applies = true;
  ASSERT_TRUE(w.link->verify(w.now));
  ASSERT_TRUE(w.until([&] { return w.status().verify.running; }));
  ASSERT_TRUE(w.link->verify(w.now));
  w.hold_applies = false;
  w.deliver_waiting();
  ASSERT_TRUE(w.rounds(2));
  w.run(60 * second);
  EXPECT_EQ(w.status().verify.rounds_equal, 2u);
  EXPECT_EQ(w.status().verify.last_result, "equal");
}

TEST(LinkVerify, OnlyWhenAskedWhereNoIntervalIsSet_AndNotWhilePaused) {
  VerifyWorld w;
  w.config.verify.interval_us = 0;
  w.establish();
  w.run(120 * second);
  EXPECT_TRUE(w.digest_requests.empty());
  ASSERT_TRUE(w.link->verify(w.now));
  ASSERT_TRUE(w.rounds(1));
  ASSERT_TRUE(w.link->pause("maintenance", w.now));
  w.settle();
  w.run(second);
  EXPECT_FALSE(w.link->verify(w.now));
}

}  // namespace
}  // namespace zaris::follower
