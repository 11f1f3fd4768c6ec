#include "rig.hpp"

namespace zaris::feed {
namespace {

constexpr SegmentId s0{0}, s1{1};

std::map<std::string, std::string> fill(Rig& rig, int keys, std::size_t size = 20) {
  std::map<std::string, std::string> out;
  for (int i = 0; i < keys; ++i) {
    const std::string key = fmt::format("key{}", i);
    out[key] = std::string(size, static_cast<char>('a' + i % 26));
    rig.put(key, out[key]);
  }
  return out;
}

TEST(FeedWalk, ABootstrapBringsEverything) {
  Rig rig;
  const auto expected = fill(rig, 5000);
  rig.hello();
  rig.subscribe_all_walks();
  rig.pump();
  EXPECT_EQ(rig.user().live, expected);
  EXPECT_TRUE(rig.user().rows.empty());
  for (std::uint16_t i = 0; i < 4; ++i) {
    EXPECT_TRUE(rig.user().walk_done[SegmentId{i}]);
    EXPECT_EQ(rig.reader().position(SegmentId{i}), rig.store().state(SegmentId{i}).head);
  }
}

TEST(FeedWalk, AnEmptySegmentIsOneLastChunk) {
  Rig rig;
  rig.hello();
  rig.subscribe_walk(s0);
  rig.pump();
  ASSERT_EQ(rig.user().kept_chunks.size(), 1u);
  EXPECT_FALSE(rig.user().kept_chunks[0].from);
  EXPECT_FALSE(rig.user().kept_chunks[0].to);
  EXPECT_EQ(rig.user().kept_chunks[0].as_of, rig.store().state(s0).head);
}

// Writes, overwrites and deletes between any two messages: the outcome is what the source holds, and every chunk stands
// exactly at the position that the runs have reached (the reader ends the session otherwise).
TEST(FeedWalk, TheTailRunsBetweenChunks) {
  for (int seed = 0; seed < 8; ++seed) {
    Rig::Options o;
    o.source.chunk_records = 64;
    Rig rig(o);
    auto expected = fill(rig, 2000);
    rig.hello();
    rig.subscribe_all_walks();
    std::uint64_t random = static_cast<std::uint64_t>(seed) + 1;
    const auto next = [&](std::uint64_t n) { 
      random = random * 6364136223846793005u + 1442695040888963407u;
      return (random >> 33) % n;
    };
    for (int i = 0; i < 3000; ++i) {
      const std::string key = fmt::format("key{}", next(2500));
      if (next(4) == 0 && expected.count(key) != 0) {
        rig.del(key);
        expected.erase(key);
      } else {
        rig.put(key, expected[key] = fmt::format("new{}", i));
      }
      if (next(5) == 0) rig.pump_one();
    }
    rig.pump();
    EXPECT_EQ(rig.user().live, expected) << seed;
    EXPECT_GT(rig.user().rows.size(), 100u);
    EXPECT_FALSE(rig.reader().ended()) << rig.reader().ended()->text();
  }
}

TEST(FeedWalk, AnInterruptedWalkGoesOnWhereItStood) {
  Rig::Options o;
  o.source.chunk_records = 50;
  Rig rig(o);
  auto expected = fill(rig, 3000);
  rig.hello();
  rig.subscribe_walk(s0);
  rig.subscribe_walk(s1);
  rig.pump(20);
  ASSERT_FALSE(rig.user().walk_done[s0]);
  const auto chunks = rig.user().kept_chunks;
  std::map<SegmentId, std::pair<Position, std::optional<SlotKey>>> stood;
  for (const auto& c : chunks) stood[c.segment] = {c.as_of, c.to};
  for (int i = 0; i < 300; ++i) rig.put(fmt::format("key{}", i), expected[fmt::format("key{}", i)] = "changed");
  rig.del("key1500");
  expected.erase("key1500");
  rig.reconnect();
  for (const auto& [id, at] : stood) rig.subscribe_walk(id, rig.named(id, at.first), at.second);
  rig.pump();
  for (const auto& [key, value] : expected) {
    if (segment_of(slot_of(key), 4).value() >= 2) continue;
    EXPECT_EQ(rig.user().live[key], value) << key;
  }
  EXPECT_EQ(rig.user().live.count("key1500"), 0u);
  // Nothing was walked twice.
  std::map<std::string, int> seen;
  for (const auto& c : rig.user().kept_chunks) {
    for (const std::string& key : c.keys) ++seen[key];
  }
  for (const auto& [key, times] : seen) EXPECT_EQ(times, 1) << key;
}

TEST(FeedWalk, AScopedWalkCarriesItsScope) {
  Rig::Options o;
  o.hello.scope = *Scope::make({"key1"});
  Rig rig(o);
  const auto all = fill(rig, 2000);
  rig.hello();
  rig.subscribe_all_walks();
  rig.pump();
  std::map<std::string, std::string> expected;
  for (const auto& [key, value] : all) {
    if (key.starts_with("key1")) expected[key] = value;
  }
  EXPECT_EQ(rig.user().live, expected);
  EXPECT_EQ(rig.user().chunk_records, expected.size());
}

TEST(FeedWalk, OneLargeSlotAndOneLargeRecordCross) {
  Rig::Options o;
  o.store.segments = 1;
  o.reader.credit_bytes = 9u << 20;
  Rig rig(o);
  std::map<std::string, std::string> expected;
  for (int i = 0; i < 5000; ++i) rig.put(fmt::format("{{tag}}{}", i), expected[fmt::format("{{tag}}{}", i)] = "v");
  rig.put("", expected[""] = "");
  rig.put("huge", expected["huge"] = std::string(4u << 20, 'h'));
  rig.hello();
  rig.subscribe_walk(s0);
  bool written = false;
  while (rig.pump_one()) {
    if (rig.user().chunks == 3 && !std::exchange(written, true)) {
      rig.put("{tag}-late", expected["{tag}-late"] = "late");
      rig.put("huge", expected["huge"] = std::string(3u << 20, 'i'));
    }
  }
  rig.pump();
  EXPECT_EQ(rig.user().live, expected);
}

TEST(FeedWalk, WritesDoNotStarveTheWalkNorTheWalkTheTail) {
  Rig::Options o;
  o.source.chunk_records = 16;
  Rig rig(o);
  fill(rig, 4000);
  rig.hello();
  rig.subscribe_from(s1, rig.named(s1, rig.store().state(s1).head));
  rig.subscribe_walk(s0);
  std::size_t behind_most = 0, written = 0;
  for (int i = 0; i < 400; ++i) {
    for (int j = 0; j < 5; ++j, ++written) rig.put(rig.key_in(s1, "w", j), "v");
    rig.pump_one();
    behind_most = std::max(behind_most, written - rig.user().rows.size());
  }
  EXPECT_GT(rig.user().chunks, 40u);
  EXPECT_LE(behind_most, 30u);
}

TEST(FeedAnswers, FetchedKeysComeBackAsOfAPositionThatTheRunsHaveReached) {
  Rig rig;
  rig.hello();
  const std::string a = rig.key_in(s0, "a"), b = rig.key_in(s0, "b"), c = rig.key_in(s0, "c"), elsewhere = rig.key_in(s1, "d");
  rig.subscribe_from(s0, rig.named(s0, rig.store().state(s0).head));
  rig.put(a, "1");
  rig.put(b, "2");
  rig.put(elsewhere, "4");
  rig.del(b);
  rig.reader().fetch({7, s0, {a, b, c, elsewhere}});
  rig.pump();
  ASSERT_EQ(rig.user().answers.size(), 1u);
  EXPECT_EQ(rig.user().answers[0].first, 7u);
  EXPECT_EQ(rig.user().answers[0].second, (std::map<std::string, std::string>{{a, "1"}}));
  EXPECT_EQ(rig.user().missing, (std::vector<std::uint32_t>{1, 2, 3}));
  EXPECT_LT(std::find(rig.user().order.begin(), rig.user().order.end(), "batch"), std::find(rig.user().order.begin(), rig.user().order.end(), "records"));
}

TEST(FeedAnswers, KeysOutsideTheScopeAreAsMissingAsThoseThatAreNot) {
  Rig::Options o;
  o.hello.scope = *Scope::make({"mine"});
  Rig rig(o);
  rig.hello();
  const std::string mine = rig.key_in(s0, "mine"), theirs = rig.key_in(s0, "theirs");
  rig.put(mine, "1");
  rig.put(theirs, "2");
  rig.reader().fetch({1, s0, {theirs, mine}});
  rig.pump();
  EXPECT_EQ(rig.user().missing, std::vector<std::uint32_t>{0});
  EXPECT_EQ(rig.user().answers[0].second.count(mine), 1u);
}

TEST(FeedAnswers, ALargeAnswerComesInSeveralMessages) {
  Rig rig;
  rig.hello();
  rig.subscribe_from(s0, rig.named(s0, rig.store().state(s0).head));
  std::vector<std::string> keys;
  for (int i = 0; i < 50; ++i) {
    keys.push_back(rig.key_in(s0, "k", i));
    rig.put(keys.back(), std::string(300'000, 'x'));
  }
  rig.pump();
  std::size_t biggest = 0;
  rig.tap = [&](std::string_view bytes) { biggest = std::max(biggest, bytes.size()); };
  rig.reader().fetch({9, s0, keys});
  rig.pump();
  std::size_t found = 0;
  for (const auto& [request, answer] : rig.user().answers) found += answer.size();
  EXPECT_EQ(found, keys.size());
  EXPECT_GT(rig.user().answers.size(), 5u);
  EXPECT_LT(biggest, 2'000'000u);
}

TEST(FeedAnswers, DigestsOfSegmentsAndRanges) {
  Rig rig;
  const auto all = fill(rig, 3000);
  rig.hello();
  rig.subscribe_from(s0, rig.named(s0, rig.store().state(s0).head));
  rig.reader().request_digest({1, s0, {}, {}});
  const SlotKey middle{Slot{1000}, ""};
  rig.reader().request_digest({2, s0, {}, middle});
  rig.reader().request_digest({3, s0, middle, {}});
  rig.pump();
  ASSERT_EQ(rig.user().digests.size(), 3u);
  std::uint64_t count = 0;
  const Digest whole = rig.store().segment_digest(s0, &count);
  EXPECT_EQ(rig.user().digests[0].digest, whole);
  EXPECT_EQ(rig.user().digests[0].count, count);
  Digest sum = rig.user().digests[1].digest;
  sum += rig.user().digests[2].digest;
  EXPECT_EQ(sum, whole);
  EXPECT_EQ(rig.user().digests[1].count + rig.user().digests[2].count, count);
  EXPECT_GT(rig.user().digests[1].count, 0u);
}

// A page at a time, from the records' bytes: where one ends the next begins, and all of them together are the segment.
TEST(FeedAnswers, DigestsByPages) {
  Rig rig;
  const auto all = fill(rig, 9000);
  rig.hello();
  rig.subscribe_from(s0, rig.named(s0, rig.store().state(s0).head));
  std::uint64_t count = 0, whole_count = 0;
  const Digest whole = rig.store().segment_digest(s0, &whole_count);
  Digest sum;
  std::optional<SlotKey> from;
  std::size_t pages = 0;
  const SlotKey last_half{Slot{8000}, ""};
  for (bool done = false; !done; ++pages) {
    ASSERT_LT(pages, 100u);
    feed::DigestRequest ask{pages + 1, s0, from, from && last_half < *from ? std::nullopt : std::optional(last_half), true, false};
    const bool first_half = ask.to.has_value();
    rig.reader().request_digest(std::move(ask));
    rig.pump();
    ASSERT_EQ(rig.user().digests.size(), pages + 1);
    const Digests& page = rig.user().digests.back();
    EXPECT_EQ(page.as_of.at, rig.store().state(s0).head);
    count += page.count;
    sum += page.digest;
    from = page.to ? page.to : first_half ? std::optional(SlotKey{Slot{8000}, "\x01"}) : std::nullopt;
    done = !page.to && !first_half;
  }
  EXPECT_GT(pages, 3u);
  EXPECT_EQ(count, whole_count);
  EXPECT_EQ(sum, whole);
}

TEST(FeedAnswers, APageMayBringItsRecords) {
  Rig rig;
  const auto all = fill(rig, 500);
  rig.hello();
  rig.subscribe_from(s0, rig.named(s0, rig.store().state(s0).head));
  rig.reader().request_digest({1, s0, {}, {}, true, true});
  rig.pump();
  ASSERT_EQ(rig.user().digests.size(), 1u);
  const Digests& page = rig.user().digests[0];
  EXPECT_FALSE(page.to);
  EXPECT_EQ(page.memory_slots, 0u);
  EXPECT_EQ(rig.user().digest_rows.back(), page.count);
  EXPECT_GT(page.count, 0u);
}

}  // namespace
}  // namespace zaris::feed
