// When the first map is made, when the client listener opens, and who notices that it sees another cluster.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "cluster/ownership/formation_gate.hpp"
#include "cluster/ownership/planner.hpp"
#include "cluster/ownership/traffic_gate.hpp"
#include "cluster/ownership/view_digest.hpp"

namespace zaris::ownership {
namespace {

constexpr BootMicros s = boot_second;

TEST(BootTime, MarginsAreRoundedAwayFromTheDanger) {
  EXPECT_EQ(shortened(2 * s), 1'980'000);
  EXPECT_EQ(lengthened(2 * s), 2'020'000);
  EXPECT_EQ(shortened(1), 0);
  EXPECT_EQ(lengthened(1), 2);
  EXPECT_EQ(shortened(0), 0);
  EXPECT_EQ(lengthened(no_end), no_end);
  EXPECT_EQ(after(no_end - 1, 5), no_end);
}

TEST(FormationGate, OpensWhenTheWholeRosterIsUnchangedForThreeSeconds) {
  FormationGate gate({}, 3, 0);
  EXPECT_FALSE(gate.evaluate(0).open);
  gate.members({"a", "b"}, 0);
  EXPECT_THAT(gate.evaluate(10 * s).reason, testing::HasSubstr("2 of 3"));
  gate.members({"a", "b", "c"}, 10 * s);
  EXPECT_EQ(gate.next_evaluation(), 13 * s);
  EXPECT_FALSE(gate.evaluate(13 * s - 1).open);
  gate.members({"a", "b", "c"}, 12 * s);  // told again: no change
  const auto open = gate.evaluate(13 * s);
  EXPECT_TRUE(open.open);
  EXPECT_THAT(open.members, testing::ElementsAre("a", "b", "c"));
}

TEST(FormationGate, AChangeBeginsTheThreeSecondsAnew) {
  FormationGate gate({}, 2, 0);
  gate.members({"a", "b"}, 0);
  gate.members({"a"}, 2 * s);
  gate.members({"a", "b"}, 2 * s + 1);
  EXPECT_FALSE(gate.evaluate(4 * s).open);
  EXPECT_TRUE(gate.evaluate(5 * s + 1).open);
}

TEST(FormationGate, AfterThirtySecondsItGoesAheadWithWhomItHas) {
  FormationGate gate({}, 3, s);
  EXPECT_EQ(gate.next_evaluation(), no_end);
  EXPECT_FALSE(gate.evaluate(1000 * s).open) << "with nobody there is no map";
  gate.members({"b"}, 2 * s);
  EXPECT_EQ(gate.next_evaluation(), 31 * s);
  EXPECT_FALSE(gate.evaluate(31 * s - 1).open);
  const auto open = gate.evaluate(31 * s);
  EXPECT_TRUE(open.open);
  EXPECT_THAT(open.members, testing::ElementsAre("b"));
  EXPECT_THAT(open.reason, testing::HasSubstr("only 1 of 3"));
  gate.members({"a", "b", "c"}, 31 * s);
  EXPECT_TRUE(gate.evaluate(31 * s).open) << "members that keep changing do not hold it shut for ever";
}

TEST(FormationGate, WithoutARosterBeingUnchangedIsEnough) {
  FormationGate gate({}, 0, 0);
  gate.members({"a"}, s);
  EXPECT_FALSE(gate.evaluate(3 * s).open);
  EXPECT_TRUE(gate.evaluate(4 * s).open);
}

struct Views {
  PartitionMap map = plan({.nodes = {{"a", "h1"}, {"b", "h2"}}, .segments = 16}).map;
  SegmentTable table{map};
  Ownership ownership{.version = 1, .map_version = 1, .leader_term = 1, .partitions = {}};
  Views() {
    for (const Partition& p : map.partitions) ownership.partitions.push_back({.id = p.id, .owner = {}, .incarnation = {}, .generation = {}, .state = PartitionState::unavailable, .reason = {}});
  }
  TrafficView all() const { return {&map, &table, &ownership}; }
};

TEST(TrafficGate, WantsMapTableAndOwnershipOfOneVersion) {
  const Views good;
  EXPECT_EQ(missing_for_traffic(good.all()), "");
  const struct { const char* what; std::function<TrafficView(Views&)> break_it; const char* reason; } rows[] = {
      {"no map", [](Views& v) { return TrafficView{nullptr, &v.table, &v.ownership}; }, "no partition map"},
      {"provisional", [](Views& v) { v.map.provisional = true; return v.all(); }, "provisional"},
      {"no table", [](Views& v) { return TrafficView{&v.map, nullptr, &v.ownership}; }, "gaps"},
      {"empty table", [](Views& v) { v.table = {}; return v.all(); }, "gaps"},
      {"table of another map", [](Views& v) { ++v.map.version; ++v.ownership.map_version; return v.all(); }, "the segment table is of map version 1"},
      {"no ownership", [](Views& v) { return TrafficView{&v.map, &v.table, nullptr}; }, "no ownership"},
      {"ownership of another map", [](Views& v) { ++v.ownership.map_version; return v.all(); }, "the ownership document is of map version 2"},
      {"a partition missing", [](Views& v) { v.ownership.partitions.pop_back(); return v.all(); }, "says nothing"},
      {"another partition", [](Views& v) { v.ownership.partitions[0].id = {1, 1}; return v.all(); }, "says nothing"},
  };
  for (const auto& row : rows) {
    Views views;
    TrafficGate gate(0);
    const auto verdict = gate.evaluate(row.break_it(views), 59 * s);
    EXPECT_FALSE(verdict.open) << row.what;
    EXPECT_THAT(verdict.reason, testing::HasSubstr(row.reason)) << row.what;
    const auto late = gate.evaluate(row.break_it(views), 60 * s);
    EXPECT_TRUE(late.open && late.warning) << row.what;
  }
}

TEST(TrafficGate, StaysOpenOnceItIsAndWarnsOnce) {
  const Views good;
  TrafficGate gate(0);
  EXPECT_TRUE(gate.evaluate(good.all(), s).open);
  const auto later = gate.evaluate({}, 2 * s);
  EXPECT_TRUE(later.open);
  EXPECT_FALSE(later.warning);
  TrafficGate forced(0);
  EXPECT_TRUE(forced.evaluate({}, 60 * s).warning);
  EXPECT_FALSE(forced.evaluate({}, 61 * s).warning);
}

TEST(ViewDigest, EverythingCountsAndTheOrderOfPartitionsDoesNot) {
  Ownership ownership;
  ownership.partitions = {{.id = {1, 2}, .owner = {}, .incarnation = {}, .generation = Generation{5}, .state = {}, .reason = {}},
                          {.id = {1, 3}, .owner = {}, .incarnation = {}, .generation = Generation{6}, .state = {}, .reason = {}}};
  const View view{"a", 9, 4, 3, &ownership};
  const std::uint64_t digest = view_digest(view);
  std::vector<View> others{view, view, view, view, view};
  others[0].leader = "b";
  others[1].leader_term = 10;
  others[2].map_version = 5;
  others[3].nodes = 2;
  others[4].ownership = nullptr;
  for (const View& o : others) EXPECT_NE(view_digest(o), digest);
  std::swap(ownership.partitions[0], ownership.partitions[1]);
  EXPECT_EQ(view_digest(view), digest);
  std::swap(ownership.partitions[0].generation, ownership.partitions[1].generation);
  EXPECT_NE(view_digest(view), digest);
}

TEST(ViewWatch, TwoDifferencesInARowAreARereadAndAgreementIsACure) {
  ViewWatch watch;
  EXPECT_FALSE(watch.compare("b", 1, 2));
  EXPECT_FALSE(watch.compare("b", 1, 1));  // a change under way
  EXPECT_FALSE(watch.compare("b", 1, 2));
  EXPECT_FALSE(watch.compare("c", 1, 2)) << "each peer is a matter of its own";
  EXPECT_TRUE(watch.compare("b", 1, 2));
  EXPECT_TRUE(watch.differs());
  EXPECT_FALSE(watch.compare("b", 1, 2));
  EXPECT_TRUE(watch.compare("b", 1, 3)) << "it says so again while it lasts";
  EXPECT_FALSE(watch.compare("b", 3, 3));
  EXPECT_EQ(watch.differences(), 2u);
  EXPECT_EQ(watch.cures(), 1u);
  EXPECT_FALSE(watch.differs());
  EXPECT_FALSE(watch.compare("c", 3, 3));
  EXPECT_EQ(watch.cures(), 1u) << "one difference was never reported";
  EXPECT_FALSE(watch.compare("d", 1, 2));
  EXPECT_TRUE(watch.compare("d", 1, 2));
  watch.forget("d");
  EXPECT_FALSE(watch.differs());
}

}  // namespace
}  // namespace zaris::ownership
