// After the source has lost a tail: what came over the link above what survived is named, and just those keys are put right.
// Design page follower, "Repair"; page protocol, ListRolledBack.
#include <algorithm>
#include <random>

#include "tests/unit/store/replica_fixture.hpp"

namespace zaris::store {
namespace {

// A region of two nodes as a source: the second one misses the newest writes of the first, and takes over.
struct Repair : testing::Test {
  std::unique_ptr<Store> old_owner = make_member(1, 1), heir = make_member(1, 2);
  std::unique_ptr<Store> target = make_store(1, 0xb);
  Linked link{*old_owner, *target};
  std::unique_ptr<Linked> after;   // the same link, reading the heir
  NamedPosition surviving;
  std::uint32_t generation = 1;

  void SetUp() override {
    (void)own(*old_owner, generation);
    heir->set_role(seg0, SegmentRole::replica);
    ASSERT_EQ(copy_all(*old_owner, *heir).outcome, ReplicaOutcome::ok);
    ASSERT_EQ(link.open_link(), Status::ok);
    ASSERT_EQ(link.open().status, Status::ok);
    ASSERT_EQ(link.bootstrap().status, Status::ok);
  }
  void replicate() { ASSERT_EQ(catch_up(*old_owner, *heir).outcome, ReplicaOutcome::ok); }

  // What the heir has not got by now is lost at the source.
  void fail_over() {
    (void)own(*heir, ++generation);
    const Mark mark = target->read_marks("l", ScopeId{0}).at(0).mark;
    const LineageVerdict verdict = heir->lineage(seg0).test(mark.history, *mark.high, heir->state(seg0).head);
    ASSERT_EQ(verdict.verdict, OnLineage::diverged) << verdict.reason;
    surviving = {verdict.surviving, heir->lineage(seg0).id_of(verdict.surviving.generation)};
    after = std::make_unique<Linked>(*heir, *target);
    after->token = mark.token;
    after->low = mark.low;
  }

  RolledBackRequest request() const {
    return {"l", ScopeId{0}, seg0, seg0, 1, surviving.at, *after->token, std::nullopt, 256u << 10};
  }
  // Every record named, newest first, asked for in pages of so many bytes.
  std::vector<std::string> listed(std::size_t bytes_max = 256u << 10) const {
    std::vector<std::string> out;
    RolledBackRequest r = request();
    r.bytes_max = bytes_max;
    do {
      const RolledBackPage page = target->list_rolled_back(r);
      EXPECT_EQ(page.status, Status::ok) << page.reason;
      std::size_t at = 0;
      for (std::size_t i = 0; i < row_count(page.table); ++i) {
        const RecordRow row = read_row(page.table, i);
        out.push_back(page.records.substr(at, row.length));
        at += row.length;
      }
      r.below = page.below;
    } while (r.below);
    return out;
  }
  std::vector<std::string> keys() const {
    std::vector<std::string> out;
    for (const auto& record : listed()) out.emplace_back(trusted_record(record).key);
    std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return std::pair(slot_of(a), a) < std::pair(slot_of(b), b); });
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
  }
  // The heir's records of these keys, as a batch.
  Batch repair(const std::vector<std::string>& keys, bool final = true) const {
    Batch out = after->batch(ApplyKind::repair);
    const Store::Fetched fetched = heir->fetch(seg0, keys);
    const NamedPosition as_of{fetched.as_of, heir->lineage(seg0).id_of(fetched.as_of.generation)};
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const Slot slot = slot_of(keys[i]);
      if (fetched.records[i]) {
        out.add(*fetched.records[i], slot);
      } else {
        out.add(make_record(EntryFields{.key = keys[i], .value = {}, .expires_us = 0, .tag = 0, .tombstone = true},
                            RecordHeader{as_of.at.revision, 1, start_time, Deleted::by_repair, as_of.at.generation, std::nullopt}),
                slot);
      }
    }
    out.b.repair = ApplyRepair{surviving, as_of, final};
    return out;
  }
  void stream_rest() {
    while (after->low->at < heir->state(seg0).head) {
      // A run is of one generation; the first one behind what survived begins with the new one's.
      const ApplyAnswer answer = after->send(run_from(after->low->at));
      ASSERT_EQ(answer.status, Status::ok) << answer.reason;
    }
  }
  Batch run_from(Position low) const {
    Batch out = after->batch(ApplyKind::stream);
    LogStretch stretch;
    EXPECT_EQ(heir->read_log(seg0, low.revision, 1 << 30, stretch), LogRead::ok);
    for (std::size_t i = 0; i < stretch.index.size(); ++i) {
      if ((stretch.index[i].flags & log_flag_generation) == 0) out.add(stretch.record(i), stretch.index[i].slot);
    }
    out.b.prev = NamedPosition{low, heir->lineage(seg0).id_of(low.generation)};
    out.b.last = NamedPosition{{stretch.generation, stretch.last()}, heir->lineage(seg0).id_of(stretch.generation)};
    return out;
  }
  void expect_equal() {
    EXPECT_EQ(contents(*heir), contents(*target));
    EXPECT_EQ(heir->segment_digest(seg0), target->segment_digest(seg0));
    const Mark mark = target->read_marks("l", ScopeId{0}).at(0).mark;
    EXPECT_EQ(mark.phase, Phase::stream);
    EXPECT_EQ(mark.low, mark.high);
    EXPECT_EQ(mark.low->at, heir->state(seg0).head);
  }
};

TEST_F(Repair, JustTheKeysOfTheLostTailAreNamedAndPutRight) {
  for (int i = 0; i < 500; ++i) put(*old_owner, "k" + std::to_string(i), "kept");
  replicate();
  link.stream_all();
  put(*old_owner, "k7", "lost");
  put(*old_owner, "only-in-the-tail", "lost");
  old_owner->del("k8", {}, start_time);
  put(*old_owner, "k7", "lost again");
  link.stream_all();
  ASSERT_EQ(get(*target, "k7"), "lost again");
  fail_over();
  put(*heir, "k9", "newer");

  const auto named = listed();
  ASSERT_EQ(named.size(), 4u);
  EXPECT_EQ(trusted_record(named[0]).value, "lost again") << "the newest first";
  EXPECT_FALSE(trusted_record(named[1]).live());
  EXPECT_EQ(listed(1), named) << "one record always passes";
  const auto answer = after->send(repair(keys()));
  ASSERT_EQ(answer.status, Status::ok) << answer.reason;
  EXPECT_EQ(answer.applied, 2u) << "k7 as it was, k8 is back";
  EXPECT_EQ(answer.removed, 1u);
  EXPECT_EQ(answer.mark->phase, Phase::stream);
  EXPECT_EQ(answer.mark->low, surviving);
  EXPECT_EQ(answer.mark->high->at, heir->state(seg0).head);
  EXPECT_EQ(get(*target, "k7"), "kept");
  EXPECT_EQ(get(*target, "only-in-the-tail"), std::nullopt);
  EXPECT_EQ(get(*target, "k8"), "kept");
  stream_rest();
  expect_equal();
}

TEST_F(Repair, InSeveralBatchesTheMarkSaysSoUntilTheLast) {
  for (const char* key : {"a", "b", "c"}) put(*old_owner, key, "kept");
  replicate();
  link.stream_all();
  for (const char* key : {"a", "b", "c"}) put(*old_owner, key, "lost");
  link.stream_all();
  fail_over();
  const auto all = keys();
  ASSERT_EQ(all.size(), 3u);
  const auto first = after->send(repair({all[0]}, false));
  ASSERT_EQ(first.status, Status::ok) << first.reason;
  EXPECT_EQ(first.mark->phase, Phase::repair);
  put(*heir, all[1], "newer");  // while it goes on
  EXPECT_EQ(target->apply(run_from(surviving.at).ready(), start_time).status, Status::invalid_argument) << "nothing is streamed meanwhile";
  const auto last = after->send(repair({all[1], all[2]}));
  ASSERT_EQ(last.status, Status::ok) << last.reason;
  EXPECT_EQ(last.mark->high->at, heir->state(seg0).head);
  EXPECT_EQ(get(*target, all[1]), "newer");
  stream_rest();
  EXPECT_EQ(get(*target, all[1]), "newer");
  expect_equal();
}

TEST_F(Repair, WhatIsRefused) {
  struct Case {
    const char* what;
    void (*spoil)(Repair&, ApplyBatch&);
    Status status;
  };
  const Case cases[] = {
      {"as it should be", [](Repair&, ApplyBatch&) {}, Status::ok},
      {"no repair", [](Repair&, ApplyBatch& b) { b.repair.reset(); }, Status::invalid_argument},
      {"another token", [](Repair&, ApplyBatch& b) { ++b.expected->number; }, Status::mark_gap},
      {"as of a position of the lost generation", [](Repair&, ApplyBatch& b) { b.repair->as_of = b.repair->surviving; }, Status::invalid_argument},
      {"below the horizon", [](Repair&, ApplyBatch& b) { b.repair->surviving.at.revision = Revision{1}; }, Status::invalid_argument},
      {"more than may be taken", [](Repair&, ApplyBatch& b) { b.removals_left = 1; }, Status::removal_limit},
      {"an older follower", [](Repair&, ApplyBatch& b) { b.follower_term = FollowerTerm{0}; }, Status::term_superseded},
  };
  for (const char* key : {"a", "b", "c"}) put(*old_owner, key, "kept");
  replicate();
  const auto filled = old_owner->state(seg0).head;
  for (const Case& c : cases) {
    SCOPED_TRACE(c.what);
    old_owner = make_member(1, 1);
    heir = make_member(1, 2);
    target = make_store(1, 0xb);
    generation = 1;
    (void)own(*old_owner, generation);
    heir->set_role(seg0, SegmentRole::replica);
    ASSERT_EQ(copy_all(*old_owner, *heir).outcome, ReplicaOutcome::ok);
    for (const char* key : {"a", "b", "c"}) put(*old_owner, key, "kept");
    replicate();
    ASSERT_EQ(old_owner->state(seg0).head, filled);
    Linked fresh(*old_owner, *target);
    ASSERT_EQ(fresh.open_link(), Status::ok);
    ASSERT_EQ(fresh.open().status, Status::ok);
    ASSERT_EQ(fresh.bootstrap().status, Status::ok);
    put(*old_owner, "a", "lost");
    put(*old_owner, "d", "lost");
    fresh.stream_all();
    fail_over();
    const auto before = target->state(seg0).head;
    const auto mark = target->read_marks("l", ScopeId{0}).at(0).mark;
    Batch batch = repair(keys());
    (void)batch.ready();
    c.spoil(*this, batch.b);
    const auto answer = target->apply(batch.b, start_time);
    EXPECT_EQ(answer.status, c.status) << answer.reason;
    if (c.status == Status::ok) continue;
    EXPECT_EQ(target->state(seg0).head, before) << "nothing was applied";
    EXPECT_EQ(target->read_marks("l", ScopeId{0}).at(0).mark, mark);
    if (c.status == Status::removal_limit) {
      EXPECT_EQ(answer.removal_count, 2u);
    }
  }
}

TEST_F(Repair, AMarkInBootstrapIsNotRepairedByAList) {
  put(*old_owner, "a", "kept");
  replicate();
  link.stream_all();
  put(*old_owner, "a", "lost");
  link.stream_all();
  fail_over();
  Batch batch = repair(keys());
  const auto opened = after->send(after->batch(ApplyKind::open));
  ASSERT_EQ(opened.status, Status::ok);
  batch.b.expected = after->token;
  EXPECT_EQ(target->apply(batch.ready(), start_time).status, Status::invalid_argument);
}

TEST_F(Repair, WhatTheTargetWroteItselfIsNotTakenUnasked) {
  put(*old_owner, "a", "kept");
  replicate();
  link.stream_all();
  put(*old_owner, "a", "lost");
  link.stream_all();
  target->put(Put{.key = "a", .value = "the target's own", .expires_us = 0, .expected = {}, .only_if_absent = false}, start_time);
  fail_over();
  const auto refused = after->send(repair(keys()));
  EXPECT_EQ(refused.status, Status::would_lose);
  ASSERT_EQ(refused.would_lose.size(), 1u);
  EXPECT_EQ(trusted_record(refused.would_lose[0].record).value, "the target's own");
  after->may_lose = {"a"};
  EXPECT_EQ(after->send(repair(keys())).status, Status::ok);
  stream_rest();
  expect_equal();
}

TEST_F(Repair, AListThatTheLogDoesNotHoldAnyMoreIsGone) {
  for (int i = 0; i < 2000; ++i) put(*old_owner, "k" + std::to_string(i), std::string(100, 'x'));
  replicate();
  link.stream_all();
  for (int i = 0; i < 2000; ++i) put(*old_owner, "k" + std::to_string(i), std::string(100, 'y'));
  link.stream_all();
  fail_over();
  EXPECT_EQ(target->list_rolled_back(request()).status, Status::ok);
  target->trim_log_hard(seg0);
  const RolledBackPage gone = target->list_rolled_back(request());
  EXPECT_EQ(gone.status, Status::list_gone);
  EXPECT_TRUE(gone.records.empty());
  RolledBackRequest other = request();
  ++other.token.number;
  EXPECT_EQ(target->list_rolled_back(other).status, Status::mark_gap);
}

// Whatever was written, lost and written since: after repair and stream the target is what the heir is. Once more after a second loss.
TEST_F(Repair, AnyTailOfAnyWorkload) {
  for (unsigned seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    old_owner = make_member(1, seed * 2);
    heir = make_member(1, seed * 2 + 1);
    target = make_store(1, 0xb);
    generation = 1;
    (void)own(*old_owner, generation);
    heir->set_role(seg0, SegmentRole::replica);
    ASSERT_EQ(copy_all(*old_owner, *heir).outcome, ReplicaOutcome::ok);
    const auto write = [&](Store& at, int count) {
      for (int i = 0; i < count; ++i) {
        const std::string key = "k" + std::to_string(random() % 12);
        if (random() % 4 == 0) at.del(key, {}, start_time);
        else put(at, key, std::to_string(random()), start_time, random() % 5 == 0 ? start_time + 1 + random() % 10 : 0);
        if (random() % 8 == 0) at.sweep_expiry(start_time + random() % 10);
      }
    };
    Linked first(*old_owner, *target);
    ASSERT_EQ(first.open_link(), Status::ok);
    ASSERT_EQ(first.open().status, Status::ok);
    write(*old_owner, static_cast<int>(random() % 20));
    ASSERT_EQ(first.bootstrap(WalkLimits{1 + random() % 4, 1 << 20}).status, Status::ok);
    write(*old_owner, static_cast<int>(random() % 20));
    replicate();
    first.stream_all();
    for (int round = 0; round < 2; ++round) {
      Linked& now = round == 0 ? first : *after;
      Store& owner = now.a;
      write(owner, 1 + static_cast<int>(random() % 15));
      if (round == 0) first.stream_all();
      else stream_rest();
      if (round == 1) {
        // The heir's own copy, which missed this, is the next heir.
        auto next = make_member(1, seed + 1000);
        next->set_role(seg0, SegmentRole::replica);
        ASSERT_EQ(copy_all(*heir, *next).outcome, ReplicaOutcome::ok);
        write(*heir, 1 + static_cast<int>(random() % 6));
        stream_rest();
        old_owner = std::move(heir);
        heir = std::move(next);
      }
      const Mark mark = target->read_marks("l", ScopeId{0}).at(0).mark;
      if (heir->state(seg0).head == mark.low->at) break;  // nothing was lost
      fail_over();
      if (mark.horizon && surviving.at < mark.horizon->at) break;  // by ranges
      write(*heir, static_cast<int>(random() % 10));
      const auto all = keys();
      const std::size_t half = all.size() / 2;
      if (half > 0) {
        ASSERT_EQ(after->send(repair({all.begin(), all.begin() + static_cast<std::ptrdiff_t>(half)}, false)).status, Status::ok);
        write(*heir, static_cast<int>(random() % 10));
      }
      const auto answer = after->send(repair({all.begin() + static_cast<std::ptrdiff_t>(half), all.end()}));
      ASSERT_EQ(answer.status, Status::ok) << answer.reason;
      write(*heir, static_cast<int>(random() % 10));
      stream_rest();
      expect_equal();
      if (HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace zaris::store
