// Ordered walks and scans: every key once, in (slot, key) order, none lost between two pages.
#include <set>
#include <thread>

#include "tests/unit/store/link_fixture.hpp"

namespace zaris::store {
namespace {

using SlotAndKey = std::pair<std::uint16_t, std::string>;

std::vector<SlotAndKey> in_order(const std::vector<std::string>& keys) {
  std::vector<SlotAndKey> out;
  for (const auto& k : keys) out.emplace_back(slot_of(k).value(), k);
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<SlotAndKey> keys_of(const WalkPage& page) {
  std::vector<SlotAndKey> out;
  std::size_t at = 0;
  for (std::size_t i = 0; i < row_count(page.table); ++i) {
    const RecordRow row = read_row(page.table, i);
    out.emplace_back(row.slot.value(), trusted_key(page.records.data() + at));
    at += row.length;
  }
  return out;
}

TEST(StoreWalk, EveryKeyOnceInOrderWhateverThePage) {
  for (const std::uint32_t segments : {1u, 4u, 256u}) {
    for (const std::size_t page_records : {1ul, 7ul, 1024ul}) {
      auto store = make_store(segments);
      std::vector<std::string> keys{""};
      for (int i = 0; i < 1500; ++i) keys.push_back("k" + std::to_string(i));
      for (int i = 0; i < 300; ++i) keys.push_back("{tag}" + std::to_string(i));
      for (const auto& k : keys) put(*store, k, "v");
      put(*store, "gone", "v");
      store->del("gone", {}, start_time);
      std::vector<SlotAndKey> seen;
      std::optional<SlotKey> end_before;
      Digest sum, expected;
      for (std::uint32_t s = 0; s < segments; ++s) {
        auto walk = store->begin_walk(SegmentId{static_cast<std::uint16_t>(s)}, {}, std::nullopt);
        std::optional<SlotKey> from;
        while (!walk->done()) {
          const WalkPage page = walk->next(WalkLimits{page_records, 256 << 10});
          EXPECT_EQ(page.from, from);
          from = page.to;
          EXPECT_LE(page.count, std::max<std::size_t>(page_records, 1));
          for (auto& k : keys_of(page)) seen.push_back(std::move(k));
          sum += page.digest;
        }
        EXPECT_EQ(from, std::nullopt);
        expected += store->segment_digest(SegmentId{static_cast<std::uint16_t>(s)});
      }
      EXPECT_EQ(seen, in_order(keys)) << segments << " " << page_records;
      EXPECT_EQ(sum, expected);
    }
  }
}

TEST(StoreWalk, ResumesAtAnyTokenAndInAnyScope) {
  auto store = make_store(1);
  std::vector<std::string> keys;
  for (int i = 0; i < 3000; ++i) keys.push_back((i % 3 == 0 ? "t1:{one}" : "t2:{one}") + std::to_string(i));
  for (int i = 0; i < 300; ++i) keys.push_back("t1:" + std::to_string(i));
  for (const auto& k : keys) put(*store, k, "v");
  const Scope scope = Scope::make({"t1:"}).value();
  std::vector<std::string> mine;
  for (const auto& k : keys) {
    if (k.starts_with("t1:")) mine.push_back(k);
  }
  const auto order = in_order(mine);
  for (const std::size_t skip : {0ul, 1ul, 500ul, 1299ul}) {
    std::optional<SlotKey> from;
    if (skip > 0) from = SlotKey{Slot{order[skip - 1].first}, order[skip - 1].second};
    auto walk = store->begin_walk(SegmentId{0}, scope, from);
    std::vector<SlotAndKey> seen;
    while (!walk->done()) {
      for (auto& k : keys_of(walk->next(WalkLimits{64, 1 << 20}))) seen.push_back(std::move(k));
    }
    EXPECT_EQ(seen, std::vector<SlotAndKey>(order.begin() + static_cast<std::ptrdiff_t>(skip), order.end()));
  }
}

// What a target has after pages and the log between them is what the source has, whatever is written in between.
TEST(StoreWalk, NoWriteFallsBetweenTwoPagesOfALargeSlot) {
  auto a = make_store(1, 0xa), b = make_store(1, 0xb);
  const auto key = [](int i) { return "{one}" + std::to_string(i); };
  for (int i = 0; i < 6000; i += 2) put(*a, key(i), "old");
  Linked link(*a, *b);
  ASSERT_EQ(link.open_link(), Status::ok);
  ASSERT_EQ(link.open().status, Status::ok);
  auto walk = a->begin_walk(SegmentId{0}, {}, std::nullopt);
  std::uint64_t random = 1;
  while (!walk->done()) {
    const WalkPage page = walk->next(WalkLimits{100, 256 << 10});
    // As a session does: everything up to the page's head first, then the page.
    if (link.low) {
      ASSERT_EQ(link.send(link.stream(link.low->at, page.as_of.revision)).status, Status::ok);
    }
    const auto answer = link.send(link.range(page));
    ASSERT_EQ(answer.status, Status::ok) << answer.reason;
    for (int n = 0; n < 50; ++n) {
      random = random * 6364136223846793005ull + 1442695040888963407ull;
      const int i = static_cast<int>((random >> 33) % 6000);
      if ((random >> 20) % 3 == 0) {
        a->del(key(i), {}, start_time);
      } else {
        put(*a, key(i), std::to_string(n));
      }
    }
  }
  ASSERT_EQ(link.stream_all().status, Status::ok);
  EXPECT_EQ(contents(*a), contents(*b));
  EXPECT_EQ(a->segment_digest(SegmentId{0}), b->segment_digest(SegmentId{0}));
}

TEST(StoreWalk, AMillionKeysInOneHashTagReachATargetThatHeldOthers) {
  auto a = make_store(1, 0xa), b = make_store(1, 0xb);
  const auto key = [](int i) { return "{tag}" + std::to_string(i); };
  for (int i = 0; i < 1'000'000; ++i) put(*a, key(i), "v");
  Linked link(*a, *b);
  ASSERT_EQ(link.open_link(), Status::ok);
  ASSERT_EQ(link.open().status, Status::ok);
  ASSERT_EQ(link.bootstrap().status, Status::ok);
  EXPECT_EQ(a->segment_digest(SegmentId{0}), b->segment_digest(SegmentId{0}));
  // Again over a full target, which holds half of them and others beside.
  auto c = make_store(1, 0xa);
  for (int i = 0; i < 500'000; ++i) put(*c, key(i * 2), "w");
  Linked again(*c, *b);
  again.term = FollowerTerm{2};
  ASSERT_EQ(again.open_link(), Status::ok);
  again.token = link.token;
  ASSERT_EQ(again.open().status, Status::ok);
  std::uint64_t count = 0;
  ASSERT_EQ(again.bootstrap().status, Status::ok);
  EXPECT_EQ(c->segment_digest(SegmentId{0}), b->segment_digest(SegmentId{0}, &count));
  EXPECT_EQ(count, 500'000u);
}

TEST(StoreScan, PagesHideWhatIsExpiredAndStopWhereTheySay) {
  auto store = make_store(8);
  std::set<std::string> expected;
  for (int i = 0; i < 3000; ++i) {
    const std::string key = (i % 2 == 0 ? "{tag}" : "k") + std::to_string(i);
    put(*store, key, "v", start_time, i % 5 == 0 ? start_time + second : 0);
    if (i % 5 != 0) expected.insert(key);
  }
  for (const std::size_t page : {1ul, 10ul, 5000ul}) {
    std::vector<std::string> seen;
    ScanRequest request;
    request.count_max = page;
    for (;;) {
      const ScanPage p = store->scan(request, start_time + 2 * second);
      EXPECT_LE(p.records.size(), page);
      for (const auto& r : p.records) seen.emplace_back(trusted_key(r.data()));
      if (!p.next) break;
      request.after = p.next;
    }
    EXPECT_EQ(in_order(seen), in_order({expected.begin(), expected.end()}));
    EXPECT_EQ(seen.size(), expected.size());
    std::vector<SlotAndKey> order;
    for (const auto& k : seen) order.emplace_back(slot_of(k).value(), k);
    EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  }
  ScanRequest prefix;
  prefix.scope = Scope::make({"{tag}1"}).value();
  prefix.keys_only = true;
  prefix.count_max = 100'000;
  std::size_t found = 0;
  for (;;) {
    const ScanPage p = store->scan(prefix, start_time);
    for (const auto& r : p.records) {
      EXPECT_TRUE(trusted_key(r.data()).starts_with("{tag}1"));
      EXPECT_TRUE(trusted_record(r).value.empty());
      ++found;
    }
    if (!p.next) break;
    prefix.after = p.next;
  }
  EXPECT_EQ(found, 555u);
}

// Nodes of a region each scan the slots that they own: a token behind those would make a client skip the beginning of the next node's.
TEST(StoreScan, NoTokenLeadsOutOfTheScope) {
  auto store = make_store(256);
  std::set<std::string> expected;
  for (int i = 0; i < 2000; ++i) {
    const std::string key = "k" + std::to_string(i);
    put(*store, key, "v", start_time, 0);
    if (slot_of(key).value() < 64 * 86 && slot_of(key).value() >= 64) expected.insert(key);
  }
  ScanRequest request;
  request.scope = Scope::make({}, {{Slot{64}, Slot{64 * 86 - 1}}}).value();
  std::size_t found = 0;
  for (int pages = 0; pages < 2000; ++pages) {
    const ScanPage p = store->scan(request, start_time);
    found += p.records.size();
    if (!p.next) break;
    EXPECT_LT(p.next->slot.value(), 64 * 86);
    request.after = p.next;
  }
  EXPECT_EQ(found, expected.size());
}

// Run under TSan: clients, a walker, a log reader, maintenance and digests at once; then content and digest agree.
TEST(StoreThreads, ClientsWalksReadersAndMaintenanceTogether) {
  StoreOptions options;
  options.log_budget_bytes = 64 << 10;
  auto store = make_store(4, 0xa, options);
  std::atomic<bool> stop{false};
  auto map = store->dirty_map([] {});
  const auto client = [&](int id) {
    auto committer = store->committer();
    std::string value;
    for (int i = 0; i < 4000; ++i) {
      const WallMicros now = committer->begin([i] { return start_time + static_cast<WallMicros>(i) * 100; });
      const std::string key = (i % 2 == 0 ? "{hot}" : "k") + std::to_string((i * 7919 + id) % 1500);
      if (i % 5 == 4) {
        store->del(key, {}, now);
      } else {
        put(*store, key, std::string(static_cast<std::size_t>(i % 50), 'v'), now, i % 11 == 0 ? now + second / 100 : 0);
      }
      value.clear();
      store->get(key, now, value);
      committer->idle();
    }
  };
  std::vector<std::thread> threads;
  threads.emplace_back(client, 1);
  threads.emplace_back(client, 2);
  threads.emplace_back([&] {
    while (!stop.load()) {
      for (std::uint16_t s = 0; s < 4; ++s) {
        auto walk = store->begin_walk(SegmentId{s}, {}, std::nullopt);
        while (!walk->done()) (void)walk->next({});
      }
      (void)contents(*store, start_time, 100);
    }
  });
  threads.emplace_back([&] {
    std::vector<SegmentId> moved;
    std::uint64_t bytes = 0;
    Revision at[4];
    for (bool last = false; !last;) {
      last = stop.load();  // once more after it: on a busy machine the clients may be done before this thread has begun
      moved.clear();
      map->drain(moved);
      (void)map->prepare_sleep();
      map->awake();
      for (const SegmentId s : moved) {
        LogStretch stretch;
        for (LogRead read; (read = store->read_log(s, at[s.value()], 4096, stretch)) != LogRead::at_head;) {
          if (read == LogRead::trimmed) {
            at[s.value()] = Revision{store->state(s).floor.value() - 1};
            continue;
          }
          for (std::size_t i = 0; i < stretch.index.size(); ++i) bytes += stretch.record(i).size() + static_cast<std::size_t>(stretch.record(i).back());
          at[s.value()] = stretch.last();
        }
      }
    }
    EXPECT_GT(bytes, 0u);
  });
  threads.emplace_back([&] {
    while (!stop.load()) {
      store->sweep_expiry(start_time + second);
      store->trim_log(start_time);
      (void)store->closed_time(start_time);
      (void)store->counters();
      (void)store->memory();
    }
  });
  threads[0].join();
  threads[1].join();
  stop.store(true);
  for (std::size_t i = 2; i < threads.size(); ++i) threads[i].join();
  Digest sum;
  std::uint64_t count = 0;
  for (std::uint16_t s = 0; s < 4; ++s) {
    auto walk = store->begin_walk(SegmentId{s}, {}, std::nullopt);
    while (!walk->done()) {
      const auto page = walk->next({});
      sum += page.digest;
      count += page.count;
    }
    std::uint64_t live = 0;
    sum -= store->segment_digest(SegmentId{s}, &live);
    count -= live;
  }
  EXPECT_EQ(sum, Digest{});
  EXPECT_EQ(count, 0u);
}

}  // namespace
}  // namespace zaris::store
