#include "fake_store.hpp"
#include "rig.hpp"

namespace zaris::feed {
namespace {

constexpr SegmentId s0{0};

NamedPosition at(std::uint32_t generation, std::uint64_t revision) {
  return {{Generation{generation}, Revision{revision}}, FakeStore::id_of(generation)};
}

// Lineage of the table: generation 10 from 1, 20 from 6, 30 from 11; head (30, 15); log from 8.
struct ResumeCase {
  const char* what;
  std::optional<HistoryId> history;
  std::optional<NamedPosition> low, high;
  std::optional<EndReason> end;
  std::optional<Position> surviving;
  std::size_t rows = 0;      // that come
};

TEST(FeedSubscribe, EveryPositionGetsTheAnswerThatTheLineageAndTheFloorGive) {
  const HistoryId h = FakeStore::history;
  NamedPosition other = at(20, 8);
  other.generation_id = 1;
  const std::vector<ResumeCase> table = {
      {"the head resumes with nothing", h, at(30, 15), at(30, 15), {}, {}, 0},
      {"one below the head", h, at(30, 14), at(30, 14), {}, {}, 1},
      {"one above the head", h, at(30, 16), at(30, 16), EndReason::ahead_of_source, {}},
      {"low at the head, high above it", h, at(30, 15), at(30, 16), EndReason::ahead_of_source, {}},
      {"the generation record itself", h, at(30, 11), at(30, 11), {}, {}, 4},
      {"below its generation's first", h, at(30, 10), at(30, 10), EndReason::unknown_lineage, {}},
      {"the last of the generation before", h, at(20, 10), at(20, 10), {}, {}, 4},
      {"one past the last of the generation before", h, at(20, 11), at(20, 11), EndReason::diverged, Position{Generation{20}, Revision{10}}},
      {"low survives, high does not", h, at(20, 9), at(20, 12), EndReason::diverged, Position{Generation{20}, Revision{10}}},
      {"neither survives: low decides", h, at(10, 6), at(20, 12), EndReason::diverged, Position{Generation{10}, Revision{5}}},
      {"the floor itself", h, at(20, 8), at(20, 8), {}, {}, 6},
      {"one below the floor", h, at(20, 7), at(20, 7), {}, {}, 7},
      {"two below the floor", h, at(20, 6), at(20, 6), EndReason::below_floor, {}},
      {"the generation before the floor's", h, at(10, 5), at(10, 5), EndReason::below_floor, {}},
      {"a generation that nobody minted", h, at(25, 12), at(25, 12), EndReason::unknown_lineage, {}},
      {"the same number, minted twice", h, other, other, EndReason::unknown_lineage, {}},
      {"another history", HistoryId{0xbb}, at(30, 15), at(30, 15), EndReason::source_reset, {}},
      {"another history, nothing covered", HistoryId{0xbb}, {}, {}, EndReason::source_reset, {}},
      {"no mark: from now on", {}, {}, {}, {}, {}, 0},
  };
  for (const ResumeCase& c : table) {
    FakeStore store;
    for (int i = 0; i < 4; ++i) store.put(s0, "k", "v");
    store.begin_generation(s0, 20);
    for (int i = 0; i < 4; ++i) store.put(s0, "k", "v");
    store.begin_generation(s0, 30);
    for (int i = 0; i < 4; ++i) store.put(s0, "k", "v");
    ASSERT_EQ(store.head(s0), (Position{Generation{30}, Revision{15}}));
    store.trim_to(s0, 8);
    Rig rig({}, &store);
    rig.hello();
    rig.reader().subscribe({{{s0, c.history, c.low, c.high, {}}}});
    rig.pump();
    if (c.end) {
      ASSERT_EQ(rig.user().ends.size(), 1u) << c.what;
      const StreamEnd& end = rig.user().ends[0];
      EXPECT_EQ(name(end.reason), name(*c.end)) << c.what;
      EXPECT_EQ(end.surviving, c.surviving) << c.what;
      EXPECT_FALSE(end.text.empty()) << c.what;
      const bool with_lineage = *c.end == EndReason::diverged || *c.end == EndReason::unknown_lineage || *c.end == EndReason::source_reset;
      EXPECT_EQ(end.lineage.has_value(), with_lineage) << c.what;
      EXPECT_EQ(end.floor, Revision{*c.end == EndReason::below_floor ? 8u : 0u}) << c.what;
      EXPECT_TRUE(store.pinned.empty()) << c.what;
      EXPECT_EQ(rig.source().counters().stream_ends[static_cast<std::size_t>(*c.end)], 1u) << c.what;
    } else {
      ASSERT_EQ(rig.user().subscribed.size(), 1u) << c.what;
      EXPECT_EQ(rig.user().subscribed[0].accepted, c.low ? c.low->at : store.head(s0)) << c.what;
      EXPECT_EQ(rig.user().subscribed[0].floor, Revision{8});
      EXPECT_EQ(rig.user().subscribed[0].lineage.entries().size(), 3u);
      EXPECT_TRUE(rig.user().ends.empty()) << c.what;
      EXPECT_EQ(store.pinned, (std::vector<std::pair<SegmentId, Position>>{{s0, c.low ? c.low->at : store.head(s0)}})) << c.what;
    }
    EXPECT_EQ(rig.user().rows.size(), c.rows) << c.what;
    EXPECT_FALSE(rig.reader().ended()) << c.what << rig.reader().ended()->text();
  }
}

TEST(FeedSubscribe, RunsNeverCrossAGenerationAndTheLineageComesFirst) {
  FakeStore store;
  store.put(s0, "a", "1");
  Rig rig({}, &store);
  rig.hello();
  rig.reader().subscribe({{{s0, FakeStore::history, at(10, 1), at(10, 1), {}}}});
  rig.pump();
  EXPECT_EQ(rig.user().subscribed.size(), 1u);
  store.put(s0, "b", "2");
  store.begin_generation(s0, 20);
  store.put(s0, "c", "3");
  rig.source().on_dirty(std::vector<SegmentId>{s0});
  rig.user().order.clear();
  rig.pump();
  ASSERT_EQ(rig.user().subscribed.size(), 2u);
  EXPECT_EQ(rig.user().subscribed[1].accepted, (Position{Generation{10}, Revision{3}}));
  EXPECT_EQ(rig.user().subscribed[1].lineage.entries().back().generation, Generation{20});
  EXPECT_EQ(rig.user().order, (std::vector<std::string>{"batch", "subscribed 0", "batch"}));
  EXPECT_EQ(rig.reader().position(s0), (Position{Generation{20}, Revision{5}}));
  EXPECT_FALSE(rig.reader().ended());
}

TEST(FeedSubscribe, AnEmptyGenerationMovesTheReaderToo) {
  FakeStore store;
  Rig rig({}, &store);
  rig.hello();
  rig.reader().subscribe({{{s0, FakeStore::history, at(10, 1), at(10, 1), {}}}});
  rig.pump();
  store.begin_generation(s0, 20);
  store.begin_generation(s0, 30);
  rig.source().on_dirty(std::vector<SegmentId>{s0});
  rig.pump();
  rig.advance(200'000);
  rig.pump();
  EXPECT_EQ(rig.reader().position(s0), (Position{Generation{30}, Revision{3}}));
  EXPECT_EQ(rig.user().position[s0], (Position{Generation{30}, Revision{3}}));
  EXPECT_FALSE(rig.reader().ended());
}

// The tail carries a region's own writes alone. Where a link writes into what the reader asks for, the reader is told: it would be
// without those changes, and every figure of it would be green.
TEST(FeedSubscribe, ALinkThatWritesIntoTheReadersScopeEndsTheSegment) {
  FakeStore store;
  Rig rig({}, &store);
  rig.hello();
  rig.reader().subscribe({{{s0, FakeStore::history, at(10, 1), at(10, 1), {}}}});
  store.put(s0, "ours", "1");
  const Position last_of_ours = store.put(s0, "ours-too", "2");
  store.put(s0, "theirs", "3", true);
  store.put(s0, "ours", "4");
  rig.pump();
  std::vector<std::string> values;
  for (const auto& row : rig.user().rows) values.push_back(row.value);
  EXPECT_EQ(values, (std::vector<std::string>{"1", "2"}));
  ASSERT_EQ(rig.user().ends.size(), 1u);
  EXPECT_EQ(name(rig.user().ends[0].reason), "source_standby");
  EXPECT_NE(rig.user().ends[0].text.find("only this region's own writes"), std::string::npos) << rig.user().ends[0].text;
  EXPECT_EQ(rig.user().position[s0], last_of_ours) << "never moved over what it lacks";
  EXPECT_FALSE(rig.reader().ended());
}

TEST(FeedSubscribe, WhatALinkWritesElsewhereIsPassedOver) {
  FakeStore store;
  Rig::Options options;
  options.hello.scope = *Scope::make({"ours"});
  Rig rig(options, &store);
  rig.hello();
  rig.reader().subscribe({{{s0, FakeStore::history, at(10, 1), at(10, 1), {}}}});
  store.put(s0, "theirs", "1", true);
  store.put(s0, "ours", "2");
  store.put(s0, "theirs", "3", true);
  rig.pump();
  std::vector<std::string> values;
  for (const auto& row : rig.user().rows) values.push_back(row.value);
  EXPECT_EQ(values, (std::vector<std::string>{"2"}));
  EXPECT_TRUE(rig.user().ends.empty());
}

TEST(FeedSubscribe, ALogThatIsTrimmedUnderAReaderEndsItsSegment) {
  for (const bool lost : {false, true}) {
    FakeStore store;
    Rig rig({}, &store);
    rig.hello();
    rig.reader().subscribe({{{s0, FakeStore::history, at(10, 1), at(10, 1), {}}}});
    rig.pump();
    for (int i = 0; i < 10; ++i) store.put(s0, "k", "v");
    store.trim_to(s0, 5);
    if (lost) store.lose_pins();
    rig.source().on_dirty(std::vector<SegmentId>{s0});
    rig.pump();
    ASSERT_EQ(rig.user().ends.size(), 1u);
    EXPECT_EQ(name(rig.user().ends[0].reason), lost ? "too_slow" : "below_floor");
    EXPECT_EQ(rig.user().ends[0].floor, Revision{5});
    EXPECT_EQ(store.pins_.empty(), lost) << "a lost pin goes once its reader has been told";
    EXPECT_FALSE(rig.reader().ended());
  }
}

// Generation 10 from 1, 20 from 6, 30 from 11, head (30, 12). The pin of a reader that was away was left at (10, 3).
TEST(FeedSubscribe, AScopedReaderThatMissedNothingGoesOnBelowTheFloor) {
  struct Case {
    const char* what;
    NamedPosition low;
    Position moved;
    std::uint64_t floor;
    bool accepted;
  };
  const auto position = [](std::uint32_t generation, std::uint64_t revision) { return Position{Generation{generation}, Revision{revision}}; };
  const std::vector<Case> table = {
      {"over two generations, right to the floor", at(10, 3), position(30, 11), 12, true},
      {"to the last of a generation", at(10, 3), position(20, 10), 11, true},
      {"beyond what was acknowledged", at(10, 4), position(20, 10), 11, true},
      {"within one generation", at(10, 3), position(10, 5), 6, true},
      {"below what was acknowledged", at(10, 2), position(20, 10), 11, false},
      {"the pin has not been moved as far as the floor", at(10, 3), position(20, 9), 11, false},
      {"above where the pin has been moved to", at(10, 5), position(10, 4), 7, false},
  };
  for (const Case& c : table) {
    FakeStore store;
    for (int i = 0; i < 4; ++i) store.put(s0, "k", "v");
    store.begin_generation(s0, 20);
    for (int i = 0; i < 4; ++i) store.put(s0, "k", "v");
    store.begin_generation(s0, 30);
    store.put(s0, "k", "last");
    store.trim_to(s0, c.floor);
    store.places_[0] = {position(10, 3), c.moved};
    Rig rig({}, &store);
    rig.hello();
    rig.reader().subscribe({{{s0, FakeStore::history, c.low, c.low, {}}}});
    rig.pump();
    EXPECT_FALSE(rig.reader().ended()) << c.what;
    if (!c.accepted) {
      ASSERT_EQ(rig.user().ends.size(), 1u) << c.what;
      EXPECT_EQ(name(rig.user().ends[0].reason), "below_floor") << c.what;
      continue;
    }
    EXPECT_TRUE(rig.user().ends.empty()) << c.what;
    ASSERT_EQ(rig.user().subscribed.size(), 1u) << c.what;
    EXPECT_EQ(rig.user().subscribed[0].accepted, c.low.at) << c.what;
    EXPECT_EQ(rig.reader().position(s0), store.head(s0)) << c.what;
    ASSERT_FALSE(rig.user().rows.empty()) << c.what;
    EXPECT_EQ(rig.user().rows.back().value, "last") << c.what;
    EXPECT_EQ(rig.user().rows.size(), store.head(s0).revision.value() - c.moved.revision.value() -
              (c.moved < position(20, 6) ? 1 : 0) - (c.moved < position(30, 11) ? 1 : 0)) << c.what;
    for (const auto& [segment, pinned] : store.pinned) EXPECT_GE(pinned, c.low.at) << c.what;
  }
}

TEST(FeedSubscribe, AReaderWithoutCreditIsToldThatTheLogLeftIt) {
  FakeStore store;
  Rig::Options o;
  o.reader.credit_bytes = 0;
  Rig rig(o, &store);
  rig.hello();
  rig.reader().subscribe({{{s0, FakeStore::history, at(10, 1), at(10, 1), {}}}});
  rig.pump();
  for (int i = 0; i < 10; ++i) store.put(s0, "k", "v");
  rig.source().on_dirty(std::vector<SegmentId>{s0});
  rig.pump();
  store.trim_to(s0, 5);
  rig.advance(200'000);
  rig.pump();
  ASSERT_EQ(rig.user().ends.size(), 1u);
  EXPECT_EQ(name(rig.user().ends[0].reason), "below_floor");
}

TEST(FeedSubscribe, PinsAreSetFromLowAndMovedByAcknowledgementsOfWhatWasSent) {
  FakeStore store;
  Rig rig({}, &store);
  rig.hello();
  rig.reader().subscribe({{{s0, FakeStore::history, at(10, 1), at(10, 1), {}}}});
  rig.pump();
  ASSERT_EQ(store.pins_.size(), 1u);
  EXPECT_TRUE(store.pins_[0].attached);
  EXPECT_EQ(store.pins_[0].key.principal, "follower");
  EXPECT_EQ(store.pins_[0].key.link, "l");
  for (int i = 0; i < 5; ++i) store.put(s0, "k", "v");
  rig.source().on_dirty(std::vector<SegmentId>{s0});
  rig.pump();
  rig.reader().ack({0, {{s0, {Generation{10}, Revision{4}}}}});
  rig.reader().ack({0, {{s0, {Generation{10}, Revision{400}}}}});
  rig.pump();
  EXPECT_EQ(store.pinned.back().second, (Position{Generation{10}, Revision{4}})) << "what was never sent cannot be acknowledged";
  rig.source().end(EndReason::shutting_down, "");
  EXPECT_FALSE(store.pins_[0].attached);
}

TEST(FeedSubscribe, AGatewayThatGoesOnBehindWhatItHasSentLeavesItsFollowersPinWhereItWasAcknowledged) {
  FakeStore store;
  for (int i = 0; i < 9; ++i) store.put(s0, "k", "v");
  store.places_[0] = {Position{Generation{10}, Revision{3}}, Position{Generation{10}, Revision{3}}};
  Rig::Options o;
  o.hello.on_behalf_of = "somebody";
  Rig rig(o, &store);
  rig.hello();
  rig.reader().subscribe({{{s0, FakeStore::history, at(10, 8), at(10, 8), {}}}});
  rig.pump();
  ASSERT_EQ(rig.user().subscribed.size(), 1u);
  EXPECT_TRUE(store.pinned.empty()) << "not all of it is with the follower durably";
  rig.reader().ack({0, {{s0, {Generation{10}, Revision{5}}}}});
  rig.pump();
  ASSERT_EQ(store.pinned.size(), 1u);
  EXPECT_EQ(store.pinned.back().second, (Position{Generation{10}, Revision{5}}));
}

// ---- handshake

struct HelloCase {
  const char* what;
  Hello hello;
  std::vector<Scope> granted;
  std::string code;   // empty: welcome
};

TEST(FeedHello, WhoMayHaveWhat) {
  const Scope t1 = *Scope::make({"t1:"}), t1_sub = *Scope::make({"t1:a", "t1:b"}), both = *Scope::make({"t1:", "t2:"}), slots = *Scope::make({}, {{Slot{0}, Slot{9}}});
  const Hello base{.follower = "f", .link = "l", .target = ClusterId{7}};
  const auto with = [&](auto change) { Hello h = base; change(h); return h; };
  const std::vector<HelloCase> table = {
      {"everything, granted", base, {Scope{}}, ""},
      {"a part of everything", with([&](Hello& h) { h.scope = t1; }), {Scope{}}, ""},
      {"exactly what is granted", with([&](Hello& h) { h.scope = t1; }), {t1}, ""},
      {"a part of what is granted", with([&](Hello& h) { h.scope = t1_sub; }), {t1}, ""},
      {"one of several grants", with([&](Hello& h) { h.scope = t1; }), {slots, t1}, ""},
      {"more than is granted", with([&](Hello& h) { h.scope = both; }), {t1}, "scope_mismatch"},
      {"everything where a part is granted", base, {t1}, "scope_mismatch"},
      {"another's", with([&](Hello& h) { h.scope = *Scope::make({"t2:"}); }), {t1}, "unauthorised"},
      {"nothing is granted", with([&](Hello& h) { h.scope = t1; }), {}, "unauthorised"},
      {"the cluster that was expected", with([&](Hello& h) { h.source_expected = source_cluster; }), {Scope{}}, ""},
      {"another cluster", with([&](Hello& h) { h.source_expected = ClusterId{1}; }), {Scope{}}, "wrong_cluster"},
      {"a later version too", with([&](Hello& h) { h.version_max = 9; }), {Scope{}}, ""},
      {"only later versions", with([&](Hello& h) { h.version_min = 2; h.version_max = 9; }), {Scope{}}, "version_unsupported"},
      {"no name", with([&](Hello& h) { h.link.clear(); }), {Scope{}}, "protocol_error"},
  };
  for (const HelloCase& c : table) {
    FakeStore store;
    Rig::Options o;
    o.hello = c.hello;
    o.principal.granted = c.granted;
    Rig rig(o, &store);
    rig.hello();
    if (c.code.empty()) {
      ASSERT_TRUE(rig.user().welcome) << c.what;
      EXPECT_EQ(rig.user().welcome->scope, c.hello.scope.id());
      EXPECT_EQ(rig.user().welcome->roots.size(), 1u);
      EXPECT_EQ(rig.user().welcome->roots[0].history, FakeStore::history);
      EXPECT_EQ(rig.user().welcome->cluster_name, "north/main");
      EXPECT_FALSE(rig.source().ended()) << c.what;
    } else {
      ASSERT_TRUE(rig.user().error) << c.what;
      EXPECT_EQ(rig.user().error->code, c.code) << c.what;
      ASSERT_TRUE(rig.source().ended()) << c.what;
      EXPECT_EQ(rig.source().ended()->code, c.code);
      EXPECT_EQ(rig.reader().ended()->code, c.code);
    }
  }
}

TEST(FeedHello, NothingIsAnsweredBeforeItAndNonsenseEndsTheSession) {
  const std::vector<std::string> first = {encode(FollowerMessage{Ping{1}}), encode(FollowerMessage{Subscribe{}}), "", "\xc1", "GET / HTTP/1.1"};
  for (const std::string& message : first) {
    FakeStore store;
    const auto source = SourceSession::create(store, {}, {"p", {Scope{}}}, {});
    source->on_message(message, {});
    ASSERT_TRUE(source->ended());
    EXPECT_TRUE(source->ended()->protocol_error);
    std::string out;
    ASSERT_TRUE(source->next_message(out, {}));
    EXPECT_TRUE(std::holds_alternative<ErrorMessage>(**decode_from_gateway(out)));
    EXPECT_FALSE(source->next_message(out, {}));
  }
}

TEST(FeedHello, AFollowerCannotMakeTheSourceRememberWithoutBound) {
  FakeStore store;
  Rig rig({}, &store);
  rig.hello();
  for (int i = 0; i < 100'000 && !rig.source().ended(); ++i)
    rig.source().on_message(encode(FollowerMessage{Subscribe{{{s0, FakeStore::history, at(10, 9), {}, {}}}}}), rig.now);
  EXPECT_TRUE(rig.source().ended());
  FakeStore another;
  Rig second({}, &another);
  second.hello();
  for (int i = 0; i < 100'000 && !second.source().ended(); ++i)
    second.source().on_message(encode(FollowerMessage{FetchKeys{1, s0, {std::string(10'000, 'k')}}}), second.now);
  EXPECT_TRUE(second.source().ended());
}

TEST(FeedEnd, AnOperatorsDropAndAShutdownAreToldSegmentBySegment) {
  for (const EndReason reason : {EndReason::dropped, EndReason::shutting_down}) {
    FakeStore store(4);
    Rig rig({}, &store);
    rig.hello();
    for (std::uint16_t i = 0; i < 4; ++i) rig.reader().subscribe({{{SegmentId{i}, FakeStore::history, at(10, 1), at(10, 1), {}}}});
    rig.pump();
    rig.user().order.clear();
    rig.source().end(reason, "by hand");
    rig.pump();
    EXPECT_EQ(rig.user().ends.size(), 4u);
    EXPECT_EQ(rig.user().order[0] == "go_away", reason == EndReason::shutting_down);
    for (const StreamEnd& end : rig.user().ends) EXPECT_EQ(end.reason, reason);
    EXPECT_EQ(rig.source().ended()->code, name(reason));
    EXPECT_EQ(rig.source().counters().stream_ends[static_cast<std::size_t>(reason)], 4u);
  }
}

TEST(FeedSubscribe, UnsubscribedSegmentsAreSilent) {
  FakeStore store(2);
  Rig rig({}, &store);
  rig.hello();
  for (std::uint16_t i = 0; i < 2; ++i) rig.reader().subscribe({{{SegmentId{i}, FakeStore::history, at(10, 1), at(10, 1), {}}}});
  rig.pump();
  rig.reader().unsubscribe(s0);
  rig.pump();
  store.put(s0, "k", "v");
  store.put(SegmentId{1}, "k", "v");
  rig.source().on_dirty(std::vector<SegmentId>{s0, SegmentId{1}});
  rig.pump();
  EXPECT_EQ(rig.user().rows.size(), 1u);
  EXPECT_EQ(rig.user().rows[0].segment, SegmentId{1});
  EXPECT_FALSE(rig.reader().position(s0));
}

}  // namespace
}  // namespace zaris::feed
