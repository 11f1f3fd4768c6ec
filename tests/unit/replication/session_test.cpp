// One owner, one replica, one connection: named stories.
#include "line.hpp"

namespace zaris::replication {
namespace {

using store::SegmentRole;
constexpr SegmentId seg0{0}, seg1{1}, seg2{2}, seg3{3};
constexpr std::uint32_t segments = 4;
const std::vector<SegmentId> all{seg0, seg1, seg2, seg3};

class Session : public testing::Test {
 protected:
  Session() {
    for (const SegmentId id : all) {
      owner->begin_term(id, {Generation{5}, 50, HistoryId{0xdef}, RootCause::created}, now.wall_us);
      replica->set_role(id, SegmentRole::replica);
    }
  }
  Line& connect(OwnerOptions options = {}, ReplicaOptions replica_options = {}) {
    line = std::make_unique<Line>(*owner, *replica, "n2", options, replica_options);
    return *line;
  }
  void follow(Generation generation = Generation{5}) {
    std::vector<SegmentFollow> ask;
    for (const SegmentId id : all) ask.push_back({id, generation, false});
    line->r->follow(ask);
  }
  void put(SegmentId id, int n, std::size_t bytes = 20) {
    const auto outcome = store::put(*owner, store::key_in(id, segments, n), std::string(bytes, 'v'), now.wall_us);
    ASSERT_EQ(outcome.status, Status::ok);
  }
  void settle() { line->settle(now); }
  void expect_all_equal() {
    for (const SegmentId id : all) expect_equal(*owner, *replica, id, now.wall_us);
  }
  // What the replica would need next goes, whatever pins it.
  void trim_away(SegmentId id) {
    owner->drop_pin(replica_pin(*owner, "n2"));
    owner->trim_log_hard(id);
  }

  std::unique_ptr<store::Store> owner = member_store(segments, 1), replica = member_store(segments, 2);
  Now now{1'000'000, store::start_time};
  std::unique_ptr<Line> line;
};

TEST_F(Session, ABlankReplicaTakesTheWholeLog) {
  for (int i = 0; i < 20; ++i) put(all[static_cast<std::size_t>(i) % 4], i);
  ASSERT_EQ(owner->del(store::key_in(seg0, segments, 0), {}, now.wall_us).status, Status::ok);
  connect();
  follow();
  settle();
  expect_all_equal();
  EXPECT_EQ(replica->state(seg0).floor, Revision{1});
  EXPECT_EQ(replica->state(seg0).tombstones, 1u);
  EXPECT_EQ(line->r->state(seg0).phase, FollowPhase::log);
  EXPECT_TRUE(line->r->state(seg0).synced);
  EXPECT_TRUE(line->o->progress(seg0).synchronised);
  EXPECT_EQ(line->o->progress(seg0).received, owner->state(seg0).head);
  EXPECT_GT(line->r->closed_time(), 0u);
  EXPECT_EQ(line->o->closed_time_received(), line->r->closed_time());
}

TEST_F(Session, ABlankReplicaIsCopiedWhereTheLogIsGone) {
  for (int i = 0; i < 300; ++i) put(seg0, i, 300);
  owner->trim_log_hard(seg0);
  OwnerOptions options;
  options.page.records_max = 7;
  connect(options);
  follow();
  // While the pages go, writes go on.
  for (int i = 0; i < 200; ++i) {
    put(seg0, i % 40, 30);
    line->tick(now);
    line->say();
    line->deliver(2, 2);
    if (line->r->state(seg0).phase == FollowPhase::copy) {
      EXPECT_FALSE(line->o->progress(seg0).received) << "a copy that is not whole holds nothing";
      EXPECT_FALSE(line->r->state(seg0).synced);
    }
  }
  settle();
  expect_all_equal();
  EXPECT_GT(replica->state(seg0).floor, Revision{300});
  EXPECT_TRUE(line->r->state(seg0).synced);
  EXPECT_FALSE(line->r->state(seg0).reason.empty()) << "why it was copied";
}

TEST_F(Session, WhatNobodyWaitsForIsConfirmedWithinItsTime) {
  connect();
  follow();
  put(seg0, 1);
  settle();
  const auto confirmed = [&] { return *line->o->progress(seg0).received; };
  line->o->confirmations_awaited(false);
  put(seg0, 2);
  put(seg0, 3);
  for (int i = 0; i < 5; ++i) {
    line->o->on_dirty(all);
    line->say();
    line->deliver(1000, 1000);
  }
  EXPECT_EQ(replica->state(seg0).head, owner->state(seg0).head);
  EXPECT_LT(confirmed(), owner->state(seg0).head) << "a frame for each run is what this saves";
  ASSERT_TRUE(line->r->confirms_at());
  now.mono_us = *line->r->confirms_at();
  line->r->on_tick(now);
  line->say();
  line->deliver(1000, 1000);
  EXPECT_EQ(confirmed(), owner->state(seg0).head);
  EXPECT_FALSE(line->r->confirms_at());
  // Somebody waits for a later one: that takes the earlier with it.
  put(seg0, 4);
  line->o->on_dirty(all);
  line->say();
  line->deliver(1000, 1000);
  line->o->confirmations_awaited(true);
  put(seg0, 5);
  line->o->on_dirty(all);
  line->say();
  line->deliver(1000, 1000);
  line->say();
  line->deliver(1000, 1000);
  EXPECT_EQ(confirmed(), owner->state(seg0).head);
}

TEST_F(Session, MuchThatNobodyWaitsForIsConfirmedAtOnce) {
  connect();
  follow();
  settle();
  line->o->confirmations_awaited(false);
  for (int i = 0; i < 100; ++i) put(seg0, i, 2000);
  for (int i = 0; i < 20; ++i) {
    line->o->on_dirty(all);
    line->say();
    line->deliver(1u << 20, 1u << 20);
  }
  EXPECT_LT(owner->log_bytes_after(seg0, line->o->progress(seg0).received->revision), 64u << 10) << "the owner may not think it far behind";
}

TEST_F(Session, ComesBackAndGoesOnFromWhatItHolds) {
  connect();
  follow();
  put(seg0, 1);
  settle();
  connect();  // broken
  for (int i = 2; i < 20; ++i) put(seg0, i);
  owner->trim_log_hard(seg0);  // what the replica lacks is pinned
  follow();
  settle();
  expect_all_equal();
  EXPECT_LE(replica->state(seg0).floor, Revision{2});
}

TEST_F(Session, EqualContentIsNotSentAgain) {
  for (int i = 0; i < 50; ++i) put(seg0, i);
  connect();
  follow();
  settle();
  // A tail that did not survive and was taken back by the owner: the replica's head is off the lineage, its content is the same.
  line.reset();
  replica->begin_term(seg0, {Generation{6}, 60, {}, {}}, now.wall_us);
  replica->set_role(seg0, SegmentRole::replica);
  owner->set_role(seg0, SegmentRole::replica);
  owner->begin_term(seg0, {Generation{7}, 70, {}, {}}, now.wall_us);
  connect();
  follow(Generation{7});
  line->say();
  line->deliver(1000, 1000);
  line->say();
  EXPECT_LT(line->down.size(), 2000u) << "fifty records are more";
  settle();
  expect_all_equal();
}

TEST_F(Session, ADivergedTailIsReplaced) {
  for (int i = 0; i < 50; ++i) put(seg0, i);
  connect();
  follow();
  settle();
  line.reset();
  // The replica is promoted; the old owner wrote on, unheard, and comes back.
  for (int i = 40; i < 60; ++i) put(seg0, i, 33);
  const Position lost = owner->state(seg0).head;
  replica->begin_term(seg0, {Generation{6}, 60, {}, {}}, now.wall_us);
  owner->set_role(seg0, SegmentRole::replica);
  std::swap(owner, replica);
  for (int i = 55; i < 70; ++i) put(seg0, i, 44);
  connect();
  line->r->follow(std::vector<SegmentFollow>{{seg0, Generation{6}, false}});
  settle();
  expect_equal(*owner, *replica, seg0, now.wall_us);
  EXPECT_EQ(replica->state(seg0).floor > lost.revision || replica->state(seg0).floor > Revision{50}, true);
}

TEST_F(Session, AReplicaThatFellBelowTheFloorIsCopiedWithinTheSession) {
  connect();
  follow();
  settle();
  for (int i = 0; i < 400; ++i) put(seg0, i, 300);
  trim_away(seg0);
  line->tick(now);
  settle();
  expect_all_equal();
  EXPECT_GT(replica->state(seg0).floor, Revision{300});
}

// A copy empties what may have been answered for: first the coordinator must know that the replica does not count.
TEST_F(Session, NoCopyToAMemberOfTheSynchronisedSet) {
  for (int i = 0; i < 50; ++i) put(seg0, i);
  owner->trim_log_hard(seg0);
  connect();
  bool member = true;
  line->may_copy = [&](SegmentId id) { return id != seg0 || !member; };
  follow();
  settle();
  EXPECT_EQ(line->o->progress(seg0).phase, ReplicaPhase::waiting);
  EXPECT_EQ(line->r->state(seg0).phase, FollowPhase::asked);
  EXPECT_EQ(line->r->state(seg1).phase, FollowPhase::log);
  member = false;
  settle();
  expect_all_equal();
}

TEST_F(Session, ANewerTermStopsTheOwner) {
  connect();
  follow();
  settle();
  line->r->follow(std::vector<SegmentFollow>{{seg0, Generation{9}, false}});
  settle();
  const auto heard = line->o->take_heard();
  ASSERT_EQ(heard.size(), 1u);
  EXPECT_EQ(heard[0].segment, seg0);
  EXPECT_EQ(heard[0].generation, Generation{9});
  EXPECT_EQ(line->r->state(seg0).phase, FollowPhase::refused);
  EXPECT_EQ(line->r->state(seg0).refusal, Refusal::older_generation);
  EXPECT_EQ(line->o->progress(seg0).phase, ReplicaPhase::none);
  put(seg0, 1);
  put(seg1, 1);
  settle();
  EXPECT_LT(replica->state(seg0).head, owner->state(seg0).head) << "nothing of that segment goes on";
  expect_equal(*owner, *replica, seg1, now.wall_us);
}

TEST_F(Session, NothingOfAnOlderTermIsTaken) {
  connect();
  follow();
  settle();
  put(seg0, 1);
  line->tick(now);
  ASSERT_TRUE(line->o->next(line->down));
  line->r->learn(seg0, Generation{8});  // before what is on its way
  const Position before = replica->state(seg0).head;
  line->deliver(1000, 1000);
  EXPECT_FALSE(line->r->ended());
  EXPECT_EQ(replica->state(seg0).head, before);
  EXPECT_EQ(line->r->state(seg0).phase, FollowPhase::superseded);
  settle();
  EXPECT_EQ(line->o->progress(seg0).phase, ReplicaPhase::none);
}

// Whoever asks again has something else to say: the answer to what it said before does not count.
TEST_F(Session, OnlyTheAnswerToTheLastQuestionCounts) {
  put(seg0, 1);
  connect();
  follow();
  line->say();
  line->deliver(0, 1000);
  line->say();  // the answer and the log are on their way
  follow();
  ASSERT_TRUE(line->r->next(line->up));
  line->deliver(1000, 0);
  EXPECT_EQ(line->r->state(seg0).phase, FollowPhase::asked);
  EXPECT_EQ(replica->state(seg0).head, Position{});
  settle();
  expect_all_equal();
}

TEST_F(Session, AnOwnerThatIsNoneAnyMoreSaysSo) {
  connect();
  follow();
  settle();
  owner->set_role(seg0, SegmentRole::replica);
  settle();
  EXPECT_EQ(line->r->state(seg0).phase, FollowPhase::refused);
  EXPECT_EQ(line->r->state(seg0).refusal, Refusal::ended);
  // A term that begins anew at the same node is followed anew.
  owner->begin_term(seg0, {Generation{8}, 80, {}, {}}, now.wall_us);
  line->r->follow(std::vector<SegmentFollow>{{seg0, Generation{8}, false}});
  settle();
  expect_all_equal();
}

TEST_F(Session, APromotedNodePullsTheTailThatAnotherHolds) {
  auto third = member_store(segments, 3);
  for (const SegmentId id : all) third->set_role(id, SegmentRole::replica);
  for (int i = 0; i < 20; ++i) put(seg0, i);
  connect();
  follow();
  settle();
  for (int i = 20; i < 40; ++i) put(seg0, i);
  Line to_third(*owner, *third, "n3");
  to_third.r->follow(std::vector<SegmentFollow>{{seg0, Generation{5}, false}});
  to_third.settle(now);
  line.reset();
  ASSERT_LT(replica->state(seg0).head, third->state(seg0).head);
  // The owner is gone; the node that has less is promoted: first it takes what the other has.
  Line pull(*third, *replica, "n2");
  pull.r->follow(std::vector<SegmentFollow>{{seg0, Generation{6}, true}});
  pull.settle(now);
  EXPECT_TRUE(pull.r->state(seg0).synced);
  expect_equal(*third, *replica, seg0, now.wall_us);
  const auto heard = pull.o->take_heard();
  ASSERT_EQ(heard.size(), 1u) << "who is asked for a tail hears of the term that begins";
  EXPECT_EQ(heard[0].generation, Generation{6});
  EXPECT_TRUE(third->pins(now.wall_us).empty());
  // Never a copy: a node that holds less than the asker refuses.
  Line back(*replica, *third, "n3");
  third->begin_term(seg1, {Generation{7}, 70, HistoryId{1}, RootCause::created}, now.wall_us);
  third->set_role(seg1, SegmentRole::replica);
  back.r->follow(std::vector<SegmentFollow>{{seg1, Generation{9}, true}});
  back.settle(now);
  EXPECT_EQ(back.r->state(seg1).refusal, Refusal::nothing_to_pull);
}

TEST_F(Session, PinsFollowAndGoAgain) {
  const Scope users = *Scope::make({"user:"});
  const store::PinKey mine{"follower-b", "a-to-b", users.id(), ClusterId{0xbb}}, gone{"old", "l", ScopeId{0}, ClusterId{0xbb}};
  for (int i = 0; i < 10; ++i) put(seg0, i);
  replica->set_pin(gone, Scope{}, seg0, {Generation{5}, Revision{1}}, now.wall_us);
  owner->set_pin(mine, users, seg0, {Generation{5}, Revision{3}}, now.wall_us);
  owner->set_pin(mine, users, seg1, {Generation{5}, Revision{1}}, now.wall_us);
  connect();
  follow();
  settle();
  expect_all_equal();
  EXPECT_FALSE(replica->pin_place(gone, seg0)) << "it was dropped while the replica was away";
  ASSERT_TRUE(replica->pin_place(mine, seg0));
  owner->set_pin(mine, users, seg0, {Generation{5}, Revision{7}}, now.wall_us);
  settle();
  expect_all_equal();
  owner->drop_pin(mine);
  settle();
  expect_all_equal();
  EXPECT_TRUE(replica->pins(now.wall_us).empty());
}

TEST_F(Session, ACopyBringsTheLogThatReadersStillNeed) {
  const store::PinKey away{"follower-b", "a-to-b", ScopeId{0}, ClusterId{0xbb}};
  for (int i = 0; i < 100; ++i) put(seg0, i);
  owner->trim_log_hard(seg0);
  // What the reader has not got: writes over keys, a deletion, and a term that began.
  const Position stands = owner->state(seg0).head;
  owner->set_pin(away, Scope{}, seg0, stands, now.wall_us);
  for (int i = 0; i < 40; ++i) put(seg0, i, 50);
  ASSERT_EQ(owner->del(store::key_in(seg0, segments, 7), std::nullopt, now.wall_us).status, Status::ok);
  owner->set_role(seg0, SegmentRole::replica);
  owner->begin_term(seg0, {Generation{6}, 60, {}, {}}, now.wall_us);
  for (int i = 200; i < 220; ++i) put(seg0, i);
  OwnerOptions options;
  options.page.records_max = 9;
  connect(options);
  line->r->follow(std::vector<SegmentFollow>{{seg0, Generation{6}, false}});
  for (int i = 0; i < 30; ++i) {
    put(seg0, i % 20, 30);
    line->tick(now);
    line->say();
    line->deliver(2, 2);
  }
  settle();
  expect_equal(*owner, *replica, seg0, now.wall_us);
  EXPECT_EQ(replica->state(seg0).floor, stands.revision.next()) << "the reader goes on here as it would have there";
  EXPECT_TRUE(log_bytes(*owner, seg0, stands.revision) == log_bytes(*replica, seg0, stands.revision));
  EXPECT_EQ(line->o->progress(seg0).floor, stands.revision.next());
}

// The replica's other segments may be its own: a pin that is dropped at one owner stays where another owner holds it.
TEST_F(Session, APinOfAnotherOwnersSegmentStays) {
  const store::PinKey key{"follower-b", "a-to-b", ScopeId{0}, ClusterId{0xbb}};
  replica->set_role(seg3, SegmentRole::none);
  owner->set_role(seg3, SegmentRole::none);
  replica->begin_term(seg3, {Generation{6}, 60, HistoryId{3}, RootCause::created}, now.wall_us);
  replica->set_pin(key, Scope{}, seg3, {Generation{6}, Revision{1}}, now.wall_us);
  owner->set_pin(key, Scope{}, seg0, {Generation{5}, Revision{1}}, now.wall_us);
  connect();
  line->r->follow(std::vector<SegmentFollow>{{seg0, Generation{5}, false}});
  settle();
  owner->drop_pin(key);
  settle();
  ASSERT_TRUE(replica->pin_place(key, seg3));
  EXPECT_EQ(replica->pin_place(key, seg3)->acknowledged.revision, Revision{1});
  EXPECT_TRUE(pins_of(*replica, seg0, now.wall_us).empty());
}

// Nor does what other owners hold, or hold no more, take back that a place was lost here.
TEST_F(Session, WhatTheReplicaLostInItsOwnSegmentsIsNotFoundByAnotherOwner) {
  store::StoreOptions small;
  small.log_budget_bytes = 64 << 10;
  small.log_pin_bytes = 128 << 10;
  replica = member_store(segments, 2, small);
  const store::PinKey key{"follower-b", "a-to-b", ScopeId{0}, ClusterId{0xbb}};
  replica->set_role(seg0, SegmentRole::replica);
  owner->set_role(seg3, SegmentRole::none);
  replica->begin_term(seg3, {Generation{6}, 60, HistoryId{3}, RootCause::created}, now.wall_us);
  replica->set_pin(key, Scope{}, seg3, {Generation{6}, Revision{1}}, now.wall_us);
  owner->set_pin(key, Scope{}, seg0, {Generation{5}, Revision{1}}, now.wall_us);
  OwnerOptions options;
  options.pins_full_every = 1;
  connect(options);
  line->r->follow(std::vector<SegmentFollow>{{seg0, Generation{5}, false}});
  settle();
  for (int i = 0; i < 3000; ++i) ASSERT_EQ(store::put(*replica, store::key_in(seg3, segments, 1), std::string(100, 'v'), now.wall_us).status, Status::ok);
  while (replica->trim_log(now.wall_us)) {
  }
  const auto lost = [&] {
    const auto pins = replica->pins(now.wall_us);
    return pins.size() == 1 && pins[0].key == key && pins[0].lost;
  };
  ASSERT_TRUE(lost());
  for (int i = 0; i < 10; ++i) {
    now.mono_us += 1'000'000;
    settle();
  }
  EXPECT_TRUE(lost()) << "the owner of another segment still holds it there";
  EXPECT_TRUE(replica->pin_place(key, seg0));
  owner->drop_pin(key);  // as it does when it has lost it too, and its reader came
  now.mono_us += 1'000'000;
  settle();
  EXPECT_FALSE(replica->pin_place(key, seg0));
  EXPECT_TRUE(lost());
}

TEST_F(Session, WhoFollowsNoMoreIsKeptNothing) {
  connect();
  follow();
  settle();
  const store::PinKey pin = replica_pin(*owner, "n2");
  ASSERT_TRUE(owner->pin_place(pin, seg0));
  line->r->unfollow(std::vector<SegmentId>{seg0});
  settle();
  EXPECT_FALSE(owner->pin_place(pin, seg0));
  EXPECT_TRUE(owner->pin_place(pin, seg1));
}

TEST_F(Session, ReplicasTrimAsFarAsTheOwnerDid) {
  connect();
  follow();
  for (int i = 0; i < 500; ++i) put(seg0, i % 50, 300);
  settle();
  replica->trim_log_hard(seg0);
  EXPECT_LE(replica->state(seg0).floor, Revision{2}) << "the owner still has it all";
  owner->trim_log_hard(seg0);
  const Revision floor = owner->state(seg0).floor;
  ASSERT_GT(floor, Revision{300});
  settle();
  replica->trim_log_hard(seg0);
  EXPECT_GT(replica->state(seg0).floor, Revision{100});
  EXPECT_LE(replica->state(seg0).floor, floor);
}

TEST_F(Session, AReplicaThatDoesNotReadCostsNoMemory) {
  ReplicaOptions window;
  window.window_bytes = 100'000;
  connect({}, window);
  line->socket_bytes = std::size_t{1} << 40;
  follow();
  line->say();
  line->deliver(0, 1000);
  const std::size_t at_rest = line->o->held_bytes();
  for (int i = 0; i < 3000; ++i) {
    put(all[static_cast<std::size_t>(i) % 4], i % 100, 1000);
    line->tick(now);
    line->say();
    now.mono_us += 100'000;
  }
  EXPECT_LT(line->down.size(), window.window_bytes + (64u << 10) + 2000) << "the window and a frame";
  EXPECT_LT(line->o->held_bytes(), at_rest + 10'000);
  settle();
  expect_all_equal();
}

// A busy segment does not keep others from their turn, nor tails a copy.
TEST_F(Session, FairBetweenSegmentsAndCopies) {
  for (int i = 0; i < 500; ++i) put(seg0, i, 1000);
  for (int i = 0; i < 200; ++i) put(seg1, i, 100);
  owner->trim_log_hard(seg1);
  put(seg2, 1);
  OwnerOptions options;
  options.output_bytes = options.turn_bytes = 4096;
  connect(options);
  follow();
  for (int i = 0; i < 40; ++i) {
    put(seg0, i % 100, 4000);  // more than one turn's worth each time
    line->tick(now);
    line->say();
    line->deliver(1000, 1000);
  }
  EXPECT_LT(replica->state(seg0).head, owner->state(seg0).head);
  EXPECT_EQ(replica->state(seg2).head, owner->state(seg2).head);
  EXPECT_FALSE(replica->state(seg1).copying);
  EXPECT_EQ(replica->segment_digest(seg1), owner->segment_digest(seg1));
}

TEST_F(Session, WhatDoesNotFollowEndsTheSession) {
  put(seg0, 1);
  connect();
  follow();
  settle();
  store::LogStretch stretch;
  ASSERT_EQ(owner->read_log(seg0, Revision{0}, 1 << 20, stretch), store::LogRead::ok);
  line->down.clear();
  encode_run(line->down, seg0, {}, stretch, 1);
  line->deliver(1, 0);
  ASSERT_TRUE(line->r->ended());
  EXPECT_EQ(line->r->ended()->code, "replication_gap");

  connect();
  encode(line->up, Received{{{SegmentId{4}, {}, 0}}, 0});
  line->deliver(0, 1);
  ASSERT_TRUE(line->o->ended());
  EXPECT_EQ(line->o->ended()->code, "replication_malformed");

  connect();
  follow();
  settle();
  encode(line->up, Received{{{seg0, {Generation{5}, Revision{1000}}, 0}}, 0});
  line->deliver(0, 1);
  ASSERT_TRUE(line->o->ended()) << "more than was sent cannot be held";
}

}  // namespace
}  // namespace zaris::replication
