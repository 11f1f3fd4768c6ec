// Runs become pieces: views where nothing changes, tables put right where a piece begins earlier or is cut or joined.
#include "follower/link/piece.hpp"

#include <gtest/gtest.h>

#include "cluster/placement/slot.hpp"
#include "cluster/record/record.hpp"
#include "cluster/record/record_table.hpp"

namespace zaris::follower {
namespace {

NamedPosition at(std::uint64_t revision, std::uint32_t generation = 1) { return {{Generation{generation}, Revision{revision}}, generation}; }

struct Entry {
  std::uint64_t revision;
  std::uint16_t slot;
  std::string bytes;
};

// A run (prev, last] of generation 1 with these records, in one message.
struct TestRun {
  Bytes message;
  feed::Run run;
  TestRun(std::uint64_t prev, std::uint64_t last, const std::vector<Entry>& entries) {
    std::string table, records;
    std::uint64_t before = prev;
    for (const auto& e : entries) {
      append_row(table, {static_cast<std::uint32_t>(e.bytes.size()), 0, Slot{e.slot}, static_cast<std::uint16_t>(e.revision - before)});
      before = e.revision;
      records += e.bytes;
    }
    auto bytes = std::make_shared<std::string>(table + records);
    message = bytes;
    run.segment = SegmentId{0};
    run.prev = {Generation{1}, Revision{prev}};
    run.generation = Generation{1};
    run.last = Revision{last};
    run.commit_time_us = 77;
    run.table = std::string_view(*bytes).substr(0, table.size());
    run.records = std::string_view(*bytes).substr(table.size());
  }
};

// What a target reads out of a piece.
std::vector<std::pair<std::uint64_t, std::string>> contents(const Piece& piece) {
  std::vector<std::pair<std::uint64_t, std::string>> out;
  std::uint64_t revision = piece.prev->at.revision.value();
  std::size_t offset = 0;
  for (std::size_t i = 0; i < row_count(piece.table); ++i) {
    const RecordRow row = read_row(piece.table, i);
    revision += row.revision_delta;
    out.emplace_back(revision, std::string(piece.records.substr(offset, row.length)));
    offset += row.length;
  }
  EXPECT_EQ(offset, piece.records.size());
  return out;
}

using Contents = std::vector<std::pair<std::uint64_t, std::string>>;

TEST(WholeRun, IsTheRunsOwnViews) {
  const TestRun r(10, 15, {{11, 3, "a"}, {14, 4, "bb"}});
  std::vector<Piece> out;
  whole_run(r.run, at(10), at(15), at(10), r.message, [&](Piece p) { out.push_back(std::move(p)); });
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].table.data(), r.run.table.data()) << "no copy";
  EXPECT_EQ(out[0].records.data(), r.run.records.data()) << "no copy";
  EXPECT_EQ(out[0].message, r.message) << "and the message is held";
  EXPECT_EQ(out[0].prev, at(10));
  EXPECT_EQ(out[0].last, at(15));
  EXPECT_EQ(out[0].credit, r.run.table.size() + r.run.records.size());
}

TEST(WholeRun, IsWidenedOverRevisionsThatBroughtNothing) {
  const TestRun r(100, 105, {{101, 3, "a"}, {105, 4, "b"}});
  std::vector<Piece> out;
  whole_run(r.run, at(100), at(105), at(60), r.message, [&](Piece p) { out.push_back(std::move(p)); });
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].prev, at(60));
  EXPECT_EQ(contents(out[0]), (Contents{{101, "a"}, {105, "b"}}));
  EXPECT_EQ(out[0].records.data(), r.run.records.data()) << "only the table is copied";
  EXPECT_EQ(contents(Piece{.prev = at(100), .table = r.run.table, .records = r.run.records}), (Contents{{101, "a"}, {105, "b"}}))
      << "and the message stays as it came: others may hold it";
}

TEST(WholeRun, TooFarToWidenIsTwoPieces) {
  const TestRun r(100'000, 100'001, {{100'001, 3, "a"}});
  for (const std::uint64_t low : {100'001u - 65'535u, 100'001u - 65'536u}) {
    std::vector<Piece> out;
    whole_run(r.run, at(100'000), at(100'001), at(low), r.message, [&](Piece p) { out.push_back(std::move(p)); });
    if (low == 100'001 - 65'535) {
      ASSERT_EQ(out.size(), 1u);
      EXPECT_EQ(out[0].prev, at(low));
      EXPECT_EQ(contents(out[0]), (Contents{{100'001, "a"}}));
    } else {
      ASSERT_EQ(out.size(), 2u);
      EXPECT_EQ(out[0].prev, at(low));
      EXPECT_EQ(out[0].last, at(100'000));
      EXPECT_EQ(out[0].rows(), 0u);
      EXPECT_EQ(out[1].prev, at(100'000));
    }
  }
}

TEST(WholeRun, WhatTheTargetHasAlreadyIsNotCutOff) {
  const TestRun r(10, 15, {{11, 3, "a"}, {14, 4, "b"}});
  std::vector<Piece> out;
  whole_run(r.run, at(10), at(15), at(12), r.message, [&](Piece p) { out.push_back(std::move(p)); });
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].prev, at(10)) << "the owner skips what is at or below its low";
}

std::vector<Piece> parts_of(Piece piece, std::size_t bytes_max) {
  std::vector<Piece> out;
  cut(std::move(piece), bytes_max, [&](Piece p) { out.push_back(std::move(p)); });
  return out;
}

TEST(Cut, WhatFitsStaysWhole) {
  const TestRun r(10, 15, {{11, 3, "aaaa"}, {14, 4, "bbbb"}});
  const Piece piece{.prev = at(10), .last = at(15), .table = r.run.table, .records = r.run.records, .message = r.message, .credit = 24};
  const auto parts = parts_of(piece, 24);
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_EQ(parts[0].table.data(), r.run.table.data());
  EXPECT_EQ(parts[0].credit, 24u);
}

TEST(Cut, ARunEndsAtARecordAndGoesOnBehindIt) {
  const TestRun r(10, 30, {{11, 3, "aaaa"}, {14, 4, "bbbb"}, {15, 4, std::string(100, 'c')}, {29, 5, "dddd"}});
  const Piece piece{.prev = at(10), .last = at(30), .closed_time_us = 5, .table = r.run.table, .records = r.run.records, .message = r.message, .credit = 7};
  const auto parts = parts_of(piece, 30);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(contents(parts[0]), (Contents{{11, "aaaa"}, {14, "bbbb"}}));
  EXPECT_EQ(contents(parts[1]), (Contents{{15, std::string(100, 'c')}})) << "one record at least";
  EXPECT_EQ(contents(parts[2]), (Contents{{29, "dddd"}}));
  EXPECT_EQ(parts[0].prev, at(10));
  EXPECT_EQ(parts[0].last, at(14));
  EXPECT_EQ(parts[1].prev, at(14));
  EXPECT_EQ(parts[1].last, at(15));
  EXPECT_EQ(parts[2].prev, at(15));
  EXPECT_EQ(parts[2].last, at(30));
  EXPECT_EQ(parts[0].credit + parts[1].credit, 0u);
  EXPECT_EQ(parts[2].credit, 7u);
  EXPECT_EQ(parts[1].closed_time_us, 0) << "what the closed time speaks of is not applied yet";
  EXPECT_EQ(parts[2].closed_time_us, 5);
}

TEST(Cut, ARangeIsCutBehindAKey) {
  std::string table, records;
  for (const char* key : {"a", "b", "c"}) {
    EntryFields fields;
    fields.key = key;
    fields.value = "value";
    RecordHeader header;
    header.revision = Revision{5};
    header.generation = Generation{1};
    const std::string record = make_record(fields, header);
    append_row(table, {static_cast<std::uint32_t>(record.size()), 0, Slot{7}, 0});
    records += record;
  }
  Piece piece{.kind = ApplyKind::range, .prev = at(3), .last = at(9), .table = table, .records = records, .credit = 5};
  piece.range = ApplyRange{SlotKey{Slot{6}, "x"}, std::nullopt, at(9), true, {}};
  const auto parts = parts_of(piece, 2 * (records.size() + table.size()) / 3);
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0].rows(), 2u);
  EXPECT_EQ(parts[0].range->from, (SlotKey{Slot{6}, "x"}));
  EXPECT_EQ(parts[0].range->to, (SlotKey{Slot{7}, "b"}));
  EXPECT_FALSE(parts[0].range->final);
  EXPECT_EQ(parts[0].range->as_of, at(9));
  EXPECT_EQ(parts[1].rows(), 1u);
  EXPECT_EQ(parts[1].prev, at(9)) << "where the mark stands after the first";
  EXPECT_EQ(parts[1].range->from, (SlotKey{Slot{7}, "b"}));
  EXPECT_FALSE(parts[1].range->to);
  EXPECT_TRUE(parts[1].range->final);
}

struct Split {
  std::vector<std::pair<std::size_t, Piece>> pieces;
  std::uint64_t unused = 0;
};
Split split(const TestRun& r, std::vector<LaneView> lanes, std::uint32_t target_segments = 4) {
  Split out;
  out.unused = split_run(r.run, at(r.run.prev.revision.value(), r.run.prev.generation.value()), at(r.run.last.value()), lanes, target_segments,
                         [&](std::size_t lane, Piece p) { out.pieces.emplace_back(lane, std::move(p)); });
  std::uint64_t credit = out.unused;
  for (const auto& [lane, p] : out.pieces) credit += p.credit;
  EXPECT_EQ(credit, r.run.table.size() + r.run.records.size()) << "every byte is given back once";
  return out;
}

// One source segment, four target segments of 4,096 slots.
TEST(SplitRun, BySlotWithDeltasOfItsOwn) {
  const TestRun r(10, 20, {{11, 0, "a"}, {12, 4096, "b"}, {15, 4095, "c"}, {16, 8191, "d"}});
  const auto out = split(r, {{SegmentId{0}, at(10)}, {SegmentId{1}, at(7)}, {SegmentId{2}, at(10)}, {SegmentId{3}, at(10)}});
  ASSERT_EQ(out.pieces.size(), 2u) << "target segments without a record wait for the next commit interval";
  EXPECT_EQ(out.pieces[0].first, 0u);
  EXPECT_EQ(out.pieces[0].second.prev, at(10));
  EXPECT_EQ(contents(out.pieces[0].second), (Contents{{11, "a"}, {15, "c"}}));
  EXPECT_EQ(out.pieces[1].first, 1u);
  EXPECT_EQ(out.pieces[1].second.prev, at(7)) << "widened to its own low";
  EXPECT_EQ(contents(out.pieces[1].second), (Contents{{12, "b"}, {16, "d"}}));
  for (const auto& [lane, p] : out.pieces) EXPECT_EQ(p.last, at(20));
}

TEST(SplitRun, WhoCoversNothingOrHasItAlreadyGetsNothing) {
  const TestRun r(10, 20, {{11, 0, "a"}, {12, 4096, "b"}, {13, 8192, "c"}});
  const auto out = split(r, {{SegmentId{0}, std::nullopt}, {SegmentId{1}, at(20)}, {SegmentId{2}, at(15)}, {SegmentId{3}, at(10)}});
  ASSERT_EQ(out.pieces.size(), 1u);
  EXPECT_EQ(out.pieces[0].first, 2u);
  EXPECT_EQ(out.pieces[0].second.prev, at(10)) << "overlap is harmless: the owner skips";
}

TEST(SplitRun, ADistanceThatDoesNotFitEndsThePieceBefore) {
  const TestRun r(10, 200'000, {{11, 0, "a"}, {60'000, 4096, "b"}, {120'000, 4096, "c"}, {180'000, 0, "d"}});
  const auto out = split(r, {{SegmentId{0}, at(10)}, {SegmentId{1}, at(10)}, {SegmentId{2}, at(10)}, {SegmentId{3}, at(10)}});
  ASSERT_EQ(out.pieces.size(), 3u);
  EXPECT_EQ(contents(out.pieces[0].second), (Contents{{11, "a"}}));
  EXPECT_EQ(out.pieces[0].second.last, at(179'999));
  EXPECT_EQ(out.pieces[1].second.prev, at(179'999));
  EXPECT_EQ(contents(out.pieces[1].second), (Contents{{180'000, "d"}}));
  EXPECT_EQ(contents(out.pieces[2].second), (Contents{{60'000, "b"}, {120'000, "c"}}));
}

TEST(SplitRun, NoPlaceBeforeTheRunIsMadeUp) {
  // Low far behind, in an older generation: the place that ends the empty piece must be one that exists, the run's begin.
  TestRun r(100'000, 100'001, {{100'001, 0, "a"}});
  r.run.prev.generation = Generation{0};
  const auto out = split(r, {{SegmentId{0}, at(5, 0)}, {SegmentId{1}, at(5, 0)}, {SegmentId{2}, at(5, 0)}, {SegmentId{3}, at(5, 0)}});
  ASSERT_EQ(out.pieces.size(), 2u);
  EXPECT_EQ(out.pieces[0].second.last, at(100'000, 0));
  EXPECT_EQ(out.pieces[1].second.prev, at(100'000, 0));
  EXPECT_EQ(contents(out.pieces[1].second), (Contents{{100'001, "a"}}));
}

TEST(SplitRecords, OneCutPerTargetSegment) {
  std::string table, records;
  for (const auto& [slot, bytes] : {std::pair{0, "a"}, {4095, "b"}, {4096, "c"}, {16383, "d"}}) {
    append_row(table, {1, 0, Slot{static_cast<std::uint16_t>(slot)}, 0});
    records += bytes;
  }
  const LaneView lanes[] = {{SegmentId{0}, {}}, {SegmentId{1}, {}}, {SegmentId{2}, {}}, {SegmentId{3}, {}}};
  const auto cuts = split_records(table, records, lanes, 4);
  ASSERT_EQ(cuts.size(), 4u);
  EXPECT_EQ(cuts[0].bytes.substr(0, cuts[0].records), "ab");
  EXPECT_EQ(cuts[1].bytes.substr(0, cuts[1].records), "c");
  EXPECT_EQ(cuts[2].bytes.size(), 0u);
  EXPECT_EQ(cuts[3].bytes.substr(0, cuts[3].records), "d");
  EXPECT_EQ(cuts[0].bytes.size(), 2 + 2 * record_row_bytes);
}

Piece piece_of(const TestRun& r) {
  Piece out;
  whole_run(r.run, at(r.run.prev.revision.value()), at(r.run.last.value()), at(r.run.prev.revision.value()), r.message, [&](Piece p) { out = std::move(p); });
  return out;
}

TEST(Join, SmallStretchesThatFollowEachOther) {
  const TestRun a(10, 12, {{11, 1, "a"}}), b(12, 15, {{13, 2, "b"}, {15, 3, "c"}}), c(15, 16, {{16, 4, "d"}});
  Piece piece = piece_of(a);
  ASSERT_TRUE(join(piece, piece_of(b)));
  ASSERT_TRUE(join(piece, piece_of(c)));
  EXPECT_EQ(contents(piece), (Contents{{11, "a"}, {13, "b"}, {15, "c"}, {16, "d"}})) << "12 was a revision that brought nothing";
  EXPECT_EQ(piece.last, at(16));
  EXPECT_EQ(piece.credit, a.run.records.size() + a.run.table.size() + b.run.records.size() + b.run.table.size() + c.run.records.size() + c.run.table.size());
}

TEST(Join, NeverWhatDoesNotFollowOrIsAnotherKindOrGeneration) {
  const TestRun a(10, 12, {{11, 1, "a"}}), gap(13, 14, {{14, 2, "b"}});
  Piece piece = piece_of(a);
  EXPECT_FALSE(join(piece, piece_of(gap)));
  Piece other_generation = piece_of(TestRun(12, 14, {{13, 1, "z"}}));
  other_generation.last = at(14, 2);
  EXPECT_FALSE(join(piece, other_generation));
  Piece open;
  open.kind = ApplyKind::open;
  EXPECT_FALSE(join(open, piece_of(a)));
  EXPECT_FALSE(join(piece, piece_of(TestRun(12, 14, {{13, 1, std::string(joined_bytes_max, 'x')}})))) << "large ones stay views";
  const TestRun too_far(12, 100'000, {{12 + 65'535, 1, "x"}});
  EXPECT_FALSE(join(piece, piece_of(too_far))) << "65,536 behind the record before it";
}

TEST(Join, EmptyOnesOnlyMoveTheEnd) {
  Piece piece = piece_of(TestRun(10, 12, {{11, 1, "a"}}));
  Piece step;
  step.prev = at(12);
  step.last = at(500);
  ASSERT_TRUE(join(piece, step));
  EXPECT_EQ(piece.last, at(500));
  EXPECT_EQ(contents(piece), (Contents{{11, "a"}}));
  const TestRun next(500, 501, {{501, 1, "b"}});
  ASSERT_TRUE(join(piece, piece_of(next)));
  EXPECT_EQ(contents(piece), (Contents{{11, "a"}, {501, "b"}}));
}

}  // namespace
}  // namespace zaris::follower
