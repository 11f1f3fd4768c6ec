// One zaris-gateway: real relays, and what its shell does with sockets, threads and the region's map (feed/routed) done with events.
// Keeps nothing: a killed one begins anew.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "feed/relay/relay.hpp"
#include "tests/simulation/two_regions/node_feeds.hpp"
#include "tests/simulation/two_regions/wire.hpp"

namespace zaris::two_regions {

class GatewayProcess {
 public:
  GatewayProcess(World& world, Network& network, Region& region, NodeFeeds& feeds, Scope scope, std::string name);
  ~GatewayProcess();

  void start();
  void kill();
  // SIGTERM: followers hear GoAway, and are let go.
  void drain();
  void freeze_until(MonoMicros when) { frozen_until_ = std::max(frozen_until_, when); }
  [[nodiscard]] bool up() const { return up_; }
  [[nodiscard]] bool takes() const { return frozen_until_ <= world_.now(); }
  bool accept(const ConnectionPtr& connection);
  void break_one();
  [[nodiscard]] std::vector<std::pair<SegmentId, Position>> heads() const;

 private:
  struct Stream {
    ConnectionPtr follower;
    std::unique_ptr<feed::Relay> relay;
    std::shared_ptr<const feed::RoutingTable> table;
    std::map<std::string, ConnectionPtr> nodes;
    bool say_scheduled = false;
  };
  void ask_table();
  void table_soon();
  void tick();
  void act(std::uint64_t id);
  void dial(std::uint64_t id, const feed::RelayCommand& command);
  void speak(std::uint64_t id);
  void schedule_speak(std::uint64_t id);
  void drop(std::uint64_t id);
  void later(MonoMicros delay, std::function<void()> run);
  [[nodiscard]] Stream* find(std::uint64_t id);
  [[nodiscard]] std::vector<std::uint64_t> ids() const;
  [[nodiscard]] feed::Now now() const;
  [[nodiscard]] std::size_t place(const std::string& node) const;

  World& world_;
  Network& network_;
  Region& region_;
  NodeFeeds& feeds_;
  const std::string name_;
  feed::Principal principal_;
  bool up_ = false;
  std::uint64_t epoch_ = 0;
  MonoMicros frozen_until_ = 0, offset_ = 0, asked_at_ = 0;
  std::int64_t wall_offset_ = 0;
  std::shared_ptr<const feed::RoutingTable> table_;
  bool asking_ = false, doubt_ = false;
  std::size_t turn_ = 0;
  std::map<std::uint64_t, Stream> streams_;
  std::string out_;
};

}  // namespace zaris::two_regions
