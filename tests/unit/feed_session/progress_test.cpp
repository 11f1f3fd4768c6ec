#include "fake_store.hpp"
#include "rig.hpp"

namespace zaris::feed {
namespace {

constexpr SegmentId s0{0}, s1{1};

TEST(FeedProgress, ComesEveryFreshIntervalAndIsSmallWhenNothingChanged) {
  Rig rig;
  rig.hello();
  for (std::uint16_t i = 0; i < 4; ++i) rig.subscribe_from(SegmentId{i}, rig.named(SegmentId{i}, rig.store().state(SegmentId{i}).head));
  rig.advance(200'000);
  rig.pump();
  std::vector<std::size_t> sizes;
  rig.tap = [&](std::string_view bytes) { sizes.push_back(bytes.size()); };
  for (int i = 0; i < 10; ++i) {
    rig.advance(200'000);
    rig.pump();
  }
  EXPECT_EQ(sizes.size(), 20u) << "a Pong and a Progress each";
  for (const std::size_t size : sizes) EXPECT_LE(size, 24u);
}

TEST(FeedProgress, NamesPositionAndHeadOfWhatMoved) {
  Rig rig;
  rig.hello();
  for (std::uint16_t i = 0; i < 4; ++i) rig.subscribe_from(SegmentId{i}, rig.named(SegmentId{i}, rig.store().state(SegmentId{i}).head));
  rig.advance(200'000);
  rig.pump();
  const Position at = rig.put(rig.key_in(s1), "v");
  rig.advance(200'000);
  rig.pump();
  const Progress& last = rig.user().progresses.back();
  ASSERT_EQ(last.rows.size(), 1u);
  EXPECT_EQ(last.rows[0].segment, s1);
  EXPECT_EQ(last.rows[0].head, at);
  EXPECT_EQ(last.rows[0].floor, Revision{1});
}

TEST(FeedProgress, PositionsMoveWithoutAMatchAndPinsWithThem) {
  Rig::Options o;
  o.hello.scope = *Scope::make({"mine"});
  Rig rig(o);
  rig.hello();
  rig.subscribe_from(s0, rig.named(s0, rig.store().state(s0).head));
  for (int i = 0; i < 100; ++i) rig.put(rig.key_in(s0, "theirs", i), "v");
  rig.pump();
  EXPECT_EQ(rig.user().rows.size(), 0u);
  rig.advance(200'000);
  rig.pump();
  EXPECT_EQ(rig.reader().position(s0), rig.store().state(s0).head);
  rig.reader().ack({0, {{s0, *rig.reader().position(s0)}}});
  rig.pump();
  EXPECT_EQ(rig.store().pins(rig.now.wall_us).at(0).held_records, 0u);
}

TEST(FeedProgress, MuchThatIsPassedOverIsSaidOutOfTurn) {
  Rig::Options o;
  o.hello.scope = *Scope::make({"mine"});
  o.store.log_budget_bytes = 1u << 20;
  Rig rig(o);
  rig.hello();
  rig.subscribe_from(s0, rig.named(s0, rig.store().state(s0).head));
  rig.advance(200'000);
  rig.pump();
  const std::size_t before = rig.user().progresses.size();
  for (int i = 0; i < 200; ++i) rig.put(rig.key_in(s0, "theirs", i), std::string(1000, 'v'));
  rig.pump();
  EXPECT_GT(rig.user().progresses.size(), before);
}

// 1. the closed time is read   2. a commit at an earlier time, not yet drained from the dirty map   3. the Progress
// A Progress that says "closed" must carry the head that such a commit made.
TEST(FeedProgress, ClosedTimeIsReadBeforeTheHeadsThatGoWithIt) {
  for (const bool drain : {true, false}) {
    Rig::Options o;
    o.drain = drain;
    Rig rig(o);
    rig.hello();
    for (std::uint16_t i = 0; i < 4; ++i) rig.subscribe_from(SegmentId{i}, rig.named(SegmentId{i}, rig.store().state(SegmentId{i}).head));
    rig.advance(200'000);
    rig.pump();
    std::map<SegmentId, Position> committed;
    for (int i = 0; i < 200; ++i) {
      const SegmentId s{static_cast<std::uint16_t>(i % 4)};
      rig.advance(i % 3 == 0 ? 200'000 : 10);
      committed[s] = rig.put(rig.key_in(s, "k", i % 5), "v");
      const WallMicros written = rig.now.wall_us;
      rig.pump();
      const Progress& last = rig.user().progresses.back();
      EXPECT_TRUE(last.closed_time_us < written || rig.user().heads[s] >= committed[s]) << i;
    }
  }
}

TEST(FeedPong, CarriesEveryHeadFromBeforeThePing) {
  for (const bool drain : {true, false}) {
    Rig::Options o;
    o.drain = drain;
    Rig rig(o);
    rig.hello();
    for (std::uint16_t i = 0; i < 4; ++i) rig.subscribe_from(SegmentId{i}, rig.named(SegmentId{i}, rig.store().state(SegmentId{i}).head));
    rig.pump();
    std::map<SegmentId, Position> pong_heads;
    for (int i = 0; i < 50; ++i) {
      const SegmentId s{static_cast<std::uint16_t>(i % 3)};
      const Position head = rig.put(rig.key_in(s), "v");
      rig.advance(200'000);
      rig.pump();
      const Pong& pong = rig.user().pongs.back();
      EXPECT_EQ(pong.echoed_us, rig.now.mono_us);
      for (const PongRow& row : pong.rows) pong_heads[row.segment] = row.head;
      EXPECT_EQ(pong_heads[s], head) << i;
      EXPECT_LE(pong.rows.size(), i == 0 ? 4u : 1u) << "only what changed since the last Pong";
    }
  }
}

TEST(FeedPong, WhoMayNotServeEchoesNothingUntilHeMay) {
  Rig rig;
  rig.hello();
  rig.subscribe_from(s0, rig.named(s0, rig.store().state(s0).head));
  rig.confirm = false;
  for (int i = 0; i < 3; ++i) {
    rig.advance(200'000);
    rig.pump();
  }
  EXPECT_TRUE(rig.user().pongs.empty());
  EXPECT_FALSE(rig.user().progresses.empty());
  rig.confirm = true;
  rig.pump();
  ASSERT_EQ(rig.user().pongs.size(), 1u);
  EXPECT_EQ(rig.user().pongs[0].echoed_us, rig.now.mono_us);
}

TEST(FeedPong, AnIdleSessionLooksAtNoHeads) {
  FakeStore store(64);
  Rig rig({}, &store);
  rig.hello();
  for (std::uint16_t i = 0; i < 64; ++i)
    rig.reader().subscribe({{{SegmentId{i}, FakeStore::history, NamedPosition{{Generation{10}, Revision{1}}, FakeStore::id_of(10)}, {}, {}}}});
  rig.pump();
  const auto pass = [&] {
    rig.advance(200'000);
    rig.upstream();
    rig.source().on_dirty({});
    rig.pump();
  };
  pass();
  pass();
  const std::uint32_t before = store.states_read;
  for (int i = 0; i < 20; ++i) pass();
  EXPECT_EQ(store.states_read, before);
}

TEST(FeedLiveness, AReaderThatIsSilentForThreeHeartbeatsIsGivenUp) {
  Rig rig;
  rig.hello();
  rig.source().on_tick({rig.now.mono_us + 15'000'000, rig.now.wall_us});
  EXPECT_FALSE(rig.source().ended());
  rig.source().on_tick({rig.now.mono_us + 15'000'001, rig.now.wall_us});
  ASSERT_TRUE(rig.source().ended());
  EXPECT_EQ(rig.source().ended()->code, "feed_silent");
}

TEST(FeedLiveness, PingsAndProgressKeepAnIdleSessionAlive) {
  Rig rig;
  rig.hello();
  for (int i = 0; i < 600; ++i) {
    rig.advance(200'000);
    rig.pump();
  }
  EXPECT_FALSE(rig.source().ended());
  EXPECT_FALSE(rig.reader().ended());
}

}  // namespace
}  // namespace zaris::feed
