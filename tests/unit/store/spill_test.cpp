// The log beyond memory: it is read as if it were there, its bounds hold, and a spill that fails costs history and nothing else.
#include "tests/unit/store/memory_spill.hpp"
#include "tests/unit/store/store_fixture.hpp"

namespace zaris::store {
namespace {

constexpr std::uint64_t budget = 64 << 10;
const SegmentId only{0};

StoreOptions spilling(std::shared_ptr<SpillDevice> spill, std::uint64_t bytes = 1 << 30) {
  StoreOptions options;
  options.log_budget_bytes = budget;
  options.log_pin_bytes = 4 * budget;
  options.spill = std::move(spill);
  options.spill_bytes = bytes;
  return options;
}

void trim(Store& store, WallMicros now = start_time) {
  while (store.trim_log(now)) {
  }
  (void)store.trim_log(now);  // what has been written since is settled by the next call
}

// Keys k0 … of a value each, trimmed as it goes.
void write(Store& store, int from, int to, WallMicros now = start_time) {
  for (int i = from; i < to; ++i) {
    put(store, "k" + std::to_string(i), std::string(static_cast<std::size_t>(50 + i % 100), 'v'), now);
    if (i % 50 == 0) trim(store, now);
  }
  trim(store, now);
}

// Every record of the log behind `after`, with whatever has to be fetched.
std::vector<std::string> read_all(const Store& store, MemorySpill& spill, Revision after) {
  std::vector<std::string> out;
  LogStretch stretch;
  for (;;) {
    const LogRead read = store.read_log(only, after, 4096, stretch);
    if (read == LogRead::fetching) {
      if (!spill.step() && !spill.waiting() && store.read_log(only, after, 4096, stretch) == LogRead::fetching) {
        ADD_FAILURE() << "nothing is being fetched";
        return out;
      }
      continue;
    }
    if (read != LogRead::ok) return out;
    EXPECT_EQ(stretch.first, after.next());
    for (std::size_t i = 0; i < stretch.index.size(); ++i) {
      out.push_back((stretch.index[i].flags & log_flag_generation) != 0 ? "#" : std::string(trusted_key(stretch.record(i).data())));
    }
    after = stretch.last();
  }
}

std::vector<std::string> keys(int from, int to) {
  std::vector<std::string> out;
  for (int i = from; i < to; ++i) out.push_back("k" + std::to_string(i));
  return out;
}

TEST(StoreSpill, WhatLeavesMemoryIsReadAsIfItWereThere) {
  auto spill = std::make_shared<MemorySpill>();
  auto store = make_store(1, 0xa, spilling(spill));
  write(*store, 0, 10'000);
  const auto state = store->state(only);
  EXPECT_EQ(state.floor, Revision{1}) << "nothing is lost";
  EXPECT_GT(state.memory_floor, Revision{5000});
  EXPECT_LE(store->memory().log, budget + budget / 4 + (8 << 10));
  EXPECT_GT(store->memory().spilled, 10 * budget);
  auto expected = keys(0, 10'000);
  expected.insert(expected.begin(), "#");
  EXPECT_EQ(read_all(*store, *spill, Revision{0}), expected);
  // From every place near a chunk's end and begin, and from the seam.
  for (std::uint64_t r = 1; r < state.head.revision.value(); r += 97) {
    LogStretch stretch;
    LogRead read = store->read_log(only, Revision{r}, 1, stretch);
    if (read == LogRead::fetching) read = store->read_log(only, Revision{r}, 1, stretch);
    ASSERT_EQ(read, LogRead::ok) << r;
    EXPECT_EQ(trusted_key(stretch.record(0).data()), "k" + std::to_string(r - 1));
  }
  EXPECT_GT(store->log_bytes_after(only, Revision{0}), store->log_bytes_after(only, Revision{5000}));
  EXPECT_EQ(store->log_bytes_after(only, Revision{0}), state.log_bytes_total);
  EXPECT_LE(store->memory().spill_cache, spill_cache_bytes_max);
  EXPECT_EQ(store->counters().spill_passed_by_records, 0u);
}

TEST(StoreSpill, WhoeverAsksIsToldWhenItHasCome) {
  auto spill = std::make_shared<MemorySpill>(false);
  auto store = make_store(1, 0xa, spilling(spill));
  for (int i = 0; i < 4000; ++i) {
    put(*store, "k" + std::to_string(i), std::string(100, 'v'));
    if (i % 20 == 0) {
      trim(*store);
      spill->finish();
    }
  }
  trim(*store);
  ASSERT_EQ(store->state(only).floor, Revision{1});
  auto map = store->dirty_map([] {});
  std::vector<SegmentId> dirty;
  map->drain(dirty);
  LogStretch stretch;
  ASSERT_EQ(store->read_log(only, Revision{0}, 4096, stretch), LogRead::fetching);
  ASSERT_EQ(store->read_log(only, Revision{0}, 4096, stretch), LogRead::fetching);
  map->drain(dirty);
  EXPECT_TRUE(dirty.empty());
  spill->finish();
  EXPECT_EQ(spill->reads, 1u) << "however often it is asked for";
  map->drain(dirty);
  EXPECT_THAT(dirty, testing::ElementsAre(only));
  EXPECT_EQ(store->read_log(only, Revision{0}, 4096, stretch), LogRead::ok);
}

TEST(StoreSpill, ItsBoundHoldsAndTheOldestGoes) {
  auto spill = std::make_shared<MemorySpill>();
  auto store = make_store(1, 0xa, spilling(spill, 4 * budget));
  write(*store, 0, 10'000);
  const auto state = store->state(only);
  EXPECT_GT(state.floor, Revision{1});
  EXPECT_LT(state.floor, state.memory_floor);
  EXPECT_LE(store->memory().spilled, 4 * budget);
  EXPECT_EQ(store->memory().spilled, spill->held()) << "what is dropped is given back";
  EXPECT_EQ(read_all(*store, *spill, Revision{state.floor.value() - 1}), keys(static_cast<int>(state.floor.value()) - 2, 10'000));
  LogStretch stretch;
  EXPECT_EQ(store->read_log(only, Revision{state.floor.value() - 2}, 1, stretch), LogRead::trimmed);
}

TEST(StoreSpill, AReaderThatIsAwayHoldsItToTheBoundAndThenLosesItsPlaceLoudly) {
  auto spill = std::make_shared<MemorySpill>();
  auto store = make_store(1, 0xa, spilling(spill, 4 * budget));
  const PinKey key{"p", "link", ScopeId{0}, ClusterId{7}};
  write(*store, 0, 100);
  store->set_pin(key, Scope{}, only, store->state(only).head, start_time);
  write(*store, 100, 1500);
  const auto held = store->pins(start_time).at(0);
  EXPECT_FALSE(held.lost);
  EXPECT_EQ(held.bytes_max, budget + 4 * budget);
  EXPECT_GT(held.held_bytes, 2 * budget);
  EXPECT_LT(held.held_bytes, held.bytes_max);
  EXPECT_EQ(read_all(*store, *spill, Revision{101}), keys(100, 1500));
  write(*store, 1500, 10'000);
  EXPECT_TRUE(store->pins(start_time).at(0).lost);
  EXPECT_EQ(store->counters().pins_lost, 1u);
}

TEST(StoreSpill, APartialReaderThatMissesNothingIsMovedOn) {
  auto spill = std::make_shared<MemorySpill>();
  auto store = make_store(1, 0xa, spilling(spill, 4 * budget));
  Scope scope;
  scope = *Scope::make({"other:"}, {});
  const PinKey key{"p", "link", scope.id(), ClusterId{7}};
  const Position at = store->state(only).head;
  store->set_pin(key, scope, only, at, start_time);
  write(*store, 0, 10'000);
  const auto place = store->pin_place(key, only);
  ASSERT_TRUE(place.has_value()) << "not lost";
  EXPECT_EQ(place->acknowledged, at);
  EXPECT_GE(place->moved.revision.value() + 1, store->state(only).floor.value());
}

TEST(StoreSpill, AFullDiskCostsHistoryLoudlyAndIsUsedAgainWhenThereIsRoom) {
  auto spill = std::make_shared<MemorySpill>();
  auto store = make_store(1, 0xa, spilling(spill));
  write(*store, 0, 2000);
  ASSERT_EQ(store->state(only).floor, Revision{1});
  spill->fail_writes = true;
  write(*store, 2000, 6000);
  const auto state = store->state(only);
  EXPECT_GT(state.floor, Revision{2000});
  EXPECT_EQ(state.floor, state.memory_floor) << "there are no gaps: what lay beyond is of no use";
  EXPECT_EQ(spill->held(), 0u);
  EXPECT_LE(store->memory().log, 4 * budget);
  EXPECT_GT(store->counters().spill_write_failures, 0u);
  EXPECT_GT(store->counters().spill_passed_by_records, 0u);
  EXPECT_THAT(store->spill_fault(), testing::HasSubstr("spill_full"));
  spill->fail_writes = false;
  write(*store, 6000, 8000, start_time + 5 * second);
  EXPECT_EQ(store->state(only).floor, state.floor) << "from here on it is kept again";
  EXPECT_EQ(read_all(*store, *spill, Revision{state.floor.value() - 1}), keys(static_cast<int>(state.floor.value()) - 2, 8000));
}

TEST(StoreSpill, ADiskThatHangsStopsNoWriter) {
  auto spill = std::make_shared<MemorySpill>(false);  // nothing is ever done
  auto store = make_store(1, 0xa, spilling(spill));
  for (int i = 0; i < 20'000; ++i) {
    put(*store, "k" + std::to_string(i), std::string(100, 'v'));
    if (i % 50 == 0) trim(*store);
  }
  trim(*store);
  EXPECT_LE(store->memory().log, 4 * budget);
  EXPECT_GT(store->counters().spill_passed_by_records, 0u);
  const auto state = store->state(only);
  spill->finish();  // too late: what was written has been trimmed meanwhile
  trim(*store);
  EXPECT_EQ(store->state(only).floor.value(), state.floor.value());
  EXPECT_EQ(store->memory().spilled, spill->held());
}

TEST(StoreSpill, WhatCannotBeReadBackIsHistoryNoMore) {
  for (const bool damaged : {true, false}) {
    auto spill = std::make_shared<MemorySpill>();
    auto store = make_store(1, 0xa, spilling(spill));
    write(*store, 0, 4000);
    (damaged ? spill->damage_reads : spill->fail_reads) = true;
    LogStretch stretch;
    LogRead read = store->read_log(only, Revision{0}, 4096, stretch);
    if (read == LogRead::fetching) read = store->read_log(only, Revision{0}, 4096, stretch);
    EXPECT_EQ(read, LogRead::trimmed) << "never a wrong byte";
    EXPECT_GT(store->state(only).floor, Revision{1});
    EXPECT_EQ(store->counters().spill_read_failures, 1u);
    EXPECT_THAT(store->spill_fault(), testing::HasSubstr(damaged ? "spill_damaged" : "spill_failed"));
    spill->damage_reads = spill->fail_reads = false;
    const auto from = store->state(only).floor.value();
    EXPECT_EQ(read_all(*store, *spill, Revision{from - 1}), keys(static_cast<int>(from) - 2, 4000)) << "the rest is as it was";
  }
}

TEST(StoreSpill, TombstonesGoWithMemoryNotWithTheSpill) {
  auto spill = std::make_shared<MemorySpill>();
  auto store = make_store(1, 0xa, spilling(spill));
  for (int i = 0; i < 200; ++i) put(*store, "d" + std::to_string(i), "v");
  for (int i = 0; i < 200; ++i) store->del("d" + std::to_string(i), {}, start_time);
  EXPECT_EQ(store->state(only).tombstones, 200u);
  write(*store, 0, 3000);
  EXPECT_EQ(store->state(only).tombstones, 0u) << "their memory is given back";
  EXPECT_EQ(store->state(only).floor, Revision{1});
  EXPECT_EQ(put(*store, "d7", "again").token.item_version, 1u);
}

// Many readers at different places, with room for a few chunks: each comes to the end.
TEST(StoreSpill, ReadersThatAreManyDoNotStarveEachOther) {
  auto spill = std::make_shared<MemorySpill>(false);
  StoreOptions options = spilling(spill);
  options.log_budget_bytes = 4 << 20;
  options.log_pin_bytes = 4 << 20;
  auto store = make_store(1, 0xa, options);
  const std::string value(1000, 'v');
  for (int i = 0; i < 60'000; ++i) {
    put(*store, "k" + std::to_string(i % 100), value);
    if (i % 100 == 0) {
      trim(*store);
      spill->finish();
    }
  }
  trim(*store);
  spill->finish();
  ASSERT_EQ(store->state(only).floor, Revision{1});
  std::vector<std::uint64_t> at;
  for (std::uint64_t r = 0; r < 50'000; r += 1000) at.push_back(r);
  const auto from = at;
  std::uint64_t steps = 0;
  for (bool more = true; more && steps < 4'000'000; ++steps) {
    more = false;
    for (std::size_t i = 0; i < at.size(); ++i) {
      if (at[i] >= from[i] + 5000) continue;
      more = true;
      LogStretch stretch;
      if (store->read_log(only, Revision{at[i]}, 64 << 10, stretch) == LogRead::ok) at[i] = stretch.last().value();
    }
    spill->step();
  }
  for (std::size_t i = 0; i < at.size(); ++i) EXPECT_GE(at[i], from[i] + 5000);
}

}  // namespace
}  // namespace zaris::store
