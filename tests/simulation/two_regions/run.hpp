// Two regions of several nodes and what joins them, in one deterministic process: faults as drawn, checks at all times, and the phase
// in which everything heals and must become equal. Tests drive it by hand as well.
#pragma once
#include <functional>
#include <memory>
#include <map>
#include <set>
#include <string>

#include "tests/simulation/simulation.hpp"
#include "tests/simulation/two_regions/follower_process.hpp"

namespace zaris::two_regions {

class TwoRegions {
 public:
  explicit TwoRegions(const TwoOptions& options, bool print_trace = false);
  ~TwoRegions();

  // ---- a seed
  [[nodiscard]] simulation::RunResult run();

  // ---- by hand
  // Both regions stand, the follower runs; false: not within a minute.
  bool begin();
  void run_for(MonoMicros time);
  [[nodiscard]] bool run_until(const std::function<bool()>& done, MonoMicros bound = 120'000'000);
  void heal();                               // everything that was broken by hand or by lot
  // Writers stop, everything heals, and within two minutes both regions are equal; else the world has failed.
  void converge();
  // Empty: the link runs, has caught up, and both regions hold the same. Else what is missing.
  [[nodiscard]] std::string unfinished();
  [[nodiscard]] simulation::RunResult result();
  [[nodiscard]] std::string story() const;

  const TwoOptions options;
  const Scope scope;
  simulation::World world;

 private:
  Network network_;

 public:
  Region source;
  std::unique_ptr<Region> target_region;     // null: one process
  NodeFeeds feeds;
  TargetNodes target;
  std::vector<std::unique_ptr<GatewayProcess>> gateways;
  simulation::CursorDisk disk;
  FollowerProcess follower;
  bool writers = true;
  // Bootstraps that the link began after a segment's first copy was whole, by reason.
  std::map<std::string, std::uint64_t> bootstraps_again;
  std::uint64_t diverged = 0;

 private:
  void step_regions();
  void write();
  [[nodiscard]] MonoMicros wait(MonoMicros mean);
  void every(MonoMicros mean, const std::function<void()>& fault);
  void start_faults();
  void region_fault(Region& region, const char* name, MonoMicros mean);
  void fault_gateway();
  void fault_follower();
  void observe();
  void look_for_cut_pins();
  // ---- checks
  void left_node(std::size_t node, std::string_view bytes);
  void arrived(std::string_view bytes);
  void persisting(const cursor::CursorCommit& commit);
  void logged(const follower::LogLine& line);
  void shipped(std::size_t node, const char* what, SegmentId segment, Position position);
  void records_in_scope(std::string_view table, std::string_view records);
  [[nodiscard]] std::string difference();
  [[nodiscard]] bool in_scope(std::string_view key) const;

  std::map<SegmentId, Position> held_;       // the highest position that a copy, not its owner, has been seen to hold
  std::map<SegmentId, MonoMicros> copied_;   // source segments whose first copy is whole, since when
  std::uint64_t serial_ = 0;
  bool follower_wanted_ = true;
  std::vector<MonoMicros> faulted_at_;       // something in the source
  bool pin_cut_ = false;                     // the follower's, by the bounds of a node of the source
};

}  // namespace zaris::two_regions
