// The op-log: contiguous, with a floor; pins and walks that hold it, and their bounds.
#include "tests/unit/store/store_fixture.hpp"

namespace zaris::store {
namespace {

StoreOptions with_log(std::uint64_t budget, std::uint64_t pins = 1ull << 30) {
  StoreOptions options;
  options.log_budget_bytes = budget;
  options.log_pin_bytes = pins;
  return options;
}
const SegmentId only{0};

void trim(Store& store, WallMicros now = start_time) {
  while (store.trim_log(now)) {
  }
}

TEST(StoreLog, EveryRevisionFromTheFloorIsReadInOrder) {
  auto store = make_store(1);
  std::vector<std::string> expected{"#"};
  for (int i = 0; i < 5000; ++i) {
    const std::string key = "k" + std::to_string(i % 37);
    put(*store, key, std::string(static_cast<std::size_t>(i % 400), 'v'));
    expected.push_back(key);
    if (i % 500 == 7) {
      put(*store, "large", std::string(40'000, 'l'));
      expected.push_back("large");
    }
  }
  EXPECT_EQ(log_keys(*store, only), expected);
  const auto state = store->state(only);
  EXPECT_EQ(state.floor, Revision{1});
  EXPECT_EQ(state.head.revision.value(), expected.size());
  LogStretch stretch;
  EXPECT_EQ(store->read_log(only, state.head.revision, 1, stretch), LogRead::at_head);
  for (std::uint64_t r = 0; r < state.head.revision.value(); r += 113) {
    ASSERT_EQ(store->read_log(only, Revision{r}, 1, stretch), LogRead::ok);
    EXPECT_EQ(stretch.index.size(), 1u) << "one at least, no more than asked for";
    EXPECT_EQ(stretch.first, Revision{r + 1});
    EXPECT_EQ(store->log_bytes_after(only, Revision{r}) - store->log_bytes_after(only, Revision{r + 1}), stretch.size);
  }
  EXPECT_EQ(store->log_bytes_after(only, Revision{0}), state.log_bytes_total);
}

TEST(StoreLog, TrimmingRaisesTheFloorAndSaysSo) {
  auto store = make_store(1, 0xa, with_log(64 << 10));
  for (int i = 0; i < 3000; ++i) put(*store, "k", std::string(100, 'v'));
  trim(*store);
  const auto state = store->state(only);
  EXPECT_GT(state.floor, Revision{1});
  EXPECT_LE(store->memory().log, 64u << 10);
  LogStretch stretch;
  EXPECT_EQ(store->read_log(only, Revision{state.floor.value() - 2}, 1, stretch), LogRead::trimmed);
  EXPECT_EQ(store->read_log(only, Revision{state.floor.value() - 1}, 1, stretch), LogRead::ok);
  EXPECT_EQ(store->log_bytes_after(only, Revision{0}), store->log_bytes_after(only, Revision{state.floor.value() - 1}));
  store->trim_log_hard(only);
  EXPECT_EQ(store->state(only).floor.value(), store->state(only).head.revision.value() + 1) << "an empty log";
  EXPECT_EQ(store->read_log(only, store->state(only).head.revision, 1, stretch), LogRead::at_head);
  put(*store, "k", "again");
  EXPECT_EQ(log_keys(*store, only, Revision{store->state(only).head.revision.value() - 1}), std::vector<std::string>{"k"});
}

TEST(StoreLog, AReaderKeepsWhatItHoldsWhenItIsTrimmed) {
  auto store = make_store(1);
  put(*store, "k", "kept");
  LogStretch stretch;
  ASSERT_EQ(store->read_log(only, Revision{1}, 1 << 20, stretch), LogRead::ok);
  store->trim_log_hard(only);
  for (int i = 0; i < 1000; ++i) put(*store, "other", std::string(100, 'x'));
  EXPECT_EQ(trusted_record(stretch.record(0)).value, "kept");
}

TEST(StoreLog, AllSegmentsReachBackToAboutTheSameTime) {
  auto store = make_store(2, 0xa, with_log(128 << 10));
  const std::string busy = key_in(SegmentId{0}, 2, 1), quiet = key_in(SegmentId{1}, 2, 2);
  WallMicros now = start_time;
  for (int i = 0; i < 20'000; ++i) {
    put(*store, busy, std::string(100, 'b'), now += 1000);
    if (i % 100 == 0) put(*store, quiet, "q", now);
  }
  trim(*store, now);
  const auto oldest = [&](SegmentId id) {
    LogStretch stretch;
    EXPECT_EQ(store->read_log(id, Revision{store->state(id).floor.value() - 1}, 1, stretch), LogRead::ok);
    return stretch.newest_timestamp_us;
  };
  EXPECT_GT(oldest(SegmentId{0}), start_time + 15 * second);
  EXPECT_GT(oldest(SegmentId{1}), start_time + 10 * second) << "the quiet one is not kept for ever";
}

TEST(StorePins, HoldTheFloorUpToTheirBounds) {
  auto store = make_store(1, 0xa, with_log(64 << 10, 256 << 10));
  const PinKey pin{"cn", "l", ScopeId{0}, ClusterId{0xb}};
  put(*store, "k", "v");
  store->set_pin(pin, {}, only, store->state(only).head, start_time);
  for (int i = 0; i < 1000; ++i) put(*store, "k", std::string(100, 'v'));
  trim(*store);
  EXPECT_LE(store->state(only).floor, Revision{3});
  const auto info = store->pins(start_time).at(0);
  EXPECT_EQ(info.held_records, 1000u);
  EXPECT_GT(info.held_bytes, 100'000u);
  EXPECT_FALSE(info.lost);
  // Moved by an acknowledgement.
  store->set_pin(pin, {}, only, Position{store->state(only).head.generation, Revision{600}}, start_time + 1);
  trim(*store);
  EXPECT_GT(store->state(only).floor, Revision{400});
  EXPECT_LE(store->state(only).floor, Revision{601});
  // Past log.pin_bytes it loses its place, and says so.
  for (int i = 0; i < 3000; ++i) put(*store, "k", std::string(100, 'v'));
  trim(*store);
  EXPECT_LE(store->memory().log, 256u << 10);
  EXPECT_TRUE(store->pins(start_time).at(0).lost);
  EXPECT_EQ(store->counters().pins_lost, 1u);
  EXPECT_EQ(store->pin_place(pin, only), std::nullopt);
  EXPECT_TRUE(store->drop_pin(pin));
  EXPECT_TRUE(store->pins(start_time).empty());
}

TEST(StorePins, PastTheirAgeTheyHoldNothing) {
  StoreOptions options = with_log(64 << 10);
  options.log_pin_age_us = 100 * second;
  auto store = make_store(1, 0xa, options);
  const PinKey pin{"cn", "l", ScopeId{0}, ClusterId{0xb}};
  store->set_pin(pin, {}, only, store->state(only).head, start_time);
  for (int i = 0; i < 1000; ++i) put(*store, "k", std::string(100, 'v'));
  trim(*store, start_time + 100 * second);
  EXPECT_EQ(store->state(only).floor, Revision{1});
  trim(*store, start_time + 101 * second);
  EXPECT_GT(store->state(only).floor, Revision{400});
  EXPECT_TRUE(store->pins(start_time).at(0).lost);
}

TEST(StorePins, AFilteredReaderThatIsAwayIsMovedOverWhatItWouldNotGet) {
  auto store = make_store(1, 0xa, with_log(16 << 10));
  const Scope scope = Scope::make({"t1:"}).value();
  const PinKey pin{"cn", "l", scope.id(), ClusterId{0xb}};
  const Position at = store->state(only).head;
  store->set_pin(pin, scope, only, at, start_time);
  for (int i = 0; i < 2000; ++i) put(*store, "t2:k", std::string(100, 'v'));
  trim(*store);
  EXPECT_GT(store->state(only).floor, Revision{1000}) << "at no cost";
  const auto place = store->pin_place(pin, only);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->acknowledged, at);
  EXPECT_GE(place->moved.revision.value() + 1, store->state(only).floor.value()) << "it can resume";
  const auto mine = put(*store, "t1:k", "v").position;
  for (int i = 0; i < 2000; ++i) put(*store, "t2:k", std::string(100, 'v'));
  trim(*store);
  EXPECT_LE(store->state(only).floor, mine.revision) << "what matches is kept";
  // A reader that is there moves its own pin.
  store->attach_pin(pin, true, start_time);
  store->set_pin(pin, scope, only, mine, start_time);
  trim(*store);
  EXPECT_LE(store->state(only).floor.value(), mine.revision.value() + 1);
}

TEST(StorePins, ARunningWalkKeepsTheLogThatFollowsItsPage) {
  auto store = make_store(1, 0xa, with_log(16 << 10));
  for (int i = 0; i < 100; ++i) put(*store, "k" + std::to_string(i), "v");
  auto walk = store->begin_walk(only, {}, std::nullopt);
  const auto page = walk->next(WalkLimits{10, 1 << 20});
  for (int i = 0; i < 1000; ++i) put(*store, "x", std::string(100, 'v'));
  trim(*store);
  EXPECT_LE(store->state(only).floor.value(), page.as_of.revision.value() + 1);
  walk.reset();
  trim(*store);
  EXPECT_GT(store->state(only).floor.value(), page.as_of.revision.value() + 1);
}

TEST(StoreDirty, ABitPerSegmentThatMovedAndOneWakePerSleep) {
  auto store = make_store(4);
  int wakes = 0;
  auto map = store->dirty_map([&] { ++wakes; });
  std::vector<SegmentId> moved;
  ASSERT_TRUE(map->prepare_sleep());
  const auto segment = put(*store, "k", "v").segment;
  put(*store, "k", "v");
  EXPECT_EQ(wakes, 1);
  map->drain(moved);
  EXPECT_THAT(moved, testing::ElementsAre(segment));
  put(*store, "k", "v");
  EXPECT_EQ(wakes, 1) << "it does not sleep";
  EXPECT_FALSE(map->prepare_sleep()) << "something is dirty already";
  moved.clear();
  map->drain(moved);
  ASSERT_TRUE(map->prepare_sleep());
  map.reset();
  put(*store, "k", "v");
  EXPECT_EQ(wakes, 1) << "gone";
}

TEST(StoreClosedTime, NothingIsCommittedAtOrBeforeIt) {
  auto store = make_store(1);
  auto one = store->committer(), two = store->committer();
  EXPECT_EQ(store->closed_time(1000), 999u);
  EXPECT_EQ(one->begin([] { return WallMicros{1010}; }), 1010u);
  EXPECT_EQ(store->closed_time(2000), 1009u) << "one may still commit at 1010";
  EXPECT_EQ(two->begin([] { return WallMicros{500}; }), 2000u) << "a clock that was stepped back is not believed";
  one->idle();
  EXPECT_EQ(store->closed_time(3000), 1999u);
  two->idle();
  EXPECT_EQ(store->closed_time(2500), 2999u) << "never falls";
  one->begin([&] {
    EXPECT_EQ(store->closed_time(9000), 2999u) << "the lower bound is published before the clock is read";
    return WallMicros{9100};
  });
  one.reset();
  EXPECT_EQ(store->closed_time(9999), 9998u) << "a thread that ended holds nothing";
}

}  // namespace
}  // namespace zaris::store
