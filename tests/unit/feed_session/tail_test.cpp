#include "rig.hpp"

namespace zaris::feed {
namespace {

constexpr SegmentId s0{0}, s1{1}, s2{2};

Rig::Options scoped(std::vector<std::string> prefixes, std::vector<std::pair<Slot, Slot>> slots = {}) {
  Rig::Options o;
  o.hello.scope = *Scope::make(std::move(prefixes), std::move(slots));
  return o;
}

TEST(FeedTail, EveryChangeArrivesOnceAndInOrder) {
  Rig rig;
  rig.hello();
  for (std::uint16_t i = 0; i < 4; ++i) rig.subscribe_from(SegmentId{i}, rig.named(SegmentId{i}, rig.store().state(SegmentId{i}).head));
  std::map<std::string, std::string> expected;
  for (int i = 0; i < 1000; ++i) {
    const std::string key = fmt::format("key{}", i % 300), value = fmt::format("value{}", i);
    if (i % 7 == 3 && expected.count(key) != 0) {
      rig.del(key);
      expected.erase(key);
    } else {
      rig.put(key, value);
      expected[key] = value;
    }
    if (i % 50 == 0) rig.pump();
  }
  rig.pump();
  EXPECT_EQ(rig.user().live, expected);
  EXPECT_EQ(rig.user().rows.size(), 1000u);
  for (std::uint16_t i = 0; i < 4; ++i) EXPECT_EQ(rig.reader().position(SegmentId{i}), rig.store().state(SegmentId{i}).head);
  EXPECT_FALSE(rig.reader().ended());
}

TEST(FeedTail, WhatHasAccumulatedIsOneMessageAndAnIdleSegmentCostsNone) {
  Rig rig;
  rig.hello();
  for (std::uint16_t i = 0; i < 4; ++i) rig.subscribe_from(SegmentId{i}, rig.named(SegmentId{i}, rig.store().state(SegmentId{i}).head));
  for (int i = 0; i < 100; ++i) rig.put(fmt::format("key{}", i), "v");
  EXPECT_EQ(rig.pump(), 1u);
  EXPECT_EQ(rig.pump(), 0u);
  EXPECT_TRUE(rig.user().reaches_head.back());
}

TEST(FeedTail, AFullSessionCarriesCommitTimesAScopedOneClosedTimes) {
  for (const bool full : {true, false}) {
    Rig rig(full ? Rig::Options{} : scoped({"k"}));
    rig.hello();
    rig.subscribe_from(s0, rig.named(s0, rig.store().state(s0).head));
    rig.put(rig.key_in(s0), "v");
    const WallMicros committed = rig.now.wall_us;
    rig.pump();
    ASSERT_EQ(rig.user().commit_times.size(), 1u);
    EXPECT_EQ(rig.user().commit_times[0] == committed, full);
  }
}

TEST(FeedTail, AScopedReaderSeesItsPrefixAndNothingElse) {
  Rig rig(scoped({"t1:", std::string("nul\0", 4), "long-prefix-over-eight:"}));
  rig.hello();
  for (std::uint16_t i = 0; i < 4; ++i) rig.subscribe_from(SegmentId{i}, rig.named(SegmentId{i}, rig.store().state(SegmentId{i}).head));
  std::map<std::string, std::string> expected;
  const std::vector<std::string> stems = {"t1:", "t1", "t2:", "t", "", std::string("nul\0", 4), "nul", std::string("nul\0\0", 5),
                                          "long-prefix-over-eight:", "long-prefix-over-eigh", "long-pre", "u"};
  for (int round = 0; round < 40; ++round) {
    for (const std::string& stem : stems) {
      const std::string key = round == 0 ? stem : stem + std::to_string(round);
      rig.put(key, "SECRET" + key);
      if (key.starts_with("t1:") || key.starts_with(std::string("nul\0", 4)) || key.starts_with("long-prefix-over-eight:")) expected[key] = "SECRET" + key;
    }
    if (round % 9 == 0) rig.pump();
  }
  rig.tap = [&](std::string_view bytes) { EXPECT_EQ(bytes.find("t2:"), std::string_view::npos); };
  rig.pump();
  rig.advance(200'000);
  rig.pump();
  EXPECT_EQ(rig.user().live, expected);
  for (std::uint16_t i = 0; i < 4; ++i) EXPECT_EQ(rig.reader().position(SegmentId{i}), rig.store().state(SegmentId{i}).head) << i;
  for (const auto& [id, row] : rig.user().progress) EXPECT_EQ(row.bytes_behind, 0u);
  EXPECT_EQ(rig.user().welcome->live_keys, 0u);
}

TEST(FeedTail, ASlotScopeSeesItsSlots) {
  Rig rig(scoped({}, {{Slot{0}, Slot{2047}}}));
  rig.hello();
  rig.subscribe_from(s0, rig.named(s0, rig.store().state(s0).head));
  std::size_t expected = 0;
  for (int i = 0; i < 500; ++i) {
    const std::string key = fmt::format("key{}", i);
    rig.put(key, "v");
    expected += slot_of(key).value() < 2048 ? 1 : 0;
  }
  rig.pump();
  EXPECT_EQ(rig.user().live.size(), expected);
  for (const auto& [key, value] : rig.user().live) EXPECT_LT(slot_of(key).value(), 2048);
}

// Rows count revisions in sixteen bits; what lies further apart needs a run without records between.
TEST(FeedTail, RecordsMoreThan65535RevisionsApartArrive) {
  for (const int apart : {65'535, 65'536, 132'000}) {
    Rig::Options o = scoped({"mine"});
    o.store.segments = 1;
    Rig rig(o);
    rig.hello();
    rig.subscribe_from(s0, rig.named(s0, rig.store().state(s0).head));
    rig.put("mine1", "a");
    for (int i = 0; i < apart - 1; ++i) rig.put("other", "x");
    const Position second = rig.put("mine2", "b");
    rig.put("other", "y");
    rig.pump();
    rig.advance(200'000);
    rig.pump();
    EXPECT_EQ(rig.user().live, (std::map<std::string, std::string>{{"mine1", "a"}, {"mine2", "b"}})) << apart;
    EXPECT_EQ(rig.user().rows.back().position, second);
    EXPECT_EQ(rig.reader().position(s0), rig.store().state(s0).head);
    EXPECT_FALSE(rig.reader().ended());
  }
}

TEST(FeedTail, ALargeRecordComesInPartsWithOthersBetween) {
  Rig rig;
  rig.hello();
  for (std::uint16_t i = 0; i < 4; ++i) rig.subscribe_from(SegmentId{i}, rig.named(SegmentId{i}, rig.store().state(SegmentId{i}).head));
  const std::string large(3'000'000, 'L');
  rig.put(rig.key_in(s0, "a"), "before");
  rig.put(rig.key_in(s0, "b"), large);
  rig.put(rig.key_in(s0, "c"), "after");
  std::vector<int> types;
  std::size_t biggest = 0;
  rig.tap = [&](std::string_view bytes) {
    types.push_back(static_cast<unsigned char>(bytes[1]));
    biggest = std::max(biggest, bytes.size());
  };
  for (int i = 0; rig.pump_one(); ++i) {
    if (i < 20) rig.put(rig.key_in(s1, "other", i), "x");
  }
  EXPECT_EQ(rig.user().live.at(rig.key_in(s0, "b")), large);
  EXPECT_EQ(rig.user().live.at(rig.key_in(s0, "c")), "after");
  EXPECT_EQ(std::count(types.begin(), types.end(), 35), 12);
  EXPECT_LT(biggest, 300'000u);
  // No two parts follow each other while there is something else to say.
  const auto first = std::find(types.begin(), types.end(), 35);
  EXPECT_EQ(first[1], 34);
  EXPECT_EQ(first[2], 35);
}

TEST(FeedTail, SeveralLargeRecordsAtOnceAllArrive) {
  Rig rig;
  rig.hello();
  for (std::uint16_t i = 0; i < 4; ++i) rig.subscribe_from(SegmentId{i}, rig.named(SegmentId{i}, rig.store().state(SegmentId{i}).head));
  std::map<std::string, std::string> expected;
  for (int i = 0; i < 40; ++i) {
    const std::string key = fmt::format("key{}", i);
    expected[key] = std::string(static_cast<std::size_t>(i) * 20'000, static_cast<char>('a' + i % 26));
    rig.put(key, expected[key]);
  }
  rig.pump();
  EXPECT_EQ(rig.user().live, expected);
}

TEST(FeedTail, APartIsThrownAwayWhenItsSegmentIsAskedForAnew) {
  Rig rig;
  rig.hello();
  const auto start = rig.named(s0, rig.store().state(s0).head);
  rig.subscribe_from(s0, start);
  const std::string large(1'000'000, 'L');
  rig.put(rig.key_in(s0), large);
  ASSERT_TRUE(rig.pump_one());
  ASSERT_TRUE(rig.pump_one());
  rig.subscribe_from(s0, start);
  rig.pump();
  EXPECT_EQ(rig.user().live.at(rig.key_in(s0)), large);
  EXPECT_FALSE(rig.reader().ended());
  rig.reader().grant(0);
  rig.advance(200'000);
  rig.pump();
  EXPECT_EQ(rig.reader().bytes_outstanding(), 0u);
  EXPECT_EQ(rig.source().credit_left(), 32u << 20);
}

TEST(FeedCredit, NothingMoreIsSentThanWasGranted) {
  Rig::Options o;
  o.reader.credit_bytes = 10'000;
  Rig rig(o);
  rig.hello();
  rig.user().hold_grants = true;
  rig.subscribe_from(s0, rig.named(s0, rig.store().state(s0).head));
  for (int i = 0; i < 200; ++i) rig.put(rig.key_in(s0, "k", i % 20), std::string(100, 'v'));
  rig.pump();
  EXPECT_LE(rig.user().granted, 10'000u);
  EXPECT_GT(rig.user().granted, 9'500u);
  EXPECT_LT(rig.user().rows.size(), 200u);
  rig.user().hold_grants = false;
  rig.pump();
  EXPECT_EQ(rig.user().rows.size(), 200u);
  EXPECT_FALSE(rig.reader().ended());
}

TEST(FeedCredit, ARecordLargerThanAllCreditPassesWhenAllOfItIsFree) {
  for (const std::size_t size : {9'900u, 20'000u, 200'000u, 600'000u}) {
    Rig::Options o;
    o.reader.credit_bytes = 10'000;
    Rig rig(o);
    rig.hello();
    rig.subscribe_from(s0, rig.named(s0, rig.store().state(s0).head));
    rig.put(rig.key_in(s0, "a"), std::string(100, 'a'));
    rig.put(rig.key_in(s0, "b"), std::string(size, 'b'));
    rig.put(rig.key_in(s0, "c"), std::string(100, 'c'));
    rig.pump();
    for (int i = 0; i < 3; ++i) {
      rig.advance(200'000);
      rig.pump();
    }
    EXPECT_EQ(rig.user().rows.size(), 3u) << size;
    EXPECT_FALSE(rig.reader().ended()) << size;
  }
}

TEST(FeedTail, ABusySegmentDoesNotStarveTheOthers) {
  Rig rig;
  rig.hello();
  for (std::uint16_t i = 0; i < 3; ++i) rig.subscribe_from(SegmentId{i}, rig.named(SegmentId{i}, rig.store().state(SegmentId{i}).head));
  for (int i = 0; i < 20'000; ++i) rig.put(rig.key_in(s0, "busy", i % 5), std::string(200, 'v'));
  rig.put(rig.key_in(s1, "quiet"), "1");
  rig.put(rig.key_in(s2, "quiet"), "2");
  rig.pump(1);
  EXPECT_EQ(rig.user().live.count(rig.key_in(s1, "quiet")), 1u);
  EXPECT_EQ(rig.user().live.count(rig.key_in(s2, "quiet")), 1u);
  rig.pump();
  EXPECT_EQ(rig.user().rows.size(), 20'002u);
}

TEST(FeedTail, ScanningMuchForLittleIsSaidInPieces) {
  Rig::Options o = scoped({"mine"});
  o.store.segments = 1;
  o.store.log_budget_bytes = 256u << 20;
  Rig rig(o);
  rig.hello();
  rig.subscribe_from(s0, rig.named(s0, rig.store().state(s0).head));
  for (int i = 0; i < 25'000; ++i) rig.put("other", std::string(1000, 'x'));
  std::string message;
  std::size_t messages = 0;
  rig.source().on_dirty(std::vector<SegmentId>{s0});
  while (rig.pump_one()) ++messages;
  EXPECT_GT(messages, 2u);
  EXPECT_TRUE(rig.user().rows.empty());
}

}  // namespace
}  // namespace zaris::feed
