// An owner and two replicas per segment, and everything that can happen to them, from many seeds. ZARIS_REPLICATION_SEED=n
// runs one, ZARIS_REPLICATION_SEEDS=n that many.
#include <cstdlib>
#include <iostream>

#include "region.hpp"

namespace zaris::replication {
namespace {

std::uint64_t number(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

TEST(ReplicationProperty, AtRestAllCopiesAreEqualAndPromisesWereKept) {
  const std::uint64_t one = number("ZARIS_REPLICATION_SEED", 0);
  const std::uint64_t first = one != 0 ? one : 1, last = one != 0 ? one : number("ZARIS_REPLICATION_SEEDS", 60);
  std::map<std::string, std::uint64_t> probes;
  for (std::uint64_t seed = first; seed <= last && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Region region(seed);
    for (int round = 0; round < 3 && !testing::Test::HasFailure(); ++round) {
      for (int i = 0; i < 400 && !testing::Test::HasFailure(); ++i) region.step();
      if (testing::Test::HasFailure()) break;
      region.heal();
      region.expect_all_equal();
    }
    for (const auto& [name, count] : region.probes) probes[name] += count;
  }
  if (one != 0) return;
  // A check of a path that is never gone proves nothing.
  for (const char* name : {"acknowledged", "blank restart", "broken", "copy", "mark survived", "place cut", "promotion", "pull", "refused", "tail lost"}) {
    EXPECT_GT(probes[name], 0u) << name;
  }
  for (const auto& [name, count] : probes) std::cout << name << ": " << count << '\n';
}

}  // namespace
}  // namespace zaris::replication
