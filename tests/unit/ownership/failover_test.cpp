// What a leader decides when an owner is gone.
#include "cluster/ownership/failover.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace zaris::ownership {
namespace {

constexpr BootMicros s = boot_second;
const Member a{"a", Incarnation{1}}, b{"b", Incarnation{2}}, c{"c", Incarnation{3}}, d{"d", Incarnation{4}};
const Generation fence{9};
using Kind = Choice::Kind;

Position at(std::uint32_t generation, std::uint64_t revision) { return {Generation{generation}, Revision{revision}}; }
FenceAnswer answer(const Member& from, std::vector<Position> heads, Generation of = fence) { return {from, of, Generation{5}, std::move(heads)}; }

Election election(Members set, std::vector<FenceAnswer> answers, AckPolicy promise = AckPolicy::replica) {
  Election e;
  e.fence = fence;
  e.segments = 2;
  e.old_owner = a;
  e.old_lease_gone = true;
  e.set = {Generation{5}, std::move(set)};
  e.promise = promise;
  e.replication_factor = 3;
  e.answers = std::move(answers);
  e.fenced_at = 100 * s;
  return e;
}
constexpr BootMicros early = 100 * s, late = 102 * s;

// Read by people who are in a hurry: each node is named once, and as what it is.
TEST(Choose, NamesWhoAnsweredAndWhoDidNot) {
  const FailoverTimes times;
  EXPECT_EQ(choose(election({b}, {}), times, late).reason, "no synchronised replica answers (b), and nobody that lives holds the partition");
  EXPECT_EQ(choose(election({}, {}), times, late).reason, "no replica was synchronised, and nobody that lives holds the partition");
  EXPECT_EQ(choose(election({b, c, d}, {answer(b, {at(5, 1), at(5, 1)})}), times, late).reason,
            "1 of 3 synchronised replicas answered (b), not c, d; 3 are needed, or an operator who accepts the loss (zaris node accept-empty)");
}

TEST(PromotionBarrier, ANewLeaderAndOneAfterTheCoordinatorWasAwayWait) {
  const FailoverTimes times;
  EXPECT_TRUE(promotion_barrier(10 * s, 0, times).bars(13 * s));
  EXPECT_FALSE(promotion_barrier(10 * s, 0, times).bars(13 * s + 30'000));
  EXPECT_EQ(promotion_barrier(10 * s, 50 * s, times).until, 53 * s + 30'000);
  EXPECT_EQ(promotion_barrier(10 * s, 5 * s, times).until, 13 * s + 30'000) << "it was away before this leader";
  EXPECT_THAT(promotion_barrier(10 * s, 50 * s, times).reason, testing::HasSubstr("away"));
}

TEST(WeakestPromise, IsTheStoresPolicyOrReplicaWhereARequestMayAskForIt) {
  using enum AckPolicy;
  EXPECT_EQ(weakest_promise(async, async), async) << "nothing is promised";
  EXPECT_EQ(weakest_promise(async, replica), replica);
  EXPECT_EQ(weakest_promise(async, all), replica);
  EXPECT_EQ(weakest_promise(replica, all), replica);
  EXPECT_EQ(weakest_promise(majority, all), majority);
  EXPECT_EQ(weakest_promise(all, all), all);
}

TEST(AnswersNeeded, SoManyThatOneOfThemHasEveryPromisedWrite) {
  const struct { AckPolicy ack; std::uint32_t set, factor, copies, needed; } rows[] = {
      {AckPolicy::async, 0, 3, 1, 1},    {AckPolicy::async, 2, 3, 1, 1},    {AckPolicy::async, 8, 9, 1, 1},
      {AckPolicy::replica, 0, 3, 2, 1},  {AckPolicy::replica, 1, 3, 2, 1},  {AckPolicy::replica, 2, 3, 2, 2}, {AckPolicy::replica, 4, 5, 2, 4},
      {AckPolicy::majority, 1, 3, 2, 1}, {AckPolicy::majority, 2, 3, 2, 2}, {AckPolicy::majority, 4, 5, 3, 3}, {AckPolicy::majority, 1, 5, 3, 1},
      {AckPolicy::all, 0, 3, 1, 1},      {AckPolicy::all, 1, 2, 2, 1},      {AckPolicy::all, 2, 3, 3, 1},     {AckPolicy::all, 4, 5, 5, 1},
  };
  for (const auto& r : rows) {
    EXPECT_EQ(copies_promised(r.ack, r.set, r.factor), r.copies);
    EXPECT_EQ(answers_needed(r.ack, r.set, r.factor), r.needed) << static_cast<int>(r.ack) << " " << r.set;
  }
  // By counting: a write is on the owner and on copies − 1 of the set; what did not answer is as unlucky as it can be.
  for (const AckPolicy ack : {AckPolicy::replica, AckPolicy::majority, AckPolicy::all}) {
    for (std::uint32_t factor = 2; factor <= 9; ++factor) {
      for (std::uint32_t set = 1; set < factor; ++set) {
        const std::uint32_t holders = copies_promised(ack, set, factor) - 1;
        if (holders > set) continue;  // such a write cannot be acknowledged with this set
        const std::uint32_t silent = set - answers_needed(ack, set, factor);
        EXPECT_GT(holders, silent) << static_cast<int>(ack) << " " << set << " of " << factor;
      }
    }
  }
}

TEST(Choose, TheHighestOnMostSegmentsTiesByName) {
  const struct { const char* what; std::vector<FenceAnswer> answers; Member wanted; } rows[] = {
      {"higher on both", {answer(b, {at(5, 3), at(5, 3)}), answer(c, {at(5, 4), at(5, 4)})}, c},
      {"one each", {answer(c, {at(5, 4), at(5, 3)}), answer(b, {at(5, 3), at(5, 4)})}, b},
      {"equal", {answer(c, {at(5, 3), at(5, 3)}), answer(b, {at(5, 3), at(5, 3)})}, b},
      {"a generation counts before a revision", {answer(b, {at(4, 90), at(4, 90)}), answer(c, {at(5, 1), at(5, 1)})}, c},
      {"level on one, higher on the other", {answer(b, {at(5, 3), at(5, 3)}), answer(c, {at(5, 3), at(5, 4)})}, c},
  };
  for (const auto& row : rows) {
    const Choice choice = choose(election({b, c}, row.answers), {}, early);
    EXPECT_EQ(choice.kind, Kind::promote) << row.what << ": " << choice.reason;
    EXPECT_EQ(choice.chosen, row.wanted) << row.what;
    EXPECT_TRUE(choice.may_be_gone.empty());
  }
}

TEST(Choose, WaitsForTheOldLeaseAndWhileMoreMayAnswer) {
  const std::vector<FenceAnswer> both{answer(b, {at(5, 3), at(5, 3)}), answer(c, {at(5, 3), at(5, 3)})};
  Election e = election({b, c}, both);
  e.old_lease_gone = false;
  EXPECT_EQ(choose(e, {}, late).kind, Kind::wait);
  EXPECT_THAT(choose(e, {}, late).reason, testing::HasSubstr("lease of a"));
  for (const AckPolicy ack : {AckPolicy::async, AckPolicy::all}) {  // one would be enough
    e = election({b, c}, {both[1]}, ack);
    const Choice wait = choose(e, {}, early);
    EXPECT_EQ(wait.kind, Kind::wait);
    EXPECT_EQ(wait.look_again_at, 101 * s + 10'000) << "a grant, lengthened, after the fence";
    EXPECT_EQ(choose(e, {}, wait.look_again_at).kind, Kind::promote);
    EXPECT_EQ(choose(e, {}, wait.look_again_at).chosen, c);
  }
}

TEST(Choose, TooFewAnswersAreRecoveringAnOperatorOrTheModeAccepts) {
  Election e = election({b, c}, {answer(c, {at(5, 3), at(5, 3)})});
  EXPECT_EQ(choose(e, {}, late).kind, Kind::recovering);
  EXPECT_THAT(choose(e, {}, late).reason, testing::HasSubstr("not b"));
  e.mode = FailoverMode::available;
  EXPECT_EQ(choose(e, {}, late).chosen, c);
  EXPECT_THAT(choose(e, {}, late).may_be_gone, testing::AllOf(testing::HasSubstr("a"), testing::HasSubstr("b")));
  e.mode = FailoverMode::consistent;
  e.operator_accepts_loss = true;
  EXPECT_EQ(choose(e, {}, late).kind, Kind::promote);
  EXPECT_FALSE(choose(e, {}, late).may_be_gone.empty());
}

TEST(Choose, OnlyMembersWithoutAnOperatorUnlessNobodyIsOne) {
  const std::vector<FenceAnswer> stranger{answer(d, {at(5, 90), at(5, 90)})};
  Election e = election({b}, stranger);
  e.mode = FailoverMode::available;
  EXPECT_EQ(choose(e, {}, late).kind, Kind::recovering) << "the old owner may hold b's grants";
  e.operator_accepts_loss = true;
  EXPECT_EQ(choose(e, {}, late).chosen, d);
  EXPECT_FALSE(choose(e, {}, late).may_be_gone.empty());
  e = election({}, stranger);
  EXPECT_EQ(choose(e, {}, late).kind, Kind::recovering);
  e.mode = FailoverMode::available;
  EXPECT_EQ(choose(e, {}, late).chosen, d) << "an empty set has given no grants";
  EXPECT_FALSE(choose(e, {}, late).may_be_gone.empty());
  e.answers.clear();
  EXPECT_EQ(choose(e, {}, late).kind, Kind::unavailable);
  EXPECT_EQ(choose(election({b, c}, {}), {}, late).kind, Kind::unavailable);
}

TEST(Choose, AMemberThatWasRestartedIsNone) {
  const Member b2{"b", Incarnation{22}};
  Election e = election({b, c}, {answer(b2, {at(0, 0), at(0, 0)}), answer(c, {at(5, 3), at(5, 3)})});
  EXPECT_EQ(choose(e, {}, late).kind, Kind::recovering);
  EXPECT_THAT(choose(e, {}, late).reason, testing::HasSubstr("not b (restarted, it has nothing); 2 are needed")) << "to wait for it is in vain";
  e.promise = AckPolicy::all;
  EXPECT_EQ(choose(e, {}, late).chosen, c);
}

TEST(Choose, AnswersToAnotherFenceOrAboutAnotherPartitionDoNotCountAndTheLastOfOneProcessDoes) {
  EXPECT_EQ(choose(election({b}, {answer(b, {at(5, 3), at(5, 3)}, Generation{8})}), {}, late).kind, Kind::unavailable);
  EXPECT_EQ(choose(election({b}, {answer(b, {at(5, 3)})}), {}, late).kind, Kind::unavailable);
  EXPECT_EQ(choose(election({b, c}, {answer(c, {at(5, 1), at(5, 1)}), answer(b, {at(5, 3), at(5, 3)}), answer(c, {at(5, 4), at(5, 4)})}), {}, early).chosen, c);
  EXPECT_EQ(choose(election({b, c}, {answer(c, {at(5, 4), at(5, 4)}), answer(c, {at(5, 4), at(5, 4)})}), {}, late).kind, Kind::recovering) << "one process is one answer";
}

TEST(Choose, AnOwnerThatHoldsAPartGivesWayToWhoeverHoldsAll) {
  Election e = election({}, {answer(a, {at(5, 4), at(0, 0)}), answer(b, {at(5, 9), at(4, 1)}), answer(c, {at(5, 8), at(0, 0)})});
  e.old_lease_gone = false;
  EXPECT_EQ(choose(e, {}, late).chosen, b);
  e.answers[1] = answer(b, {at(5, 3), at(4, 1)});
  EXPECT_EQ(choose(e, {}, late).kind, Kind::recovering) << "something that the owner has would be gone";
  EXPECT_THAT(choose(e, {}, late).reason, testing::HasSubstr("a holds a part of it"));
  e.may_begin_empty = true;
  EXPECT_EQ(choose(e, {}, late).chosen, a);
}

TEST(Choose, NobodyWhoHoldsAPartIsPromotedByTheModeAlone) {
  Election e = election({}, {answer(d, {at(5, 90), at(0, 0)})});
  e.mode = FailoverMode::available;
  EXPECT_EQ(choose(e, {}, late).kind, Kind::recovering);
  e.answers.push_back(answer(c, {at(5, 8), at(5, 1)}));
  EXPECT_EQ(choose(e, {}, late).chosen, c);
}

TEST(Choose, AnOwnerThatAnswersItselfGoesOnUnderTheNewGeneration) {
  Election e = election({b}, {answer(b, {at(5, 3), at(5, 3)}), answer(a, {at(5, 4), at(5, 4)})});
  e.old_lease_gone = false;
  EXPECT_EQ(choose(e, {}, early).chosen, a);
  e.answers[1].from.incarnation = Incarnation{11};  // another process of its name
  EXPECT_EQ(choose(e, {}, early).kind, Kind::wait);
}

TEST(Choose, AFirstTermGoesToThePlacementPrimary) {
  Election e = election({}, {answer(b, {at(0, 0), at(0, 0)}), answer(c, {at(0, 0), at(0, 0)})});
  e.old_owner = {};
  e.old_lease_gone = false;
  e.first_term = true;
  e.placement_primary = "c";
  EXPECT_EQ(choose(e, {}, early).kind, Kind::wait);
  EXPECT_EQ(choose(e, {}, late).chosen, c);
  EXPECT_TRUE(choose(e, {}, late).may_be_gone.empty());
  e.placement_primary = "x";
  EXPECT_EQ(choose(e, {}, late).chosen, b);
  e.answers.clear();
  EXPECT_EQ(choose(e, {}, late).kind, Kind::unavailable);
}

TEST(Choose, WhenAllHaveBeenRestartedNothingIsWaitedForUnlessItIsToBeHeld) {
  const Member a2{"a", Incarnation{11}}, b2{"b", Incarnation{22}};
  Election e = election({b}, {answer(a2, {at(0, 0), at(0, 0)}), answer(b2, {at(0, 0), at(0, 0)})});
  e.placement_primary = "b";
  EXPECT_EQ(choose(e, {}, early).kind, Kind::wait);
  EXPECT_EQ(choose(e, {}, late).chosen, b2);
  EXPECT_FALSE(choose(e, {}, late).may_be_gone.empty());
  e.answers.push_back(answer(c, {at(4, 7), at(0, 0)}));
  EXPECT_EQ(choose(e, {}, late).chosen, c) << "one that was behind holds more than nothing";
  e.serve_after_loss = false;
  EXPECT_EQ(choose(e, {}, late).kind, Kind::recovering);
  e.serve_after_loss = true;
  e.answers.erase(e.answers.begin());
  EXPECT_EQ(choose(e, {}, late).kind, Kind::recovering) << "the old owner may come back with everything";
}

TEST(NextGeneration, IsAboveWhateverWasUsed) {
  EXPECT_EQ(*next_generation(Generation{5}, Generation{3}, 0), Generation{6});
  EXPECT_EQ(*next_generation(Generation{5}, Generation{8}, 0), Generation{9});
  EXPECT_EQ(*next_generation(Generation{5}, Generation{8}, 1'700'000'000'999'999), Generation{1'700'000'000});
  EXPECT_EQ(*next_generation(Generation{UINT32_MAX - 1}, {}, 0), Generation{UINT32_MAX});
  for (const auto& [counter, seen, now] : {std::tuple(UINT32_MAX, 0u, 0ull), std::tuple(0u, UINT32_MAX, 0ull), std::tuple(0u, 0u, 5'000'000'000'000'000ull)}) {
    const auto none = next_generation(Generation{counter}, Generation{seen}, now);
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().code, "generation_exhausted");
  }
}

TEST(Promotion, IsRecoveringUntilPossessionIsProven) {
  const Choice choice = choose(election({b}, {answer(b, {at(5, 3), at(5, 3)})}), {}, early);
  const PartitionOwner row = promotion({1, 2}, fence, choice);
  EXPECT_EQ(row.owner, "b");
  EXPECT_EQ(row.incarnation, b.incarnation);
  EXPECT_EQ(row.generation, fence);
  EXPECT_EQ(row.state, PartitionState::recovering);
  EXPECT_EQ(row.reason, choice.reason);
}

TEST(Healing, WorseAtOnceBetterAfterACoolDown) {
  using S = PartitionState;
  Healing healing(5 * s);
  const struct { BootMicros now; PartitionHealth health; S wanted; } story[] = {
      {0, {}, S::unavailable},
      {1 * s, {true, false, 0, 1}, S::recovering},
      {2 * s, {true, true, 1, 1}, S::healthy},     // the first time there is nothing to cool down from
      {3 * s, {true, true, 0, 1}, S::degraded},
      {4 * s, {true, true, 1, 1}, S::degraded},
      {8 * s, {true, true, 0, 1}, S::degraded},    // the cool-down begins anew
      {9 * s, {true, true, 1, 1}, S::degraded},
      {14 * s - 1, {true, true, 1, 1}, S::degraded},
      {14 * s, {true, true, 1, 1}, S::healthy},
      {15 * s, {false, false, 1, 1}, S::unavailable},
      {16 * s, {true, false, 1, 1}, S::recovering},
      {17 * s, {true, true, 1, 1}, S::degraded},
      {22 * s, {true, true, 1, 1}, S::healthy},
  };
  for (const auto& step : story) {
    const HealthVerdict verdict = healing.evaluate(step.health, step.now);
    EXPECT_EQ(verdict.state, step.wanted) << step.now << " " << verdict.reason;
    EXPECT_FALSE(verdict.reason.empty());
  }
  EXPECT_EQ(Healing(5 * s).evaluate({true, true, 0, 0}, 0).state, S::healthy) << "one copy, as planned";
}

}  // namespace
}  // namespace zaris::ownership
