// The node's side: nothing leaves before a replica has it, and nothing is said of what is not served.
#include "tests/unit/feed_relay/region.hpp"

namespace zaris::feed {
namespace {

constexpr SegmentId s0{0};

struct One : Region {
  One() : Region({"a"}) {
    own("a", {0, 1, 2, 3});
    publish();
    hello();
  }
  void turn() {
    advance(200'000);
    pump();
  }
};

TEST(FeedAuthority, NothingIsShippedBeforeAReplicaHasIt) {
  One r;
  r.subscribe_all_walks();
  r.pump();
  const Position first = r.put(r.key_in(s0, "k", 0), "v");
  r.node("a").ships[0] = first.revision.value();
  r.put(r.key_in(s0, "k", 1), "v");
  r.turn();
  EXPECT_EQ(r.user().live.size(), 1u);
  EXPECT_EQ(r.user().heads.at(s0), first) << "nor is its head told";
  r.node("a").ships[0] = first.revision.value() + 1;
  r.node("a").session->on_authority();
  r.pump();
  EXPECT_EQ(r.user().live.size(), 2u);
}

TEST(FeedAuthority, AClosedTimeWaitsForTheHeadsOfItsMoment) {
  One r;
  r.subscribe_all_walks();
  r.pump();
  r.turn();
  r.turn();
  const WallMicros closed = r.user().progresses.back().closed_time_us;
  EXPECT_GT(closed, 0u);
  const Position at = r.put(r.key_in(s0), "v");
  r.node("a").ships[0] = at.revision.value() - 1;
  const WallMicros committed = r.now.wall_us;
  for (int i = 0; i < 5; ++i) r.turn();
  EXPECT_LT(r.user().progresses.back().closed_time_us, committed);
  r.node("a").ships.clear();
  for (int i = 0; i < 5; ++i) r.turn();
  EXPECT_GT(r.user().progresses.back().closed_time_us, committed);
}

TEST(FeedAuthority, AChunkWaitsForItsPosition) {
  One r;
  const Position at = r.put(r.key_in(s0), "v");
  r.node("a").ships[0] = at.revision.value() - 1;
  r.reader().subscribe({{{s0, HistoryId{0xaa00}, {}, {}, SubscribeSegment::Walk{}}}});
  r.turn();
  r.turn();
  EXPECT_EQ(r.user().chunks, 0u);
  r.node("a").ships.clear();
  r.turn();
  EXPECT_EQ(r.user().chunks, 1u);
  EXPECT_EQ(r.user().live.size(), 1u);
}

TEST(FeedAuthority, AHeadThatCannotBeSaidIsNotEchoed) {
  One r;
  r.subscribe_all_walks();
  r.pump();
  r.node("a").ships[0] = 0;  // a term has begun, and nobody has confirmed anything of it
  r.turn();
  r.turn();
  EXPECT_EQ(r.user().pongs.back().unavailable, std::vector<SegmentId>{s0});
}

TEST(FeedAuthority, WhatIsNotServedIsNeitherEchoedNorSent) {
  One r;
  r.subscribe_all_walks();
  r.pump();
  r.node("a").serves.erase(0);
  r.put(r.key_in(s0), "v");
  r.turn();
  r.turn();
  EXPECT_TRUE(r.user().live.empty());
  EXPECT_TRUE(r.user().ends.empty()) << "that is between the gateway and the node";
  EXPECT_EQ(r.user().pongs.back().unavailable, std::vector<SegmentId>{s0});
  r.node("a").serves.insert(0);
  r.turn();
  r.turn();
  EXPECT_EQ(r.user().live.size(), 1u);
}

// An owner that has slept and wakes with a Progress due, before any tick has looked at what it serves.
TEST(FeedAuthority, WhatIsNotServedHasNoClosedTime) {
  One r;
  r.subscribe_all_walks();
  r.pump();
  r.turn();
  r.node("a").serves.erase(0);
  r.now.mono_us += 10'000'000;
  r.now.wall_us += 10'000'000;
  bool said_so = false;
  for (std::string out; r.node("a").session->next_message(out, r.now); out.clear()) {
    const auto message = decode_from_gateway(out);
    ASSERT_TRUE(message && *message);
    if (const auto* end = std::get_if<StreamEnd>(&**message)) said_so = said_so || (end->segment == s0 && end->reason == EndReason::ownership_moving);
    if (const auto* progress = std::get_if<Progress>(&**message)) {
      EXPECT_TRUE(said_so) << "a closed time that speaks for a segment which another node may be writing to";
      for (const ProgressRow& row : progress->rows) EXPECT_NE(row.segment, s0);
    }
  }
  EXPECT_TRUE(said_so);
}

TEST(FeedAuthority, OnlyWhoMayReadEverythingSpeaksForOthers) {
  One r;
  const auto session = SourceSession::create(*r.node("a").store, {}, {"tenant", {*Scope::make({"t1:"})}}, {});
  Hello hello{.follower = "f", .link = "l", .target = ClusterId{7}, .scope = *Scope::make({"t1:"}), .on_behalf_of = "somebody"};
  session->on_message(encode(FollowerMessage{hello}), r.now);
  ASSERT_TRUE(session->ended());
  EXPECT_EQ(session->ended()->code, "unauthorised");
}

}  // namespace
}  // namespace zaris::feed
