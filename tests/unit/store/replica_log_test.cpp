// A replica takes the owner's log as it is, and trims no further than the owner.
#include <atomic>
#include <thread>

#include "tests/unit/store/replica_fixture.hpp"

namespace zaris::store {
namespace {

struct ReplicaLog : testing::Test {
  std::unique_ptr<Store> owner = make_member(1, 1), replica = make_member(1, 2);
  ReplicaLog() {
    own(*owner, 50);
    replica->set_role(seg0, SegmentRole::replica);
  }
  void busy(int n) {
    for (int i = 0; i < n; ++i) {
      const std::string key = "k" + std::to_string(i * 7 % 61);
      put(*owner, key, std::string(static_cast<std::size_t>(i % 97 == 3 ? 30'000 : i % 300), 'v'), start_time + static_cast<WallMicros>(i),
          i % 5 == 0 ? start_time + 1000 * second : 0);
      if (i % 3 == 0) owner->del("k" + std::to_string(i % 61), {}, start_time + static_cast<WallMicros>(i));
      if (i % 11 == 0) owner->touch(key, start_time + 500 * second, {}, start_time + static_cast<WallMicros>(i));
    }
  }
};

TEST_F(ReplicaLog, WhatItHoldsIsTheOwnersByteForByte) {
  busy(500);
  std::vector<SegmentId> moved;
  auto map = replica->dirty_map([] {});
  for (const std::size_t count : {1, 2, 3, 17, 1000}) {
    ASSERT_EQ(catch_up(*owner, *replica, seg0, count).outcome, ReplicaOutcome::ok);
    EXPECT_EQ(difference(*owner, *replica), "");
    EXPECT_EQ(owner->state(seg0).log_bytes_total, replica->state(seg0).log_bytes_total);
    busy(100);
  }
  map->drain(moved);
  EXPECT_EQ(moved, std::vector<SegmentId>{seg0}) << "whoever reads here is told";
}

TEST_F(ReplicaLog, SeveralTermsComeOneAfterTheOther) {
  busy(50);
  ASSERT_EQ(catch_up(*owner, *replica).outcome, ReplicaOutcome::ok);
  owner->set_role(seg0, SegmentRole::replica);
  own(*replica, 60);
  put(*replica, "of the second", "v");
  ASSERT_EQ(catch_up(*replica, *owner).outcome, ReplicaOutcome::ok);
  EXPECT_EQ(difference(*replica, *owner), "");
  replica->set_role(seg0, SegmentRole::replica);
  own(*owner, 61);
  own(*owner, 62);
  busy(50);
  ASSERT_EQ(catch_up(*owner, *replica).outcome, ReplicaOutcome::ok);
  EXPECT_EQ(difference(*owner, *replica), "");
  EXPECT_EQ(replica->lineage(seg0).entries().size(), 4u);
}

TEST_F(ReplicaLog, APromotedReplicaGoesOnAsIfItHadBeenTheOwner) {
  put(*owner, "deleted", "1", start_time + 9 * second);
  put(*owner, "deleted", "2", start_time + 9 * second);
  owner->del("deleted", {}, start_time + 9 * second);
  const auto kept = put(*owner, "kept", "1", start_time + 9 * second);
  put(*owner, "due", "1", start_time + 9 * second, start_time + 20 * second);
  ASSERT_EQ(catch_up(*owner, *replica).outcome, ReplicaOutcome::ok);
  own(*replica, 60, seg0, start_time);
  const auto again = put(*replica, "deleted", "3", start_time);
  EXPECT_EQ(again.token.item_version, 4u) << "the tombstone is remembered";
  EXPECT_GE(trusted_record(*replica->fetch(seg0, {"deleted"}).records[0]).timestamp_us, start_time + 9 * second);
  const auto swapped = replica->put(Put{.key = "kept", .value = "2", .expires_us = 0, .expected = kept.token, .only_if_absent = false}, start_time);
  EXPECT_EQ(swapped.status, Status::ok);
  while (replica->sweep_expiry(start_time + 21 * second)) {
  }
  EXPECT_EQ(replica->counters().expired, 1u);
  EXPECT_EQ(replica->state(seg0).tombstones, 1u);
}

TEST_F(ReplicaLog, NothingChangesUnlessTheRunBeginsAtTheHead) {
  busy(20);
  LogRun early = *read_run(*owner, seg0, Position{}, 5);
  ASSERT_EQ(replica->append_run(seg0, early.ready(), start_time).outcome, ReplicaOutcome::ok);
  const Position head = replica->state(seg0).head;
  ReplicaAnswer answer = replica->append_run(seg0, early.ready(), start_time);
  EXPECT_EQ(answer.outcome, ReplicaOutcome::gap) << "once";
  EXPECT_EQ(answer.head, head);
  EXPECT_FALSE(answer.reason.empty());
  LogRun late = *read_run(*owner, seg0, Position{Generation{50}, Revision{8}}, 5);
  EXPECT_EQ(replica->append_run(seg0, late.ready(), start_time).outcome, ReplicaOutcome::gap);
  EXPECT_EQ(replica->state(seg0).head, head);
  LogRun next = *read_run(*owner, seg0, head, 5);
  EXPECT_EQ(owner->append_run(seg0, next.ready(), start_time).outcome, ReplicaOutcome::not_replica);
  replica->set_role(seg0, SegmentRole::none);
  EXPECT_EQ(replica->append_run(seg0, next.ready(), start_time).outcome, ReplicaOutcome::not_replica);
  replica->set_role(seg0, SegmentRole::replica);
  EXPECT_EQ(replica->append_run(seg0, next.ready(), start_time).outcome, ReplicaOutcome::ok);
}

TEST_F(ReplicaLog, ARunThatIsNotOneChangesNothing) {
  put(*owner, "a", "1");
  put(*owner, "b", "2");
  owner->del("a", {}, start_time);
  StoreOptions tight;
  tight.key_bytes_max = 10;
  tight.value_bytes_max = 10;
  const Slot other_slot{static_cast<std::uint16_t>(slot_of("b").value() ^ 1)};
  const auto row = [](LogRun& run, std::size_t i, auto&& change) {
    RecordRow r = read_row(run.table, i);
    change(r);
    std::string bytes;
    append_row(bytes, r);
    run.table.replace(i * record_row_bytes, record_row_bytes, bytes);
  };
  // Puts another record in the place of the third, under the right row.
  const auto replace = [&](LogRun& run, std::string record, Slot slot) {
    const std::size_t at = read_row(run.table, 0).length + read_row(run.table, 1).length;
    run.records.replace(at, read_row(run.table, 2).length, record);
    row(run, 2, [&](RecordRow& r) { r = RecordRow{static_cast<std::uint32_t>(record.size()), 0, slot, 1}; });
  };
  const RecordHeader header{Revision{3}, 1, start_time, Deleted::no, Generation{50}, {}};
  struct Case {
    const char* what;
    std::function<void(LogRun&)> spoil;
  };
  const Case cases[] = {
      {"no records", [](LogRun& r) { r.table.clear(), r.records.clear(); r.run.last = Revision{0}; }},
      {"a table that does not fit", [](LogRun& r) { r.records.pop_back(); }},
      {"part of a row", [](LogRun& r) { r.table.pop_back(); }},
      {"fewer records than it says", [](LogRun& r) { r.run.last = Revision{5}; }},
      {"it ends before it starts", [](LogRun& r) { r.run.last = Revision{0}; }},
      {"a revision left out", [&](LogRun& r) { row(r, 2, [](RecordRow& x) { x.revision_delta = 2; }); }},
      {"another generation", [](LogRun& r) { r.run.generation = Generation{51}; }},
      {"an older generation", [](LogRun& r) { r.run.generation = Generation{0}; }},
      {"the wrong slot", [&](LogRun& r) { row(r, 2, [&](RecordRow& x) { x.slot = other_slot; }); }},
      {"a tombstone that is none", [&](LogRun& r) { row(r, 2, [](RecordRow& x) { x.flags = row_flag_tombstone; }); }},
      {"none that is one", [&](LogRun& r) { row(r, 3, [](RecordRow& x) { x.flags = 0; }); }},
      {"a record before there is a generation", [&](LogRun& r) {
         const std::string record = make_record({.key = "b", .value = "x"}, RecordHeader{Revision{1}, 1, start_time, Deleted::no, Generation{0}, {}});
         r.records = record;
         r.table.clear();
         append_row(r.table, RecordRow{static_cast<std::uint32_t>(record.size()), 0, slot_of("b"), 1});
         r.run.generation = Generation{0};
         r.run.last = Revision{1};
       }},
      {"garbage", [&](LogRun& r) { replace(r, "garbage", Slot{0}); }},
      {"nothing in it", [&](LogRun& r) { replace(r, "", Slot{0}); }},
      {"a record of another revision", [&](LogRun& r) {
         RecordHeader h = header;
         h.revision = Revision{9};
         replace(r, make_record({.key = "b", .value = "x"}, h), slot_of("b"));
       }},
      {"a record of another generation", [&](LogRun& r) {
         RecordHeader h = header;
         h.generation = Generation{49};
         replace(r, make_record({.key = "b", .value = "x"}, h), slot_of("b"));
       }},
      {"a generation record in the middle", [&](LogRun& r) {
         replace(r, make_generation_record(Revision{3}, start_time, Generation{50}, 1, HistoryId{0x4157}, RootCause::takeover), Slot{0});
       }},
      {"no generation record at the start", [&](LogRun& r) {
         const std::string record = make_record({.key = "b", .value = "x"}, RecordHeader{Revision{1}, 1, start_time, Deleted::no, Generation{50}, {}});
         r.records.replace(0, read_row(r.table, 0).length, record);
         row(r, 0, [&](RecordRow& x) { x = RecordRow{static_cast<std::uint32_t>(record.size()), 0, slot_of("b"), 1}; });
       }},
      {"a generation record without an id", [&](LogRun& r) {
         const std::string record = make_generation_record(Revision{1}, start_time, Generation{50}, 0, HistoryId{1}, RootCause::created);
         r.records.replace(0, read_row(r.table, 0).length, record);
       }},
      {"a key that is too long", [&](LogRun& r) { replace(r, make_record({.key = "{b}0123456789", .value = "x"}, header), slot_of("b")); }},
      {"a value that is too long", [&](LogRun& r) { replace(r, make_record({.key = "b", .value = "0123456789a"}, header), slot_of("b")); }},
      {"more places than are kept", [&](LogRun& r) {
         std::string record = make_record({.key = "b", .value = "x"}, header);
         record[0] = static_cast<char>(0x98);
         replace(r, record + "\xc0", slot_of("b"));
       }},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.what);
    replica = make_member(1, 2, tight);
    replica->set_role(seg0, SegmentRole::replica);
    LogRun run = *read_run(*owner, seg0, Position{});
    c.spoil(run);
    const ReplicaAnswer answer = replica->append_run(seg0, run.ready(), start_time);
    EXPECT_EQ(answer.outcome, ReplicaOutcome::malformed);
    EXPECT_FALSE(answer.reason.empty());
    EXPECT_EQ(replica->state(seg0).head, Position{});
    EXPECT_TRUE(replica->lineage(seg0).entries().empty());
    EXPECT_EQ(replica->segment_digest(seg0), Digest{});
    EXPECT_EQ(catch_up(*owner, *replica).outcome, ReplicaOutcome::ok);
    EXPECT_EQ(difference(*owner, *replica), "");
  }
}

TEST_F(ReplicaLog, AKeyOfAnotherSegmentAndATermOfAnotherHistoryAreRefused) {
  auto two = make_member(2, 3), follower = make_member(2, 4);
  own(*two, 50, SegmentId{1});
  put(*two, key_in(SegmentId{1}, 2, 1), "v");
  follower->set_role(SegmentId{0}, SegmentRole::replica);
  LogRun run = *read_run(*two, SegmentId{1}, Position{});
  EXPECT_EQ(follower->append_run(SegmentId{0}, run.ready(), start_time).outcome, ReplicaOutcome::malformed);

  ASSERT_EQ(catch_up(*owner, *replica).outcome, ReplicaOutcome::ok);
  LogRun term;
  term.run.prev = replica->state(seg0).head;
  term.run.generation = Generation{60};
  term.run.last = term.run.prev.revision.next();
  term.records = make_generation_record(term.run.last, start_time, Generation{60}, 1, HistoryId{0xbad}, RootCause::takeover);
  append_row(term.table, RecordRow{static_cast<std::uint32_t>(term.records.size()), 0, Slot{0}, 1});
  EXPECT_EQ(replica->append_run(seg0, term.ready(), start_time).outcome, ReplicaOutcome::malformed);
  EXPECT_EQ(replica->state(seg0).head, term.run.prev);
  EXPECT_EQ(difference(*owner, *replica), "");
}

TEST(ReplicaTrim, GoesAsFarAsTheOwnerSaysWhateverTheBudget) {
  StoreOptions small;
  small.log_budget_bytes = 32 << 10;
  auto owner = make_member(1, 1, small), replica = make_member(1, 2, small);
  own(*owner, 50);
  replica->set_role(seg0, SegmentRole::replica);
  for (int i = 0; i < 2000; ++i) {
    put(*owner, "k" + std::to_string(i % 10), std::string(100, 'v'));
    if (i % 3 == 0) owner->del("k" + std::to_string(i % 10), {}, start_time);
  }
  ASSERT_EQ(catch_up(*owner, *replica).outcome, ReplicaOutcome::ok);
  EXPECT_FALSE(replica->trim_log(start_time)) << "nothing is waiting";
  replica->trim_log_hard(seg0);
  EXPECT_EQ(replica->state(seg0).floor, Revision{1}) << "the owner has not said";
  while (owner->trim_log(start_time)) {
  }
  const Revision floor = owner->state(seg0).floor;
  ASSERT_GT(floor, Revision{100});
  replica->set_owner_floor(seg0, floor);
  while (replica->trim_log(start_time)) {
  }
  EXPECT_GT(replica->state(seg0).floor, Revision{100});
  EXPECT_LE(replica->state(seg0).floor, floor);
  EXPECT_EQ(difference(*owner, *replica), "");
  owner->trim_log_hard(seg0);
  replica->set_owner_floor(seg0, owner->state(seg0).floor);
  EXPECT_FALSE(replica->trim_log(start_time));
  EXPECT_EQ(replica->state(seg0).floor, owner->state(seg0).floor);
  EXPECT_EQ(replica->state(seg0).tombstones, 0u);
  EXPECT_EQ(replica->memory().replica_log, 0u);
  EXPECT_EQ(difference(*owner, *replica), "");
}

TEST(ReplicaTrim, WhatMayNotBeTrimmedTakesNothingFromWhatIsOwned) {
  StoreOptions small;
  small.log_budget_bytes = 64 << 10;
  small.log_pin_bytes = 128 << 10;
  auto owner = make_member(2, 1), store = make_member(2, 2, small);
  own(*owner, 50, SegmentId{1});
  const std::string theirs = key_in(SegmentId{1}, 2, 1), ours = key_in(SegmentId{0}, 2, 1);
  for (int i = 0; i < 5000; ++i) put(*owner, theirs, std::string(100, 'v'));
  store->set_role(SegmentId{1}, SegmentRole::replica);
  ASSERT_EQ(catch_up(*owner, *store, SegmentId{1}).outcome, ReplicaOutcome::ok);
  own(*store, 60, SegmentId{0});
  const PinKey pin{"cn", "l", ScopeId{0}, ClusterId{0xb}};
  store->set_pin(pin, {}, SegmentId{0}, store->state(SegmentId{0}).head, start_time);
  for (int i = 0; i < 300; ++i) put(*store, ours, std::string(100, 'v'));
  EXPECT_FALSE(store->trim_log(start_time));
  EXPECT_EQ(store->state(SegmentId{0}).floor, Revision{1}) << "its own log is within its budget";
  EXPECT_FALSE(store->pins(start_time).at(0).lost);
  EXPECT_EQ(store->memory().log_pinned, 0u);
  for (int i = 0; i < 3000; ++i) put(*store, ours, std::string(100, 'v'));
  while (store->trim_log(start_time)) {
  }
  EXPECT_LE(store->memory().log, 128u << 10) << "and is trimmed";
  EXPECT_EQ(store->state(SegmentId{1}).floor, Revision{1}) << "the other's is not";
}

TEST(ReplicaTrim, PinsStandAtAReplicaAndAreMovedOverWhatTheyDoNotMatch) {
  StoreOptions small;
  small.log_budget_bytes = 16 << 10;
  auto owner = make_member(1, 1, small), replica = make_member(1, 2, small);
  own(*owner, 50);
  replica->set_role(seg0, SegmentRole::replica);
  const Scope scope = Scope::make({"t1:"}).value();
  const PinKey pin{"cn", "l", scope.id(), ClusterId{0xb}};
  const Position at = put(*owner, "t1:k", "v").position;
  owner->set_pin(pin, scope, seg0, at, start_time);
  for (int i = 0; i < 2000; ++i) put(*owner, "t2:k", std::string(100, 'v'));
  while (owner->trim_log(start_time)) {
  }
  ASSERT_EQ(owner->state(seg0).head.revision.value(), 2002u);
  ASSERT_GT(owner->state(seg0).floor, Revision{1000});
  // The replica has had everything from the beginning.
  auto fresh = make_member(1, 3);
  own(*fresh, 50);
  put(*fresh, "t1:k", "v");
  for (int i = 0; i < 2000; ++i) put(*fresh, "t2:k", std::string(100, 'v'));
  ASSERT_EQ(catch_up(*fresh, *replica).outcome, ReplicaOutcome::ok);
  replica->set_pin(pin, scope, seg0, at, start_time);
  replica->set_owner_floor(seg0, owner->state(seg0).floor);
  while (replica->trim_log(start_time)) {
  }
  EXPECT_GT(replica->state(seg0).floor, Revision{1000});
  const auto place = replica->pin_place(pin, seg0);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->acknowledged, at);
  EXPECT_GE(place->moved.revision.value() + 1, replica->state(seg0).floor.value()) << "its reader can resume here";
  // A pin that matches holds the log here too.
  replica->set_pin(pin, {}, seg0, replica->state(seg0).head, start_time);
  const PinKey full{"cn", "full", ScopeId{0}, ClusterId{0xb}};
  const Revision held{replica->state(seg0).floor.value() + 20};
  replica->set_pin(full, {}, seg0, Position{Generation{50}, held}, start_time);
  replica->set_owner_floor(seg0, Revision{2003});
  EXPECT_FALSE(replica->trim_log(start_time)) << "kept is not waiting";
  EXPECT_LE(replica->state(seg0).floor, held.next());
  replica->set_pin(full, {}, seg0, Position{Generation{50}, Revision{2002}}, start_time);
  EXPECT_FALSE(replica->trim_log(start_time));
  EXPECT_EQ(replica->state(seg0).floor, Revision{2003});
}

// A node is promoted while its maintenance thread goes through what it follows: what it takes for a replica's log is an owner's by the time that it has the lock.
TEST(ReplicaTrim, WhatIsPromotedMeanwhileKeepsItsLog) {
  constexpr std::uint16_t segments = 256;
  const auto segment = [](std::uint16_t s) { return SegmentId{s}; };
  int cut = 0;
  for (std::uint64_t round = 1; round <= 4 && cut == 0; ++round) {
    auto node = make_member(segments, round);
    for (std::uint16_t s = 0; s < segments; ++s) own(*node, 50, segment(s));
    std::atomic<std::uint64_t> passes{0};
    std::atomic<bool> stop{false};
    std::thread trimmer([&] {
      while (!stop.load()) {
        node->set_owner_floor(seg0, Revision{1});  // what the owner that is gone had said: nothing has been trimmed
        node->trim_log(start_time);
        ++passes;
      }
    });
    for (std::uint32_t term = 51; term < 57 && cut == 0; ++term) {  // the log's first chunks stay within its budget so long
      for (std::uint16_t s = 0; s < segments; ++s) node->set_role(segment(s), SegmentRole::replica);
      for (const std::uint64_t begin = passes; passes < begin + 2;) std::this_thread::yield();
      for (std::uint16_t s = 0; s < segments; ++s) own(*node, term, segment(s));
      for (std::uint16_t s = 0; s < segments; ++s) cut += node->state(segment(s)).floor != Revision{1} ? 1 : 0;
    }
    stop = true;
    trimmer.join();
  }
  EXPECT_EQ(cut, 0) << "logs were thrown away by who took them for a replica's";
}

}  // namespace
}  // namespace zaris::store
