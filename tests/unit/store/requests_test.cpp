// What clients ask of a store: put, get, delete, touch, compare-and-swap, expiry, limits.
#include "tests/unit/store/store_fixture.hpp"

namespace zaris::store {
namespace {

TEST(StoreRequests, WhatWasPutIsReadBackByteForByte) {
  auto store = make_store();
  const std::vector<std::string> odd = {"", "a", std::string("\0\r\n\xff", 4), "{}a", "a{}b{c}", "{{a}}", "a{b", "}{a", "{a}{b}", std::string(64 << 10, 'k')};
  const std::vector<std::string> values = {"", "v", std::string(255, 'x'), std::string(256, 'y'), std::string(70'000, 'z'), std::string(4 << 20, 'w')};
  for (std::size_t i = 0; i < odd.size(); ++i) ASSERT_EQ(put(*store, odd[i], values[i % values.size()]).status, Status::ok);
  for (std::size_t i = 0; i < odd.size(); ++i) EXPECT_EQ(get(*store, odd[i]), values[i % values.size()]) << i;
}

TEST(StoreRequests, VersionsCountPerKeyAndGoOnOverARememberedTombstone) {
  auto store = make_store();
  EXPECT_EQ(put(*store, "k", "1").token.item_version, 1u);
  EXPECT_EQ(put(*store, "k", "2").token.item_version, 2u);
  EXPECT_EQ(store->del("k", {}, start_time).token.item_version, 3u);
  EXPECT_EQ(get(*store, "k"), std::nullopt);
  EXPECT_EQ(store->del("k", {}, start_time).status, Status::not_found);
  EXPECT_EQ(put(*store, "k", "4").token.item_version, 4u);
  store->del("k", {}, start_time);
  store->trim_log_hard(put(*store, "other", "x").segment);
  store->trim_log_hard(segment_of(slot_of("k"), 4));
  EXPECT_EQ(put(*store, "k", "1").token.item_version, 1u) << "a reclaimed tombstone is forgotten";
}

TEST(StoreRequests, CompareAndSwapChecksVersionAndTag) {
  enum class Before { nothing, live, deleted, expired };
  struct Case {
    const char* what;
    Before before;
    enum { none, right, wrong_version, wrong_tag } expected;
    bool only_if_absent;
    Status status;
  };
  const Case cases[] = {
      {"plain over nothing", Before::nothing, Case::none, false, Status::ok},
      {"plain over live", Before::live, Case::none, false, Status::ok},
      {"right token", Before::live, Case::right, false, Status::ok},
      {"wrong version", Before::live, Case::wrong_version, false, Status::conflict},
      {"wrong tag", Before::live, Case::wrong_tag, false, Status::conflict},
      {"token against nothing", Before::nothing, Case::right, false, Status::not_found},
      {"token against a tombstone", Before::deleted, Case::right, false, Status::not_found},
      {"token against an expired key", Before::expired, Case::right, false, Status::not_found},
      {"absent over nothing", Before::nothing, Case::none, true, Status::ok},
      {"absent over live", Before::live, Case::none, true, Status::conflict},
      {"absent over a tombstone", Before::deleted, Case::none, true, Status::ok},
      {"absent over an expired key", Before::expired, Case::none, true, Status::ok},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.what);
    auto store = make_store();
    ItemToken token{1, 7};
    if (c.before != Before::nothing) token = put(*store, "k", "old", start_time, c.before == Before::expired ? start_time + 10 : 0).token;
    if (c.before == Before::deleted) token = store->del("k", {}, start_time).token;
    const WallMicros now = start_time + 20;
    Put p{.key = "k", .value = "new", .expires_us = 0, .expected = {}, .only_if_absent = c.only_if_absent};
    if (c.expected == Case::right) p.expected = token;
    if (c.expected == Case::wrong_version) p.expected = ItemToken{token.item_version + 1, token.tag};
    if (c.expected == Case::wrong_tag) p.expected = ItemToken{token.item_version, token.tag ^ 1};
    const auto outcome = store->put(p, now);
    EXPECT_EQ(outcome.status, c.status);
    if (c.status == Status::ok) {
      EXPECT_EQ(get(*store, "k", now), "new");
    } else if (c.status == Status::conflict) {
      EXPECT_EQ(outcome.token, token) << "what stood in the way";
      EXPECT_EQ(get(*store, "k", now), "old");
    }
  }
}

TEST(StoreRequests, AKeyThatIsDueGoesWithATombstoneBeforeWhatIsPutOverIt) {
  auto store = make_store(1);
  put(*store, "k", "old", start_time, start_time + second);
  EXPECT_EQ(get(*store, "k", start_time + second - 1), "old");
  EXPECT_EQ(get(*store, "k", start_time + second), std::nullopt);
  const auto outcome = put(*store, "k", "new", start_time + 2 * second);
  EXPECT_EQ(outcome.token.item_version, 3u) << "1 the old, 2 its tombstone";
  EXPECT_THAT(log_keys(*store, SegmentId{0}), testing::ElementsAre("#", "k", "k", "k"));
}

TEST(StoreRequests, AnExpiryInThePastIsADelete) {
  auto store = make_store(1);
  put(*store, "k", "v");
  EXPECT_EQ(put(*store, "k", "v2", start_time, start_time - 1).status, Status::ok);
  EXPECT_EQ(get(*store, "k"), std::nullopt);
  EXPECT_EQ(store->state(SegmentId{0}).head.revision, Revision{3});
  EXPECT_EQ(put(*store, "never", "v", start_time, start_time).status, Status::ok);
  EXPECT_EQ(store->state(SegmentId{0}).head.revision, Revision{3}) << "nothing was there: nothing to tell anybody";
}

TEST(StoreRequests, SweepingLeavesTombstonesAndOnlyForWhatIsDue) {
  auto store = make_store(2);
  for (int i = 0; i < 200; ++i) put(*store, "k" + std::to_string(i), "v", start_time, start_time + static_cast<WallMicros>(1 + i % 4) * second);
  put(*store, "stays", "v");
  put(*store, "k0", "longer", start_time, start_time + 100'000 * second);
  put(*store, "k1", "for ever", start_time);
  while (store->sweep_expiry(start_time + 2 * second)) {
  }
  EXPECT_EQ(store->counters().expired, 98u);
  EXPECT_EQ(contents(*store).size(), 103u);
  while (store->sweep_expiry(start_time + 99'000 * second)) {
  }
  EXPECT_EQ(contents(*store).size(), 3u);
  while (store->sweep_expiry(start_time + 100'001 * second)) {
  }
  EXPECT_THAT(contents(*store), testing::UnorderedElementsAre(testing::Pair("stays", "v"), testing::Pair("k1", "for ever")));
}

TEST(StoreRequests, TouchIsAWriteThatKeepsTheValue) {
  auto store = make_store(1);
  const auto first = put(*store, "k", "v");
  auto touched = store->touch("k", start_time + second, first.token, start_time);
  EXPECT_EQ(touched.token.item_version, 2u);
  EXPECT_NE(touched.token.tag, first.token.tag);
  EXPECT_EQ(store->touch("k", 0, first.token, start_time).status, Status::conflict);
  EXPECT_EQ(get(*store, "k"), "v");
  EXPECT_EQ(get(*store, "k", start_time + second), std::nullopt);
  EXPECT_EQ(store->touch("k", 0, {}, start_time).status, Status::ok);
  EXPECT_EQ(get(*store, "k", start_time + 2 * second), "v") << "persisted";
  EXPECT_EQ(store->touch("k", start_time - 1, {}, start_time).status, Status::ok);
  EXPECT_EQ(get(*store, "k"), std::nullopt);
  EXPECT_EQ(store->touch("k", 0, {}, start_time).status, Status::not_found);
}

TEST(StoreRequests, LimitsAreExact) {
  StoreOptions options;
  options.key_bytes_max = 10;
  options.value_bytes_max = 20;
  auto store = make_store(1, 0xa, options);
  EXPECT_EQ(put(*store, std::string(10, 'k'), std::string(20, 'v')).status, Status::ok);
  EXPECT_EQ(put(*store, std::string(11, 'k'), "v").status, Status::item_too_large);
  EXPECT_EQ(put(*store, "k", std::string(21, 'v')).status, Status::item_too_large);
}

TEST(StoreRequests, TimestampsNeverFallWithinASegment) {
  auto store = make_store(1);
  for (WallMicros now : {start_time + 5, start_time + 3, start_time + 9, start_time + 1}) put(*store, "k", "v", now);
  LogStretch stretch;
  ASSERT_EQ(store->read_log(SegmentId{0}, Revision{1}, 1 << 20, stretch), LogRead::ok);
  std::vector<WallMicros> times;
  for (std::size_t i = 0; i < stretch.index.size(); ++i) times.push_back(trusted_record(stretch.record(i)).timestamp_us);
  EXPECT_THAT(times, testing::ElementsAre(start_time + 5, start_time + 5, start_time + 9, start_time + 9));
}

TEST(StoreRequests, AtTheCeilingWritesEvictOrAreRefused) {
  for (const bool evict : {true, false}) {
    SCOPED_TRACE(evict);
    StoreOptions options;
    options.memory_max_bytes = 1 << 20;
    options.evict = evict;
    auto store = make_store(4, 0xa, options);
    std::uint64_t refused = 0;
    for (int i = 0; i < 4000; ++i) refused += put(*store, "k" + std::to_string(i), std::string(400, 'v')).status == Status::capacity_exceeded ? 1 : 0;
    const auto memory = store->memory();
    EXPECT_LE(memory.records + memory.tables, (1u << 20) + (1u << 17));
    EXPECT_EQ(refused == 0, evict);
    EXPECT_EQ(store->counters().evicted > 0, evict);
    EXPECT_EQ(store->del("k0", {}, start_time).status == Status::ok || evict, true) << "deleting is always allowed";
  }
}

TEST(StoreRequests, BackgroundEvictionStartsAtEightyAndStopsAtSeventyPercent) {
  StoreOptions options;
  options.memory_max_bytes = 4 << 20;
  auto store = make_store(4, 0xa, options);
  const auto used = [&] { return store->memory().records + store->memory().tables; };
  int n = 0;
  WallMicros now = start_time;
  while (used() < (4u << 20) / 100 * 79) put(*store, "k" + std::to_string(n++), std::string(200, 'v'), now += 10 * second);
  EXPECT_FALSE(store->evict(now));
  EXPECT_EQ(store->counters().evicted, 0u);
  while (used() < (4u << 20) / 100 * 81) put(*store, "k" + std::to_string(n++), std::string(200, 'v'), now += 10 * second);
  while (store->evict(now)) {
  }
  EXPECT_LE(used(), (4u << 20) / 100 * 71);
  EXPECT_GE(used(), (4u << 20) / 100 * 68);
  // Sampled LRU: of the older half far more went than of the newer.
  int old_left = 0, new_left = 0;
  for (int i = 0; i < n; ++i) (i < n / 2 ? old_left : new_left) += get(*store, "k" + std::to_string(i), now) ? 1 : 0;
  EXPECT_GT(new_left, old_left);
}

}  // namespace
}  // namespace zaris::store
