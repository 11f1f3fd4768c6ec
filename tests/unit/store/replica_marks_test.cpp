// Marks go with the segment: what changed, when a replica may have it, and what it is worth when the replica is promoted.
#include "tests/unit/store/replica_fixture.hpp"

namespace zaris::store {
namespace {

using testing::IsEmpty;

// A source region that a link feeds into the owner; a replica beside it.
struct ReplicaMarks : testing::Test {
  std::unique_ptr<Store> source = make_store(1, 0xa), owner = make_member(1, 1), replica = make_member(1, 2);
  Linked link{*source, *owner};
  const MarkKey key{"l", ScopeId{0}, seg0};
  ReplicaMarks() {
    own(*owner, 50);
    replica->set_role(seg0, SegmentRole::replica);
  }
  void ready() {
    put(*source, "k", "v");
    ASSERT_EQ(link.open_link(), Status::ok);
    ASSERT_EQ(link.open().status, Status::ok);
    ASSERT_EQ(link.bootstrap().status, Status::ok);
  }
  // Opens the link's marks of other source segments, as many as wanted: only their names matter.
  void open_others(std::uint16_t from, std::uint16_t count) {
    for (std::uint16_t i = from; i < from + count; ++i) {
      Batch batch = link.batch(ApplyKind::open);
      batch.link = "l";
      batch.b.source_segment = SegmentId{i};
      batch.b.source_segments = 1024;
      batch.b.expected.reset();
      ASSERT_EQ(owner->apply(batch.ready(), start_time).status, Status::ok);
    }
  }
};

TEST_F(ReplicaMarks, WhatChangedSinceIsToldAndNothingElse) {
  MarksSince all = owner->marks_since(seg0, 0);
  EXPECT_TRUE(all.everything);
  EXPECT_THAT(all.changes, IsEmpty());
  EXPECT_EQ(all.head, owner->state(seg0).head);
  ready();
  MarksSince since = owner->marks_since(seg0, all.version);
  EXPECT_FALSE(since.everything);
  ASSERT_EQ(since.changes.size(), 1u);
  EXPECT_EQ(since.changes[0].key, key);
  EXPECT_EQ(since.changes[0].mark, owner->read_marks("l", ScopeId{0}).at(0).mark);
  EXPECT_EQ(since.head, owner->state(seg0).head);
  EXPECT_GT(since.version, all.version);
  EXPECT_THAT(owner->marks_since(seg0, since.version).changes, IsEmpty());
  // An opening with a later term changes the marks, their horizon when a tombstone goes, and so does each apply.
  link.term = FollowerTerm{2};
  std::uint64_t version = since.version;
  const auto changed = [&] {
    const MarksSince now = owner->marks_since(seg0, version);
    version = now.version;
    return now.changes.size();
  };
  ASSERT_EQ(link.open_link(), Status::ok);
  EXPECT_EQ(changed(), 1u);
  ASSERT_EQ(link.open_link(), Status::ok);
  EXPECT_EQ(changed(), 0u) << "the same again";
  source->del("k", {}, start_time);
  ASSERT_EQ(link.stream_all().status, Status::ok);
  EXPECT_EQ(changed(), 1u);
  owner->trim_log_hard(seg0);
  EXPECT_EQ(changed(), 1u) << "the horizon";
  put(*owner, "own", "v");
  EXPECT_EQ(changed(), 0u);
  owner->close_link("l");
  const MarksSince gone = owner->marks_since(seg0, version);
  EXPECT_FALSE(gone.everything);
  ASSERT_EQ(gone.changes.size(), 1u);
  EXPECT_EQ(gone.changes[0].key, key);
  EXPECT_FALSE(gone.changes[0].mark);
  link.token.reset();
  ASSERT_EQ(link.open_link(), Status::ok);
  ASSERT_EQ(link.open().status, Status::ok);
  const MarksSince back = owner->marks_since(seg0, version);
  ASSERT_EQ(back.changes.size(), 1u) << "gone and there again is there";
  EXPECT_TRUE(back.changes[0].mark);
}

TEST_F(ReplicaMarks, ManyRemovalsAreForgottenAndThenEverythingIsTold) {
  ASSERT_EQ(link.open_link(), Status::ok);
  open_others(0, 200);
  const std::uint64_t version = owner->marks_since(seg0, 0).version;
  owner->close_link("l");
  ASSERT_EQ(link.open_link(), Status::ok);
  open_others(500, 1);
  const MarksSince since = owner->marks_since(seg0, version);
  EXPECT_TRUE(since.everything);
  ASSERT_EQ(since.changes.size(), 1u);
  EXPECT_EQ(since.changes[0].key.source_segment, SegmentId{500});
  EXPECT_FALSE(owner->marks_since(seg0, since.version).everything);
  // A replica that has not heard is put right by it.
  ASSERT_EQ(catch_up(*owner, *replica).outcome, ReplicaOutcome::ok);
  MarksSince stale = since;
  stale.changes[0].key.source_segment = SegmentId{7};
  stale.everything = false;
  ASSERT_EQ(replica->put_marks(seg0, stale).outcome, ReplicaOutcome::ok);
  ASSERT_EQ(replica->put_marks(seg0, since).outcome, ReplicaOutcome::ok);
  EXPECT_EQ(difference(*owner, *replica), "");
}

TEST_F(ReplicaMarks, AnotherOwnersNumberAsksForEverything) {
  ready();
  for (int i = 0; i < 10; ++i) {
    put(*source, "k", std::to_string(i));
    ASSERT_EQ(link.stream_all().status, Status::ok);
  }
  const MarksSince of_the_first = owner->marks_since(seg0, 0);
  ASSERT_EQ(catch_up(*owner, *replica).outcome, ReplicaOutcome::ok);
  ASSERT_EQ(replica->put_marks(seg0, of_the_first).outcome, ReplicaOutcome::ok);
  own(*replica, 60);
  const MarksSince of_the_second = replica->marks_since(seg0, of_the_first.version);
  EXPECT_TRUE(of_the_second.everything);
  EXPECT_EQ(of_the_second.changes.size(), 1u);
  EXPECT_GT(of_the_second.version, of_the_first.version);
  EXPECT_TRUE(owner->marks_since(seg0, of_the_second.version).everything) << "and the other way round";
}

TEST_F(ReplicaMarks, AReplicaHasThemOnlyWithTheLogThatTheySpeakOf) {
  ready();
  const MarksSince marks = owner->marks_since(seg0, 0);
  ReplicaAnswer answer = replica->put_marks(seg0, marks);
  EXPECT_EQ(answer.outcome, ReplicaOutcome::gap);
  EXPECT_FALSE(answer.reason.empty());
  EXPECT_THAT(marks_of(*replica), IsEmpty());
  ASSERT_EQ(catch_up(*owner, *replica).outcome, ReplicaOutcome::ok);
  ASSERT_EQ(replica->put_marks(seg0, marks).outcome, ReplicaOutcome::ok);
  EXPECT_EQ(difference(*owner, *replica), "");
  EXPECT_EQ(marks_of(*replica).at(key), marks.changes[0].mark);
  // Read by a follower they are where they are owned.
  EXPECT_THAT(replica->read_marks("l", ScopeId{0}), IsEmpty());
  EXPECT_EQ(owner->put_marks(seg0, marks).outcome, ReplicaOutcome::not_replica);
  // Another owner's tail, which is not in this log.
  MarksSince off = marks;
  off.head.generation = Generation{49};
  EXPECT_EQ(replica->put_marks(seg0, off).outcome, ReplicaOutcome::gap);
  owner->close_link("l");
  ASSERT_EQ(replica->put_marks(seg0, owner->marks_since(seg0, marks.version)).outcome, ReplicaOutcome::ok);
  EXPECT_THAT(marks_of(*replica), IsEmpty());
}

TEST_F(ReplicaMarks, DuringACopyTheyAreOutOfSight) {
  ready();
  ASSERT_EQ(catch_up(*owner, *replica).outcome, ReplicaOutcome::ok);
  ASSERT_EQ(replica->put_marks(seg0, owner->marks_since(seg0, 0)).outcome, ReplicaOutcome::ok);
  ASSERT_EQ(replica->begin_copy(seg0, copy_start(*owner), start_time).outcome, ReplicaOutcome::ok);
  EXPECT_THAT(marks_of(*replica), IsEmpty());
  const MarksSince first = owner->marks_since(seg0, 0);
  ASSERT_EQ(replica->put_marks(seg0, first).outcome, ReplicaOutcome::ok);
  put(*source, "k", "2");
  ASSERT_EQ(link.stream_all().status, Status::ok);
  ASSERT_EQ(catch_up(*owner, *replica).outcome, ReplicaOutcome::ok);
  ASSERT_EQ(replica->put_marks(seg0, owner->marks_since(seg0, first.version)).outcome, ReplicaOutcome::ok);
  EXPECT_THAT(marks_of(*replica), IsEmpty()) << "too low is safe, too high never";
  auto walk = owner->begin_walk(seg0, {}, std::nullopt);
  ASSERT_EQ(replica->copy_page(seg0, copy_page(walk->next({})), start_time).outcome, ReplicaOutcome::ok);
  EXPECT_EQ(difference(*owner, *replica), "");
  EXPECT_EQ(marks_of(*replica).size(), 1u);
}

TEST_F(ReplicaMarks, TheLinkGoesOnAtThePromotedReplica) {
  ready();
  put(*source, "k2", "v");
  ASSERT_EQ(link.stream_all().status, Status::ok);
  ASSERT_EQ(catch_up(*owner, *replica).outcome, ReplicaOutcome::ok);
  ASSERT_EQ(replica->put_marks(seg0, owner->marks_since(seg0, 0)).outcome, ReplicaOutcome::ok);
  const Mark mark = marks_of(*owner).at(key);
  own(*replica, 60);
  Linked again(*source, *replica);
  again.token = link.token;
  again.low = link.low;
  again.term = FollowerTerm{2};
  ASSERT_EQ(again.open_link(), Status::ok);
  const auto rows = replica->read_marks("l", ScopeId{0});
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].mark.token, mark.token);
  EXPECT_EQ(rows[0].mark.low, mark.low);
  EXPECT_EQ(rows[0].mark.horizon, mark.horizon) << "it had the log from the start: no absence is without its tombstone";
  EXPECT_EQ(replica->mark_checksum("l", ScopeId{0}), owner->mark_checksum("l", ScopeId{0}));
  put(*source, "k", "after");
  EXPECT_EQ(again.stream_all().status, Status::ok);
  EXPECT_EQ(get(*replica, "k"), "after");
  EXPECT_EQ(replica->read_marks("l", ScopeId{0})[0].mark.token.target_generation, Generation{60});
}

TEST_F(ReplicaMarks, AfterACopyAbsencesHaveNoTombstonesUpToWhatHadBeenApplied) {
  ready();
  source->del("k", {}, start_time);
  ASSERT_EQ(link.stream_all().status, Status::ok);
  ASSERT_EQ(owner->state(seg0).tombstones, 1u);
  ASSERT_EQ(copy_all(*owner, *replica).outcome, ReplicaOutcome::ok);
  ASSERT_EQ(replica->put_marks(seg0, owner->marks_since(seg0, 0)).outcome, ReplicaOutcome::ok);
  const Mark mark = marks_of(*owner).at(key);
  ASSERT_LT(mark.horizon->at, mark.high->at);
  EXPECT_EQ(marks_of(*replica).at(key), mark) << "a replica's is the owner's";
  own(*replica, 60);
  EXPECT_EQ(replica->read_marks("l", ScopeId{0}).at(0).mark.horizon, mark.high) << "an owner's says what is so here";
}

TEST_F(ReplicaMarks, ATombstoneThatAReplicaTrimsCountsWhenItIsPromoted) {
  ready();
  ASSERT_EQ(catch_up(*owner, *replica).outcome, ReplicaOutcome::ok);
  source->del("k", {}, start_time);
  ASSERT_EQ(link.stream_all().status, Status::ok);
  ASSERT_EQ(catch_up(*owner, *replica).outcome, ReplicaOutcome::ok);
  ASSERT_EQ(replica->put_marks(seg0, owner->marks_since(seg0, 0)).outcome, ReplicaOutcome::ok);
  const Mark before = marks_of(*replica).at(key);
  replica->set_owner_floor(seg0, owner->state(seg0).head.revision.next());
  replica->trim_log_hard(seg0);
  ASSERT_EQ(replica->state(seg0).tombstones, 0u);
  EXPECT_EQ(marks_of(*replica).at(key), before);
  own(*replica, 60);
  EXPECT_EQ(replica->read_marks("l", ScopeId{0}).at(0).mark.horizon->at, before.high->at);
}

TEST_F(ReplicaMarks, MarksOfAnOlderEpochDoNotCountAtANodeThatHearsOfTheLinkLate) {
  ready();
  ASSERT_EQ(catch_up(*owner, *replica).outcome, ReplicaOutcome::ok);
  ASSERT_EQ(replica->put_marks(seg0, owner->marks_since(seg0, 0)).outcome, ReplicaOutcome::ok);
  own(*replica, 60);
  Linked again(*source, *replica);
  again.epoch = SiteEpoch{2};
  ASSERT_EQ(again.open_link(), Status::ok);
  EXPECT_THAT(replica->read_marks("l", ScopeId{0}), IsEmpty());
}

TEST_F(ReplicaMarks, AReplicasAreNotTouchedByALinkThatIsOpenedHere) {
  ready();
  ASSERT_EQ(catch_up(*owner, *replica).outcome, ReplicaOutcome::ok);
  ASSERT_EQ(replica->put_marks(seg0, owner->marks_since(seg0, 0)).outcome, ReplicaOutcome::ok);
  std::string reason;
  ASSERT_EQ(replica->open_link(LinkRegistration{"l", source->options().cluster, {}, SiteEpoch{1}, FollowerTerm{9}}, reason), Status::ok);
  EXPECT_EQ(difference(*owner, *replica), "");
  replica->close_link("l");
  EXPECT_EQ(difference(*owner, *replica), "");
}

TEST_F(ReplicaMarks, AChangeOfAMarkAloneSetsTheSegmentsBit) {
  ready();
  auto map = owner->dirty_map([] {});
  std::vector<SegmentId> moved;
  Batch empty = link.batch(ApplyKind::stream);
  empty.b.prev = empty.b.last = link.low;
  ASSERT_EQ(link.send(empty).status, Status::ok);
  map->drain(moved);
  EXPECT_EQ(moved, std::vector<SegmentId>{seg0});
  moved.clear();
  owner->close_link("l");
  map->drain(moved);
  EXPECT_EQ(moved, std::vector<SegmentId>{seg0});
}

}  // namespace
}  // namespace zaris::store
