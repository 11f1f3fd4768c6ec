// Kind delta: what changed since a position comes, and the rest of the range is proven to be the same before anything is done.
#include <cstring>
#include <random>
#include <set>

#include "cluster/record/digest.hpp"
#include "tests/unit/store/link_fixture.hpp"

namespace zaris::store {
namespace {

// A page of the source as its feed sends it: what is newer than `since`, and what the others are.
struct DeltaPage {
  Batch batch;
  std::string names;
  std::uint64_t sent = 0;
};

DeltaPage delta(const Linked& l, const WalkPage& page, Position since, bool with_names) {
  DeltaPage out{l.batch(ApplyKind::delta), {}, 0};
  ApplyRange r;
  r.from = page.from;
  r.to = page.to;
  r.as_of = NamedPosition{page.as_of, l.a.lineage(l.source).id_of(page.as_of.generation)};
  r.final = !page.to;
  ApplyRange::Equal others{};
  std::size_t at = 0;
  for (std::size_t i = 0; i < row_count(page.table); ++i) {
    const RecordRow row = read_row(page.table, i);
    const std::string_view bytes = std::string_view(page.records).substr(at, row.length);
    at += row.length;
    const RecordView record = trusted_record(bytes);
    if (record.position() > since) {
      out.batch.add(bytes, row.slot);
      ++out.sent;
      continue;
    }
    const Digest own = record_digest(record.entry, record.item_version);
    others.digest += own;
    ++others.count;
    const std::uint32_t name = own.name();
    if (with_names) out.names.append(reinterpret_cast<const char*>(&name), sizeof name);
  }
  r.equal = others;
  out.batch.b.range = r;
  return out;
}

ApplyAnswer send(Linked& l, DeltaPage& page) {
  page.batch.b.range->equal->names = page.names;
  return l.send(page.batch);
}

class Delta : public testing::Test {
 protected:
  // b holds what a has, and its mark stands at a's head; then the mark is opened anew to go on from there.
  void follow() {
    ASSERT_EQ(link.open_link(), Status::ok);
    ASSERT_EQ(link.open().status, Status::ok);
    ASSERT_EQ(link.bootstrap().status, Status::ok);
    since = *link.low;
  }
  void open_since() {
    Batch open = link.batch(ApplyKind::open);
    open.b.prev = since;
    const ApplyAnswer answer = link.send(open);
    ASSERT_EQ(answer.status, Status::ok);
    ASSERT_EQ(answer.mark->since, since) << "a follower that takes over goes on with it";
    ASSERT_FALSE(answer.mark->low.has_value());
  }
  WalkPage page(WalkLimits limits = {}) { return a->begin_walk(link.source, Scope{}, std::nullopt)->next(limits); }
  [[nodiscard]] Digest digest(const Store& store) const { return store.segment_digest(SegmentId{0}); }

  std::unique_ptr<Store> a = make_store(1, 0xa), b = make_store(1, 0xb);
  Linked link{*a, *b};
  NamedPosition since;
};

TEST_F(Delta, WhatChangedComesAndTheRestStays) {
  for (int i = 0; i < 300; ++i) put(*a, "k" + std::to_string(i), "value");
  follow();
  put(*a, "k7", "changed");
  put(*a, "new", "value");
  open_since();
  DeltaPage changed = delta(link, page(), since.at, false);
  EXPECT_EQ(changed.sent, 2u);
  const ApplyAnswer answer = send(link, changed);
  ASSERT_EQ(answer.status, Status::ok) << answer.reason;
  EXPECT_EQ(answer.applied, 2u);
  EXPECT_EQ(answer.removed, 0u);
  EXPECT_EQ(answer.mark->phase, Phase::stream);
  EXPECT_EQ(answer.mark->low->at, a->state(SegmentId{0}).head);
  EXPECT_FALSE(answer.mark->since.has_value());
  EXPECT_EQ(digest(*a), digest(*b));
  put(*a, "k8", "later");
  EXPECT_EQ(link.stream_all().status, Status::ok);
  EXPECT_EQ(digest(*a), digest(*b));
}

TEST_F(Delta, WhatWasDeletedIsFoundByNameAndTakenAway) {
  for (int i = 0; i < 300; ++i) put(*a, "k" + std::to_string(i), "value");
  follow();
  for (int i = 0; i < 20; ++i) a->del("k" + std::to_string(i), {}, start_time);
  a->trim_log_hard(SegmentId{0});  // nothing there says any more that they ever were
  put(*a, "k50", "changed");
  open_since();
  const Digest before = digest(*b);
  DeltaPage summed = delta(link, page(), since.at, false);
  EXPECT_EQ(send(link, summed).status, Status::range_differs);
  EXPECT_EQ(digest(*b), before) << "nothing is done";
  link.removals_left = 19;
  DeltaPage named = delta(link, page(), since.at, true);
  EXPECT_EQ(send(link, named).status, Status::removal_limit) << "not more than may go unasked";
  EXPECT_EQ(digest(*b), before);
  link.removals_left = 20;
  DeltaPage again = delta(link, page(), since.at, true);
  const ApplyAnswer answer = send(link, again);
  ASSERT_EQ(answer.status, Status::ok) << answer.reason;
  EXPECT_EQ(answer.removed, 20u);
  EXPECT_EQ(answer.applied, 1u);
  EXPECT_EQ(digest(*a), digest(*b));
}

TEST_F(Delta, WhatTheTargetDoesNotHoldAsItIsAtTheSourceIsNeverTakenForGranted) {
  struct Case {
    const char* what;
    std::function<void(Store&)> stray;
    Status by_ranges;
  };
  const std::vector<Case> cases = {
      {"a key that is missing", [](Store& at) { at.del("k5", {}, start_time); }, Status::ok},
      {"a key with another value", [](Store& at) { put(at, "k5", "another"); }, Status::would_lose},
  };
  for (const Case& c : cases) {
    for (const bool names : {false, true}) {
      SCOPED_TRACE(testing::Message() << c.what << (names ? ", names" : ""));
      a = make_store(1, 0xa);
      b = make_store(1, 0xb);
      Linked l(*a, *b);
      for (int i = 0; i < 100; ++i) put(*a, "k" + std::to_string(i), "value");
      ASSERT_EQ(l.open_link(), Status::ok);
      ASSERT_EQ(l.open().status, Status::ok);
      ASSERT_EQ(l.bootstrap().status, Status::ok);
      const NamedPosition at = *l.low;
      c.stray(*b);
      put(*a, "k1", "changed");
      Batch open = l.batch(ApplyKind::open);
      open.b.prev = at;
      ASSERT_EQ(l.send(open).status, Status::ok);
      const Digest before = digest(*b);
      DeltaPage d = delta(l, a->begin_walk(l.source, Scope{}, std::nullopt)->next({}), at.at, names);
      EXPECT_EQ(send(l, d).status, Status::range_differs);
      EXPECT_EQ(digest(*b), before);
      EXPECT_EQ(l.bootstrap().status, c.by_ranges) << "by ranges it is put right, once what goes is safe";
    }
  }
}

// The source has lost its newest writes, and this side holds them: where no log names them any more, what goes is named before it goes.
TEST_F(Delta, WhatCameBehindTheSurvivingPlaceIsNamedBeforeItGoes) {
  for (int i = 0; i < 50; ++i) put(*a, "k" + std::to_string(i), "value");
  follow();
  const NamedPosition surviving = *link.low;
  put(*a, "k7", "of the tail");
  put(*a, "new", "of the tail");
  ASSERT_EQ(link.stream_all().status, Status::ok);
  // What the source is after its failover, as far as this test needs it: another one that holds what survived.
  auto after = make_store(1, 0xa);
  for (int i = 0; i < 50; ++i) put(*after, "k" + std::to_string(i), "value");
  put(*after, "k8", "of the new owner");
  Batch open = link.batch(ApplyKind::open);
  open.b.prev = surviving;
  ASSERT_EQ(link.send(open).status, Status::ok);
  const auto by_ranges = [&] {
    WalkPage page = after->begin_walk(SegmentId{0}, Scope{}, std::nullopt)->next({});
    page.as_of = {Generation{a->state(SegmentId{0}).head.generation.value() + 1}, Revision{10'000}};
    return link.range(page);
  };
  link.removals_left = 0;
  Batch range = by_ranges();
  EXPECT_EQ(link.send(range).status, Status::removal_limit) << "a key that goes";
  link.removals_left = 1;
  range = by_ranges();
  const ApplyAnswer refused = link.send(range);
  ASSERT_EQ(refused.status, Status::would_lose);
  std::set<std::string> lost;
  for (const auto& one : refused.would_lose) {
    lost.insert(one.key);
    link.may_lose.push_back(one.key);
  }
  EXPECT_EQ(lost, (std::set<std::string>{"k7", "new"}));
  range = by_ranges();
  const ApplyAnswer answer = link.send(range);
  ASSERT_EQ(answer.status, Status::ok) << answer.reason;
  EXPECT_EQ(answer.conflicts, 2u);
  EXPECT_EQ(get(*b, "k7"), "value");
  EXPECT_FALSE(get(*b, "new").has_value());
}

TEST_F(Delta, NothingIsToldOfItMalformed) {
  put(*a, "k", "value");
  follow();
  open_since();
  DeltaPage odd = delta(link, page(), since.at, true);
  odd.names += "x";
  EXPECT_EQ(send(link, odd).status, Status::invalid_argument);
  Batch without = link.batch(ApplyKind::delta);
  without.b.range = delta(link, page(), since.at, false).batch.b.range;
  without.b.range->equal.reset();
  EXPECT_EQ(link.send(without).status, Status::invalid_argument);
}

// Whatever both did since, and wherever the pages end: a page is refused and nothing has changed, or the range is what the source has.
TEST(DeltaProperty, APageIsRefusedOrTheRangeIsTheSources) {
  std::uint64_t taken = 0, refused = 0;
  for (std::uint32_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
    auto a = make_store(1, 0xa), b = make_store(1, 0xb);
    Linked l(*a, *b);
    const auto key = [&] { return (below(4) == 0 ? "{one-slot}" : "k") + std::to_string(below(60)); };
    const auto change = [&](Store& store) {
      const std::string k = key();
      if (below(3) == 0) (void)store.del(k, {}, start_time);
      else put(store, k, "v" + std::to_string(random()), start_time);
    };
    for (int i = 0; i < 80; ++i) change(*a);
    ASSERT_EQ(l.open_link(), Status::ok);
    ASSERT_EQ(l.open().status, Status::ok);
    ASSERT_EQ(l.bootstrap().status, Status::ok);
    NamedPosition at = *l.low;
    for (std::uint32_t i = below(20); i > 0; --i) change(*a);
    if (below(3) == 0) at = named_head(*a, SegmentId{0});  // a position that claims more than is true
    if (below(2) == 0) a->trim_log_hard(SegmentId{0});
    if (below(3) == 0) {
      for (std::uint32_t i = 1 + below(3); i > 0; --i) change(*b);
    }
    Batch open = l.batch(ApplyKind::open);
    open.b.prev = l.low;
    ASSERT_EQ(l.send(open).status, Status::ok);
    const bool names = below(2) == 0;
    auto walk = a->begin_walk(l.source, Scope{}, std::nullopt);
    bool all = true;
    do {
      DeltaPage page = delta(l, walk->next({1 + below(40), 256u << 10}), at.at, names);
      const Digest before = b->segment_digest(SegmentId{0});
      ApplyAnswer answer = send(l, page);
      while (answer.status == Status::would_lose) {
        for (const auto& lost : answer.would_lose) l.may_lose.push_back(lost.key);
        page.batch.b.may_lose = l.may_lose;
        answer = send(l, page);
      }
      if (answer.status == Status::ok) {
        ++taken;
        continue;
      }
      ASSERT_EQ(answer.status, Status::range_differs) << answer.reason;
      ASSERT_EQ(b->segment_digest(SegmentId{0}), before);
      ++refused;
      all = false;
      break;
    } while (!walk->done());
    if (all) {
      ASSERT_EQ(a->segment_digest(SegmentId{0}), b->segment_digest(SegmentId{0}));
      ASSERT_EQ(contents(*a), contents(*b));
    }
  }
  EXPECT_GT(taken, 300u);
  EXPECT_GT(refused, 50u);
}

}  // namespace
}  // namespace zaris::store
