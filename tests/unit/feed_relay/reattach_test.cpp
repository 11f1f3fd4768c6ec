// Owners change, nodes die, connections break: the reader has everything, in order, once, and is told of nothing but lineage.
#include "tests/unit/feed_relay/region.hpp"

namespace zaris::feed {
namespace {

constexpr SegmentId s0{0}, s1{1};

// Two nodes, two segments each, everything read from the start.
struct Both : Region {
  explicit Both(RigOptions options = {}, RelayOptions relay = {}) : Region({"a", "b"}, std::move(options), relay) {
    own("a", {0, 1});
    own("b", {2, 3});
    publish();
    hello();
  }
  void read_all() {
    subscribe_all_walks();
    pump();
  }
  void settle() {  // until what has to be tried again has been
    for (int i = 0; i < 20; ++i) {
      advance(100'000);
      pump();
    }
  }
  void expect_fine() {
    EXPECT_FALSE(reader().ended()) << reader().ended()->text();
    EXPECT_TRUE(user().ends.empty());
    EXPECT_EQ(relay().counters().broken, 0u);
  }
};

RigOptions small_messages() {
  RigOptions o;
  o.source.batch_bytes = 200;
  o.source.chunk_records = 3;
  return o;
}

TEST(FeedRelay, ReadsSegmentsFromTheirOwners) {
  Both r;
  r.read_all();
  for (int i = 0; i < 40; ++i) r.put(fmt::format("k{}", i), "v");
  r.pump();
  EXPECT_EQ(r.user().live.size(), 40u);
  ASSERT_TRUE(r.user().welcome);
  EXPECT_EQ(r.user().welcome->roots.size(), region_segments);
  for (const Root& root : r.user().welcome->roots) EXPECT_NE(root.history, HistoryId{});
  r.expect_fine();
}

TEST(FeedRelay, GoesOnAtTheNewOwnerInTheMiddleOfABatch) {
  Both r(small_messages());
  r.read_all();
  for (int i = 0; i < 30; ++i) r.put(r.key_in(s0, "k", i), "value");
  r.upward();
  ASSERT_TRUE(r.fetch("a"));
  ASSERT_TRUE(r.deliver());  // a part of it only
  const std::size_t before = r.user().live.size();
  EXPECT_GT(before, 0u);
  EXPECT_LT(before, 30u);
  ASSERT_TRUE(r.fetch("a"));  // what has arrived and was not passed on is sent again
  r.kill("a");
  r.own("b", {0, 1});
  r.publish();
  r.settle();
  EXPECT_EQ(r.user().live.size(), 30u);
  EXPECT_EQ(r.user().rows.size(), 30u) << "each of them once";
  r.expect_fine();
  // The new generation was told.
  EXPECT_EQ(r.user().subscribed.back().lineage.entries().size(), 2u);
  r.put(r.key_in(s0, "later"), "v");
  r.pump();
  EXPECT_EQ(r.user().live.size(), 31u);
}

TEST(FeedRelay, ANodeThatSaysItIsMovingIsLeftWithoutAWord) {
  Both r;
  r.read_all();
  r.put(r.key_in(s0), "1");
  r.pump();
  r.own("b", {0});  // a serves it no more; the table is old
  r.settle();
  EXPECT_TRUE(r.user().ends.empty());
  EXPECT_TRUE(r.relay().take_table_doubt());
  r.publish();
  r.put(r.key_in(s0), "2");
  r.settle();
  EXPECT_EQ(r.user().live.at(r.key_in(s0)), "2");
  EXPECT_EQ(r.node("a").sessions, 1u);
  r.expect_fine();
}

TEST(FeedRelay, ARecordInPartsThatItsNodeDoesNotFinishComesWholeFromTheNext) {
  Both r;
  r.read_all();
  const std::string large(1'000'000, 'x');
  r.put(r.key_in(s0), large);
  r.upward();
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(r.fetch("a"));
  while (r.deliver()) {
  }
  r.kill("a");
  r.own("b", {0, 1});
  r.publish();
  r.settle();
  EXPECT_EQ(r.user().live.at(r.key_in(s0)), large);
  r.expect_fine();
}

TEST(FeedRelay, RecordsInPartsFromTwoNodesDoNotMix) {
  Both r;
  r.read_all();
  const std::string x(900'000, 'x'), y(900'000, 'y');
  r.put(r.key_in(s0), x);
  r.put(r.key_in(SegmentId{2}), y);
  for (int i = 0; i < 3; ++i) {
    r.upward();
    r.fetch("a");
    r.fetch("b");
  }
  r.settle();
  EXPECT_EQ(r.user().live.at(r.key_in(s0)), x);
  EXPECT_EQ(r.user().live.at(r.key_in(SegmentId{2})), y);
  r.expect_fine();
}

TEST(FeedRelay, AWalkGoesOnWhereItWas) {
  Both r(small_messages());
  for (int i = 0; i < 60; ++i) r.put(r.key_in(s0, "k", i), "v");
  r.reader().subscribe({{{s0, HistoryId{0xaa00}, {}, {}, SubscribeSegment::Walk{}}}});
  r.upward();
  while (r.user().chunks < 4) {
    ASSERT_TRUE(r.fetch("a"));
    while (r.deliver()) {
    }
  }
  r.kill("a");
  r.own("b", {0, 1});
  r.publish();
  r.settle();
  EXPECT_EQ(r.user().live.size(), 60u);
  EXPECT_TRUE(r.user().walk_done.at(s0));
  std::map<std::string, int> seen;
  for (const auto& chunk : r.user().kept_chunks) {
    for (const auto& key : chunk.keys) ++seen[key];
  }
  EXPECT_EQ(seen.size(), 60u);
  for (const auto& [key, times] : seen) EXPECT_EQ(times, 1) << key;
  r.expect_fine();
}

TEST(FeedRelay, ABrokenConnectionToALivingOwnerIsNothing) {
  Both r;
  r.read_all();
  for (int i = 0; i < 5; ++i) {
    for (int k = 0; k < 10; ++k) r.put(fmt::format("{}-{}", i, k), "v");
    r.upward();
    r.fetch("a");
    r.cut("a");
    r.settle();
  }
  EXPECT_EQ(r.user().live.size(), 50u);
  EXPECT_EQ(r.user().rows.size(), 50u);
  r.expect_fine();
}

TEST(FeedRelay, WhatDidNotSurviveIsTheFollowersBusiness) {
  Both r;
  r.read_all();
  r.put(r.key_in(s0), "kept");
  r.put(r.key_in(s0), "lost", "a");  // shipped before a replica had it
  r.pump();
  r.kill("a");
  r.own("b", {0, 1});
  r.publish();
  r.settle();
  ASSERT_EQ(r.user().ends.size(), 1u);
  EXPECT_EQ(r.user().ends[0].reason, EndReason::diverged);
  EXPECT_EQ(r.user().ends[0].segment, s0);
  EXPECT_EQ(r.user().ends[0].surviving->revision.value(), 2u);
  EXPECT_EQ(r.relay().counters().passed.stream_ends[static_cast<std::size_t>(EndReason::diverged)], 1u);
  EXPECT_FALSE(r.reader().ended());
}

TEST(FeedRelay, AcknowledgementsHoldTheNewOwnersLogForWhatIsDurable) {
  Both r;
  r.read_all();
  std::vector<Position> at;
  for (int i = 0; i < 10; ++i) at.push_back(r.put(r.key_in(s0, "k", i), "v"));
  r.pump();
  r.reader().ack({0, {{s0, at[3]}}});
  r.pump();
  r.kill("a");
  r.own("b", {0, 1});
  r.publish();
  r.settle();
  const store::PinKey pin{"follower", "l", ScopeId{}, ClusterId{0x7000}};
  const auto place = r.node("b").store->pin_place(pin, s0);
  ASSERT_TRUE(place) << "under the follower's name, not the gateway's";
  EXPECT_EQ(place->acknowledged, at[3]);
}

TEST(FeedRelay, AnotherGatewayGoesOnUnderTheSamePin) {
  Both r;
  r.read_all();
  for (int i = 0; i < 10; ++i) r.put(r.key_in(s0, "k", i), "v");
  r.pump();
  const Position at = *r.reader().position(s0);
  r.reader().ack({0, {{s0, at}}});
  r.pump();
  r.change_gateway();
  r.hello();
  for (int i = 10; i < 20; ++i) r.put(r.key_in(s0, "k", i), "v");
  r.subscribe(s0, NamedPosition{at, r.node("a").store->lineage(s0).id_of(at.generation)});
  r.pump();
  EXPECT_EQ(r.user().live.size(), 20u);
  EXPECT_EQ(r.user().rows.size(), 20u);
  EXPECT_EQ(r.node("a").store->pins(r.now.wall_us).size(), 1u);
  r.expect_fine();
}

TEST(FeedRelay, RequestsAreAskedAgain) {
  Both r;
  r.read_all();
  std::vector<std::string> keys;
  for (int i = 0; i < 40; ++i) {
    keys.push_back(r.key_in(s0, "k", i));
    r.put(keys.back(), fmt::format("v{}", i));
  }
  r.pump();
  r.reader().fetch({9, s0, keys});
  r.upward();
  ASSERT_TRUE(r.fetch("a"));
  while (r.deliver()) {
  }
  ASSERT_EQ(r.user().answers.size(), 1u) << "sixteen of forty";
  r.kill("a");
  r.own("b", {0, 1});
  r.publish();
  r.settle();
  std::map<std::string, std::string> all;
  for (const auto& [request, answer] : r.user().answers) all.insert(answer.begin(), answer.end());
  EXPECT_EQ(all.size(), 40u);
  EXPECT_TRUE(r.user().missing.empty());
  r.expect_fine();
}

TEST(FeedRelay, OwnersMayChangeAtAnyMoment) {
  for (int stop = 0; stop < 60; ++stop) {
    Both r(small_messages());
    for (int i = 0; i < 20; ++i) r.put(fmt::format("old{}", i), "v");
    r.subscribe_all_walks();
    int steps = 0;
    const auto step = [&] {
      r.upward();
      r.fetch(steps % 2 == 0 ? "a" : "b");
      if (steps % 3 != 0) r.deliver();
      ++steps;
    };
    while (steps < stop) {
      if (steps % 5 == 0) r.put(fmt::format("new{}", steps), std::string(steps % 4 == 0 ? 600'000 : 10, 'z'));
      step();
    }
    if (stop % 2 == 0) r.kill("a");
    r.own("b", {0, 1});
    if (stop % 4 < 2) r.publish();
    r.settle();
    r.publish();
    r.settle();
    for (const auto& [key, value] : std::map<std::string, std::string>(r.user().live)) {
      std::string held;
      EXPECT_EQ(r.node("b").store->get(key, r.now.wall_us, held).status, Status::ok) << stop;
      EXPECT_EQ(held, value);
    }
    std::uint64_t keys = 0;
    for (std::uint16_t s = 0; s < region_segments; ++s) keys += r.node("b").store->state(SegmentId{s}).live_keys;
    EXPECT_EQ(r.user().live.size(), keys) << stop;
    r.expect_fine();
  }
}

}  // namespace
}  // namespace zaris::feed
