// A replica takes the owner's content range by range, while the owner goes on.
#include "tests/unit/store/replica_fixture.hpp"

namespace zaris::store {
namespace {

struct ReplicaCopy : testing::Test {
  std::unique_ptr<Store> owner = make_member(1, 1), replica = make_member(1, 2);
  ReplicaCopy() {
    own(*owner, 50);
    replica->set_role(seg0, SegmentRole::replica);
  }
  // A replica that was once an owner of its own and holds other things.
  void with_other_content(int n) {
    own(*replica, 40);
    for (int i = 0; i < n; ++i) put(*replica, "k" + std::to_string(i * 3), "old");
    replica->del("k0", {}, start_time);
    replica->set_role(seg0, SegmentRole::replica);
  }
};

TEST_F(ReplicaCopy, WhatThePagesDoNotNameIsGone) {
  for (int i = 0; i < 3000; ++i) put(*owner, "k" + std::to_string(i), std::string(static_cast<std::size_t>(i % 200), 'v'));
  put(*owner, "", "the empty key");
  put(*owner, "large", std::string(40'000, 'l'));
  for (int i = 0; i < 3000; i += 4) owner->del("k" + std::to_string(i), {}, start_time);
  with_other_content(2000);
  EXPECT_EQ(copy_all(*owner, *replica, WalkLimits{100, 1 << 20}).outcome, ReplicaOutcome::ok);
  EXPECT_EQ(difference(*owner, *replica), "");
  const SegmentState state = replica->state(seg0);
  EXPECT_FALSE(state.copying);
  EXPECT_EQ(state.floor, state.head.revision.next());
  EXPECT_EQ(state.tombstones, 0u) << "the log is silent about what was before";
  EXPECT_EQ(replica->memory().replica_records, owner->memory().records);
  put(*owner, "next", "v");
  EXPECT_EQ(catch_up(*owner, *replica).outcome, ReplicaOutcome::ok);
  EXPECT_EQ(difference(*owner, *replica), "");
}

TEST_F(ReplicaCopy, ASlotOfAnySizeIsReplacedInPages) {
  for (int i = 0; i < 6000; ++i) put(*owner, "{t}" + std::to_string(i * 2), "v");
  own(*replica, 40);
  for (int i = 0; i < 6000; ++i) put(*replica, "{t}" + std::to_string(i * 3), "old");
  replica->set_role(seg0, SegmentRole::replica);
  ASSERT_EQ(replica->begin_copy(seg0, copy_start(*owner), start_time).outcome, ReplicaOutcome::ok);
  auto walk = owner->begin_walk(seg0, {}, std::nullopt);
  int i = 0;
  while (!walk->done()) {
    const WalkPage page = walk->next(WalkLimits{97, 1 << 20});
    ASSERT_EQ(catch_up(*owner, *replica).outcome, ReplicaOutcome::ok);
    ASSERT_EQ(replica->copy_page(seg0, copy_page(page), start_time).outcome, ReplicaOutcome::ok);
    put(*owner, "{t}" + std::to_string(i * 977 % 12'000), "w" + std::to_string(i));
    owner->del("{t}" + std::to_string(i * 641 % 12'000), {}, start_time);
    ++i;
  }
  ASSERT_EQ(catch_up(*owner, *replica).outcome, ReplicaOutcome::ok);
  EXPECT_EQ(difference(*owner, *replica), "");
}

TEST_F(ReplicaCopy, ARunMeanwhileGoesIntoTheTablesOnlyWhereTheyAreCovered) {
  for (int i = 0; i < 100; ++i) put(*owner, "k" + std::to_string(i), "v");
  with_other_content(50);
  ASSERT_EQ(replica->begin_copy(seg0, copy_start(*owner), start_time).outcome, ReplicaOutcome::ok);
  SegmentState state = replica->state(seg0);
  EXPECT_TRUE(state.copying);
  EXPECT_FALSE(state.copied_to);
  EXPECT_EQ(state.head, owner->state(seg0).head);
  EXPECT_EQ(state.floor, state.head.revision.next());
  EXPECT_EQ(replica->lineage(seg0), owner->lineage(seg0));
  EXPECT_EQ(state.live_keys, 49u) << "the records stay until the page that covers them";
  auto walk = owner->begin_walk(seg0, {}, std::nullopt);
  const WalkPage page = walk->next(WalkLimits{30, 1 << 20});
  ASSERT_EQ(replica->copy_page(seg0, copy_page(page), start_time).outcome, ReplicaOutcome::ok);
  state = replica->state(seg0);
  EXPECT_EQ(state.copied_to, page.to);
  for (int i = 0; i < 100; ++i) put(*owner, "k" + std::to_string(i), "w");
  ASSERT_EQ(catch_up(*owner, *replica).outcome, ReplicaOutcome::ok);
  EXPECT_EQ(replica->state(seg0).head, owner->state(seg0).head);
  for (int i = 0; i < 100; ++i) {
    const std::string key = "k" + std::to_string(i);
    const auto here = replica->fetch(seg0, {key}).records[0];
    if (SlotKey{slot_of(key), key} <= *page.to) {
      ASSERT_TRUE(here);
      EXPECT_EQ(trusted_record(*here).value, "w");
    } else {
      EXPECT_TRUE(!here || trusted_record(*here).value == "old") << key;
    }
  }
  while (!walk->done()) {
    ASSERT_EQ(replica->copy_page(seg0, copy_page(walk->next(WalkLimits{30, 1 << 20})), start_time).outcome, ReplicaOutcome::ok);
  }
  EXPECT_EQ(difference(*owner, *replica), "");
}

// Nobody finishes it: what there is begins a history of its own, above everything that is held, and can be copied like any other.
TEST_F(ReplicaCopy, AHalfCopyCanBeKeptAsItIs) {
  for (int i = 0; i < 100; ++i) put(*owner, "k" + std::to_string(i), "v");
  own(*replica, 40);
  for (int i = 0; i < 300; ++i) put(*replica, "old" + std::to_string(i), "of before, and further on");
  replica->set_role(seg0, SegmentRole::replica);
  const Position before = replica->state(seg0).head;
  ASSERT_EQ(replica->begin_copy(seg0, copy_start(*owner), start_time).outcome, ReplicaOutcome::ok);
  auto walk = owner->begin_walk(seg0, {}, std::nullopt);
  ASSERT_EQ(replica->copy_page(seg0, copy_page(walk->next(WalkLimits{60, 1 << 20})), start_time).outcome, ReplicaOutcome::ok);
  const std::uint64_t held = replica->state(seg0).live_keys;
  replica->keep_half_copy(seg0);
  EXPECT_FALSE(replica->state(seg0).copying);
  const Position begins = replica->begin_term(seg0, {Generation{70}, 7, HistoryId{77}, RootCause::restarted_empty}, start_time);
  EXPECT_GT(begins.revision, before.revision) << "something that is held is as new";
  EXPECT_EQ(replica->lineage(seg0).root().cause, RootCause::restarted_empty);
  EXPECT_EQ(replica->lineage(seg0).root().history, HistoryId{77});
  EXPECT_EQ(replica->state(seg0).live_keys, held);
  put(*replica, "k1", "goes on");
  auto third = make_member(1, 3);
  third->set_role(seg0, SegmentRole::replica);
  EXPECT_EQ(copy_all(*replica, *third, WalkLimits{50, 1 << 20}).outcome, ReplicaOutcome::ok);
  EXPECT_EQ(difference(*replica, *third), "");
  replica->set_role(seg0, SegmentRole::replica);
  replica->keep_half_copy(seg0);
  EXPECT_EQ(replica->lineage(seg0).root().history, HistoryId{77}) << "there is none on its way";
}

TEST_F(ReplicaCopy, ADeleteThatCameBeforeItsPageIsRemembered) {
  put(*owner, "k", "1");
  put(*owner, "k", "2");
  put(*owner, "other", "1");
  ASSERT_EQ(replica->begin_copy(seg0, copy_start(*owner), start_time).outcome, ReplicaOutcome::ok);
  owner->del("k", {}, start_time);
  put(*owner, "k", "again");
  owner->del("k", {}, start_time);
  owner->del("other", {}, start_time);
  put(*owner, "other", "2");
  ASSERT_EQ(catch_up(*owner, *replica).outcome, ReplicaOutcome::ok);
  auto walk = owner->begin_walk(seg0, {}, std::nullopt);
  ASSERT_EQ(replica->copy_page(seg0, copy_page(walk->next({})), start_time).outcome, ReplicaOutcome::ok);
  EXPECT_EQ(difference(*owner, *replica), "");
  EXPECT_EQ(replica->state(seg0).tombstones, 1u);
  own(*replica, 60);
  EXPECT_EQ(put(*replica, "k", "3").token.item_version, 6u);
  EXPECT_EQ(put(*replica, "other", "3").token.item_version, 4u);
  replica->trim_log_hard(seg0);
  EXPECT_EQ(replica->state(seg0).tombstones, 0u);
}

TEST_F(ReplicaCopy, PagesComeInOrderAndAsOfTheHead) {
  for (int i = 0; i < 100; ++i) put(*owner, "k" + std::to_string(i), "v");
  auto walk = owner->begin_walk(seg0, {}, std::nullopt);
  const WalkPage first = walk->next(WalkLimits{30, 1 << 20});
  const WalkPage next = walk->next(WalkLimits{30, 1 << 20});
  EXPECT_EQ(replica->copy_page(seg0, copy_page(first), start_time).outcome, ReplicaOutcome::not_replica) << "no copy has begun";
  ASSERT_EQ(replica->begin_copy(seg0, copy_start(*owner), start_time).outcome, ReplicaOutcome::ok);
  EXPECT_EQ(replica->copy_page(seg0, copy_page(next), start_time).outcome, ReplicaOutcome::gap);
  ASSERT_EQ(replica->copy_page(seg0, copy_page(first), start_time).outcome, ReplicaOutcome::ok);
  EXPECT_EQ(replica->copy_page(seg0, copy_page(first), start_time).outcome, ReplicaOutcome::gap) << "once";
  put(*owner, "k1", "w");
  const WalkPage newer = walk->next(WalkLimits{30, 1 << 20});
  ASSERT_EQ(replica->copy_page(seg0, copy_page(next), start_time).outcome, ReplicaOutcome::ok);
  const ReplicaAnswer early = replica->copy_page(seg0, copy_page(newer), start_time);
  EXPECT_EQ(early.outcome, ReplicaOutcome::gap);
  EXPECT_EQ(early.head, next.as_of);
  EXPECT_FALSE(early.reason.empty());
  ASSERT_EQ(catch_up(*owner, *replica).outcome, ReplicaOutcome::ok);
  EXPECT_EQ(replica->copy_page(seg0, copy_page(newer), start_time).outcome, ReplicaOutcome::ok);
  EXPECT_EQ(owner->begin_copy(seg0, copy_start(*owner), start_time).outcome, ReplicaOutcome::not_replica);
}

TEST_F(ReplicaCopy, APageThatIsNotOneChangesNothing) {
  put(*owner, "{b}1", "1");
  put(*owner, "{b}2", "2");
  const WalkPage good = owner->begin_walk(seg0, {}, std::nullopt)->next({});
  const auto record = [](std::string_view key, std::uint64_t revision, Deleted deleted = Deleted::no) {
    return make_record({.key = key, .value = "x", .tombstone = deleted != Deleted::no}, RecordHeader{Revision{revision}, 1, start_time, deleted, Generation{50}, {}});
  };
  const auto page_of = [](WalkPage& page, const std::vector<std::string>& records, std::uint8_t flags = 0) {
    page.table.clear();
    page.records.clear();
    for (const auto& r : records) {
      append_row(page.table, RecordRow{static_cast<std::uint32_t>(r.size()), flags, slot_of("b"), 0});
      page.records += r;
    }
  };
  struct Case {
    const char* what;
    std::function<void(WalkPage&)> spoil;
  };
  const Case cases[] = {
      {"a table that does not fit", [](WalkPage& p) { p.records.pop_back(); }},
      {"garbage", [&](WalkPage& p) { page_of(p, {"garbage"}); }},
      {"a tombstone", [&](WalkPage& p) { page_of(p, {record("{b}1", 2, Deleted::by_delete)}, row_flag_tombstone); }},
      {"newer than the page", [&](WalkPage& p) { page_of(p, {record("{b}1", 4)}); }},
      {"not in order", [&](WalkPage& p) { page_of(p, {record("{b}2", 2), record("{b}1", 3)}); }},
      {"twice", [&](WalkPage& p) { page_of(p, {record("{b}1", 2), record("{b}1", 3)}); }},
      {"outside", [](WalkPage& p) { p.to = SlotKey{slot_of("b"), "{b}1"}; }},
      {"a generation record", [&](WalkPage& p) { page_of(p, {make_generation_record(Revision{1}, 1, Generation{50}, 1, HistoryId{1}, RootCause::created)}); }},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.what);
    replica = make_member(1, 2);
    with_other_content(5);
    ASSERT_EQ(replica->begin_copy(seg0, copy_start(*owner), start_time).outcome, ReplicaOutcome::ok);
    const Digest digest = replica->segment_digest(seg0);
    WalkPage page = good;
    c.spoil(page);
    const ReplicaAnswer answer = replica->copy_page(seg0, copy_page(page), start_time);
    EXPECT_EQ(answer.outcome, ReplicaOutcome::malformed);
    EXPECT_FALSE(answer.reason.empty());
    EXPECT_EQ(replica->segment_digest(seg0), digest);
    EXPECT_TRUE(replica->state(seg0).copying);
    EXPECT_EQ(replica->copy_page(seg0, copy_page(good), start_time).outcome, ReplicaOutcome::ok);
    EXPECT_EQ(difference(*owner, *replica), "");
  }
  CopyStart off = copy_start(*owner);
  off.as_of.generation = Generation{49};
  EXPECT_EQ(replica->begin_copy(seg0, off, start_time).outcome, ReplicaOutcome::malformed);
  EXPECT_EQ(replica->begin_copy(seg0, CopyStart{}, start_time).outcome, ReplicaOutcome::malformed);
  EXPECT_EQ(difference(*owner, *replica), "") << "nothing was done";
}

TEST_F(ReplicaCopy, ACopyThatWasInterruptedGoesOnOrBeginsAnew) {
  for (int i = 0; i < 500; ++i) put(*owner, "k" + std::to_string(i), "v");
  with_other_content(100);
  ASSERT_EQ(replica->begin_copy(seg0, copy_start(*owner), start_time).outcome, ReplicaOutcome::ok);
  ASSERT_EQ(replica->copy_page(seg0, copy_page(owner->begin_walk(seg0, {}, std::nullopt)->next(WalkLimits{50, 1 << 20})), start_time).outcome, ReplicaOutcome::ok);
  for (int i = 0; i < 500; i += 2) owner->del("k" + std::to_string(i), {}, start_time);
  ASSERT_EQ(catch_up(*owner, *replica).outcome, ReplicaOutcome::ok);
  // With a new walk from where it was.
  auto walk = owner->begin_walk(seg0, {}, replica->state(seg0).copied_to);
  ASSERT_EQ(replica->copy_page(seg0, copy_page(walk->next(WalkLimits{50, 1 << 20})), start_time).outcome, ReplicaOutcome::ok);
  for (int i = 0; i < 500; i += 3) put(*owner, "k" + std::to_string(i), "w");
  // From the beginning.
  EXPECT_EQ(copy_all(*owner, *replica, WalkLimits{50, 1 << 20}).outcome, ReplicaOutcome::ok);
  EXPECT_EQ(difference(*owner, *replica), "");
}

TEST_F(ReplicaCopy, AnOldOwnersTailIsThrownAway) {
  for (int i = 0; i < 50; ++i) put(*owner, "k" + std::to_string(i), "v");
  ASSERT_EQ(catch_up(*owner, *replica).outcome, ReplicaOutcome::ok);
  const PinKey pin{"cn", "l", ScopeId{0}, ClusterId{0xb}};
  owner->set_pin(pin, {}, seg0, owner->state(seg0).head, start_time);
  for (int i = 0; i < 30; ++i) put(*owner, "k" + std::to_string(i), "lost");
  own(*replica, 60);
  put(*replica, "k1", "kept");
  owner->set_role(seg0, SegmentRole::replica);
  EXPECT_EQ(catch_up(*replica, *owner).outcome, ReplicaOutcome::ok) << "there is nothing behind its head";
  EXPECT_GT(owner->state(seg0).head.revision, replica->state(seg0).head.revision);
  EXPECT_EQ(copy_all(*replica, *owner).outcome, ReplicaOutcome::ok);
  EXPECT_EQ(difference(*replica, *owner), "");
  EXPECT_TRUE(owner->pin_place(pin, seg0)) << "pins stand";
}

// Between the pin and the copy's log is log that this node never had: whether it matches the pin's scope nobody here can say.
TEST_F(ReplicaCopy, APinFromBeforeTheCopyIsNotMovedOverTheHole) {
  const Scope scope = Scope::make({"t1:"}).value();
  const PinKey pin{"cn", "l", scope.id(), ClusterId{0xb}};
  const Position at = owner->state(seg0).head;
  put(*owner, "t1:wanted", "v");
  for (int i = 0; i < 100; ++i) put(*owner, "t2:k", std::string(100, 'v'));
  ASSERT_EQ(copy_all(*owner, *replica).outcome, ReplicaOutcome::ok);
  replica->set_pin(pin, scope, seg0, at, start_time);
  for (int i = 0; i < 3000; ++i) put(*owner, "t2:k", std::string(100, 'v'));
  ASSERT_EQ(catch_up(*owner, *replica).outcome, ReplicaOutcome::ok);
  own(*replica, 60);
  replica->trim_log_hard(seg0);
  const auto place = replica->pin_place(pin, seg0);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->moved, at) << "its reader has not seen t1:wanted, and would be told to go on behind it";
}

TEST_F(ReplicaCopy, EqualDigestsSkipTheRecordsOnly) {
  put(*owner, "k", "v");
  put(*owner, "gone", "v");
  ASSERT_EQ(catch_up(*owner, *replica).outcome, ReplicaOutcome::ok);
  owner->del("gone", {}, start_time);
  ASSERT_EQ(catch_up(*owner, *replica).outcome, ReplicaOutcome::ok);
  ASSERT_EQ(owner->segment_digest(seg0), replica->segment_digest(seg0));
  ASSERT_EQ(replica->begin_copy(seg0, copy_start(*owner), start_time).outcome, ReplicaOutcome::ok);
  EXPECT_EQ(replica->finish_copy(seg0).outcome, ReplicaOutcome::ok);
  EXPECT_FALSE(replica->state(seg0).copying);
  EXPECT_EQ(replica->state(seg0).floor, replica->state(seg0).head.revision.next());
  EXPECT_EQ(replica->state(seg0).tombstones, 0u);
  EXPECT_EQ(difference(*owner, *replica), "");
  EXPECT_EQ(replica->finish_copy(seg0).outcome, ReplicaOutcome::not_replica);
  // What came meanwhile is in no table: the digests say nothing about it.
  ASSERT_EQ(replica->begin_copy(seg0, copy_start(*owner), start_time).outcome, ReplicaOutcome::ok);
  put(*owner, "k", "w");
  ASSERT_EQ(catch_up(*owner, *replica).outcome, ReplicaOutcome::ok);
  EXPECT_EQ(replica->finish_copy(seg0).outcome, ReplicaOutcome::gap);
  EXPECT_TRUE(replica->state(seg0).copying);
}

TEST_F(ReplicaCopy, TimesDoNotFallBehindADeleteThatNoPageShows) {
  put(*owner, "k", "v", start_time);
  owner->del("k", {}, start_time + 100 * second);
  ASSERT_EQ(copy_all(*owner, *replica).outcome, ReplicaOutcome::ok);
  EXPECT_EQ(replica->state(seg0).newest_timestamp_us, start_time + 100 * second);
  own(*replica, 60, seg0, start_time);
  put(*replica, "k", "v", start_time);
  EXPECT_EQ(trusted_record(*replica->fetch(seg0, {"k"}).records[0]).timestamp_us, start_time + 100 * second);
  EXPECT_GE(replica->memory().log_complete_since_us, start_time + 100 * second) << "the log does not reach back further";
}

TEST_F(ReplicaCopy, TheOwnersFloorOfBeforeIsForgotten) {
  for (int i = 0; i < 20; ++i) put(*owner, "k" + std::to_string(i), "v");
  replica->set_owner_floor(seg0, Revision{1'000'000});
  ASSERT_EQ(copy_all(*owner, *replica).outcome, ReplicaOutcome::ok);
  put(*owner, "k", "v");
  ASSERT_EQ(catch_up(*owner, *replica).outcome, ReplicaOutcome::ok);
  replica->trim_log_hard(seg0);
  EXPECT_EQ(replica->state(seg0).floor, replica->state(seg0).head.revision);
}

}  // namespace
}  // namespace zaris::store
