// The target as a follower's requests meet it: each node of a region, or the one process that is the region. What zarisd's shell does
// with such requests (node/link_requests.cpp) is done here on real stores, with the real answers that wait for replicas.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cluster/coordinator/link_register.hpp"
#include "cluster/node/held_answers.hpp"
#include "cluster/protocol/link_messages.hpp"
#include "follower/link/link.hpp"
#include "tests/simulation/two_regions/node_feeds.hpp"

namespace zaris::two_regions {

using ApplyPtr = std::shared_ptr<const follower::ApplyRequest>;

class TargetNodes {
 public:
  // `region` null: one process.
  TargetNodes(World& world, Region* region, const TwoOptions& options, ClusterId cluster);
  ~TargetNodes();

  [[nodiscard]] std::size_t size() const { return region_ != nullptr ? region_->size() : 1; }
  [[nodiscard]] bool takes(std::size_t node) const { return region_ == nullptr || (!region_->paused(node) && !region_->isolated(node)); }
  [[nodiscard]] bool alive(std::size_t node) const { return region_ == nullptr || region_->alive(node); }
  [[nodiscard]] std::uint64_t life(std::size_t node) const { return region_ == nullptr ? 1 : region_->life(node); }

  // ---- requests, at a node that lives
  [[nodiscard]] std::shared_ptr<const protocol::MapAnswer> map(std::size_t node) const { return region_ == nullptr ? alone_map_ : region_->map(node); }
  struct Opened {
    Result<follower::TargetInfo> info;
    Status status = Status::ok;
  };
  [[nodiscard]] Opened open_link(std::size_t node, const follower::OpenLinkRequest& request);
  [[nodiscard]] Result<protocol::ReadMarksAnswer> read_marks(std::size_t node, const follower::ReadMarksRequest& request);
  [[nodiscard]] Result<std::uint64_t> mark_checksum(std::size_t node, const std::string& link, ScopeId scope);
  [[nodiscard]] follower::RolledBackAnswer list_rolled_back(std::size_t node, const follower::ListRolledBackRequest& request);
  // The answer as a frame, now or when replicas hold it; never after the process has died.
  void apply(std::size_t node, const ApplyPtr& request, std::function<void(std::string)> answer);

  // ---- told by the region
  void started(std::size_t node);
  void stopping(std::size_t node);
  void round(std::size_t node);
  std::function<void(std::size_t)> on_stopping;
  // A range or a run was applied: for the checks.
  std::function<void(const ApplyBatch&, const ApplyAnswer&)> on_applied;

  // ---- looking
  [[nodiscard]] store::Store& store(std::size_t node) { return region_ != nullptr ? region_->store(node) : *alone_; }
  [[nodiscard]] std::optional<std::size_t> owner(SegmentId segment) const { return region_ == nullptr ? std::optional<std::size_t>(0) : region_->owner(segment); }
  // The highest low of the mark that any copy but its owner's has ever been seen to hold; with one process: that it holds.
  [[nodiscard]] std::optional<Position> replicated_low(SegmentId target, SegmentId source) const;

 private:
  struct Node {
    std::unique_ptr<node::HeldAnswers> held;
    std::map<std::uint64_t, std::function<void(std::string)>> waiting;
    std::uint64_t register_seen = 0;
    std::vector<std::uint64_t> marks_seen;   // by segment: up to which version
  };
  [[nodiscard]] bool serves(std::size_t node, SegmentId segment) const { return region_ == nullptr || region_->serves(node, segment); }
  [[nodiscard]] WallMicros wall(std::size_t node) const;
  void follow_register(std::size_t node);
  void look(std::size_t node);

  World& world_;
  Region* const region_;
  const TwoOptions& options_;
  const ClusterId cluster_;
  std::unique_ptr<store::Store> alone_;
  std::unique_ptr<store::Committer> alone_committer_;
  std::shared_ptr<const protocol::MapAnswer> alone_map_;
  coordinator::LinkRegister register_;
  std::vector<Node> nodes_;
  std::uint64_t requests_ = 0;
  std::map<std::pair<SegmentId, SegmentId>, Position> replicated_;
};

}  // namespace zaris::two_regions
