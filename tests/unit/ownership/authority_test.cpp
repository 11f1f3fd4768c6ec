// The moment up to which an owner may serve, and what a replica grants.
#include "cluster/ownership/authority.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace zaris::ownership {
namespace {

constexpr BootMicros s = boot_second;
const Member b{"b", Incarnation{2}}, c{"c", Incarnation{3}};
const LeaseId lease_1{1}, lease_2{2};

OwnerTerm term(std::uint32_t factor, Members set, EvictRf1 evict = EvictRf1::never) {
  OwnerTerm t(Generation{5}, factor, {.grant_us = s, .evict_us = 100 * s, .evict_rf1 = evict}, 0, std::move(set));
  t.confirmed(lease_1);
  return t;
}
Lease leased(BootMicros sent_at = 0) {
  Lease lease;
  lease.taken(lease_1, sent_at, 2 * s);
  return lease;
}

TEST(Lease, CountsFromTheSendingLessTheMargin) {
  Lease lease;
  EXPECT_EQ(lease.until(), 0);
  lease.taken(lease_1, 10 * s, 2 * s);
  EXPECT_EQ(lease.until(), 11'980'000);
  lease.renewed(lease_1, 11 * s, 2 * s);
  EXPECT_EQ(lease.until(), 12'980'000);
  lease.renewed(lease_1, 10 * s + 500, 2 * s);  // an older answer, late
  EXPECT_EQ(lease.until(), 12'980'000);
  EXPECT_EQ(lease.renewed_at(), 11 * s);
}

TEST(Lease, OnceGoneNoLateAnswerBringsItBack) {
  Lease lease = leased(10 * s);
  lease.gone(lease_2);
  EXPECT_GT(lease.until(), 0);
  lease.gone(lease_1);
  EXPECT_EQ(lease.until(), 0);
  lease.renewed(lease_1, 11 * s, 2 * s);
  EXPECT_EQ(lease.until(), 0);
  lease.taken(lease_2, 12 * s, 2 * s);
  EXPECT_EQ(lease.until(), 13'980'000);
  lease.renewed(lease_1, 20 * s, 2 * s);
  EXPECT_EQ(lease.until(), 13'980'000);
}

TEST(OwnerTerm, ServesByItsLease) {
  const Lease lease = leased();
  const OwnerTerm t = term(2, {});
  const Serving serving = t.serving(lease);
  EXPECT_EQ(serving.by, ServesBy::lease);
  EXPECT_TRUE(serving.at(1'979'999));
  EXPECT_FALSE(serving.at(1'980'000));
}

TEST(OwnerTerm, BeginsNotBeforeItsOwnGrantHasRunOut) {
  OwnerTerm t(Generation{5}, 2, {}, s, {});
  t.confirmed(lease_1);
  EXPECT_FALSE(t.serving(leased()).at(s - 1));
  EXPECT_TRUE(t.serving(leased()).at(s));
}

TEST(OwnerTerm, ANewLeaseCountsOnlyForATermThatWasReadAgain) {
  OwnerTerm t = term(2, {b});
  Lease lease = leased();
  lease.gone(lease_1);
  lease.taken(lease_2, 10 * s, 2 * s);
  EXPECT_EQ(t.serving(lease).by, ServesBy::nothing);
  t.confirmed(lease_2);
  EXPECT_TRUE(t.serving(lease).at(10 * s));
  EXPECT_EQ(OwnerTerm(Generation{5}, 2, {}, 0, {}).serving(leased()).by, ServesBy::nothing);
}

TEST(OwnerTerm, WithoutALeaseEveryMemberMustHaveGranted) {
  const Lease none;
  OwnerTerm t = term(3, {b, c});
  t.granted(b, 5 * s, s);
  EXPECT_EQ(t.serving(none).by, ServesBy::nothing);
  t.granted(c, 4 * s, s);
  EXPECT_EQ(t.serving(none).by, ServesBy::grants);
  EXPECT_EQ(t.serving(none).until, 4'990'000) << "the earliest counts, from the sending of its question";
  t.granted(c, 3 * s, s);
  EXPECT_EQ(t.granted_until(), 4'990'000) << "a late answer takes nothing back";
  t.granted({"d", Incarnation{9}}, 9 * s, s);
  t.granted({"b", Incarnation{9}}, 9 * s, s);
  EXPECT_EQ(t.granted_until(), 4'990'000) << "strangers and other processes of a member's name do not count";
  EXPECT_EQ(term(3, {}).granted_until(), 0) << "an empty set grants nothing";
}

TEST(OwnerTerm, CountsOnNoMoreThanWasGranted) {
  const Lease none;
  OwnerTerm t = term(2, {b});
  t.granted(b, 5 * s, s / 2);
  EXPECT_EQ(t.serving(none).until, 5 * s + s / 2 - s / 200) << "that node's failover.grant is shorter than this one's";
  t.granted(b, 6 * s, 10 * s);
  EXPECT_EQ(t.serving(none).until, 6'990'000) << "and longer";
}

TEST(OwnerTerm, TheLaterOfLeaseAndGrantsCounts) {
  OwnerTerm t = term(2, {b});
  t.granted(b, s / 2, s);
  EXPECT_EQ(t.serving(leased()).by, ServesBy::lease);
  t.granted(b, 3 * s, s);
  EXPECT_EQ(t.serving(leased()).by, ServesBy::grants);
}

TEST(OwnerTerm, WhileTheSetChangesOldAndNewMembersAreCounted) {
  const Lease none;
  OwnerTerm t = term(3, {b});
  t.granted(b, 5 * s, s);
  t.change_begins({c});
  EXPECT_TRUE(t.changing());
  EXPECT_THAT(t.counted(), testing::ElementsAre(b, c));
  EXPECT_EQ(t.granted_until(), 0);
  t.granted(c, 5 * s, s);
  EXPECT_EQ(t.granted_until(), 5'990'000);
  t.change_ended({c});
  EXPECT_THAT(t.counted(), testing::ElementsAre(c));
  t.change_begins({b, c});
  EXPECT_EQ(t.granted_until(), 0) << "what b granted before it left is forgotten";
  t.change_ended({c});  // it was refused
  EXPECT_EQ(t.granted_until(), 5'990'000);
}

TEST(OwnerTerm, AHigherGenerationEndsItWhateverStillRuns) {
  OwnerTerm t = term(1, {b});
  t.granted(b, 0, s);
  t.superseded(Generation{5});
  EXPECT_EQ(t.serving(leased()).by, ServesBy::alone);
  t.superseded(Generation{6});
  EXPECT_EQ(t.serving(leased()).until, 0);
  EXPECT_THAT(t.serving(leased()).reason, testing::HasSubstr("6 exists"));
  OwnerTerm stopped = term(2, {b});
  stopped.stop("it is drained");
  EXPECT_EQ(stopped.serving(leased()).by, ServesBy::nothing);
  EXPECT_EQ(stopped.serving(leased()).reason, "it is drained");
}

TEST(OwnerTerm, TheOnlyCopyServesOnForEverOrUntilItsEvictionMayBeDue) {
  Lease lease = leased(10 * s);
  EXPECT_EQ(term(1, {}).serving(lease).until, no_end);
  OwnerTerm t = term(1, {}, EvictRf1::after);
  EXPECT_EQ(t.serving(lease).until, 10 * s + 99 * s);
  lease.gone(lease_1);
  EXPECT_EQ(t.serving(lease).until, 10 * s + 99 * s);
  lease.taken(lease_2, 500 * s, 2 * s);
  EXPECT_EQ(t.serving(lease).until, 0) << "the countdown may have ended while it slept: first it is to be read who is owner";
  t.confirmed(lease_2);
  EXPECT_EQ(t.serving(lease).until, 500 * s + 99 * s);
  EXPECT_EQ(term(2, {}).serving(Lease{}).until, 0) << "a factor of two with nobody in the set is no only copy by plan";
  EXPECT_EQ(OwnerTerm(Generation{5}, 1, {}, 0, {}).serving(lease).until, 0) << "a term that was never confirmed under a lease";
}

TEST(Granter, GrantsToTheHighestGenerationAndRefusesLowerOnes) {
  Granter g(0, s);
  EXPECT_TRUE(g.ask(Generation{5}, 10 * s).granted);
  EXPECT_TRUE(g.ask(Generation{5}, 11 * s).granted);
  EXPECT_EQ(g.may_serve_from(), 12'010'000) << "lengthened by the margin";
  const GrantAnswer refused = g.ask(Generation{4}, 20 * s);
  EXPECT_FALSE(refused.granted);
  EXPECT_EQ(refused.highest, Generation{5});
  EXPECT_FALSE(refused.reason.empty());
  g.learn(Generation{7});
  g.learn(Generation{6});
  EXPECT_FALSE(g.ask(Generation{6}, 20 * s).granted);
  EXPECT_EQ(g.may_serve_from(), 12'010'000) << "a refusal grants nothing";
}

TEST(Granter, ANewProcessCountsAsIfTheOneBeforeItHadJustGranted) { EXPECT_EQ(Granter(10 * s, s).may_serve_from(), 11'010'000); }

}  // namespace
}  // namespace zaris::ownership
