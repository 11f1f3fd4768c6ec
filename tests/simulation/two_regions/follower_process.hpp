// The follower: the real Link between gateways and a target of nodes, on a disk that forgets what was not synced. Dies at any time.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/simulation/cursor_disk.hpp"
#include "tests/simulation/two_regions/gateway_process.hpp"
#include "tests/simulation/two_regions/target_lines.hpp"

namespace zaris::two_regions {

inline constexpr const char* link_name = "a-to-b";

class FollowerProcess {
 public:
  using Gateways = std::vector<std::unique_ptr<GatewayProcess>>;
  FollowerProcess(World& world, Network& network, const TwoOptions& options, Scope scope, Gateways& gateways, TargetNodes& target, ClusterId source, simulation::CursorDisk& disk);
  ~FollowerProcess();

  void start();
  void crash(bool cursor_file_lost);
  void terminate();                          // SIGTERM; gone within two seconds
  void copy_again();                         // it dies, and an operator has rewound it by the time that it starts again
  void freeze_until(MonoMicros when) { frozen_until_ = std::max(frozen_until_, when); }
  [[nodiscard]] bool running() const { return link_ != nullptr; }
  [[nodiscard]] bool takes() const { return frozen_until_ <= world_.now(); }
  [[nodiscard]] follower::LinkStatus status(bool with_segments = false) const { return link_->status(mono(), with_segments); }
  void target_node_gone(std::size_t node) {
    if (lines_) lines_->node_gone(node);
  }
  void break_one() {
    if (lines_) lines_->break_one();
  }

  std::function<void()> on_gone;
  std::function<void(std::string_view bytes)> inspect;                     // every message that arrives
  std::function<void(const cursor::CursorCommit&)> on_persist;             // before it is written
  std::function<void(const follower::LogLine&)> on_log;

 private:
  void tick();
  void pump();
  void perform(follower::Action& action);
  void connect(std::uint64_t connection);
  void abandon();
  void later(MonoMicros delay, std::function<void()> run);
  [[nodiscard]] MonoMicros mono() const { return world_.now() + offset_; }

  World& world_;
  Network& network_;
  const TwoOptions& options_;
  const Scope scope_;
  Gateways& gateways_;
  TargetNodes& target_;
  const ClusterId source_;
  simulation::CursorDisk& disk_;
  std::unique_ptr<follower::Link> link_;
  std::unique_ptr<TargetLines> lines_;
  std::map<std::uint64_t, ConnectionPtr> feeds_;
  std::uint64_t epoch_ = 0, term_ = 0;
  std::size_t turn_ = 0;
  MonoMicros frozen_until_ = 0, offset_ = 0;
  bool stopping_ = false, pumping_ = false;
};

}  // namespace zaris::two_regions
