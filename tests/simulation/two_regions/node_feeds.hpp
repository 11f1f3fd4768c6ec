// The feeds of the source's nodes: what zarisd puts round its store for gateways (feed/gateway), with real source sessions under the
// node's authority, played sockets and turns.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "feed/session/source.hpp"
#include "tests/simulation/region/region_world.hpp"
#include "tests/simulation/two_regions/options.hpp"
#include "tests/simulation/two_regions/wire.hpp"

namespace zaris::two_regions {

using Region = region_simulation::World;

inline constexpr MonoMicros fresh_interval_us = 200'000;
inline constexpr MonoMicros heartbeat_us = 5'000'000;
inline constexpr std::size_t window_bytes = 128u << 10;      // of a socket: what is on its way in one direction

class NodeFeeds {
 public:
  NodeFeeds(World& world, Region& region, const TwoOptions& options);
  ~NodeFeeds();

  // The node's kernel takes packets: it does not while it is paused or cut off, and a dead one's answers with a reset.
  [[nodiscard]] bool takes(std::size_t node) const;
  // Runs where the node is reached. False: nobody listens.
  bool accept(std::size_t node, const ConnectionPtr& connection);
  // What GET /v1/segments of that node says.
  [[nodiscard]] std::vector<std::pair<SegmentId, Position>> heads(std::size_t node) const;
  void break_one();                                           // a connection, as a network does

  // Told by the region.
  void started(std::size_t node);
  void stopping(std::size_t node);
  void round(std::size_t node, bool authority_changed);

  // Sees every message before it leaves, and from which node.
  std::function<void(std::size_t node, std::string_view bytes)> inspect;

 private:
  struct Session {
    ConnectionPtr connection;
    std::unique_ptr<feed::SourceSession> core;
    bool pump_scheduled = false;
  };
  struct Node {
    bool up = false;
    std::unique_ptr<store::DirtyMap> dirty;
    std::map<std::uint64_t, Session> sessions;
    MonoMicros ticked = 0;
  };
  void hear(std::size_t node, std::uint64_t id, std::string_view bytes);
  void turn(std::size_t node);
  void pump(std::size_t node, std::uint64_t id);
  void schedule_pump(std::size_t node, std::uint64_t id);
  [[nodiscard]] feed::SegmentAuthority authority(std::size_t node) const;
  [[nodiscard]] feed::Now now(std::size_t node) const { return {region_.clock(node), region_.wall(node)}; }

  World& world_;
  Region& region_;
  const TwoOptions& options_;
  feed::Principal principal_;
  std::vector<Node> nodes_;
  std::string out_;
};

}  // namespace zaris::two_regions
