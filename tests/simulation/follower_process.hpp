// The follower: the real Link, and what its shell does with sockets, threads and files done with pipes and events. It
// dies between any two of the link's actions, or at any other time; what was on its way to the target may still arrive.
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "follower/link/link.hpp"
#include "tests/simulation/checker.hpp"
#include "tests/simulation/cursor_disk.hpp"
#include "tests/simulation/pipe.hpp"
#include "tests/simulation/source_region.hpp"
#include "tests/simulation/target_region.hpp"
#include "tests/simulation/world.hpp"

namespace zaris::simulation {

class FollowerProcess {
 public:
  FollowerProcess(World& world, const Keys& keys, SourceRegion& source, TargetRegion& target, CursorDisk& disk, Checker& checker);
  ~FollowerProcess();

  void start();
  void crash(bool cursor_file_lost);
  // SIGTERM: until `stopped`, within a bound; then it is gone. Starts again when told to.
  void terminate();
  [[nodiscard]] bool running() const { return link_ != nullptr; }
  [[nodiscard]] bool stopping() const { return stopping_; }
  void freeze_until(MonoMicros when) { frozen_until_ = std::max(frozen_until_, when); }
  [[nodiscard]] MonoMicros frozen_until() const { return frozen_until_; }

  // ---- the network's faults
  void cut_feed();
  void half_open_feed();
  void cut_target();
  void swallow_target();
  void target_went_down();

  // ---- an operator; false: refused
  bool pause();
  bool resume();
  bool accept(const std::string& reason);
  // Edits the cursor file while no process holds it: `zaris cursor rewind`.
  void rewind_on_disk();

  [[nodiscard]] follower::LinkStatus status() const { return link_->status(mono(), true); }
  // Told between two actions of the link; the simulation draws whether the process dies there.
  std::function<bool()> dies_now;
  std::function<void()> on_gone;  // crashed or stopped

 private:
  struct TargetConnection {
    std::uint64_t id = 0;
    std::shared_ptr<Pipe> requests, answers;
    std::map<std::uint64_t, MonoMicros> outstanding;  // request → sent
    bool dead = false;
  };
  void tick();
  void pump();
  void perform(follower::Action& action);
  void connect(std::uint64_t connection);
  void say(std::uint64_t connection);
  void send_apply(follower::ApplyRequest request);
  void arrive(const std::shared_ptr<const follower::ApplyRequest>& request, const std::shared_ptr<TargetConnection>& connection, std::uint64_t epoch);
  void fail_connection(const std::shared_ptr<TargetConnection>& connection, bool told_late);
  template <class Ask, class Tell>
  void ask(Ask ask_region, Tell tell_link);
  void persist(const follower::PersistCursors& action);
  void abandon_connections();
  [[nodiscard]] std::shared_ptr<TargetConnection>& target_connection(SegmentId segment);
  [[nodiscard]] MonoMicros mono() const { return world_.follower_clock.mono(world_.now()); }
  [[nodiscard]] WallMicros wall() const { return world_.follower_clock.wall(world_.now()); }
  // Runs when the process of this moment still lives then and is not frozen.
  void later(MonoMicros delay, std::function<void()> run);

  World& world_;
  const Keys& keys_;
  SourceRegion& source_;
  TargetRegion& target_;
  CursorDisk& disk_;
  Checker& checker_;
  std::unique_ptr<follower::Link> link_;
  std::map<std::uint64_t, std::shared_ptr<FeedConnection>> feeds_;
  std::vector<std::shared_ptr<TargetConnection>> targets_;
  std::uint64_t epoch_ = 0, term_ = 0, next_feed_ = 0, next_target_ = 0, newest_read_ = 0;
  MonoMicros frozen_until_ = 0;
  bool stopping_ = false, pumping_ = false;
};

}  // namespace zaris::simulation
