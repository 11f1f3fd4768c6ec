// "Coming back": each of the five decisions over every combination of what it looks at, against the rule in the words of the design.
#include "cluster/ownership/possession.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace zaris::ownership {
namespace {

constexpr BootMicros s = boot_second;
Position at(std::uint32_t generation, std::uint64_t revision) { return {Generation{generation}, Revision{revision}}; }
constexpr bool bit(unsigned of, int which) { return (of >> which & 1) != 0; }

TEST(Possession, PullsIfNotCertifiedAndAnotherReplicaIsAlive) {
  for (unsigned i = 0; i < 8; ++i) {
    const PullQuestion q{bit(i, 0), bit(i, 1), bit(i, 2)};
    const Decision decision = pull_from_replica(q);
    EXPECT_EQ(decision.yes, !q.certified && q.live_replica) << i;
    EXPECT_FALSE(decision.reason.empty());
  }
}

TEST(Possession, ServesAfterASyncThatReachedTheSourcesHead) {
  const std::vector<Position> heads{{}, at(2, 0), at(2, 5), at(2, 6), at(3, 1), at(3, 6)};
  for (const bool completed : {false, true}) {
    for (const Position& head : heads) {
      EXPECT_EQ(serve_segment({completed, head, std::nullopt}).yes, completed);
      for (const Position& source : heads) {
        const Decision decision = serve_segment({completed, head, source});
        EXPECT_EQ(decision.yes, completed && (source.revision == Revision{0} || head >= source)) << to_string(head) << " " << to_string(source);
        EXPECT_FALSE(decision.reason.empty());
      }
    }
  }
}

TEST(Possession, TakesTheLogWhereItCanSkipsEqualRecordsAndElseReplacesRanges) {
  for (unsigned i = 0; i < 32; ++i) {
    const TakeQuestion q{bit(i, 0), bit(i, 1), bit(i, 2), bit(i, 3), bit(i, 4)};
    const bool only_behind = q.subordinate && q.head_on_lineage && q.behind && q.log_reaches;
    const TakeDecision decision = take_copy(q);
    EXPECT_EQ(decision.take, only_behind ? Take::log : q.digests_equal ? Take::position_only : Take::ranges) << i;
    EXPECT_FALSE(decision.reason.empty());
  }
}

TEST(Possession, RefusesToBeASourceOnlyAsAnOwnerThatKnowsNothingAndHoldsNothing) {
  for (unsigned i = 0; i < 16; ++i) {
    const SourceQuestion q{bit(i, 0), bit(i, 1), bit(i, 2), bit(i, 3)};
    const Decision decision = refuse_as_source(q);
    EXPECT_EQ(decision.yes, q.owner && !q.certified && !q.segment_synced && q.holds_nothing) << i;
    EXPECT_FALSE(decision.reason.empty());
  }
}

TEST(Possession, CertifiesAnOwnerWithEverythingSyncedAndNeverOnEmptinessAlone) {
  for (unsigned i = 0; i < 16; ++i) {
    for (std::uint32_t owned = 0; owned <= 3; ++owned) {
      for (std::uint32_t synced = 0; synced <= owned; ++synced) {
        const CertifyQuestion q{bit(i, 0), owned, synced, bit(i, 1), bit(i, 2), bit(i, 3)};
        const bool everything = q.owner && owned > 0 && synced == owned;
        const Decision decision = certify(q);
        EXPECT_EQ(decision.yes, everything && (!q.holds_nothing || (q.placement_primary && !q.live_replica))) << i << " " << owned << " " << synced;
        EXPECT_FALSE(decision.reason.empty());
      }
    }
  }
}

Holder holder(std::string name, std::vector<Position> heads, bool live = true, BootMicros reported_at = 100 * s) { return {std::move(name), live, reported_at, std::move(heads)}; }

TEST(PullPlan, PerSegmentTheTailAboveItsOwnHeadFromTheHighestLiveHolder) {
  const std::vector<Position> own{at(5, 10), at(5, 10), at(5, 10), at(5, 10)};
  const PullPlan plan = pull_plan(own,
                                  {holder("b", {at(5, 11), at(5, 10), at(5, 12), at(5, 9)}), holder("c", {at(5, 13), at(5, 9), at(5, 12), at(4, 99)}),
                                   holder("gone", {at(9, 9), at(9, 9), at(9, 9), at(9, 9)}, false), holder("stale", {at(9, 9), at(9, 9), at(9, 9), at(9, 9)}, true, 89 * s),
                                   holder("other", {at(9, 9)})},
                                  10 * s, 100 * s);
  EXPECT_THAT(plan.pulls, testing::ElementsAre(Pull{0, "c", at(5, 10), at(5, 13)}, Pull{2, "b", at(5, 10), at(5, 12)}));
  EXPECT_FALSE(plan.degraded);
  EXPECT_THAT(plan.reason, testing::HasSubstr("2 of 4"));
}

TEST(PullPlan, WithNobodyMoreCompleteItServesAtOnce) {
  const std::vector<Position> own{at(5, 10), {}};
  for (const auto& holders : {std::vector<Holder>{}, {holder("b", {at(5, 10), {}})}, {holder("b", {at(5, 12), at(5, 1)}, true, 89 * s)}, {holder("b", {at(5, 12), at(5, 1)}, false)}}) {
    const PullPlan plan = pull_plan(own, holders, 10 * s, 100 * s);
    EXPECT_TRUE(plan.pulls.empty());
    EXPECT_TRUE(plan.degraded);
    EXPECT_FALSE(plan.reason.empty());
  }
  EXPECT_FALSE(pull_plan(own, {holder("b", {at(5, 12), at(5, 1)}, true, 90 * s)}, 10 * s, 100 * s).pulls.empty()) << "just fresh enough";
}

}  // namespace
}  // namespace zaris::ownership
