// ApplyBatch: who is admitted, what each kind does, what it refuses. Design page protocol.
#include "tests/unit/store/link_fixture.hpp"

namespace zaris::store {
namespace {

using testing::ElementsAre;
using testing::Pair;

struct Apply : testing::Test {
  std::unique_ptr<Store> a = make_store(1, 0xa), b = make_store(1, 0xb);
  Linked link{*a, *b};
  void ready() {
    ASSERT_EQ(link.open_link(), Status::ok);
    ASSERT_EQ(link.open().status, Status::ok);
    ASSERT_EQ(link.bootstrap().status, Status::ok);
  }
};

TEST_F(Apply, ARangeThenTheStreamMakeTheTargetEqual) {
  for (int i = 0; i < 3000; ++i) put(*a, "k" + std::to_string(i), "v" + std::to_string(i));
  ASSERT_EQ(link.open_link(), Status::ok);
  ASSERT_EQ(link.open().status, Status::ok);
  EXPECT_EQ(link.bootstrap(WalkLimits{100, 1 << 20}).status, Status::ok);
  for (int i = 0; i < 3000; i += 3) put(*a, "k" + std::to_string(i), "w");
  for (int i = 0; i < 3000; i += 7) a->del("k" + std::to_string(i), {}, start_time);
  const auto answer = link.stream_all();
  EXPECT_EQ(answer.status, Status::ok);
  EXPECT_EQ(answer.mark->phase, Phase::stream);
  EXPECT_EQ(answer.mark->low, answer.mark->high);
  EXPECT_EQ(answer.mark->low->at, a->state(SegmentId{0}).head);
  EXPECT_EQ(contents(*a), contents(*b));
  EXPECT_EQ(a->segment_digest(SegmentId{0}), b->segment_digest(SegmentId{0}));
}

TEST_F(Apply, AReplicatedRecordKeepsItsEntryVersionAndTimeAndNamesWhereItStood) {
  put(*a, "k", "v", start_time + 5);
  ready();
  const auto source = a->fetch(SegmentId{0}, {"k"}).records[0].value();
  const auto target = b->fetch(SegmentId{0}, {"k"}).records[0].value();
  const RecordView s = trusted_record(source), t = trusted_record(target);
  EXPECT_EQ(s.entry, t.entry);
  EXPECT_EQ(s.item_version, t.item_version);
  EXPECT_EQ(s.timestamp_us, t.timestamp_us);
  EXPECT_EQ(t.origin, (Origin{a->options().cluster, s.position()}));
  EXPECT_EQ(t.generation, Generation{100 + 0xb});
}

TEST_F(Apply, WhoIsAdmitted) {
  struct Case {
    const char* what;
    void (*spoil)(ApplyBatch&);
    Status status;
  };
  const Case cases[] = {
      {"as it should be", [](ApplyBatch&) {}, Status::ok},
      {"another token", [](ApplyBatch& batch) { ++batch.expected->number; }, Status::mark_gap},
      {"another session's token", [](ApplyBatch& batch) { batch.expected->session = SessionId{1}; }, Status::mark_gap},
      {"a token of another target generation", [](ApplyBatch& batch) { batch.expected->target_generation = Generation{1}; }, Status::mark_gap},
      {"no token", [](ApplyBatch& batch) { batch.expected.reset(); }, Status::mark_gap},
      {"an older follower", [](ApplyBatch& batch) { batch.follower_term = FollowerTerm{0}; }, Status::term_superseded},
      {"an older epoch", [](ApplyBatch& batch) { batch.site_epoch = SiteEpoch{0}; }, Status::epoch_superseded},
      {"a newer epoch", [](ApplyBatch& batch) { batch.site_epoch = SiteEpoch{2}; }, Status::epoch_superseded},
      {"another source", [](ApplyBatch& batch) { batch.source_cluster = ClusterId{0xc}; }, Status::source_changed},
      {"another history", [](ApplyBatch& batch) { batch.history = HistoryId{1}; }, Status::source_changed},
      {"another scope", [](ApplyBatch& batch) { batch.scope = ScopeId{5}; }, Status::scope_mismatch},
      {"a link that is not open", [](ApplyBatch& batch) { batch.link = "other"; }, Status::mark_gap},
      {"a run that starts above low", [](ApplyBatch& batch) { batch.prev->at.revision = Revision{batch.prev->at.revision.value() + 1}; }, Status::invalid_argument},
      {"no such segment", [](ApplyBatch& batch) { batch.target_segment = SegmentId{9}; }, Status::invalid_argument},
      {"a delta of no range", [](ApplyBatch& batch) { batch.kind = ApplyKind::delta; }, Status::invalid_argument},
      {"a table that does not fit", [](ApplyBatch& batch) { batch.records.remove_suffix(1); }, Status::invalid_argument},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.what);
    a = make_store(1, 0xa);
    b = make_store(1, 0xb);
    Linked l(*a, *b);
    put(*a, "k", "v1");
    ASSERT_EQ(l.open_link(), Status::ok);
    ASSERT_EQ(l.open().status, Status::ok);
    ASSERT_EQ(l.bootstrap().status, Status::ok);
    put(*a, "k", "v2");
    put(*a, "k", "v3");
    const auto before = b->state(SegmentId{0}).head;
    const auto mark = b->read_marks("l", ScopeId{0}).at(0).mark;
    Batch batch = l.stream(l.low->at, a->state(SegmentId{0}).head.revision);
    (void)batch.ready();
    c.spoil(batch.b);
    const auto answer = b->apply(batch.b, start_time);
    EXPECT_EQ(answer.status, c.status) << answer.reason;
    if (c.status == Status::ok) continue;
    EXPECT_FALSE(answer.reason.empty());
    EXPECT_EQ(b->state(SegmentId{0}).head, before) << "nothing was applied";
    EXPECT_EQ(b->read_marks("l", ScopeId{0}).at(0).mark, mark);
    if (c.status == Status::mark_gap && batch.b.link == "l") {
      EXPECT_EQ(answer.mark, mark);
    }
  }
}

TEST_F(Apply, APipelinedSenderNamesTheTokensThatItsPredecessorsWillProduce) {
  ready();
  put(*a, "k", "1");
  put(*a, "k", "2");
  const Position low = link.low->at;
  Batch first = link.stream(low, Revision{low.revision.value() + 1});
  link.token->number += 1;
  Batch second = link.stream({low.generation, Revision{low.revision.value() + 1}}, Revision{low.revision.value() + 2});
  EXPECT_EQ(b->apply(first.ready(), start_time).status, Status::ok);
  EXPECT_EQ(b->apply(second.ready(), start_time).status, Status::ok);
  EXPECT_EQ(get(*b, "k"), "2");
  EXPECT_EQ(b->apply(second.ready(), start_time).status, Status::mark_gap) << "once";
}

TEST_F(Apply, AStreamRecordIsAppliedOnceIfItIsAboveLow) {
  ready();
  put(*a, "k", "1");
  put(*a, "l", "1");
  const Position before = link.low->at;
  EXPECT_EQ(link.stream_all().applied, 2u);
  put(*a, "m", "1");
  const auto again = link.send(link.stream(before, a->state(SegmentId{0}).head.revision));
  EXPECT_EQ(again.status, Status::ok);
  EXPECT_EQ(again.skipped, 2u);
  EXPECT_EQ(again.applied, 1u);
  // An empty batch moves the mark over what brought nothing here.
  const auto empty = link.send(link.stream(link.low->at, Revision{link.low->at.revision.value() + 5}));
  EXPECT_EQ(empty.status, Status::ok);
  EXPECT_EQ(empty.mark->low->at.revision.value(), a->state(SegmentId{0}).head.revision.value() + 5);
}

TEST_F(Apply, InBootstrapTheStreamTouchesOnlyWhatIsCovered) {
  for (int i = 0; i < 200; ++i) put(*a, "k" + std::to_string(i), "old");
  ASSERT_EQ(link.open_link(), Status::ok);
  ASSERT_EQ(link.open().status, Status::ok);
  EXPECT_EQ(b->apply(link.stream(a->state(SegmentId{0}).head, a->state(SegmentId{0}).head.revision).ready(), start_time).status,
            Status::invalid_argument)
      << "nothing is covered yet";
  auto walk = a->begin_walk(SegmentId{0}, {}, std::nullopt);
  const WalkPage first = walk->next(WalkLimits{100, 1 << 20});
  ASSERT_EQ(link.send(link.range(first)).status, Status::ok);
  for (int i = 0; i < 200; ++i) put(*a, "k" + std::to_string(i), "new");
  const auto streamed = link.stream_all();
  EXPECT_EQ(streamed.applied, first.count);
  EXPECT_EQ(streamed.skipped, 200 - first.count);
  const WalkPage second = walk->next(WalkLimits{1000, 1 << 20});
  EXPECT_TRUE(walk->done());
  ASSERT_EQ(link.send(link.range(second)).status, Status::ok);
  EXPECT_EQ(contents(*a), contents(*b));
}

// Sessions that ran out while a link was away beyond the log: to remove what nobody can read any more asks nobody.
TEST_F(Apply, ARangeRemovesWhatHasExpiredWithoutAWord) {
  for (int i = 0; i < 50; ++i) a->put({"k" + std::to_string(i), "v", i % 2 == 0 ? start_time + 1'000'000 : 0, std::nullopt, false}, start_time);
  ready();
  a->put({"k1", "w", 0, std::nullopt, false}, start_time + 2'000'000);
  for (int i = 0; i < 50; i += 2) a->del("k" + std::to_string(i), {}, start_time);
  ASSERT_EQ(link.open().status, Status::ok);
  link.removals_left = 24;
  EXPECT_EQ(link.bootstrap().status, Status::removal_limit) << "they live";
  link.now = start_time + 3'000'000;
  link.removals_left = 0;
  const auto answer = link.bootstrap();
  EXPECT_EQ(answer.status, Status::ok) << answer.reason;
  EXPECT_EQ(answer.removed, 0u);
  EXPECT_EQ(contents(*a), contents(*b));
}

TEST_F(Apply, ARangeRemovesEveryOtherKeyAndLeavesTombstones) {
  for (int i = 0; i < 50; ++i) put(*a, "k" + std::to_string(i), "v");
  ready();
  // B's mark starts over, and half of the source's keys are gone by then, with their tombstones.
  for (int i = 0; i < 50; i += 2) a->del("k" + std::to_string(i), {}, start_time);
  const auto head = b->state(SegmentId{0}).head.revision;
  ASSERT_EQ(link.open().status, Status::ok);
  link.removals_left = 24;
  auto refused = link.bootstrap();
  EXPECT_EQ(refused.status, Status::removal_limit);
  EXPECT_EQ(refused.removal_count, 25u);
  EXPECT_EQ(b->state(SegmentId{0}).head.revision, head) << "nothing applied";
  link.removals_left = 25;
  const auto answer = link.bootstrap();
  EXPECT_EQ(answer.status, Status::ok) << answer.reason;
  EXPECT_EQ(answer.removed, 25u);
  EXPECT_EQ(answer.skipped, 25u) << "what is the same already is not written again";
  EXPECT_EQ(contents(*a), contents(*b));
  LogStretch stretch;
  ASSERT_EQ(b->read_log(SegmentId{0}, head, 1 << 20, stretch), LogRead::ok);
  const RecordView tombstone = trusted_record(stretch.record(0));
  EXPECT_EQ(tombstone.deleted, Deleted::by_repair);
  EXPECT_EQ(tombstone.item_version, 2u);
  EXPECT_EQ(tombstone.origin, (Origin{a->options().cluster, a->state(SegmentId{0}).head}));
}

TEST_F(Apply, WhatWasWrittenHereIsNamedBeforeItIsLost) {
  put(*a, "both", "source");
  put(*a, "same", "x");
  put(*b, "both", "own");
  put(*b, "mine", "own");
  ASSERT_EQ(link.open_link(), Status::ok);
  ASSERT_EQ(link.open().status, Status::ok);
  const auto refused = link.bootstrap();
  ASSERT_EQ(refused.status, Status::would_lose);
  std::map<std::string, std::string> lost;
  for (const auto& l : refused.would_lose) lost[l.key] = std::string(trusted_record(l.record).value);
  EXPECT_THAT(lost, ElementsAre(Pair("both", "own"), Pair("mine", "own")));
  EXPECT_EQ(contents(*b).size(), 2u) << "nothing applied";
  link.may_lose = {"both", "mine"};
  const auto answer = link.bootstrap();
  EXPECT_EQ(answer.status, Status::ok);
  EXPECT_EQ(answer.conflicts, 2u);
  EXPECT_EQ(contents(*a), contents(*b));
  // In the stream as well: the source wins, once the follower has kept the loser.
  link.may_lose.clear();
  put(*b, "same", "written here");
  put(*a, "same", "newer");
  EXPECT_EQ(link.stream_all().status, Status::would_lose);
  link.may_lose = {"same"};
  EXPECT_EQ(link.stream_all().conflicts, 1u);
  EXPECT_EQ(get(*b, "same"), "newer");
  // A name is of one write: another that has come since is not lost for it.
  put(*b, "raced", "first");
  put(*a, "raced", "the source's");
  const auto first = link.stream_all();
  ASSERT_EQ(first.status, Status::would_lose);
  put(*b, "raced", "second");
  Batch named = link.stream(link.low->at, a->state(link.source).head.revision);
  named.b.may_lose = {"raced"};
  named.b.may_lose_names = {record_name(first.would_lose.at(0).record)};
  const auto second = link.send(named);
  ASSERT_EQ(second.status, Status::would_lose);
  EXPECT_EQ(trusted_record(second.would_lose.at(0).record).value, "second");
  EXPECT_EQ(get(*b, "raced"), "second");
  // Named 0 it goes, and the answer brings it.
  named.b.may_lose_names = {0};
  const auto third = link.send(named);
  ASSERT_EQ(third.status, Status::ok);
  EXPECT_EQ(trusted_record(third.would_lose.at(0).record).value, "second");
  EXPECT_EQ(get(*b, "raced"), "the source's");
}

TEST_F(Apply, EqualRangesAreProvedByCountAndDigest) {
  for (int i = 0; i < 300; ++i) put(*a, "k" + std::to_string(i), "v");
  ready();
  const auto prove = [&](bool tamper) {
    auto walk = a->begin_walk(SegmentId{0}, {}, std::nullopt);
    ApplyAnswer answer;
    do {
      const WalkPage page = walk->next(WalkLimits{64, 1 << 20});
      Batch batch = link.range(page);
      batch.table.clear();
      batch.records.clear();
      batch.b.range->equal = ApplyRange::Equal{page.count, page.digest};
      if (tamper && walk->done()) batch.b.range->equal->digest.low ^= 1;
      answer = link.send(batch);
    } while (answer.status == Status::ok && !walk->done());
    return answer;
  };
  ASSERT_EQ(link.open().status, Status::ok);
  const auto head = b->state(SegmentId{0}).head;
  auto answer = prove(false);
  EXPECT_EQ(answer.status, Status::ok) << answer.reason;
  EXPECT_EQ(answer.mark->phase, Phase::stream);
  EXPECT_EQ(b->state(SegmentId{0}).head, head) << "the records stay";
  ASSERT_EQ(link.open().status, Status::ok);
  EXPECT_EQ(prove(true).status, Status::range_differs);
}

TEST_F(Apply, RangesAreTakenInOrder) {
  for (int i = 0; i < 300; ++i) put(*a, "k" + std::to_string(i), "v");
  ASSERT_EQ(link.open_link(), Status::ok);
  ASSERT_EQ(link.open().status, Status::ok);
  auto walk = a->begin_walk(SegmentId{0}, {}, std::nullopt);
  const WalkPage first = walk->next(WalkLimits{100, 1 << 20});
  const WalkPage second = walk->next(WalkLimits{100, 1 << 20});
  const WalkPage third = walk->next(WalkLimits{1000, 1 << 20});
  EXPECT_EQ(link.send(link.range(second)).status, Status::invalid_argument) << "from is above the last key";
  EXPECT_EQ(link.send(link.range(first)).status, Status::ok);
  EXPECT_EQ(link.send(link.range(third)).status, Status::invalid_argument);
  Batch outside = link.range(second);
  outside.b.range->to = first.to;
  EXPECT_EQ(link.send(outside).status, Status::invalid_argument);
  EXPECT_EQ(link.send(link.range(second)).status, Status::ok);
  EXPECT_EQ(link.send(link.range(third)).mark->phase, Phase::stream);
  EXPECT_EQ(link.send(link.range(third)).status, Status::invalid_argument) << "a range for a mark in stream";
}

TEST_F(Apply, ARecordThatTheTargetWillNeverTakeIsNamed) {
  StoreOptions small;
  small.value_bytes_max = 10;
  b = make_store(1, 0xb, small);
  Linked l(*a, *b);
  put(*a, "a", "fits");
  ASSERT_EQ(l.open_link(), Status::ok);
  ASSERT_EQ(l.open().status, Status::ok);
  ASSERT_EQ(l.bootstrap().status, Status::ok);
  put(*a, "b", "fits");
  put(*a, "c", std::string(11, 'x'));
  const auto answer = l.stream_all();
  EXPECT_EQ(answer.status, Status::item_too_large);
  EXPECT_EQ(answer.refused_index, 1u);
  EXPECT_EQ(answer.refused_status, Status::item_too_large);
  EXPECT_EQ(get(*b, "b"), std::nullopt);
}

TEST_F(Apply, AStandbyScopeIsLeftToItsSource) {
  put(*a, "gone", "v", start_time, start_time + second);
  ready();
  EXPECT_TRUE(b->standby(slot_of("gone"), "gone"));
  const WallMicros later = start_time + 60 * second;
  EXPECT_EQ(get(*b, "gone", later), std::nullopt) << "hidden at its expiry";
  while (b->sweep_expiry(later)) {
  }
  EXPECT_EQ(b->counters().expired, 0u);
  EXPECT_EQ(b->state(SegmentId{0}).live_keys, 1u) << "removed by the source's tombstone";
  while (a->sweep_expiry(later)) {
  }
  EXPECT_EQ(link.stream_all().status, Status::ok);
  EXPECT_EQ(b->state(SegmentId{0}).live_keys, 0u);
  EXPECT_EQ(a->segment_digest(SegmentId{0}), b->segment_digest(SegmentId{0}));
}

TEST_F(Apply, OpeningALink) {
  const auto prefix = [](std::string p) { return Scope::make({std::move(p)}).value(); };
  const auto open = [&](std::string name, Scope scope, std::uint64_t source, std::uint64_t epoch, std::uint64_t term) {
    std::string reason;
    return b->open_link(LinkRegistration{std::move(name), ClusterId{source}, std::move(scope), SiteEpoch{epoch}, FollowerTerm{term}}, reason);
  };
  EXPECT_EQ(open("one", prefix("t1:"), 0xa, 1, 5), Status::ok);
  EXPECT_EQ(open("one", prefix("t1:"), 0xa, 1, 5), Status::ok) << "again is free";
  EXPECT_EQ(open("two", prefix("t1:x"), 0xa, 1, 1), Status::scope_mismatch);
  EXPECT_EQ(open("two", prefix("t2:"), 0xc, 1, 1), Status::ok);
  EXPECT_EQ(open("one", prefix("t1:"), 0xa, 1, 4), Status::term_superseded);
  EXPECT_EQ(open("one", prefix("t1:"), 0xa, 0, 6), Status::epoch_superseded);
  EXPECT_EQ(open("one", prefix("t1:"), 0xd, 1, 6), Status::source_changed);
  EXPECT_TRUE(b->standby(slot_of("t2:k"), "t2:k"));
  b->close_link("two");
  EXPECT_FALSE(b->standby(slot_of("t2:k"), "t2:k"));
  EXPECT_EQ(b->links().size(), 1u);
}

TEST_F(Apply, OpenLinkWritesTheTermIntoTheMarksAndAnotherScopeDropsThem) {
  ready();
  const auto checksum = b->mark_checksum("l", ScopeId{0});
  link.term = FollowerTerm{9};
  ASSERT_EQ(link.open_link(), Status::ok);
  EXPECT_EQ(b->read_marks("l", ScopeId{0}).at(0).mark.follower_term, FollowerTerm{9});
  EXPECT_EQ(b->mark_checksum("l", ScopeId{0}), checksum) << "the tokens stay";
  link.scope = Scope::make({"x"}).value();
  ASSERT_EQ(link.open_link(), Status::ok);
  EXPECT_TRUE(b->read_marks("l", ScopeId{0}).empty());
}

TEST_F(Apply, ATombstoneThatIsReclaimedRaisesTheHorizon) {
  put(*a, "k", "v");
  ready();
  const auto horizon = b->read_marks("l", ScopeId{0}).at(0).mark.horizon;
  a->del("k", {}, start_time);
  put(*a, "other", "v");
  ASSERT_EQ(link.stream_all().status, Status::ok);
  EXPECT_EQ(b->read_marks("l", ScopeId{0}).at(0).mark.horizon, horizon);
  b->trim_log_hard(SegmentId{0});
  EXPECT_EQ(b->read_marks("l", ScopeId{0}).at(0).mark.horizon->at.revision.value(), horizon->at.revision.value() + 1);
  EXPECT_EQ(b->state(SegmentId{0}).tombstones, 0u);
}

struct Shapes : testing::TestWithParam<std::pair<std::uint32_t, std::uint32_t>> {};

TEST_P(Shapes, AnyNumberOfSourceSegmentsIntoAnyNumberOfTargetSegments) {
  const auto [from, to] = GetParam();
  auto a = make_store(from, 0xa), b = make_store(to, 0xb);
  for (int i = 0; i < 2000; ++i) put(*a, "k" + std::to_string(i), "v" + std::to_string(i));
  Linked link(*a, *b);
  ASSERT_EQ(link.open_link(), Status::ok);
  std::map<std::pair<std::uint32_t, std::uint32_t>, Linked> links;
  for (std::uint32_t s = 0; s < from; ++s) {
    for (std::uint32_t t = 0; t < to; ++t) {
      if (s * to / from != t && t * from / to != s) continue;
      Linked& l = links.emplace(std::pair(s, t), link).first->second;
      l.source = SegmentId{static_cast<std::uint16_t>(s)};
      l.target = SegmentId{static_cast<std::uint16_t>(t)};
      ASSERT_EQ(l.open().status, Status::ok);
      const auto answer = l.bootstrap(WalkLimits{50, 1 << 20});
      ASSERT_EQ(answer.status, Status::ok) << answer.reason;
    }
  }
  for (int i = 0; i < 2000; i += 5) a->del("k" + std::to_string(i), {}, start_time);
  for (int i = 1; i < 2000; i += 5) put(*a, "k" + std::to_string(i), "w");
  for (auto& [key, l] : links) ASSERT_EQ(l.stream_all().status, Status::ok);
  // And once more from nothing, over what stands.
  for (auto& [key, l] : links) {
    ASSERT_EQ(l.open().status, Status::ok);
    const auto answer = l.bootstrap();
    ASSERT_EQ(answer.status, Status::ok) << answer.reason;
    EXPECT_EQ(answer.removed, 0u);
  }
  EXPECT_EQ(contents(*a), contents(*b));
  EXPECT_EQ(b->read_marks("l", ScopeId{0}).size(), std::max(from, to));
}
INSTANTIATE_TEST_SUITE_P(Apply, Shapes, testing::Values(std::pair(1, 1), std::pair(4, 4), std::pair(8, 2), std::pair(2, 8), std::pair(1, 16), std::pair(16, 1)));

}  // namespace
}  // namespace zaris::store
