// Clients of both regions: writes over and over on few keys at the source, a few of its own at the target.
#pragma once
#include "tests/simulation/checker.hpp"
#include "tests/simulation/keys.hpp"
#include "tests/simulation/source_region.hpp"
#include "tests/simulation/target_region.hpp"
#include "tests/simulation/world.hpp"

namespace zaris::simulation {

class Workload {
 public:
  Workload(World& world, const Keys& keys, SourceRegion& source, TargetRegion& target, Checker& checker)
      : world_(world), keys_(keys), source_(source), target_(target), checker_(checker) {}

  void prefill();
  void start();
  void stop() { stopped_ = true; }
  // `zaris replay --from B --to A`: the source is given back what the target holds in the scope.
  void refill();

 private:
  void write();
  void write_target();
  [[nodiscard]] std::string value(const Key& key);
  [[nodiscard]] WallMicros expiry();

  World& world_;
  const Keys& keys_;
  SourceRegion& source_;
  TargetRegion& target_;
  Checker& checker_;
  std::uint64_t serial_ = 0;
  bool stopped_ = false;
};

}  // namespace zaris::simulation
