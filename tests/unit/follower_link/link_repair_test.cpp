// The source has lost a tail that the target holds: what was lost is named, fetched, kept and put right, key by key; and what happens where that
// cannot be done.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cluster/placement/slot.hpp"
#include "cluster/record/record.hpp"
#include "tests/unit/follower_link/link_world.hpp"

namespace zaris::follower {
namespace {

using testing::ElementsAre;

struct RepairWorld : World {
  std::map<std::string, std::string> source_values;    // what the source has after the loss
  std::size_t answered_at_once = 100;                  // keys of one Records
  std::vector<std::string> lost;                       // keys whose newest records were lost

  explicit RepairWorld(std::uint32_t sources = 1, std::uint32_t targets = 1) : World(sources, targets) {
    target_live_keys = 10'000;
    rolled_back = [this](const ListRolledBackRequest& a) {
      RolledBackAnswer out;
      for (const auto& key : lost) {
        if (segment_of(slot_of(key), target_segments) != a.target_segment) continue;
        const std::string record = record_of(key, "lost", {Generation{500}, Revision{7}});
        append_row(out.table, {static_cast<std::uint32_t>(record.size()), 0, slot_of(key), 0});
        out.records += record;
      }
      return out;
    };
    fetched = [this](std::uint64_t connection, const feed::FetchKeys& m) { answer(connection, m); };
  }
  static std::string record_of(const std::string& key, const std::string& value, Position at) {
    return make_record(EntryFields{.key = key, .value = value, .expires_us = 0, .tag = 1}, RecordHeader{at.revision, 1, 1, Deleted::no, at.generation, std::nullopt});
  }
  void answer(std::uint64_t connection, const feed::FetchKeys& m) {
    for (std::uint32_t begin = 0; begin < m.keys.size();) {
      feed::Records r;
      r.request = m.request;
      r.segment = m.segment;
      r.begin = begin;
      r.as_of = at(m.segment.value(), segments[m.segment.value()].head.revision.value());
      std::string table, records;
      for (std::size_t n = 0; n < answered_at_once && begin < m.keys.size(); ++n, ++begin) {
        const auto found = source_values.find(m.keys[begin]);
        if (found == source_values.end()) {
          r.missing.push_back(begin);
          continue;
        }
        const std::string record = record_of(found->first, found->second, {Generation{1}, Revision{3}});
        append_row(table, {static_cast<std::uint32_t>(record.size()), 0, slot_of(found->first), 0});
        records += record;
      }
      r.table = table;
      r.records = records;
      r.more = begin < m.keys.size();
      tell(connection, r);
      Revision& head = segments[m.segment.value()].head.revision;  // it is written to meanwhile
      head = head.next();
    }
  }
  // What came after `revision` of every segment is gone, and a new owner goes on.
  void lose_tail(std::uint64_t revision) {
    for (auto& s : segments) {
      s.lineage.append({Generation{2}, 0x92, Revision{revision + 1}, 0});
      s.head = {Generation{2}, Revision{revision + 1}};
    }
    cut();
  }
  std::vector<const ApplyRequest*> repairs() const {
    std::vector<const ApplyRequest*> out;
    for (const auto& r : applied) {
      if (r.batch.kind == ApplyKind::repair) out.push_back(&r);
    }
    return out;
  }
  std::uint64_t bootstraps() {
    std::uint64_t n = 0;
    const auto s = status();
    for (const auto count : s.bootstraps_by_reason) n += count;
    return n;
  }
};

TEST(LinkRepair, JustTheKeysOfTheLostTailArePutRight) {
  RepairWorld w;
  w.establish();
  const auto before = w.bootstraps();
  w.write(0, 10, 14, {{11, 5}, {12, 5}});
  ASSERT_TRUE(w.caught_up());
  w.lost = {"a", "b"};
  w.source_values = {{"a", "kept"}};
  w.lose_tail(12);
  ASSERT_TRUE(w.until([&] { return !w.repairs().empty(); }));
  ASSERT_EQ(w.lists.size(), 1u);
  EXPECT_EQ(w.lists[0].surviving, (NamedPosition{{Generation{1}, Revision{12}}, 0x91}));
  EXPECT_EQ(w.fetches.size(), 1u);
  ASSERT_EQ(w.conflicts.size(), 2u) << "kept before anything is taken away";
  EXPECT_EQ(parse_record(w.conflicts[0].target_record)->value, "lost");
  const ApplyRequest& repair = *w.repairs()[0];
  EXPECT_TRUE(repair.batch.repair->final);
  EXPECT_EQ(repair.batch.repair->as_of.at, (Position{Generation{2}, Revision{13}}));
  EXPECT_EQ(row_count(repair.batch.table), 2u);
  EXPECT_EQ(repair.batch.removals_left, 1000u) << "a tenth of the segment's keys";
  EXPECT_EQ(w.subscribed.back().low->at, (Position{Generation{1}, Revision{12}})) << "the stream goes on behind what survived";
  EXPECT_EQ(w.subscribed.back().high->at, (Position{Generation{2}, Revision{13}}));
  w.write(0, 12, w.segments[0].head.revision.value(), {});
  ASSERT_TRUE(w.caught_up());
  const auto s = w.status();
  EXPECT_EQ(s.repairs, 1u);
  EXPECT_EQ(s.rolled_back_records, 2u);
  EXPECT_EQ(s.target_rollbacks, 0u) << "the target has lost nothing";
  EXPECT_EQ(w.bootstraps(), before);
  EXPECT_EQ(w.logged("rollback"), 1u);
}

TEST(LinkRepair, AnAnswerInPartsIsOneRepairOfWhichTheLastBatchIsFinal) {
  RepairWorld w;
  w.establish();
  w.write(0, 10, 30, {{11, 5}});
  ASSERT_TRUE(w.caught_up());
  for (int i = 0; i < 10; ++i) w.lost.push_back("k" + std::to_string(i));
  w.answered_at_once = 4;
  w.lose_tail(12);
  ASSERT_TRUE(w.until([&] { return w.repairs().size() == 3; }));
  EXPECT_FALSE(w.repairs()[0]->batch.repair->final);
  EXPECT_FALSE(w.repairs()[1]->batch.repair->final);
  EXPECT_TRUE(w.repairs()[2]->batch.repair->final);
  EXPECT_EQ(row_count(w.repairs()[2]->batch.table), 2u);
  EXPECT_LT(w.repairs()[0]->batch.repair->as_of.at, w.repairs()[2]->batch.repair->as_of.at) << "each as of its own position";
  EXPECT_EQ(w.conflicts.size(), 10u);
}

TEST(LinkRepair, NothingOfTheLostTailWasInTheScope) {
  RepairWorld w;
  w.establish();
  w.write(0, 10, 14, {});
  ASSERT_TRUE(w.until([&] { return w.status().segments[0].position == (Position{Generation{1}, Revision{14}}); })) << "the mark is moved over it";
  w.lose_tail(12);
  ASSERT_TRUE(w.until([&] { return !w.repairs().empty(); }));
  EXPECT_TRUE(w.fetches.empty());
  EXPECT_EQ(row_count(w.repairs()[0]->batch.table), 0u);
  EXPECT_TRUE(w.conflicts.empty());
  EXPECT_EQ(w.subscribed.back().low->at, (Position{Generation{1}, Revision{12}}));
}

TEST(LinkRepair, EachMarkOfASegmentHasItsOwn) {
  RepairWorld w(1, 2);
  w.establish();
  w.write(0, 10, 14, {{11, 5}, {12, 10'000}});
  ASSERT_TRUE(w.caught_up());
  for (int i = 0; i < 8; ++i) w.lost.push_back("k" + std::to_string(i));
  w.lose_tail(12);
  ASSERT_TRUE(w.until([&] { return w.repairs().size() == 2; }));
  EXPECT_EQ(w.lists.size(), 2u);
  EXPECT_NE(w.repairs()[0]->batch.target_segment, w.repairs()[1]->batch.target_segment);
  EXPECT_EQ(row_count(w.repairs()[0]->batch.table) + row_count(w.repairs()[1]->batch.table), 8u);
  w.write(0, 12, w.segments[0].head.revision.value(), {});
  EXPECT_TRUE(w.caught_up());
}

TEST(LinkRepair, AListThatIsGoneIsReplacedByRanges) {
  RepairWorld w;
  w.rolled_back = nullptr;
  w.establish();
  const auto before = w.bootstraps();
  w.write(0, 10, 14, {{11, 5}});
  ASSERT_TRUE(w.caught_up());
  w.lose_tail(12);
  ASSERT_TRUE(w.until([&] { return w.bootstraps() > before; }));
  EXPECT_EQ(w.logged("repair_by_ranges"), 1u);
  ASSERT_TRUE(w.until([&] { return w.subscribed.back().walk.has_value(); }));
  w.chunk(0, std::nullopt, std::nullopt, 13);
  EXPECT_TRUE(w.caught_up());
  EXPECT_TRUE(w.repairs().empty());
}

TEST(LinkRepair, WhatLiesBelowTheHorizonIsPutRightByRanges) {
  RepairWorld w;
  w.establish();  // by a chunk as of 10
  const auto before = w.bootstraps();
  w.write(0, 10, 14, {{11, 5}});
  ASSERT_TRUE(w.caught_up());
  w.lose_tail(8);
  ASSERT_TRUE(w.until([&] { return w.bootstraps() > before; }));
  EXPECT_TRUE(w.lists.empty());
}

TEST(LinkRepair, OneThatWasInterruptedAfterItsFirstBatchGoesOnByRanges) {
  RepairWorld w;
  w.establish();
  const auto before = w.bootstraps();
  w.write(0, 10, 14, {{11, 5}});
  ASSERT_TRUE(w.caught_up());
  for (int i = 0; i < 4; ++i) w.lost.push_back("k" + std::to_string(i));
  w.answered_at_once = 2;
  w.refuse = [&](const ApplyRequest& r) -> std::optional<ApplyAnswer> {
    if (r.batch.kind != ApplyKind::repair || !r.batch.repair->final) return std::nullopt;
    ApplyAnswer a;
    a.status = Status::unavailable;
    return a;
  };
  w.lose_tail(12);
  ASSERT_TRUE(w.until([&] { return w.repairs().size() == 1; }));
  EXPECT_EQ(w.status().state, LinkState::repair);
  EXPECT_FALSE(w.status().caught_up);
  w.cut();
  w.refuse = nullptr;
  ASSERT_TRUE(w.until([&] { return w.bootstraps() > before; }));
  EXPECT_EQ(w.repairs().size(), 1u);
}

TEST(LinkRepair, ATargetThatCannotBeAskedIsAskedAgain) {
  RepairWorld w;
  w.establish();
  w.write(0, 10, 14, {{11, 5}});
  ASSERT_TRUE(w.caught_up());
  w.lost = {"a"};
  const auto list = w.rolled_back;
  w.rolled_back = [](const ListRolledBackRequest&) { return RolledBackAnswer{Status::unavailable, "nobody serves it now", {}, {}, {}}; };
  w.lose_tail(12);
  ASSERT_TRUE(w.until([&] { return w.lists.size() >= 2; }));
  EXPECT_TRUE(w.repairs().empty());
  w.rolled_back = list;
  EXPECT_TRUE(w.until([&] { return w.repairs().size() == 1; }));
}

TEST(LinkRepair, AQuestionThatNobodyAnswersIsAskedAgain) {
  RepairWorld w;
  w.establish();
  w.write(0, 10, 14, {{11, 5}});
  ASSERT_TRUE(w.caught_up());
  w.lost = {"a"};
  const auto answer = w.fetched;
  w.fetched = nullptr;
  w.lose_tail(12);
  ASSERT_TRUE(w.until([&] { return w.fetches.size() == 2; }));
  w.fetched = answer;
  EXPECT_TRUE(w.until([&] { return w.repairs().size() == 1; }));
}

TEST(LinkRepair, ALargeRollbackWaitsForAWord) {
  RepairWorld w;
  w.establish();
  w.write(0, 10, 14, {{11, 5}});
  ASSERT_TRUE(w.caught_up());
  w.lost = {"a"};
  w.refuse = [&](const ApplyRequest& r) -> std::optional<ApplyAnswer> {
    if (r.batch.kind != ApplyKind::repair || r.batch.removals_left > 5000) return std::nullopt;
    ApplyAnswer a;
    a.status = Status::removal_limit;
    a.removal_count = 5000;
    return a;
  };
  w.lose_tail(12);
  ASSERT_TRUE(w.held("large_removal"));
  ASSERT_TRUE(w.link->accept_removal(w.now));
  EXPECT_TRUE(w.until([&] { return w.repairs().size() == 1; }));
  w.write(0, 12, w.segments[0].head.revision.value(), {});
  EXPECT_TRUE(w.caught_up());
}

TEST(LinkRepair, NothingIsTakenAwayThatCannotBeKept) {
  RepairWorld w;
  w.establish();
  w.write(0, 10, 14, {{11, 5}});
  ASSERT_TRUE(w.caught_up());
  w.lost = {"a"};
  w.conflict_log_full = true;
  w.lose_tail(12);
  ASSERT_TRUE(w.until([&] { return w.status().state == LinkState::failed; }));
  EXPECT_THAT(w.status().reason, testing::StartsWith("conflict_log_full"));
  EXPECT_TRUE(w.repairs().empty());
  w.conflict_log_full = false;
  EXPECT_TRUE(w.until([&] { return w.repairs().size() == 1; })) << "and goes on when there is room";
}

TEST(LinkRepair, ACrashBeforeTheCursorFollowsIsNoLossOfTheTargets) {
  RepairWorld w;
  w.establish();
  w.write(0, 10, 14, {{11, 5}});
  ASSERT_TRUE(w.caught_up());
  w.run(3'000'000);
  ASSERT_EQ(w.cursors.begin()->second.position.at, (Position{Generation{1}, Revision{14}}));
  w.lost = {"a"};
  w.hold_commits = true;
  w.lose_tail(12);
  ASSERT_TRUE(w.until([&] { return w.repairs().size() == 1; }));
  w.hold_commits = false;
  w.start();  // killed, and what was not persisted is gone
  ASSERT_TRUE(w.until([&] { return w.subscribed.back().high && w.subscribed.back().high->at.generation == Generation{2}; }));
  EXPECT_EQ(w.status().target_rollbacks, 0u);
  EXPECT_EQ(w.repairs().size(), 1u);
  w.write(0, 12, w.segments[0].head.revision.value(), {});
  EXPECT_TRUE(w.caught_up());
}

TEST(LinkRepair, AnAnswerThatLeavesKeysOutEndsTheSession) {
  RepairWorld w;
  w.establish();
  w.write(0, 10, 14, {{11, 5}});
  ASSERT_TRUE(w.caught_up());
  w.lost = {"a", "b"};
  const auto answer = w.fetched;
  w.fetched = [&](std::uint64_t connection, const feed::FetchKeys& m) {
    feed::Records r;
    r.request = m.request;
    r.segment = m.segment;
    r.as_of = w.at(0, 13);
    r.missing = {1};
    w.tell(connection, r);
  };
  w.lose_tail(12);
  ASSERT_TRUE(w.until([&] { return w.logged("feed_protocol") == 1; }));
  EXPECT_TRUE(w.repairs().empty());
  w.fetched = answer;
  EXPECT_TRUE(w.until([&] { return w.repairs().size() == 1; }));
}

}  // namespace
}  // namespace zaris::follower
