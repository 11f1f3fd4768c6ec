#include "cluster/client/silence.hpp"

#include <gtest/gtest.h>

namespace zaris::client {
namespace {

using Step = Silence::Step;

TEST(Silence, AsksAtHalfAndEndsAtTheLimit) {
  Silence silence(4);
  EXPECT_EQ(silence.tick(true, false), Step::nothing);
  EXPECT_EQ(silence.tick(true, false), Step::ask);
  EXPECT_EQ(silence.tick(true, false), Step::nothing);
  EXPECT_EQ(silence.tick(true, false), Step::gone);
}

TEST(Silence, AnythingHeardBeginsAnew) {
  Silence silence(4);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(silence.tick(true, false), Step::nothing);
    EXPECT_EQ(silence.tick(true, false), Step::ask);
    EXPECT_EQ(silence.tick(true, false), Step::nothing);
    silence.heard();
  }
}

TEST(Silence, NothingIsExpectedOfOneThatWasAskedNothing) {
  Silence silence(2);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(silence.tick(false, false), Step::nothing);
}

TEST(Silence, ShortRequestsOneAfterTheOtherDoNotHideIt) {
  Silence silence(4);
  Step last = Step::nothing;
  for (int i = 0; i < 4 && last != Step::ask; ++i) {
    EXPECT_EQ(silence.tick(false, false), Step::nothing);
    last = silence.tick(true, false);
  }
  EXPECT_EQ(last, Step::ask) << "each of them timed out before the next tick";
}

TEST(Silence, ALargeRequestThatIsBeingTakenIsNotSilence) {
  Silence silence(2);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(silence.tick(true, true), Step::nothing);
  EXPECT_EQ(silence.tick(true, false), Step::ask);
  EXPECT_EQ(silence.tick(true, false), Step::gone) << "it stands still";
}

TEST(Silence, ALimitOfZeroIsNone) {
  Silence silence(0);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(silence.tick(true, false), Step::nothing);
}

}  // namespace
}  // namespace zaris::client
