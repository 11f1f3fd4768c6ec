// Tokens foreseen, repeats of the same bytes, and what each answer means.
#include "follower/link/lane.hpp"

#include <gtest/gtest.h>

namespace zaris::follower {
namespace {

using Verdict = Lane::Verdict;

constexpr Generation generation{5};
constexpr SessionId session{0x5e55};

NamedPosition at(std::uint64_t revision) { return {{Generation{1}, Revision{revision}}, 1}; }

Piece run(std::uint64_t prev, std::uint64_t last) {
  Piece p;
  p.prev = at(prev);
  p.last = at(last);
  p.credit = 10;
  return p;
}
Piece large_run(std::uint64_t prev, std::uint64_t last) {
  Piece p = run(prev, last);
  static const std::string table(8, '\0'), records(joined_bytes_max, 'x');
  p.table = table;
  p.records = records;
  return p;
}
Piece open() {
  Piece p;
  p.kind = ApplyKind::open;
  return p;
}
Piece range(std::optional<SlotKey> to, std::uint64_t as_of, bool final = false) {
  Piece p;
  p.kind = ApplyKind::range;
  p.range.emplace();
  p.range->to = std::move(to);
  p.range->as_of = at(as_of);
  p.range->final = final;
  return p;
}

Mark stream_mark(std::uint64_t low, std::uint64_t number, Generation written = generation, SessionId by = SessionId{0xaaaa}) {
  Mark m;
  m.token = {written, by, number};
  m.phase = Phase::stream;
  m.low = m.high = at(low);
  return m;
}

// An owner that keeps one mark, as page protocol says.
struct Owner {
  std::optional<Mark> mark;
  Generation now = generation;
  ApplyAnswer apply(const Flight& f) {
    ApplyAnswer a;
    a.target_generation = now;
    const auto stands = mark ? std::optional(mark->token) : std::nullopt;
    if (stands != f.expected) {
      a.status = Status::mark_gap;
      a.mark = mark;
      return a;
    }
    Mark next = mark.value_or(Mark{});
    next.token = {now, f.session, (mark ? mark->token.number : 0) + 1};
    if (f.piece.kind == ApplyKind::open) {
      next = Mark{};
      next.token = {now, f.session, (mark ? mark->token.number : 0) + 1};
    } else if (f.piece.kind == ApplyKind::stream) {
      next.low = next.high = f.piece.last;
    } else {
      next.low = next.high = next.horizon = f.piece.range->as_of;
      next.phase = f.piece.range->final ? Phase::stream : Phase::bootstrap;
      next.last_key = f.piece.range->final ? std::nullopt : f.piece.range->to;
    }
    mark = next;
    a.mark = mark;
    a.applied = f.piece.rows();
    return a;
  }
};

class LaneTest : public testing::Test {
 protected:
  // Sends everything that may be sent now.
  std::vector<Flight> send() {
    std::vector<Flight> out;
    while (Flight* f = lane_.next_to_send(limits_, ++id_, session, now_)) out.push_back(*f);
    return out;
  }
  Verdict tell(const Flight& f, Result<ApplyAnswer> a) { return lane_.answer(f.id, a, now_, random_); }
  Verdict deliver(const Flight& f) { return tell(f, owner_.apply(f)); }
  std::size_t done() {
    std::vector<Flight> out;
    lane_.take_done(out);
    return out.size();
  }
  ApplyAnswer status(Status s) {
    ApplyAnswer a;
    a.status = s;
    a.mark = owner_.mark;
    return a;
  }
  // One batch is acknowledged, so that the target's generation is known.
  void warm(std::uint64_t low = 10) {
    owner_.mark = stream_mark(low, 7);
    lane_.read_mark(owner_.mark);
    lane_.push(run(low, low + 1));
    auto first = send();
    ASSERT_EQ(first.size(), 1u);
    ASSERT_EQ(deliver(first[0]), Verdict::progress);
    ASSERT_EQ(done(), 1u);
  }

  Lane lane_{SegmentId{0}, SegmentId{0}, Slot{0}};
  Lane::Limits limits_;
  Owner owner_;
  Random random_{1};
  std::uint64_t id_ = 0;
  MonoMicros now_ = 0;
};

TEST_F(LaneTest, TheFirstBatchTellsTheTargetsGenerationThenTokensAreForeseen) {
  owner_.mark = stream_mark(10, 7, Generation{4});
  lane_.read_mark(owner_.mark);
  lane_.push(large_run(10, 11));
  lane_.push(large_run(11, 12));
  auto sent = send();
  ASSERT_EQ(sent.size(), 1u) << "which generation the owner is in is not known yet";
  EXPECT_EQ(sent[0].expected, (MarkToken{Generation{4}, SessionId{0xaaaa}, 7}));
  EXPECT_EQ(deliver(sent[0]), Verdict::progress);
  for (int i = 2; i < 12; ++i) lane_.push(large_run(10 + i, 11 + i));
  sent = send();
  ASSERT_EQ(sent.size(), limits_.in_flight);
  for (std::size_t i = 0; i < sent.size(); ++i) {
    EXPECT_EQ(sent[i].expected, (MarkToken{generation, session, 8 + i}));
    EXPECT_EQ(sent[i].result, (MarkToken{generation, session, 9 + i}));
  }
  for (const auto& f : sent) EXPECT_EQ(deliver(f), Verdict::progress);
  EXPECT_EQ(lane_.mark()->token, owner_.mark->token);
  EXPECT_EQ(done(), 1 + sent.size());
}

TEST_F(LaneTest, OpenThenRangesThenStream) {
  lane_.read_mark(std::nullopt);
  lane_.push(open());
  lane_.push(range(SlotKey{Slot{3}, "c"}, 40));
  lane_.push(run(40, 41));
  lane_.push(range(std::nullopt, 41, true));
  EXPECT_EQ(lane_.phase(), Phase::stream);
  EXPECT_FALSE(lane_.last_key());
  auto sent = send();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_FALSE(sent[0].expected) << "no mark";
  EXPECT_EQ(sent[0].result.number, 1u);
  EXPECT_EQ(deliver(sent[0]), Verdict::progress);
  sent = send();
  ASSERT_EQ(sent.size(), 3u);
  for (const auto& f : sent) EXPECT_EQ(deliver(f), Verdict::progress);
  EXPECT_EQ(lane_.mark()->phase, Phase::stream);
  EXPECT_EQ(lane_.mark()->low, at(41));
  EXPECT_TRUE(lane_.idle());
}

TEST_F(LaneTest, WithSomethingToLoseRangesGoOneAtATime) {
  limits_.one_range_at_a_time = true;
  lane_.read_mark(std::nullopt);
  lane_.push(open());
  deliver(send()[0]);
  lane_.push(range(SlotKey{Slot{3}, "c"}, 40));
  lane_.push(range(SlotKey{Slot{4}, "c"}, 40));
  auto sent = send();
  ASSERT_EQ(sent.size(), 1u);
  deliver(sent[0]);
  EXPECT_EQ(send().size(), 1u);
}

TEST_F(LaneTest, MovedAndTheRestBehindItGoAgainInOrderWithTheSameBytes) {
  warm();
  for (int i = 11; i < 14; ++i) lane_.push(large_run(i, i + 1));
  auto sent = send();
  ASSERT_EQ(sent.size(), 3u);
  EXPECT_EQ(tell(sent[0], status(Status::moved)), Verdict::retry);
  EXPECT_TRUE(send().empty()) << "all answers first";
  EXPECT_EQ(deliver(sent[1]), Verdict::progress) << "MarkGap, for want of its predecessor";
  EXPECT_EQ(deliver(sent[2]), Verdict::progress);
  EXPECT_TRUE(send().empty()) << "after a while";
  now_ += 5'000'000;
  auto again = send();
  ASSERT_EQ(again.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(again[i].expected, sent[i].expected);
    EXPECT_EQ(again[i].session, sent[i].session);
    EXPECT_EQ(again[i].piece.last, sent[i].piece.last);
    EXPECT_NE(again[i].id, sent[i].id);
    EXPECT_EQ(deliver(again[i]), Verdict::progress);
  }
  EXPECT_EQ(lane_.mark()->low, at(14));
  EXPECT_EQ(done(), 3u);
  EXPECT_FALSE(lane_.failing_since());
}

TEST_F(LaneTest, AnAnswerThatNeverCameIsFoundByTheRepeat) {
  warm();
  lane_.push(large_run(11, 12));
  lane_.push(large_run(12, 13));
  auto sent = send();
  (void)owner_.apply(sent[0]);
  (void)owner_.apply(sent[1]);
  EXPECT_EQ(tell(sent[0], failure("connection_lost", "gone")), Verdict::retry);
  EXPECT_EQ(tell(sent[1], failure("connection_lost", "gone")), Verdict::retry);
  now_ += 5'000'000;
  auto again = send();
  ASSERT_EQ(again.size(), 2u);
  EXPECT_EQ(deliver(again[0]), Verdict::undurable) << "MarkGap with a token of our own: both had been applied; how durably, ReadMarks says";
  EXPECT_EQ(done(), 0u);
  lane_.durable_mark(*owner_.mark);
  EXPECT_EQ(done(), 2u);
  EXPECT_EQ(lane_.mark()->low, at(13));
  EXPECT_EQ(deliver(again[1]), Verdict::unknown);
  EXPECT_TRUE(lane_.idle());
  EXPECT_EQ(lane_.in_flight(), 0u);
}

TEST_F(LaneTest, OneThatWasThoughtLostIsProvedByItsSuccessor) {
  warm();
  lane_.push(large_run(11, 12));
  lane_.push(large_run(12, 13));
  auto sent = send();
  (void)owner_.apply(sent[0]);
  EXPECT_EQ(tell(sent[0], status(Status::timed_out)), Verdict::retry);
  EXPECT_EQ(deliver(sent[1]), Verdict::progress);
  EXPECT_EQ(done(), 2u);
  EXPECT_TRUE(lane_.idle());
}

TEST_F(LaneTest, WhatWasAnsweredAndTakenBackSinceIsNotTakenForApplied) {
  warm();
  for (std::uint64_t i = 11; i < 14; ++i) lane_.push(large_run(i, i + 1));
  const auto sent = send();
  ASSERT_EQ(sent.size(), 3u);
  const ApplyAnswer first = owner_.apply(sent[0]);
  for (std::size_t i = 1; i < 3; ++i) EXPECT_EQ(deliver(sent[i]), Verdict::progress);
  EXPECT_EQ(tell(sent[0], failure("connection_lost", "gone")), Verdict::retry);
  EXPECT_EQ(done(), 0u);
  owner_.mark = first.mark;  // the owner lost its tail: the two that had been answered are gone
  now_ += 5'000'000;
  const auto again = send();
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(deliver(again[0]), Verdict::undurable);
  lane_.durable_mark(*owner_.mark);
  EXPECT_EQ(done(), 1u);
  EXPECT_EQ(lane_.mark()->low, at(12));
  EXPECT_EQ(lane_.durable_low(), at(12)) << "a cursor must not say more";
  EXPECT_TRUE(lane_.waits_for_durability());
}

TEST_F(LaneTest, AMarkOfSomebodyElseEndsTheSession) {
  warm();
  lane_.push(large_run(11, 12));
  auto sent = send();
  owner_.mark = stream_mark(11, 8, generation, SessionId{0xbad});
  EXPECT_EQ(deliver(sent[0]), Verdict::gap);
  EXPECT_TRUE(send().empty());
}

TEST_F(LaneTest, ATargetThatLostItsTailEndsTheSession) {
  warm();
  lane_.push(large_run(11, 12));
  auto sent = send();
  owner_.mark = stream_mark(10, 7);  // what warm() applied is gone
  EXPECT_EQ(deliver(sent[0]), Verdict::gap);
  owner_.mark.reset();
}

TEST_F(LaneTest, AnswersInAnyOrder) {
  warm();
  for (int i = 11; i < 14; ++i) lane_.push(large_run(i, i + 1));
  auto sent = send();
  std::vector<ApplyAnswer> answers;
  for (const auto& f : sent) answers.push_back(owner_.apply(f));
  EXPECT_EQ(tell(sent[2], answers[2]), Verdict::progress);
  EXPECT_EQ(done(), 0u) << "in order";
  EXPECT_EQ(tell(sent[0], answers[0]), Verdict::progress);
  EXPECT_EQ(done(), 1u);
  EXPECT_EQ(tell(sent[1], answers[1]), Verdict::progress);
  EXPECT_EQ(done(), 2u);
  EXPECT_EQ(lane_.mark()->low, at(14));
}

TEST_F(LaneTest, ConflictsAreKeptFirstThenTheSameBatchNamesThem) {
  warm();
  lane_.push(large_run(11, 12));
  auto sent = send();
  EXPECT_EQ(tell(sent[0], status(Status::would_lose)), Verdict::would_lose);
  now_ += 10'000'000;
  EXPECT_TRUE(send().empty()) << "not before the log has it";
  lane_.keep_and_retry({{"k1", 11}, {"k2", 12}});
  auto again = send();
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].may_lose, (std::vector<std::string>{"k1", "k2"}));
  EXPECT_EQ(again[0].expected, sent[0].expected);
  EXPECT_EQ(again[0].session, sent[0].session);
  EXPECT_EQ(tell(again[0], status(Status::would_lose)), Verdict::would_lose);
  lane_.keep_and_retry({{"k2", 22}, {"k3", 13}});
  again = send();
  EXPECT_EQ(again[0].may_lose, (std::vector<std::string>{"k1", "k2", "k3"}));
  EXPECT_EQ(again[0].may_lose_names, (std::vector<std::uint64_t>{11, 22, 13})) << "which write of each is safe";
  for (int i = 0; i < 10; ++i) {  // somebody writes it faster than it is kept
    EXPECT_EQ(tell(again[0], status(Status::would_lose)), Verdict::would_lose);
    lane_.keep_and_retry({{"k2", 100u + static_cast<std::uint64_t>(i)}});
    again = send();
    ASSERT_EQ(again.size(), 1u);
  }
  EXPECT_EQ(again[0].may_lose_names, (std::vector<std::uint64_t>{11, 0, 13})) << "whatever it is by then, and the answer says what it was";
}

TEST_F(LaneTest, WhatEachStatusMeans) {
  const std::pair<Status, Verdict> table[] = {
      {Status::moved, Verdict::retry},
      {Status::ownership_changing, Verdict::retry},
      {Status::migrating, Verdict::retry},
      {Status::replica_sync_pending, Verdict::retry},
      {Status::replica_write_rejected, Verdict::retry},
      {Status::unavailable, Verdict::retry},
      {Status::timed_out, Verdict::retry},
      {Status::item_too_large, Verdict::refused},
      {Status::capacity_exceeded, Verdict::refused},
      {Status::would_lose, Verdict::would_lose},
      {Status::removal_limit, Verdict::removal_limit},
      {Status::term_superseded, Verdict::superseded},
      {Status::epoch_superseded, Verdict::superseded},
      {Status::source_changed, Verdict::opened_anew},
      {Status::scope_mismatch, Verdict::opened_anew},
      {Status::invalid_argument, Verdict::failed},
      {Status::unauthorized, Verdict::failed},
      {Status::unsupported, Verdict::failed},
  };
  for (const auto& [s, expected] : table) {
    owner_ = Owner{};
    lane_ = Lane{SegmentId{0}, SegmentId{0}, Slot{0}};
    warm();
    lane_.push(large_run(11, 12));
    auto sent = send();
    EXPECT_EQ(tell(sent[0], status(s)), expected) << name(s);
    now_ += 10'000'000;
    EXPECT_EQ(send().size(), expected == Verdict::retry ? 1u : 0u) << name(s);
    lane_.clear();
    EXPECT_EQ(lane_.low(), lane_.mark()->low) << "what was not applied is forgotten";
  }
}

TEST_F(LaneTest, AppliedButNotDurableWaitsForItsLow) {
  warm();
  lane_.push(large_run(11, 12));
  lane_.push(large_run(12, 13));
  auto sent = send();
  ApplyAnswer a = owner_.apply(sent[0]);
  const Mark first = *a.mark;
  a.status = Status::durability_not_met;
  EXPECT_EQ(tell(sent[0], a), Verdict::undurable);
  EXPECT_EQ(done(), 0u) << "a cursor may not say so yet";
  Mark before = first;
  --before.token.number;
  lane_.durable_mark(before);
  EXPECT_EQ(done(), 0u);
  lane_.durable_mark(first);
  EXPECT_EQ(done(), 1u);
  EXPECT_EQ(lane_.durable_low(), first.low);
  EXPECT_FALSE(lane_.waits_for_durability());
}

TEST_F(LaneTest, WhatWasAppliedWithoutItsDurabilityAndWentWithItsOwnerIsSentAgain) {
  for (const bool both_undurable : {false, true}) {
    lane_ = Lane{SegmentId{0}, SegmentId{0}, Slot{0}};
    warm();
    const auto survives = owner_.mark;
    for (std::uint64_t i = 11; i < 14; ++i) lane_.push(large_run(i, i + 1));
    const auto sent = send();
    ASSERT_EQ(sent.size(), 3u);
    for (std::size_t i = 0; i < 2; ++i) {
      ApplyAnswer a = owner_.apply(sent[i]);
      if (i == 0 || both_undurable) a.status = Status::durability_not_met;
      if (i == 1 && !both_undurable) EXPECT_EQ(tell(sent[i], failure("connection_lost", "gone")), Verdict::retry);
      else EXPECT_EQ(tell(sent[i], a), Verdict::undurable);
    }
    EXPECT_EQ(tell(sent[2], failure("connection_lost", "gone")), Verdict::retry);
    owner_.mark = survives;  // a replica that had none of it owns the segment now
    std::size_t rounds = 0;
    for (; rounds < 10 && !lane_.idle(); ++rounds) {
      now_ += 5'000'000;
      for (const Flight& f : send()) (void)deliver(f);
    }
    EXPECT_LT(rounds, 10u) << "repeated for ever";
    EXPECT_EQ(done(), 3u);
    EXPECT_EQ(lane_.mark()->low, at(14));
  }
}

// A drain hands over everything, in a generation of its own: what was foreseen by the old one's still stands behind the same batches.
TEST_F(LaneTest, AnOwnerThatHandedEverythingOverEndsNoSession) {
  for (const std::size_t applied_before : {0u, 1u, 2u, 4u}) {
    for (const bool answered : {false, true}) {
      SCOPED_TRACE(testing::Message() << applied_before << " applied by the old owner, answered: " << answered);
      owner_ = Owner{};
      lane_ = Lane{SegmentId{0}, SegmentId{0}, Slot{0}};
      warm();
      for (std::uint64_t i = 11; i < 15; ++i) lane_.push(large_run(i, i + 1));
      const auto sent = send();
      ASSERT_EQ(sent.size(), 4u);
      for (std::size_t i = 0; i < 4; ++i) {
        Result<ApplyAnswer> a = i < applied_before ? owner_.apply(sent[i]) : status(Status::moved);
        EXPECT_NE(tell(sent[i], answered ? a : failure("connection_lost", "gone")), Verdict::gap);
      }
      owner_.now = Generation{6};
      lane_.owner_changed();
      for (std::uint64_t i = 15; i < 18; ++i) lane_.push(large_run(i, i + 1));
      std::size_t rounds = 0;
      for (; rounds < 6 && !lane_.idle(); ++rounds) {
        for (const Flight& f : send()) {
          const Verdict verdict = deliver(f);
          ASSERT_NE(verdict, Verdict::gap);
          if (verdict == Verdict::undurable) lane_.durable_mark(*owner_.mark);
        }
        now_ += 5'000'000;
      }
      EXPECT_TRUE(lane_.idle()) << "after " << rounds << " rounds";
      EXPECT_EQ(lane_.mark()->low, at(18));
    }
  }
}

// The same, but what the old one had answered without its durability is gone with it.
TEST_F(LaneTest, AnotherGenerationWhoseMarkStandsEarlierIsSentTheRest) {
  warm();
  const auto survives = owner_.mark;
  for (std::uint64_t i = 11; i < 15; ++i) lane_.push(large_run(i, i + 1));
  const auto sent = send();
  for (const Flight& f : sent) {
    ApplyAnswer a = owner_.apply(f);
    a.status = Status::durability_not_met;
    EXPECT_EQ(tell(f, a), Verdict::undurable);
  }
  owner_.mark = survives;
  owner_.now = Generation{6};
  lane_.push(large_run(15, 16));
  std::size_t rounds = 0;
  for (; rounds < 6 && !lane_.idle(); ++rounds) {
    for (const Flight& f : send()) ASSERT_NE(deliver(f), Verdict::gap);
    now_ += 5'000'000;
  }
  EXPECT_TRUE(lane_.idle());
  EXPECT_EQ(lane_.mark()->low, at(16));
}

TEST_F(LaneTest, SmallRunsThatMustWaitAreJoined) {
  warm();
  for (std::uint64_t i = 11; i < 11 + limits_.in_flight; ++i) {
    lane_.push(run(i, i + 1));
    ASSERT_EQ(send().size(), 1u);
  }
  const std::uint64_t from = 11 + limits_.in_flight;
  for (std::uint64_t i = from; i < from + 100; ++i) lane_.push(run(i, i + 1));
  EXPECT_EQ(lane_.queued(), limits_.in_flight + 1);
  EXPECT_EQ(lane_.low(), at(from + 100));
}

TEST_F(LaneTest, HaltedLanesFinishWhatIsOnItsWayAndGiveTheRestBack) {
  warm();
  for (std::uint64_t i = 11; i < 31; ++i) lane_.push(large_run(i, i + 1));
  auto sent = send();
  EXPECT_EQ(lane_.halt(), (20 - limits_.in_flight) * 10);
  EXPECT_FALSE(lane_.quiet());
  for (const auto& f : sent) deliver(f);
  EXPECT_TRUE(lane_.quiet());
  EXPECT_TRUE(send().empty());
  EXPECT_EQ(lane_.clear(), 0u);
  EXPECT_EQ(lane_.low(), at(11 + limits_.in_flight));
  lane_.push(large_run(11 + limits_.in_flight, 40));
  EXPECT_EQ(send().size(), 1u) << "and goes on from its mark";
}

}  // namespace
}  // namespace zaris::follower
