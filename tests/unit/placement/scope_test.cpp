#include "cluster/placement/scope.hpp"

#include <gtest/gtest.h>

namespace zaris {
namespace {

Scope scope(std::vector<std::string> prefixes, std::vector<std::pair<int, int>> ranges = {}) {
  std::vector<std::pair<Slot, Slot>> slots;
  for (const auto& [a, b] : ranges) slots.emplace_back(Slot{static_cast<std::uint16_t>(a)}, Slot{static_cast<std::uint16_t>(b)});
  auto s = Scope::make(std::move(prefixes), std::move(slots));
  EXPECT_TRUE(s);
  return *s;
}

TEST(Scope, TextIsCanonicalWhateverOrderItWasGivenIn) {
  EXPECT_EQ(scope({"b:", "a:", "a:x", "a:"}).text(), "2:a:2:b:");
  EXPECT_EQ(scope({}, {{5, 9}, {0, 3}, {4, 4}}).text(), "|0-9");
  EXPECT_EQ(scope({"t1:"}, {{7, 7}, {1, 2}}).text(), "3:t1:|1-2,7-7");
  EXPECT_TRUE(scope({"", "a"}).full());
  EXPECT_TRUE(scope({}, {{0, 16383}}).full());
  EXPECT_EQ(scope({}).id(), ScopeId{0});
  EXPECT_NE(scope({"a"}).id(), scope({"b"}).id());
}

TEST(Scope, ParsesItsOwnTextAndNoOther) {
  for (const Scope& s : {scope({}), scope({"t1:", std::string("\0\xff:", 3)}), scope({"x"}, {{3, 4}}), scope({"1:2"})}) {
    const auto again = Scope::parse(s.text());
    ASSERT_TRUE(again) << again.error().text();
    EXPECT_EQ(*again, s);
    EXPECT_EQ(again->id(), s.id());
  }
  for (const std::string_view bad : {"3:t1", "x", "99999999999:a", "2:b:2:a:", "|", "|1", "|2-1", "|0-16384", "|1-2,", "|1-2x", "3:t1:|1-2,2-3"}) {
    EXPECT_FALSE(Scope::parse(bad)) << bad;
  }
}

TEST(Scope, MatchesBytesExactly) {
  const Scope s = scope({"Ten:", std::string("\xff\x00", 2), "a"});
  EXPECT_TRUE(s.has_key("Ten:1"));
  EXPECT_TRUE(s.has_key("Ten:"));
  EXPECT_FALSE(s.has_key("ten:1"));
  EXPECT_FALSE(s.has_key("TEN:1"));
  EXPECT_FALSE(s.has_key("Ten"));
  EXPECT_TRUE(s.has_key(std::string("\xff\x00zz", 4)));
  EXPECT_FALSE(s.has_key("\xff"));
  EXPECT_FALSE(s.has_key(""));
  EXPECT_TRUE(scope({}).has_key(""));
  EXPECT_FALSE(scope({"a"}, {{1, 2}}).has(Slot{3}, "ab"));
  EXPECT_TRUE(scope({"a"}, {{1, 2}}).has(Slot{2}, "ab"));
}

TEST(Scope, ContainsAndOverlaps) {
  struct Row { Scope a, b; bool contains, overlaps; } rows[] = {
      {scope({}), scope({"t1:"}), true, true},      {scope({"t1:"}), scope({}), false, true},
      {scope({"t1:"}), scope({"t1:x"}), true, true}, {scope({"t1:x"}), scope({"t1:"}), false, true},
      {scope({"t1:"}), scope({"t2:"}), false, false}, {scope({}, {{0, 9}}), scope({}, {{3, 4}}), true, true},
      {scope({}, {{0, 9}}), scope({}, {{9, 10}}), false, true}, {scope({}, {{0, 9}}), scope({}, {{10, 10}}), false, false},
      {scope({"a"}, {{0, 9}}), scope({"a"}), false, true},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(row.a.contains(row.b), row.contains) << row.a.text() << " / " << row.b.text();
    EXPECT_EQ(row.a.overlaps(row.b), row.overlaps) << row.a.text() << " / " << row.b.text();
    EXPECT_EQ(row.b.overlaps(row.a), row.overlaps);
  }
}

}  // namespace
}  // namespace zaris
