#include "feed/session/changes.hpp"

#include <nlohmann/json.hpp>

#include "fake_store.hpp"
#include "feed/session/change_line.hpp"
#include "feed/session/resume_token.hpp"
#include "rig.hpp"

namespace zaris::feed {
namespace {

constexpr SegmentId s0{0}, s1{1};
using Json = nlohmann::json;

Principal everything() { return {"p", {Scope{}}}; }

struct Lines {
  std::vector<Json> changes, others;
  std::string resume;
  std::string error;
  void take(const std::string& text) {
    std::size_t from = 0;
    while (from < text.size()) {
      const std::size_t end = text.find('\n', from);
      ASSERT_NE(end, std::string::npos) << "whole lines only";
      const Json line = Json::parse(text.substr(from, end - from));
      from = end + 1;
      if (line.contains("resume")) resume = line["resume"];
      else if (line.contains("error")) error = line["error"]["code"];
      else changes.push_back(line);
    }
  }
};
Lines drain(ChangesStream& stream, Now now) {
  Lines out;
  std::string text;
  for (;;) {
    text.clear();
    if (!stream.next(text, now)) break;
    out.take(text);
  }
  return out;
}

TEST(FeedChanges, AChangeIsALineWithEverythingAboutIt) {
  Rig rig;
  auto stream = *ChangesStream::open(rig.store(), everything(), {}, rig.now);
  const std::string key = rig.key_in(s0);
  const Position at = rig.put(key, "val\"ue\n");
  const WallMicros written = rig.now.wall_us;
  rig.del(key);
  stream->on_dirty(std::vector<SegmentId>{s0});
  const Lines lines = drain(*stream, rig.now);
  ASSERT_EQ(lines.changes.size(), 2u);
  EXPECT_EQ(lines.changes[0], (Json{{"op", "put"}, {"key", key}, {"value", "val\"ue\n"}, {"item_version", 1}, {"segment", 0},
                                    {"generation", at.generation.value()}, {"revision", at.revision.value()}, {"timestamp_us", written}}));
  EXPECT_EQ(lines.changes[1]["op"], "delete");
  EXPECT_FALSE(lines.changes[1].contains("value"));
  EXPECT_FALSE(lines.resume.empty());
}

TEST(FeedChanges, BytesThatAreNotTextComeInBase64) {
  struct Case { std::string bytes; bool text; std::string base64; };
  const std::vector<Case> table = {
      {"", true, ""}, {"plain", true, ""}, {"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", true, ""}, {std::string("\0\x01\x1f\x7f", 4), true, ""},
      {"\xff", false, "/w=="}, {"\xc3", false, "ww=="}, {"\xc0\x80", false, "wIA="}, {"\xed\xa0\x80", false, "7aCA"},
      {"\xf4\x90\x80\x80", false, "9JCAgA=="}, {"a\x80", false, "YYA="}, {"\xe2\x82", false, "4oI="},
  };
  for (const Case& c : table) {
    std::string line;
    const std::string record = make_record({.key = c.bytes, .value = c.bytes, .tag = 1}, {.revision = Revision{1}, .item_version = 1, .generation = Generation{1}});
    append_change_line(line, s0, *parse_record(record));
    const Json json = Json::parse(line);
    if (c.text) {
      EXPECT_EQ(json["key"].get<std::string>(), c.bytes);
      EXPECT_EQ(json["value"].get<std::string>(), c.bytes);
    } else {
      EXPECT_EQ(json["key_b64"], c.base64);
      EXPECT_EQ(json["value_b64"], c.base64);
      EXPECT_FALSE(json.contains("key"));
    }
  }
}

TEST(FeedChanges, AResumeGoesOnExactlyBehindItsToken) {
  Rig rig;
  auto stream = *ChangesStream::open(rig.store(), everything(), {}, rig.now);
  std::vector<std::string> seen;
  std::string token = stream->resume_token();
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 30; ++i) rig.put(fmt::format("k{}-{}", round, i), "v");
    stream = *ChangesStream::open(rig.store(), everything(), {.prefix = {}, .segments = {}, .since = token}, rig.now);
    const Lines lines = drain(*stream, rig.now);
    for (const Json& line : lines.changes) seen.push_back(line["key"]);
    std::string text;
    stream->finish(text);
    Lines last;
    last.take(text);
    token = last.resume;
  }
  EXPECT_EQ(seen.size(), 600u);
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(std::unique(seen.begin(), seen.end()), seen.end());
}

TEST(FeedChanges, PrefixSegmentsAndGrantsAreKept) {
  Rig rig;
  const Principal t1{"p", {*Scope::make({"t1:"})}};
  EXPECT_EQ(changes_http_status(ChangesStream::open(rig.store(), t1, {}, rig.now).error().code), 403u);
  EXPECT_EQ(changes_http_status(ChangesStream::open(rig.store(), t1, {.prefix = "t"}, rig.now).error().code), 403u);
  auto stream = *ChangesStream::open(rig.store(), t1, {.prefix = "t1:a"}, rig.now);
  auto one = *ChangesStream::open(rig.store(), everything(), {.prefix = {}, .segments = {s1}}, rig.now);
  std::size_t in_segment = 0;
  for (int i = 0; i < 100; ++i) {
    for (const char* stem : {"t1:a", "t1:b", "t2:a"}) {
      const std::string key = fmt::format("{}{}", stem, i);
      rig.put(key, "v");
      in_segment += segment_of(slot_of(key), 4) == s1 ? 1 : 0;
    }
  }
  const std::vector<SegmentId> all = {SegmentId{0}, SegmentId{1}, SegmentId{2}, SegmentId{3}};
  stream->on_dirty(all);
  one->on_dirty(all);
  const Lines lines = drain(*stream, rig.now);
  EXPECT_EQ(lines.changes.size(), 100u);
  for (const Json& line : lines.changes) EXPECT_TRUE(line["key"].get<std::string>().starts_with("t1:a"));
  EXPECT_EQ(drain(*one, rig.now).changes.size(), in_segment);
}

TEST(FeedChanges, TokensComeAtOnceThenOncePerSecondOrMebibyteAndAsHeartbeats) {
  Rig rig;
  auto stream = *ChangesStream::open(rig.store(), everything(), {}, rig.now);
  std::string text;
  ASSERT_TRUE(stream->next(text, rig.now));
  EXPECT_TRUE(text.starts_with("{\"resume\":"));
  const auto tokens_of = [&](int writes, std::size_t size) {
    for (int i = 0; i < writes; ++i) rig.put(rig.key_in(s0), std::string(size, 'v'));
    stream->on_dirty(std::vector<SegmentId>{s0});
    std::string out;
    while (stream->next(out, rig.now)) {}
    int n = 0;
    for (std::size_t at = 0; (at = out.find("{\"resume\"", at)) != std::string::npos; ++at) ++n;
    return n;
  };
  EXPECT_EQ(tokens_of(10, 10), 0);
  rig.now.mono_us += 1'000'000;
  EXPECT_EQ(tokens_of(10, 10), 1);
  EXPECT_EQ(tokens_of(0, 0), 0);
  EXPECT_EQ(tokens_of(3000, 1000), 3);
  rig.now.mono_us += 4'999'999;
  EXPECT_EQ(tokens_of(0, 0), 1) << "what came since the last";
  rig.now.mono_us += 4'999'999;
  EXPECT_EQ(tokens_of(0, 0), 0);
  rig.now.mono_us += 1;
  EXPECT_EQ(tokens_of(0, 0), 1) << "a heartbeat";
}

TEST(FeedChanges, APositionThatIsGoneIsSaidBeforeTheFirstByte) {
  const auto store_with = [](std::uint32_t last_generation) {
    auto store = std::make_unique<FakeStore>();
    for (int i = 0; i < 5; ++i) store->put(s0, "k", "v");
    store->begin_generation(s0, last_generation);
    for (int i = 0; i < 5; ++i) store->put(s0, "k", "v");
    return store;
  };
  auto store = store_with(20);
  auto stream = *ChangesStream::open(*store, everything(), {}, {});
  const std::string token = stream->resume_token();
  const auto status = [&](store::Store& at, const std::string& since) {
    const auto again = ChangesStream::open(at, everything(), {.prefix = {}, .segments = {}, .since = since}, {});
    return again ? 200u : changes_http_status(again.error().code);
  };
  EXPECT_EQ(status(*store, token), 200u);
  store->trim_to(s0, 13);
  EXPECT_EQ(status(*store, token), 200u) << "the head resumes with nothing";
  store->put(s0, "k", "v");
  store->put(s0, "k", "v");
  store->trim_to(s0, 14);
  EXPECT_EQ(status(*store, token), 410u);
  EXPECT_EQ(status(*store_with(21), token), 410u) << "the generation of the token was never there";
  auto shorter = std::make_unique<FakeStore>();
  EXPECT_EQ(status(*shorter, token), 410u);
  EXPECT_EQ(status(*store, token.substr(1)), 400u);
  EXPECT_EQ(status(*store, "x"), 400u);
  EXPECT_EQ(status(*store, token + "AAAA"), 400u);
  EXPECT_EQ(status(*store, ""), 200u);
}

TEST(FeedChanges, AReaderThatIsLeftBehindIsToldAndHasATokenAllTheSame) {
  FakeStore store;
  auto stream = *ChangesStream::open(store, everything(), {}, {});
  for (int i = 0; i < 5; ++i) store.put(s0, "k", "v");
  store.trim_to(s0, 4);
  stream->on_dirty(std::vector<SegmentId>{s0});
  const Lines lines = drain(*stream, {});
  EXPECT_EQ(lines.error, "position_gone");
  EXPECT_FALSE(lines.resume.empty());
  ASSERT_TRUE(stream->ended());
}

TEST(FeedChanges, OldestIsAllThatTheLogHolds) {
  for (const std::uint64_t floor : {1u, 2u, 6u, 7u, 8u, 12u}) {
    FakeStore store;
    for (int i = 0; i < 5; ++i) store.put(s0, "k", "v");   // 2 to 6
    store.begin_generation(s0, 20);                         // 7
    for (int i = 0; i < 5; ++i) store.put(s0, "k", "v");   // 8 to 12
    store.trim_to(s0, floor);
    auto stream = *ChangesStream::open(store, everything(), {.prefix = {}, .segments = {}, .since = "oldest"}, {});
    const std::string token = stream->resume_token();
    EXPECT_TRUE(ChangesStream::open(store, everything(), {.prefix = {}, .segments = {}, .since = token}, {})) << floor;
    const Lines lines = drain(*stream, {});
    std::size_t expected = 0;
    for (std::uint64_t r = floor; r <= 12; ++r) expected += r == 1 || r == 7 ? 0 : 1;
    EXPECT_EQ(lines.changes.size(), expected) << floor;
  }
}

TEST(FeedChanges, TheQueryIsReadStrictly) {
  using Query = std::vector<std::pair<std::string, std::string>>;
  const auto good = parse_changes_request({{"prefix", std::string("a\0b", 3)}, {"segments", "3,7,16-18,7"}, {"since", "oldest"}, {"heartbeat", "500ms"}});
  ASSERT_TRUE(good);
  EXPECT_EQ(good->prefix, std::string("a\0b", 3));
  EXPECT_EQ(good->segments, (std::vector<SegmentId>{SegmentId{3}, SegmentId{7}, SegmentId{16}, SegmentId{17}, SegmentId{18}}));
  EXPECT_EQ(good->heartbeat_us, 500'000);
  EXPECT_TRUE(parse_changes_request({}));
  EXPECT_TRUE(parse_changes_request({{"segments", ""}, {"since", ""}, {"prefix", ""}, {"heartbeat", ""}}));
  for (const Query& bad : {Query{{"prefx", "a"}}, Query{{"prefix", "a"}, {"prefix", "b"}}, Query{{"segments", "a"}}, Query{{"segments", "5-3"}},
                           Query{{"segments", "16384"}}, Query{{"segments", "1,,2"}}, Query{{"heartbeat", "5"}}, Query{{"heartbeat", "0s"}},
                           Query{{"heartbeat", "61m"}}, Query{{"heartbeat", "s"}}, Query{{"heartbeat", "99999999999999999999s"}}}) {
    const auto parsed = parse_changes_request(bad);
    ASSERT_FALSE(parsed) << bad[0].first << "=" << bad[0].second;
    EXPECT_EQ(changes_http_status(parsed.error().code), 400u);
  }
}

TEST(FeedResumeToken, IsSmallAndComesBackAsItWas) {
  ResumeToken token{ClusterId{0xfedcba9876543210}, ScopeId{77}, 0x1234, {}};
  for (std::uint16_t i = 0; i < 256; ++i)
    token.positions.emplace_back(SegmentId{static_cast<std::uint16_t>(i * 64)}, Position{Generation{i == 100 ? 7u : 1790000000u}, Revision{i == 3 ? UINT64_MAX : 100'000u + i}});
  const std::string text = token.encode();
  EXPECT_LT(text.size(), 2'000u);
  EXPECT_EQ(text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"), std::string::npos);
  const auto back = ResumeToken::decode(text);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->cluster, token.cluster);
  EXPECT_EQ(back->scope, token.scope);
  EXPECT_EQ(back->lineage_sum, token.lineage_sum);
  EXPECT_EQ(back->positions, token.positions);
  for (std::size_t n = 0; n < text.size(); n += 7) EXPECT_FALSE(ResumeToken::decode(text.substr(0, n)));
  EXPECT_FALSE(ResumeToken::decode(std::string(600'000, 'A')));
}

}  // namespace
}  // namespace zaris::feed
