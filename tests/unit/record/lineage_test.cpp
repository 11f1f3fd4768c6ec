// Where does a position stand: every edge of design page record, "Test of (g, r), id".
#include "cluster/record/lineage.hpp"

#include <gtest/gtest.h>

namespace zaris {
namespace {

constexpr HistoryId history{0x1111};
Lineage three_terms() {
  return Lineage({history, Generation{10}, 0, RootCause::created},
                 {{Generation{10}, 0xa, Revision{1}, 0}, {Generation{20}, 0xb, Revision{101}, 0}, {Generation{30}, 0xc, Revision{201}, 0}});
}
NamedPosition at(std::uint32_t g, std::uint64_t r, std::uint64_t id) { return {{Generation{g}, Revision{r}}, id}; }

struct Row {
  const char* story;
  HistoryId history;
  NamedPosition position;
  OnLineage verdict;
  Position surviving{};
};

TEST(Lineage, EveryEdge) {
  const Position head{Generation{30}, Revision{250}};
  const Row rows[] = {
      {"first record of the root", history, at(10, 1, 0xa), OnLineage::on},
      {"last record of an old generation", history, at(10, 100, 0xa), OnLineage::on},
      {"one beyond what survived of it", history, at(10, 101, 0xa), OnLineage::diverged, {Generation{10}, Revision{100}}},
      {"far beyond what survived of it", history, at(20, 9999, 0xb), OnLineage::diverged, {Generation{20}, Revision{200}}},
      {"a generation record itself", history, at(20, 101, 0xb), OnLineage::on},
      {"before the generation began", history, at(20, 100, 0xb), OnLineage::unknown_lineage},
      {"the head", history, at(30, 250, 0xc), OnLineage::on},
      {"one above the head", history, at(30, 251, 0xc), OnLineage::ahead_of_source},
      {"a generation never heard of", history, at(25, 150, 0xd), OnLineage::unknown_lineage},
      {"a newer generation never heard of", history, at(31, 1, 0xe), OnLineage::unknown_lineage},
      {"the same number minted twice", history, at(20, 150, 0xbad), OnLineage::unknown_lineage},
      {"nothing", history, at(0, 0, 0), OnLineage::unknown_lineage},
      {"another history", HistoryId{0x2222}, at(30, 250, 0xc), OnLineage::source_reset},
  };
  for (const Row& row : rows) {
    const auto v = three_terms().test(row.history, row.position, head);
    EXPECT_EQ(v.verdict, row.verdict) << row.story << ": " << v.reason;
    EXPECT_EQ(v.surviving, row.surviving) << row.story;
    EXPECT_EQ(v.reason.empty(), v.verdict == OnLineage::on) << row.story;
  }
}

TEST(Lineage, KeepsTheNewestEntriesAndNeverMergesThem) {
  Lineage l({history, Generation{1}, 0, RootCause::created}, {});
  for (std::uint32_t i = 1; i <= 1030; ++i) l.append({Generation{i}, i, Revision{i * 10ull}, 0});
  ASSERT_EQ(l.entries().size(), Lineage::entries_max);
  EXPECT_EQ(l.test(history, at(6, 65, 6), {Generation{1030}, Revision{10300}}).verdict, OnLineage::unknown_lineage);
  EXPECT_EQ(l.test(history, at(7, 75, 7), {Generation{1030}, Revision{10300}}).verdict, OnLineage::on);
}

}  // namespace
}  // namespace zaris
