// A follower's connections to its target: who owns what, one line to each node, batches of one route in order. What follower/shell/target
// does with sockets is done here with wires; its rules are kept to the letter, since the link's decisions rest on them.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "cluster/client/routing.hpp"
#include "tests/simulation/two_regions/target_nodes.hpp"

namespace zaris::two_regions {

class TargetLines {
 public:
  // `takes`: the follower's process runs.
  TargetLines(World& world, Network& network, TargetNodes& nodes, std::function<bool()> takes);
  // The process has died: what was sent may still arrive, no handler runs any more.
  ~TargetLines();

  std::function<void()> owners_changed;
  void open_link(const follower::OpenLinkRequest& request, std::function<void(Result<follower::TargetInfo>, Status)> handler);
  void read_marks(const follower::ReadMarksRequest& request, std::function<void(Result<follower::MarksAnswer>)> handler);
  void mark_checksum(const follower::MarkChecksumRequest& request, std::function<void(Result<bool>)> handler);
  void list_rolled_back(const follower::ListRolledBackRequest& request, std::function<void(Result<follower::RolledBackAnswer>)> handler);
  void apply(follower::ApplyRequest request, std::function<void(Result<ApplyAnswer>)> handler);

  void tick();                               // requests that have waited too long
  void node_gone(std::size_t node);          // its process has ended: its sockets are closed by its kernel
  void break_one();

 private:
  // One connection: requests there, answers back. A request is a call at the node that says its answer when it has one.
  struct Line {
    std::size_t node = 0;
    std::uint64_t life = 0;
    std::shared_ptr<Wire> there, back;
    struct Asked {
      MonoMicros at = 0;
      std::function<void()> failed;
    };
    std::map<std::uint64_t, Asked> asked;
    bool down = false, opened = false;
    MonoMicros dialled = 0;
  };
  using LinePtr = std::shared_ptr<Line>;
  struct Route {
    LinePtr line;
    std::uint32_t in_flight = 0;
  };
  struct Opening;

  template <class Answer>
  void ask(const LinePtr& line, std::size_t bytes, std::function<void(std::size_t node, std::function<void(Answer)>)> at_node, std::function<void(Result<Answer>)> handler);
  void fail(const LinePtr& line);
  [[nodiscard]] LinePtr line(std::size_t node);
  [[nodiscard]] std::vector<std::size_t> owners() const;
  void ask_for_map(const std::shared_ptr<Opening>& opening);
  void open_at_owners(const std::shared_ptr<Opening>& opening);
  void adopt(const protocol::MapAnswer& map, bool whatever_version);
  void refresh();
  void poll();
  void later(MonoMicros delay, std::function<void()> run);

  World& world_;
  Network& network_;
  TargetNodes& nodes_;
  const std::function<bool()> takes_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  std::optional<follower::OpenLinkRequest> opened_;
  std::uint64_t session_ = 0, requests_ = 0;
  client::Routing routing_;
  std::vector<LinePtr> lines_;                               // one per node; null: none
  std::map<std::pair<SegmentId, SegmentId>, Route> routes_;  // source, target
  std::optional<MonoMicros> refreshing_;
  std::size_t turn_ = 0;
  bool polling_ = false;
};

}  // namespace zaris::two_regions
