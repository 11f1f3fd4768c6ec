// Rows of the coordinator from elsewhere: read or refused.
#include <gtest/gtest.h>

#include "cluster/coordinator/coordinator_rows.hpp"

namespace zaris::coordinator {
namespace {

LinkEntry left_behind(std::size_t scopes) {
  LinkEntry entry;
  entry.link = "l1";
  entry.left_scopes.assign(scopes, Scope{});
  return entry;
}

// An array's memory is taken when its length is read, and its length is three bytes.
TEST(CoordinatorRows, AnArrayThatNoLinkHasIsRefused) {
  LinkEntry out;
  bool newer = false;
  EXPECT_TRUE(decode(encode(left_behind(64)), out, newer));
  EXPECT_EQ(out.left_scopes.size(), 64u);
  EXPECT_FALSE(decode(encode(left_behind(5'000)), out, newer));
  EXPECT_FALSE(newer);
}

}  // namespace
}  // namespace zaris::coordinator
