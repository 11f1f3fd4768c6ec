// Are the copies of a region equal? What is compared, what is asked again, and what is a fault.
#include "cluster/cli/copies_view.hpp"

#include <gtest/gtest.h>

namespace zaris::cli {
namespace {

using protocol::CopyRow;
using State = CopyPair::State;

CopyRow row(std::uint16_t segment, CopyRow::Role role, std::uint64_t revision, std::uint64_t digest, std::uint32_t generation = 3) {
  return {SegmentId{segment}, role, {Generation{generation}, Revision{revision}}, 10, Digest{digest, 0}, false};
}
constexpr auto owner = CopyRow::Role::owner, replica = CopyRow::Role::replica, none = CopyRow::Role::none;

TEST(Copies, AtOnePlaceWithOneDigestAreEqual) {
  CopiesView view;
  view.take({{"n1", {row(0, owner, 5, 1), row(1, replica, 9, 2)}}, {"n2", {row(0, replica, 5, 1), row(1, owner, 9, 2)}}, {"n3", {row(0, none, 0, 0), row(1, none, 0, 0)}}});
  EXPECT_TRUE(view.open().empty());
  EXPECT_EQ(view.in(State::equal).size(), 2u);
  EXPECT_EQ(view.copies(), 2u);
  EXPECT_EQ(view.segments(), 2u);
  EXPECT_EQ(view.keys(), 20u);
}

TEST(Copies, ADifferenceAtOnePlaceIsAFaultThatLaterAnswersDoNotMend) {
  CopiesView view;
  view.take({{"n1", {row(0, owner, 5, 1)}}, {"n2", {row(0, replica, 5, 7)}}});
  ASSERT_EQ(view.in(State::differs).size(), 1u);
  view.take({{"n1", {row(0, owner, 6, 1)}}, {"n2", {row(0, replica, 6, 1)}}});
  EXPECT_EQ(view.in(State::differs).size(), 1u);
  EXPECT_TRUE(view.open().empty()) << "nothing is left to ask";
}

TEST(Copies, OneThatIsBehindIsAskedAgainUntilItIsFoundAtItsOwnersPlace) {
  CopiesView view;
  view.take({{"n1", {row(0, owner, 6, 1), row(1, owner, 2, 2)}}, {"n2", {row(0, replica, 5, 9), row(1, replica, 2, 2)}}});
  EXPECT_EQ(view.open(), std::vector<SegmentId>{SegmentId{0}});
  view.take({{"n1", {row(0, owner, 8, 4)}}, {"n2", {row(0, replica, 8, 4)}}});
  EXPECT_TRUE(view.open().empty());
  EXPECT_EQ(view.in(State::equal).size(), 2u);
}

TEST(Copies, ACopyThatIsNotWholeIsNotCompared) {
  CopiesView view;
  CopyRow half = row(0, replica, 5, 9);
  half.copying = true;
  view.take({{"n1", {row(0, owner, 5, 1)}}, {"n2", {half}}});
  EXPECT_EQ(view.in(State::copying).size(), 1u);
  EXPECT_EQ(view.open().size(), 1u);
}

TEST(Copies, AnOwnerThatWasFollowedByAnotherIsACopyLikeOthers) {
  CopiesView view;
  view.take({{"n1", {row(0, owner, 5, 1, 3)}}, {"n2", {row(0, owner, 6, 1, 4)}}, {"n3", {row(0, replica, 6, 1, 4)}}});
  ASSERT_EQ(view.in(State::elsewhere).size(), 1u);
  EXPECT_EQ(view.in(State::elsewhere)[0].node, "n1");
  EXPECT_EQ(view.in(State::elsewhere)[0].owner, "n2");
  view.take({{"n1", {row(0, replica, 6, 1, 4)}}, {"n2", {row(0, owner, 6, 1, 4)}}, {"n3", {row(0, replica, 6, 1, 4)}}});
  EXPECT_TRUE(view.open().empty());
  EXPECT_EQ(view.copies(), 2u);
}

TEST(Copies, WithoutAnOwnerThatAnswersNothingIsSaidToBeEqual) {
  CopiesView view;
  view.take({{"n2", {row(0, replica, 5, 1)}}, {"n3", {row(0, replica, 5, 1)}}});
  EXPECT_EQ(view.in(State::no_owner).size(), 2u);
  EXPECT_EQ(view.segments(), 0u);
}

}  // namespace
}  // namespace zaris::cli
