#include "cluster/client/silence.hpp"

#include <gtest/gtest.h>

namespace zaris::client {
namespace {

using Step = Silence::Step;

TEST(Silence, AsksAtHalfAndEndsAtTheLimit) {
  Silence silence(4);
  EXPECT_EQ(silence.tick(true, 0), Step::nothing);
  EXPECT_EQ(silence.tick(true, 0), Step::ask);
  EXPECT_EQ(silence.tick(true, 0), Step::nothing);
  EXPECT_EQ(silence.tick(true, 0), Step::gone);
}

TEST(Silence, AnythingHeardBeginsAnew) {
  Silence silence(4);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(silence.tick(true, 0), Step::nothing);
    EXPECT_EQ(silence.tick(true, 0), Step::ask);
    EXPECT_EQ(silence.tick(true, 0), Step::nothing);
    silence.heard();
  }
}

TEST(Silence, NothingIsExpectedOfOneThatWasAskedNothing) {
  Silence silence(2);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(silence.tick(false, 0), Step::nothing);
}

TEST(Silence, ShortRequestsOneAfterTheOtherDoNotHideIt) {
  Silence silence(4);
  Step last = Step::nothing;
  for (int i = 0; i < 4 && last != Step::ask; ++i) {
    EXPECT_EQ(silence.tick(false, 0), Step::nothing);
    last = silence.tick(true, 0);
  }
  EXPECT_EQ(last, Step::ask) << "each of them timed out before the next tick";
}

TEST(Silence, ALargeRequestThatIsBeingTakenIsNotSilence) {
  Silence silence(2);
  for (std::size_t left = 100; left > 0; --left) EXPECT_EQ(silence.tick(true, left), Step::nothing);
  EXPECT_EQ(silence.tick(true, 1), Step::ask);
  EXPECT_EQ(silence.tick(true, 1), Step::gone) << "it stands still";
}

TEST(Silence, ALimitOfZeroIsNone) {
  Silence silence(0);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(silence.tick(true, 7), Step::nothing);
}

}  // namespace
}  // namespace zaris::client
