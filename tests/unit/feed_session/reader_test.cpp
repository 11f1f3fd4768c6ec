#include "rig.hpp"

namespace zaris::feed {
namespace {

constexpr SegmentId s0{0};

Lineage lineage() { return Lineage(Root{HistoryId{1}, Generation{7}, 1, RootCause::created}, {{Generation{7}, 70, Revision{1}, 1}}); }

// A reader whose gateway is the test.
struct Alone {
  Collector user;
  std::unique_ptr<ReaderSession> reader;
  explicit Alone(ReaderOptions options = {}, bool welcome = true) {
    reader = ReaderSession::create({.follower = "f", .link = "l"}, options, user);
    reader->start(0);
    if (!welcome) return;
    Welcome m;
    m.segments = 4;
    m.key_bytes_max = 64u << 10;
    m.value_bytes_max = 4u << 20;
    m.roots.resize(4);
    tell(m);
  }
  void tell(GatewayMessage m) { reader->on_message(encode(m), 1); }
  void subscribe(std::optional<Position> accepted, std::uint32_t subscription = 1, bool walk = false) {
    SubscribeSegment s{s0, HistoryId{1}, {}, {}, {}};
    if (walk) s.walk.emplace();
    reader->subscribe({{s}});
    tell(Subscribed{s0, accepted, {Generation{7}, Revision{9}}, Revision{1}, lineage(), subscription});
  }
  [[nodiscard]] std::string code() const { return reader->ended() ? reader->ended()->code : ""; }
  std::vector<FollowerMessage> sent() {
    std::vector<FollowerMessage> out;
    std::string bytes;
    while (bytes.clear(), reader->next_message(bytes)) out.push_back(**decode_from_follower(bytes));
    return out;
  }
};

Position at(std::uint64_t revision) { return {Generation{7}, Revision{revision}}; }
Batch run(Position prev, Position last, std::string_view table = {}, std::string_view records = {}) {
  return Batch{{feed::Run{s0, prev, last.generation, last.revision, 0, false, table, records}}};
}

TEST(FeedReader, ARunMustStartAtThePositionHeldAsAPair) {
  struct Case { const char* what; Position prev; std::string code; };
  const std::vector<Case> table = {
      {"where it stands", at(5), ""},
      {"one missing", at(6), "feed_gap"},
      {"one too many", at(4), "feed_gap"},
      {"the same revision of another generation", {Generation{6}, Revision{5}}, "feed_gap"},
  };
  for (const Case& c : table) {
    Alone a;
    a.subscribe(at(5));
    a.tell(run(c.prev, at(8)));
    EXPECT_EQ(a.code(), c.code) << c.what;
    EXPECT_EQ(a.reader->position(s0), c.code.empty() ? at(8) : at(5)) << c.what;
  }
}

TEST(FeedReader, AProgressMovesOnlyFromWhereItStands) {
  struct Case { const char* what; Position position; std::optional<Position> prev; std::string code; Position after; };
  const std::vector<Case> table = {
      {"nothing moved", at(5), {}, "", at(5)},
      {"moved from here", at(8), at(5), "", at(8)},
      {"moved, and does not say from where", at(8), {}, "feed_gap", at(5)},
      {"moved from elsewhere", at(8), at(6), "feed_gap", at(5)},
      {"moved backward", at(4), at(5), "feed_gap", at(5)},
  };
  for (const Case& c : table) {
    Alone a;
    a.subscribe(at(5));
    a.tell(Progress{1, 2, {{s0, c.position, at(9), Revision{1}, 0, c.prev}}});
    EXPECT_EQ(a.code(), c.code) << c.what;
    EXPECT_EQ(a.reader->position(s0), c.after) << c.what;
    EXPECT_EQ(a.user.empty_runs, c.prev && c.code.empty() ? 1u : 0u) << "the user moves by runs alone";
  }
}

TEST(FeedReader, ChunksStandWhereTheRunsStandAndFollowEachOther) {
  const SlotKey k1{Slot{1}, ""}, k2{Slot{2}, ""};
  const auto chunk = [](std::optional<SlotKey> from, std::optional<SlotKey> to, Position as_of) {
    return Chunk{s0, from, to, {as_of, 70}, 0, {}, !to.has_value(), {}, {}};
  };
  struct Case { const char* what; std::vector<Chunk> chunks; std::string code; };
  const std::vector<Case> table = {
      {"in order", {chunk({}, k1, at(5)), chunk(k1, {}, at(5))}, ""},
      {"one left out", {chunk({}, k1, at(5)), chunk(k2, {}, at(5))}, "feed_gap"},
      {"twice the same", {chunk({}, k1, at(5)), chunk({}, k1, at(5))}, "feed_gap"},
      {"ahead of the runs", {chunk({}, k1, at(5)), chunk(k1, {}, at(6))}, "feed_gap"},
      {"behind the last", {chunk({}, {}, at(5)), chunk({}, {}, at(5))}, "feed_gap"},
  };
  for (const Case& c : table) {
    Alone a;
    a.subscribe({}, 1, true);
    for (const Chunk& m : c.chunks) a.tell(m);
    EXPECT_EQ(a.code(), c.code) << c.what;
  }
  Alone uninvited;
  uninvited.subscribe(at(5));
  uninvited.tell(chunk({}, {}, at(5)));
  EXPECT_EQ(uninvited.code(), "feed_gap");
}

TEST(FeedReader, WhatWasOnItsWayForAnEarlierSubscriptionIsLeftOut) {
  Alone a;
  a.subscribe(at(5));
  a.reader->subscribe({{{s0, HistoryId{1}, {}, {}, {}}}});
  a.tell(run(at(5), at(6)));                                   // still the old one
  a.tell(StreamEnd{s0, EndReason::below_floor, "", {}, {}, {}, 1});
  EXPECT_TRUE(a.user.ends.empty());
  EXPECT_FALSE(a.reader->position(s0));
  a.tell(Subscribed{s0, at(3), at(9), Revision{1}, lineage(), 2});
  a.tell(run(at(3), at(4)));
  EXPECT_EQ(a.reader->position(s0), at(4));
  EXPECT_EQ(a.code(), "");
}

TEST(FeedReader, PartsThatDoNotFollowEachOtherEndTheSession) {
  const auto part = [](std::uint64_t revision, std::uint64_t offset, std::uint64_t total, std::string_view bytes) {
    Part m{s0, Revision{revision}, offset, total, bytes};
    m.prev = at(5);
    m.generation = Generation{7};
    return m;
  };
  struct Case { const char* what; std::vector<Part> parts; std::string code; };
  const std::vector<Case> table = {
      {"not from its begin", {part(6, 2, 4, "cd")}, "feed_protocol"},
      {"a hole", {part(6, 0, 6, "ab"), part(6, 4, 6, "ef")}, "feed_protocol"},
      {"another record between", {part(6, 0, 6, "ab"), part(7, 2, 6, "cd")}, "feed_protocol"},
      {"another total", {part(6, 0, 6, "ab"), part(6, 2, 5, "cd")}, "feed_protocol"},
      {"one within another", {part(6, 0, 6, "ab"), part(6, 0, 6, "ab")}, "feed_protocol"},
      {"no bytes", {part(6, 0, 6, "")}, "feed_protocol"},
      {"larger than any record", {part(6, 0, record_length_max, "ab")}, "feed_message_too_large"},
      {"from elsewhere", {[&] { Part m = part(6, 0, 6, "ab"); m.prev = at(4); return m; }()}, "feed_gap"},
  };
  for (const Case& c : table) {
    Alone a;
    a.subscribe(at(5));
    for (const Part& m : c.parts) a.tell(m);
    EXPECT_EQ(a.code(), c.code) << c.what;
  }
}

TEST(FeedReader, CreditFollowsWhatTheUserGivesBack) {
  ReaderOptions options;
  options.credit_bytes = 1000;
  Alone a(options);
  std::uint64_t credit = 0;
  for (const auto& m : a.sent()) {
    if (const auto* c = std::get_if<Credit>(&m)) credit += c->bytes;
  }
  EXPECT_EQ(credit, 1000u);
  a.subscribe(at(5));
  std::string table;
  append_row(table, {392, 0, Slot{}, 1});
  const std::string records(392, 'r');
  class Quiet : public ReaderSink { void on_event(const ReaderEvent&) override {} } quiet;
  a.reader = ReaderSession::create({.follower = "f", .link = "l"}, options, quiet);
  a.reader->start(0);
  Welcome welcome;
  welcome.segments = 4;
  welcome.key_bytes_max = welcome.value_bytes_max = 1u << 20;
  welcome.roots.resize(4);
  a.tell(welcome);
  a.subscribe(at(5));
  a.sent();
  a.tell(run(at(5), at(6), table, records));
  a.tell(run(at(6), at(7), table, records));
  EXPECT_EQ(a.reader->bytes_outstanding(), 800u);
  EXPECT_TRUE(a.sent().empty());
  a.reader->grant(800);
  const auto sent = a.sent();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(std::get<Credit>(sent[0]).bytes, 800u);
  a.tell(run(at(7), at(8), table, records));
  a.tell(run(at(8), at(9), table, records));
  EXPECT_EQ(a.code(), "");
  a.tell(run(at(9), at(10), table, records));
  EXPECT_EQ(a.code(), "feed_credit_exceeded");
}

TEST(FeedReader, GatewaysThatAreNotWhatWasAskedForAreRefused) {
  Welcome good;
  good.segments = 4;
  good.roots.resize(4);
  struct Case { const char* what; std::function<void(Welcome&)> change; std::string code; };
  const std::vector<Case> table = {
      {"good", [](Welcome&) {}, ""},
      {"another scope", [](Welcome& m) { m.scope = ScopeId{9}; }, "scope_mismatch"},
      {"a version that was not offered", [](Welcome& m) { m.version = 2; }, "version_unsupported"},
      {"no segments", [](Welcome& m) { m.segments = 0; m.roots.clear(); }, "feed_message_malformed"},
      {"a number of segments that is none", [](Welcome& m) { m.segments = 3; m.roots.resize(3); }, "feed_message_malformed"},
      {"fewer roots than segments", [](Welcome& m) { m.roots.resize(3); }, "feed_message_malformed"},
  };
  for (const Case& c : table) {
    Alone a({}, false);
    Welcome m = good;
    c.change(m);
    a.tell(m);
    EXPECT_EQ(a.code(), c.code) << c.what;
  }
  Collector user;
  const auto reader = ReaderSession::create({.follower = "f", .link = "l", .source_expected = ClusterId{1}}, {}, user);
  reader->on_message(encode(GatewayMessage{good}), 0);
  EXPECT_EQ(reader->ended()->code, "wrong_cluster");
  Alone early({}, false);
  early.tell(Progress{});
  EXPECT_EQ(early.code(), "feed_protocol");
}

TEST(FeedReader, UnknownMessagesAreSkippedMalformedAndHugeOnesAreNot) {
  Alone a;
  a.reader->on_message(std::string_view("\x92\x63\x01", 3), 0);
  EXPECT_EQ(a.code(), "");
  Alone b;
  b.reader->on_message("\xc1", 0);
  EXPECT_EQ(b.code(), "feed_message_malformed");
  Alone c;
  c.reader->on_message(std::string(9u << 20, '\0'), 0);
  EXPECT_EQ(c.code(), "feed_message_too_large");
  Alone d({}, false);
  d.reader->on_message(std::string(5u << 20, '\0'), 0);
  EXPECT_EQ(d.code(), "feed_message_too_large");
}

TEST(FeedReader, PingsCarryItsOwnClockEveryFreshInterval) {
  Alone a;
  a.sent();
  std::vector<MonoMicros> pings;
  for (MonoMicros now = 1000; now < 1'000'000; now += 50'000) {
    a.reader->on_tick(now);
    for (const auto& m : a.sent()) {
      if (const auto* ping = std::get_if<Ping>(&m)) pings.push_back(ping->sent_us);
    }
  }
  EXPECT_EQ(pings, (std::vector<MonoMicros>{1000, 201'000, 401'000, 601'000, 801'000}));
}

// Ticks every 50 ms from `from`; when it ended, or `to`.
MonoMicros silent_until(Alone& a, MonoMicros from, MonoMicros to) {
  for (MonoMicros now = from; now < to; now += 50'000) {
    a.reader->on_tick(now);
    a.sent();
    if (a.reader->ended()) return now;
  }
  return to;
}

TEST(FeedReader, AGatewayThatAnswersNoPingIsGivenUpAfterFourSeconds) {
  struct Case { const char* what; std::uint32_t fresh_ms, heartbeat_ms; MonoMicros least, most; };
  const Case table[] = {
      {"as configured unless told otherwise", 200, 5000, 4'000'000, 4'100'000},
      {"pinged seldom: twenty intervals", 500, 5000, 10'000'000, 10'100'000},
      {"three heartbeats at most", 1000, 5000, 15'000'000, 15'100'000},
      {"heartbeats for tests", 10, 100, 300'000, 400'000},
  };
  for (const Case& c : table) {
    Alone a({}, false);
    Welcome m;
    m.segments = 4;
    m.roots.resize(4);
    m.fresh_interval_ms = c.fresh_ms;
    m.heartbeat_ms = c.heartbeat_ms;
    a.tell(m);
    const MonoMicros ended = silent_until(a, 1, 20'000'000);
    EXPECT_EQ(a.code(), "feed_silent") << c.what;
    EXPECT_GE(ended, c.least) << c.what;
    EXPECT_LE(ended, c.most) << c.what;
  }
}

TEST(FeedReader, BeforeItsWelcomeAGatewayMayTakeItsTime) {
  Alone a({}, false);
  EXPECT_EQ(silent_until(a, 0, 15'000'000), 15'000'000);
  silent_until(a, 15'000'000, 15'200'000);
  EXPECT_EQ(a.code(), "feed_silent");
}

TEST(FeedReader, AMessageThatTakesLongOnASlowLineIsNoSilence) {
  Alone a;
  for (MonoMicros now = 0; now < 60'000'000; now += 3'000'000) {
    a.reader->on_part(now);
    silent_until(a, now, now + 3'000'000);
  }
  EXPECT_EQ(a.code(), "");
}

TEST(FeedReader, WhoStoodStillHimselfDoesNotBlameTheGateway) {
  Alone a;
  silent_until(a, 0, 2'000'000);
  a.reader->on_tick(62'000'000);  // stopped for a minute; what came meanwhile is read after this
  EXPECT_EQ(a.code(), "");
  const MonoMicros ended = silent_until(a, 62'050'000, 70'000'000);
  EXPECT_EQ(a.code(), "feed_silent") << "nor does it wait for ever";
  EXPECT_LE(ended, 64'000'000);
}

}  // namespace
}  // namespace zaris::feed
