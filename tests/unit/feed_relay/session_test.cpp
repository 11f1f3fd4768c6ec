// One session over several nodes: time, freshness, credit, and what is refused.
#include "tests/unit/feed_relay/region.hpp"

namespace zaris::feed {
namespace {

constexpr SegmentId s0{0};

void two_owners(Region& r) {
  r.own("a", {0, 1});
  r.own("b", {2, 3});
  r.publish();
  r.hello();
  r.subscribe_all_walks();
  r.pump();
}

TEST(FeedRelaySession, APongSpeaksForThoseNodesThatAnswered) {
  Region r;
  two_owners(r);
  r.advance(200'000);
  r.pump();
  ASSERT_FALSE(r.user().pongs.empty());
  EXPECT_TRUE(r.user().pongs.back().unavailable.empty());
  r.node("b").mute = true;
  const std::size_t before = r.user().pongs.size();
  for (int i = 0; i < 3; ++i) {
    r.advance(200'000);
    r.pump();
  }
  ASSERT_GT(r.user().pongs.size(), before) << "the other node's segments stay fresh";
  EXPECT_EQ(r.user().pongs.back().unavailable, (std::vector<SegmentId>{SegmentId{2}, SegmentId{3}}));
}

TEST(FeedRelaySession, ASegmentThatNobodyOwnsIsSilent) {
  Region r;
  two_owners(r);
  r.advance(200'000);
  r.pump();
  const WallMicros closed = r.user().progresses.back().closed_time_us;
  r.nobody({2});
  r.publish();
  for (int i = 0; i < 5; ++i) {
    r.advance(200'000);
    r.pump();
  }
  EXPECT_TRUE(r.user().ends.empty());
  EXPECT_EQ(r.user().pongs.back().unavailable, std::vector<SegmentId>{SegmentId{2}});
  EXPECT_LE(r.user().progresses.back().closed_time_us, closed + 400'000) << "no time closes for what nobody speaks for";
  r.own("a", {2});
  r.publish();
  r.put(r.key_in(SegmentId{2}), "v");
  for (int i = 0; i < 5; ++i) {
    r.advance(200'000);
    r.pump();
  }
  EXPECT_EQ(r.user().live.size(), 1u);
  EXPECT_TRUE(r.user().pongs.back().unavailable.empty());
}

TEST(FeedRelaySession, TheClosedTimeIsTheLeastOfTheNodes) {
  Region r;
  two_owners(r);
  for (int i = 0; i < 3; ++i) {
    r.advance(200'000);
    r.pump();
  }
  const WallMicros both = r.user().progresses.back().closed_time_us;
  EXPECT_GT(both, 0u);
  r.node("b").mute = true;
  for (int i = 0; i < 3; ++i) {
    r.advance(200'000);
    r.pump();
  }
  EXPECT_EQ(r.user().progresses.back().closed_time_us, both);
}

TEST(FeedRelaySession, CreditIsTheFollowersWhateverTheNodesHave) {
  RigOptions o;
  o.reader.credit_bytes = 64u << 10;
  Region r({"a", "b"}, o);
  two_owners(r);
  r.user().hold_grants = true;
  for (int i = 0; i < 400; ++i) r.put(fmt::format("k{}", i), std::string(1'000, 'v'));
  for (int i = 0; i < 5; ++i) {
    r.advance(100'000);
    r.pump();
  }
  EXPECT_FALSE(r.reader().ended()) << r.reader().ended()->text();
  EXPECT_LE(r.reader().bytes_outstanding(), 64u << 10);
  EXPECT_GT(r.user().live.size(), 20u);
  EXPECT_LT(r.relay().held_bytes(), 64u << 10);
  r.user().hold_grants = false;
  for (int i = 0; i < 20; ++i) {
    r.advance(100'000);
    r.pump();
  }
  EXPECT_EQ(r.user().live.size(), 400u);
}

TEST(FeedRelaySession, OneRecordLargerThanAllCreditPasses) {
  RigOptions o;
  o.reader.credit_bytes = 64u << 10;
  Region r({"a", "b"}, o);
  two_owners(r);
  for (int i = 0; i < 20; ++i) {
    r.put(fmt::format("large{}", i), std::string(i % 2 == 0 ? 200'000 : 700'000, 'v'));
    r.put(fmt::format("small{}", i), "v");
  }
  for (int i = 0; i < 60; ++i) {
    r.advance(100'000);
    r.pump();
  }
  EXPECT_FALSE(r.reader().ended()) << r.reader().ended()->text();
  EXPECT_EQ(r.user().live.size(), 40u);
}

TEST(FeedRelaySession, WhoMayNotReadTheScopeIsRefusedHere) {
  RigOptions o;
  o.principal = {"tenant", {*Scope::make({"t1:"})}};
  Region r({"a"}, o);
  r.own("a", {0, 1, 2, 3});
  r.publish();
  r.hello();
  ASSERT_TRUE(r.user().error);
  EXPECT_EQ(r.user().error->code, "scope_mismatch");
  EXPECT_EQ(r.node("a").sessions, 0u);
}

TEST(FeedRelaySession, AWrongClusterIsSaidOnce) {
  RigOptions o;
  o.hello.source_expected = ClusterId{1};
  Region r({"a"}, o);
  r.own("a", {0, 1, 2, 3});
  r.publish();
  r.hello();
  ASSERT_TRUE(r.user().error);
  EXPECT_EQ(r.user().error->code, "wrong_cluster");
}

TEST(FeedRelaySession, NoRootIsMadeUp) {
  Region r({"a"});
  r.own("a", {0, 1, 2});  // of segment 3 nobody knows anything
  r.publish();
  r.hello();
  EXPECT_FALSE(r.user().welcome);
  for (int i = 0; i < 60; ++i) {
    r.advance(100'000);
    r.pump();
  }
  EXPECT_FALSE(r.user().welcome);
  ASSERT_TRUE(r.user().error);
  EXPECT_TRUE(r.user().error->retry);
}

TEST(FeedRelaySession, NonsenseFromEitherSideEndsOneConnection) {
  Region r;
  two_owners(r);
  r.relay().on_node_message("a", std::make_shared<std::string>("\xc1nonsense"), r.now);
  for (int i = 0; i < 10; ++i) {
    r.advance(100'000);
    r.pump();
  }
  EXPECT_EQ(r.relay().counters().broken, 1u);
  r.put(r.key_in(s0), "v");
  r.pump();
  EXPECT_EQ(r.user().live.size(), 1u);
  r.relay().on_message("\xc1nonsense", r.now);
  ASSERT_TRUE(r.relay().ended());
  EXPECT_TRUE(r.relay().ended()->protocol_error);
}

// What a reader says is passed on, and kept for a node that does not take it.
TEST(FeedRelaySession, ANodeThatTakesNothingIsLetGoBeforeMuchWaitsForIt) {
  Region r;
  two_owners(r);
  r.node("a").waiting = 100u << 20;
  for (int i = 0; i < 3; ++i) {
    r.relay().on_message(encode(FollowerMessage{Ping{i + 1}}), r.now);
    r.pump();
  }
  EXPECT_EQ(r.relay().counters().broken, 1u);
  EXPECT_FALSE(r.relay().ended()) << "the reader is not to blame";
  r.node("a").waiting = 0;
  for (int i = 0; i < 10; ++i) {
    r.advance(100'000);
    r.pump();
  }
  r.put(r.key_in(s0), "v");
  r.pump();
  EXPECT_EQ(r.user().live.size(), 1u);
}

// Each would be kept until its record is whole, which it never is.
TEST(FeedRelaySession, PartsThatDoNotFollowOneAnotherEndTheConnection) {
  Region r;
  two_owners(r);
  Part part{.segment = s0, .revision = Revision{6}, .total = 1'000, .bytes = "half", .prev = {Generation{101}, Revision{5}}, .generation = Generation{101}};
  for (const std::uint64_t offset : {0, 1, 1}) {
    part.offset = offset;
    r.relay().on_node_message("a", std::make_shared<std::string>(encode(GatewayMessage{part})), r.now);
  }
  r.pump();
  EXPECT_EQ(r.relay().counters().broken, 1u);
  EXPECT_EQ(r.relay().held_bytes(), 0u);
  for (int i = 0; i < 10; ++i) {
    r.advance(100'000);
    r.pump();
  }
  r.put(r.key_in(s0), "v");
  r.pump();
  EXPECT_EQ(r.user().live.size(), 1u);
}

// A table with another number of segments comes between the nodes' Welcomes.
TEST(FeedRelaySession, WhoeverWasWelcomedWithAnotherNumberOfSegmentsIsLetGo) {
  const auto relay = Relay::create({}, {"f", {Scope{}}});
  const Now now{1'000'000, 1'790'000'000'000'000};
  const auto table = [&](std::uint64_t version, std::uint32_t segments) {
    auto out = std::make_shared<RoutingTable>();
    out->version = version;
    out->segments = segments;
    out->nodes = {{"a", "host", 1}, {"b", "host", 1}};
    out->owners.assign(segments, 1);
    out->owners[0] = 0;
    relay->on_table(out, now);
  };
  const auto welcome = [&](const std::string& node, std::uint32_t segments) {
    Welcome out;
    out.segments = segments;
    out.roots.assign(segments, Root{.history = HistoryId{7}});
    relay->on_node_message(node, std::make_shared<std::string>(encode(GatewayMessage{out})), now);
  };
  Hello hello;
  hello.follower = hello.link = "f";
  table(1, 4);
  relay->on_message(encode(FollowerMessage{hello}), now);
  relay->on_node_open("a", now);
  relay->on_node_open("b", now);
  welcome("b", 4);
  table(2, 4'096);
  welcome("a", 4'096);
  std::string message;
  EXPECT_FALSE(relay->next_message(message, now)) << "nobody has said the roots of what b owns";
  EXPECT_EQ(relay->counters().broken, 1u);
}

}  // namespace
}  // namespace zaris::feed
