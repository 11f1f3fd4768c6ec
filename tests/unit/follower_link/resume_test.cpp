// Where a link goes on: every answer in a table.
#include "follower/link/resume.hpp"

#include <gtest/gtest.h>

namespace zaris::follower {
namespace {

constexpr ClusterId here{0xa};
constexpr HistoryId ours{0x11}, other{0x22};

NamedPosition at(std::uint32_t generation, std::uint64_t revision) { return {{Generation{generation}, Revision{revision}}, 100u + generation}; }

// Generations 1 (from 1), 3 (from 50), 7 (from 80).
Lineage lineage() {
  return Lineage(Root{ours, Generation{1}, 0, RootCause::created}, {{Generation{1}, 101, Revision{1}, 0}, {Generation{3}, 103, Revision{50}, 0},
                                                                   {Generation{7}, 107, Revision{80}, 0}});
}

Mark mark(NamedPosition low, Phase phase = Phase::stream) {
  Mark m;
  m.source_cluster = here;
  m.history = ours;
  m.site_epoch = SiteEpoch{1};
  m.phase = phase;
  m.low = m.high = low;
  if (phase == Phase::bootstrap) m.last_key = SlotKey{Slot{5}, "k"};
  return m;
}

MarkQuestion question(const Lineage* line, Position head, std::optional<std::uint64_t> floor) {
  MarkQuestion q;
  q.source = here;
  q.history = ours;
  q.site_epoch = SiteEpoch{1};
  if (line != nullptr) {
    q.view.emplace();
    q.view->lineage = line;
    q.view->head = head;
    if (floor) q.view->floor = Revision{*floor};
  }
  return q;
}

TEST(CompareHistories, EveryMarkAndTheCursorMustNameTheSourcesHistory) {
  const Root root{ours, Generation{1}, 0, RootCause::created};
  Mark good = mark(at(1, 10)), alien = good, foreign = good;
  alien.history = other;
  foreign.source_cluster = ClusterId{0xb};
  struct Case {
    const char* what;
    std::vector<std::optional<Mark>> marks;
    std::optional<HistoryId> cursor;
    bool accepted;
    HistoryVerdict expected;
  };
  const Case cases[] = {
      {"nothing is known", {std::nullopt}, std::nullopt, false, HistoryVerdict::same},
      {"mark and cursor agree", {good}, ours, false, HistoryVerdict::same},
      {"one of two marks is of another history", {good, alien}, std::nullopt, false, HistoryVerdict::source_reset},
      {"the other mark is missing", {std::nullopt, alien}, std::nullopt, false, HistoryVerdict::source_reset},
      {"only the cursor remembers", {std::nullopt}, other, false, HistoryVerdict::source_reset},
      {"marks agree, the cursor does not", {good}, other, false, HistoryVerdict::source_reset},
      {"a mark of another cluster", {foreign}, std::nullopt, false, HistoryVerdict::source_reset},
      {"accepted", {alien}, other, true, HistoryVerdict::accepted},
      {"accepted, and nothing differs", {good}, ours, true, HistoryVerdict::same},
  };
  for (const auto& c : cases) EXPECT_EQ(compare_histories(here, root, c.marks, c.cursor, c.accepted), c.expected) << c.what;
}

TEST(Decide, PerMark) {
  const Lineage line = lineage();
  const Position head{Generation{7}, Revision{90}};
  Mark high_off = mark(at(1, 40));
  high_off.high = at(1, 55);
  Mark below_horizon = mark(at(3, 80));
  below_horizon.horizon = NamedPosition{{Generation{3}, Revision{80}}, below_horizon.low->generation_id};
  Mark uncovered;
  uncovered.source_cluster = here;
  uncovered.history = ours;
  uncovered.site_epoch = SiteEpoch{1};
  Mark alien = mark(at(1, 10));
  alien.history = other;
  Mark epoch = mark(at(7, 85));
  epoch.site_epoch = SiteEpoch{2};
  Mark wrong_id = mark({{Generation{3}, Revision{60}}, 999});
  struct Case {
    const char* what;
    std::optional<Mark> mark;
    std::uint64_t floor;
    MarkPlan plan;
    BootstrapReason reason = BootstrapReason::new_segment;
  };
  const Case cases[] = {
      {"no mark", std::nullopt, 1, MarkPlan::open, BootstrapReason::new_segment},
      {"opened, nothing covered", uncovered, 90, MarkPlan::walk},
      {"at the head", mark(at(7, 90)), 91, MarkPlan::stream},
      {"one below the head", mark(at(7, 89)), 1, MarkPlan::stream},
      {"one above the head", mark(at(7, 91)), 1, MarkPlan::hold},
      {"floor - 2", mark(at(7, 83)), 85, MarkPlan::open, BootstrapReason::below_floor},
      {"floor - 1", mark(at(7, 84)), 85, MarkPlan::stream},
      {"the floor", mark(at(7, 85)), 85, MarkPlan::stream},
      {"first of its generation", mark(at(3, 50)), 1, MarkPlan::stream},
      {"last of its generation", mark(at(3, 79)), 1, MarkPlan::stream},
      {"one beyond its generation", mark(at(3, 80)), 1, MarkPlan::repair, BootstrapReason::unknown_lineage},
      {"…and what survived is below its horizon", below_horizon, 1, MarkPlan::open, BootstrapReason::unknown_lineage},
      {"…and the log begins later", mark(at(3, 80)), 81, MarkPlan::open, BootstrapReason::unknown_lineage},
      {"before its generation began", mark(at(3, 49)), 1, MarkPlan::open, BootstrapReason::unknown_lineage},
      {"a generation that nobody knows", mark(at(5, 60)), 1, MarkPlan::open, BootstrapReason::unknown_lineage},
      {"the generation's number with another id", wrong_id, 1, MarkPlan::open, BootstrapReason::unknown_lineage},
      {"low survives, high does not", high_off, 1, MarkPlan::open, BootstrapReason::unknown_lineage},
      {"in bootstrap, on the lineage", mark(at(7, 85), Phase::bootstrap), 1, MarkPlan::walk},
      {"in bootstrap, below the floor", mark(at(1, 5), Phase::bootstrap), 50, MarkPlan::open, BootstrapReason::below_floor},
      {"in bootstrap, off the lineage", mark(at(1, 55), Phase::bootstrap), 1, MarkPlan::open, BootstrapReason::unknown_lineage},
      {"a repair that was interrupted", mark(at(7, 85), Phase::repair), 1, MarkPlan::open, BootstrapReason::unknown_lineage},
      {"of a history that an operator accepted away", alien, 1, MarkPlan::open, BootstrapReason::accepted},
      {"of another site epoch", epoch, 1, MarkPlan::open, BootstrapReason::new_segment},
  };
  for (const auto& c : cases) {
    const auto decision = decide(c.mark, question(&line, head, c.floor));
    EXPECT_EQ(decision.plan, c.plan) << c.what << ": " << decision.why;
    if (c.plan == MarkPlan::open) { EXPECT_EQ(decision.reason, c.reason) << c.what << ": " << decision.why; }
  }
}

TEST(Decide, WhatAnOperatorSaidComesBeforeTheLineage) {
  const Lineage line = lineage();
  MarkQuestion q = question(&line, {Generation{7}, Revision{90}}, 1);
  q.rewind = true;
  EXPECT_EQ(decide(mark(at(7, 90)), q).reason, BootstrapReason::rewind);
  EXPECT_EQ(decide(mark(at(7, 90)), q).plan, MarkPlan::open);
  q.rewind = false;
  q.accept_ahead = true;
  EXPECT_EQ(decide(mark(at(7, 95)), q).plan, MarkPlan::open);
  EXPECT_EQ(decide(mark(at(7, 95)), q).reason, BootstrapReason::accepted);
  q.cursor_known = true;
  EXPECT_EQ(decide(std::nullopt, q).reason, BootstrapReason::target_lost);
}

TEST(Decide, BeforeTheSourceIsAskedOnlyTheMarkItselfCounts) {
  EXPECT_EQ(decide(mark(at(5, 60)), question(nullptr, {}, std::nullopt)).plan, MarkPlan::stream);
  EXPECT_EQ(decide(mark(at(5, 60), Phase::bootstrap), question(nullptr, {}, std::nullopt)).plan, MarkPlan::walk);
}

TEST(Decide, AnotherRootThanAMomentAgoStartsOver) {
  const Lineage line(Root{other, Generation{9}, 0, RootCause::restarted_empty}, {{Generation{9}, 109, Revision{1}, 0}});
  EXPECT_EQ(decide(mark(at(1, 10)), question(&line, {Generation{9}, Revision{1}}, 1)).plan, MarkPlan::start_over);
}

TEST(SubscribeRequest, LowestLowHighestHighLowestUncoveredPlace) {
  Mark streaming = mark(at(7, 88)), covered = mark(at(7, 85), Phase::bootstrap), opened;
  covered.last_key = SlotKey{Slot{20}, "m"};
  opened.history = ours;
  const SegmentId segment{1};
  {
    const LanePlace lanes[] = {{&streaming, Slot{0}}};
    const auto r = subscribe_request(segment, ours, Slot{0}, lanes);
    EXPECT_EQ(r.low, at(7, 88));
    EXPECT_EQ(r.high, at(7, 88));
    EXPECT_FALSE(r.walk);
  }
  {
    const LanePlace lanes[] = {{&streaming, Slot{0}}, {&covered, Slot{16}}};
    const auto r = subscribe_request(segment, ours, Slot{0}, lanes);
    EXPECT_EQ(r.low, at(7, 85));
    EXPECT_EQ(r.high, at(7, 88));
    ASSERT_TRUE(r.walk);
    EXPECT_EQ(r.walk->from, (SlotKey{Slot{20}, "m"}));
  }
  {
    // Nothing is covered at all: no position, the walk from the very beginning.
    const LanePlace lanes[] = {{&opened, Slot{0}}};
    const auto r = subscribe_request(segment, ours, Slot{0}, lanes);
    EXPECT_FALSE(r.low);
    EXPECT_FALSE(r.high);
    EXPECT_EQ(r.history, ours);
    ASSERT_TRUE(r.walk);
    EXPECT_FALSE(r.walk->from);
  }
  {
    // Only the second target segment is to be filled: not from the source segment's begin, but before the own first slot.
    const LanePlace lanes[] = {{&streaming, Slot{0}}, {&opened, Slot{16}}};
    const auto r = subscribe_request(segment, ours, Slot{0}, lanes);
    ASSERT_TRUE(r.walk && r.walk->from);
    EXPECT_EQ(r.walk->from->slot, Slot{15});
    EXPECT_LT(*r.walk->from, (SlotKey{Slot{16}, ""}));
  }
  {
    const LanePlace lanes[] = {{&opened, Slot{0}}, {&covered, Slot{16}}};
    const auto r = subscribe_request(segment, ours, Slot{0}, lanes);
    ASSERT_TRUE(r.walk);
    EXPECT_FALSE(r.walk->from) << "the first target segment holds nothing";
  }
}

TEST(CompareCursor, Table) {
  const Position p{Generation{1}, Revision{10}}, q{Generation{1}, Revision{11}}, next_generation{Generation{2}, Revision{5}};
  struct Case {
    std::optional<Position> cursor, low;
    bool any_mark;
    CursorVerdict expected;
  };
  const Case cases[] = {
      {std::nullopt, p, true, CursorVerdict::none},           {std::nullopt, std::nullopt, false, CursorVerdict::none},
      {p, p, true, CursorVerdict::agrees},                    {q, p, true, CursorVerdict::above},
      {p, q, true, CursorVerdict::below},                     {p, next_generation, true, CursorVerdict::below},
      {next_generation, q, true, CursorVerdict::above},       {p, std::nullopt, false, CursorVerdict::mark_gone},
      {p, std::nullopt, true, CursorVerdict::agrees},
  };
  for (const auto& c : cases) EXPECT_EQ(compare_cursor(c.cursor, c.low, c.any_mark, false, false), c.expected);
  const Position lower{Generation{3}, Revision{90}}, higher{Generation{3}, Revision{100}};
  EXPECT_EQ(compare_cursor(higher, lower, true, false, true), CursorVerdict::copying) << "a cursor of a copy that is under way claims nothing";
  EXPECT_EQ(compare_cursor(higher, lower, true, true, false), CursorVerdict::taken_back);
}

TEST(TooSmall, LimitsAndMemoryAreCompared) {
  feed::Welcome source;
  source.key_bytes_max = 64 << 10;
  source.value_bytes_max = 4 << 20;
  source.live_bytes = 1000;
  source.live_keys = 10;
  TargetInfo target;
  target.key_bytes_max = 64 << 10;
  target.value_bytes_max = 4 << 20;
  target.memory_max_bytes = 1240;
  EXPECT_FALSE(too_small(source, target));
  target.memory_max_bytes = 1239;
  EXPECT_TRUE(too_small(source, target)) << "each record brings 24 bytes of origin";
  target.memory_max_bytes = 0;
  EXPECT_FALSE(too_small(source, target)) << "not told: not compared";
  target.value_bytes_max = (4 << 20) - 1;
  EXPECT_TRUE(too_small(source, target));
  target.value_bytes_max = 8 << 20;
  target.key_bytes_max = 1 << 10;
  EXPECT_TRUE(too_small(source, target));
}

TEST(RemovalBudget, AShareOfASegmentsKeysAndNeverLessThanTheFloor) {
  EXPECT_EQ(removal_budget(0, 256, 0.1, 100), 100u);
  EXPECT_EQ(removal_budget(2'560'000, 256, 0, 100), 0u) << "0 % is none, not a hundred";
  EXPECT_EQ(removal_budget(256'000, 256, 0.1, 100), 100u);
  EXPECT_EQ(removal_budget(2'560'000, 256, 0.1, 100), 1000u);
  EXPECT_EQ(removal_budget(1000, 1, 0.1, 0), 100u);
}

}  // namespace
}  // namespace zaris::follower
