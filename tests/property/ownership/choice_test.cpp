// Does a write that was acknowledged under a policy survive one promotion? Exhaustive, over the functions that choose: A owns, B and
// C are synchronised replicas, two writes. Writes reach the replicas, links are lost, the leader fences and reads those it reaches
// and promotes as soon as choose() says so, in every order.
#include <gtest/gtest.h>

#include <array>
#include <set>

#include "cluster/ownership/failover.hpp"

namespace zaris::ownership {
namespace {

const Member a{"a", Incarnation{1}}, replica[] = {{"b", Incarnation{2}}, {"c", Incarnation{3}}};

struct Case {
  std::uint32_t copies = 2;              // that the writes are acknowledged with
  AckPolicy promise = AckPolicy::replica;
  FailoverMode mode = FailoverMode::consistent;
  std::vector<int> reached = {0, 1};     // replicas that the leader ever reaches
  bool fences = true;                    // reading a head is also a fence; without it, only the promoted refuses the old owner
};

struct Result {
  bool lost = false;
  bool lost_without_a_word = false;      // and the choice did not say that something may be gone
  std::size_t promotions = 0;
};

struct World {
  std::array<int, 3> head{};             // of A, B, C
  int acknowledged = 0;
  std::array<int, 2> read{-1, -1};       // heads as answered
  std::array<bool, 2> fenced{}, linked{true, true};
  int promoted = -1;
  bool said = false;
  auto operator<=>(const World&) const = default;
};

Choice chosen(const Case& c, const World& w) {
  Election e;
  e.fence = Generation{2};
  e.segments = 1;
  e.old_owner = a;
  e.old_lease_gone = true;
  e.set = {Generation{1}, {replica[0], replica[1]}};
  e.promise = c.promise;
  e.mode = c.mode;
  e.replication_factor = 3;
  e.fenced_at = -100 * boot_second;
  for (int r = 0; r < 2; ++r) {
    if (w.read[r] >= 0) e.answers.push_back({replica[r], e.fence, Generation{1}, {{Generation{1}, Revision{static_cast<std::uint64_t>(w.read[r])}}}});
  }
  return choose(e, {}, 0);
}

Result search(const Case& c) {
  Result out;
  std::set<World> seen;
  std::vector<World> todo{World{}};
  while (!todo.empty()) {
    const World w = todo.back();
    todo.pop_back();
    if (!seen.insert(w).second) continue;
    if (w.promoted >= 0 && w.acknowledged > w.head[w.promoted + 1]) {
      out.lost = true;
      out.lost_without_a_word = out.lost_without_a_word || !w.said;
      continue;
    }
    if (w.head[0] < 2) {
      World n = w;
      ++n.head[0];
      todo.push_back(n);
    }
    for (int r = 0; r < 2; ++r) {
      if (w.head[r + 1] < w.head[0] && w.linked[r] && !w.fenced[r] && w.promoted != r) {
        World n = w;
        ++n.head[r + 1];
        for (int write = 1; write <= n.head[0]; ++write) {
          const auto holders = static_cast<std::uint32_t>(std::count_if(n.head.begin(), n.head.end(), [&](int h) { return h >= write; }));
          if (holders >= c.copies) n.acknowledged = std::max(n.acknowledged, write);
        }
        todo.push_back(n);
      }
      if (w.linked[r]) {
        World n = w;
        n.linked[r] = false;
        todo.push_back(n);
      }
    }
    if (w.promoted >= 0) continue;
    for (const int r : c.reached) {
      if (w.read[r] >= 0) continue;
      World n = w;
      n.read[r] = w.head[r + 1];
      n.fenced[r] = c.fences;
      todo.push_back(n);
    }
    const Choice choice = chosen(c, w);
    if (choice.kind == Choice::Kind::promote) {
      World n = w;
      n.promoted = choice.chosen == replica[0] ? 0 : 1;
      n.fenced[n.promoted] = true;
      n.said = !choice.may_be_gone.empty();
      todo.push_back(n);
      ++out.promotions;
    }
  }
  return out;
}

TEST(Choice, AnAcknowledgedWriteSurvivesOnePromotion) {
  const struct { const char* what; Case c; } rows[] = {
      {"replica", {2, AckPolicy::replica}},
      {"majority of three", {2, AckPolicy::majority}},
      {"all", {3, AckPolicy::all}},
      {"all, one reached", {3, AckPolicy::all, FailoverMode::consistent, {0}}},
      {"all, the other reached", {3, AckPolicy::all, FailoverMode::consistent, {1}}},
  };
  for (const auto& row : rows) {
    const Result result = search(row.c);
    EXPECT_FALSE(result.lost) << row.what;
    EXPECT_GT(result.promotions, 0u) << row.what;
  }
}

TEST(Choice, WithTooFewAnswersNobodyIsPromotedUnlessTheModeIsAvailable) {
  for (const int reached : {0, 1}) {
    EXPECT_EQ(search({2, AckPolicy::replica, FailoverMode::consistent, {reached}}).promotions, 0u);
    const Result available = search({2, AckPolicy::replica, FailoverMode::available, {reached}});
    EXPECT_GT(available.promotions, 0u);
    EXPECT_TRUE(available.lost) << "the search sees what the mode accepts";
    EXPECT_FALSE(available.lost_without_a_word) << "whatever may be gone is said";
  }
}

TEST(Choice, ReadingWithoutFencingLosesWrites) { EXPECT_TRUE(search({2, AckPolicy::replica, FailoverMode::consistent, {0, 1}, false}).lost); }

// The number of answers follows the weakest policy that promises anything: by a stronger one it would be too small for the weaker.
TEST(Choice, CountedByAStrongerPolicyAWriteUnderAWeakerOneIsLost) { EXPECT_TRUE(search({2, AckPolicy::all}).lost); }
TEST(Choice, CountedByAWeakerPolicyAWriteUnderAStrongerOneIsKept) { EXPECT_FALSE(search({3, AckPolicy::replica}).lost); }

}  // namespace
}  // namespace zaris::ownership
