// A replica's lag in seconds, out of samples of its owner's heads.
#include "cluster/node/replica_lag.hpp"

#include <gtest/gtest.h>

namespace zaris::node {
namespace {

constexpr MonoMicros s = 1'000'000;
using Heads = std::vector<Revision>;

TEST(ReplicaLag, is_nothing_for_who_has_everything) {
  ReplicaLag lag;
  EXPECT_TRUE(lag.seconds().empty());
  lag.received("n2", {Revision{5}, Revision{7}});
  lag.sample({Revision{5}, Revision{7}}, 100 * s);
  EXPECT_EQ(lag.seconds().at("n2"), 0);
  lag.sample({Revision{5}, Revision{7}}, 900 * s);
  EXPECT_EQ(lag.seconds().at("n2"), 0) << "nothing was written";
}

TEST(ReplicaLag, is_the_age_of_what_the_replica_has_in_full) {
  ReplicaLag lag;
  lag.received("n2", {Revision{5}, Revision{7}});
  lag.received("n3", {Revision{5}, Revision{7}});
  lag.sample({Revision{5}, Revision{7}}, 100 * s);
  lag.sample({Revision{6}, Revision{7}}, 101 * s);
  lag.sample({Revision{6}, Revision{9}}, 102 * s);
  lag.received("n3", {Revision{6}, Revision{8}});
  EXPECT_EQ(lag.seconds(), (std::map<std::string, double>{{"n2", 2}, {"n3", 1}}));
  lag.sample({Revision{6}, Revision{9}}, 200 * s);
  EXPECT_EQ(lag.seconds(), (std::map<std::string, double>{{"n2", 100}, {"n3", 99}})) << "it grows while a replica is away";
  lag.received("n2", {Revision{6}, Revision{9}});
  EXPECT_EQ(lag.seconds().at("n2"), 0);
}

TEST(ReplicaLag, of_one_that_is_copied_anew_reaches_back_to_the_beginning) {
  ReplicaLag lag;
  lag.received("n2", {Revision{5}});
  for (int i = 0; i <= 10; ++i) {
    lag.sample({Revision{5}}, (100 + i) * s);
    lag.received("n2", {Revision{5}});
  }
  lag.received("n2", {Revision{0}});
  EXPECT_EQ(lag.seconds().at("n2"), 10) << "it came back empty: that nothing is written does not make it complete";
}

TEST(ReplicaLag, keeps_few_samples_and_errs_upwards) {
  ReplicaLag lag;
  lag.received("n2", {Revision{1000}});
  std::uint64_t head = 1000;
  for (MonoMicros at = 1; at <= 5000; ++at) lag.sample({Revision{head++}}, at * s);
  // The revision after 1000 was committed at second 2, 4,998 s ago.
  EXPECT_GE(lag.seconds().at("n2"), 4998);
  EXPECT_LE(lag.seconds().at("n2"), 5000);
  // Half of it has come: what is missing is 2,500 s old. Thinned samples may make it older, not younger.
  lag.received("n2", {Revision{3500}});
  EXPECT_GE(lag.seconds().at("n2"), 2498);
  EXPECT_LE(lag.seconds().at("n2"), 2498 + 200);
}

}  // namespace
}  // namespace zaris::node
