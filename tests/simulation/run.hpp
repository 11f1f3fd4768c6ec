// One run's parts, put together, and what happens to them by themselves: faults as drawn, maintenance, an observer, an
// operator. run_simulation() drives it through its two phases; scenario tests drive it by hand.
#pragma once
#include <functional>
#include <string>

#include "tests/simulation/checker.hpp"
#include "tests/simulation/follower_process.hpp"
#include "tests/simulation/neighbour.hpp"
#include "tests/simulation/simulation.hpp"
#include "tests/simulation/workload.hpp"

namespace zaris::simulation {

class SimulationRun {
 public:
  explicit SimulationRun(const SimOptions& options, bool print_trace = false);
  ~SimulationRun();
  SimulationRun(const SimulationRun&) = delete;
  SimulationRun& operator=(const SimulationRun&) = delete;

  // ---- the two phases of a seed
  [[nodiscard]] RunResult run();

  // ---- by hand
  // The regions stand; from here on everybody looks after itself: maintenance, the observer with its checks.
  void start_observers();
  void step() { world.queue.step(); }
  void run_for(MonoMicros time);
  // False: not within the bound, or a check failed meanwhile.
  [[nodiscard]] bool run_until(const std::function<bool()>& done, MonoMicros bound = 60'000'000);
  // Empty: the link runs, says that it has caught up, and target and source agree. Else what is missing.
  [[nodiscard]] std::string unfinished() const;
  [[nodiscard]] bool settled() const { return unfinished().empty(); }
  [[nodiscard]] RunResult result();

  World world;
  Keys keys;
  CursorDisk disk;
  TargetRegion target;
  Checker checker;
  SourceRegion source;
  FollowerProcess follower;
  Workload workload;
  Neighbour neighbour;
  bool operator_on = true;      // an operator answers what is held
  bool restarts_follower = true;

 private:
  void every(MonoMicros mean, std::function<void()> fault);
  void start_faults();
  void freeze_something();
  void step_a_clock();
  void follower_gone();
  void maintain();
  void observe();
  void count(const follower::LinkStatus& status);
  void operate(const follower::LinkStatus& status);
  void converge();
  void count_bootstraps();

  bool operator_busy_ = false, rewind_wanted_ = false;
};

}  // namespace zaris::simulation
