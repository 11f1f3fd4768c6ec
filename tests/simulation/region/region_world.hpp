// A region of several nodes in one thread: real region cores, stores and replication, an etcd in memory, a network and clocks that
// the test bends. Everything follows from the seed. Writers put growing numbers under keys of their own; what was acknowledged
// under which policy is remembered, and compared with what is there when all is healed.
#pragma once
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cluster/etcd/memory_etcd.hpp"
#include "tests/simulation/region/posted_etcd.hpp"
#include "cluster/region/held_table.hpp"
#include "cluster/region/region_core.hpp"
#include "cluster/store/store.hpp"

namespace zaris::region_simulation {

struct WorldOptions {
  std::uint64_t seed = 1;
  std::uint32_t nodes = 3;
  std::uint32_t replication_factor = 3;
  std::uint32_t segments = 8;
  std::uint32_t keys = 200;
  Durability policy = Durability::replica;        // of the writers
  std::uint32_t writes_per_step = 4;
  ownership::AckPolicy promise = ownership::AckPolicy::replica;
  std::uint64_t log_budget_bytes = 1u << 20;
  std::uint64_t log_pin_bytes = 64u << 20;
  std::uint64_t spill_bytes = 0;                  // of each node; 0: history ends with its memory
  std::size_t window_bytes = 1u << 20;            // on their way between two nodes
  std::vector<MonoMicros> grants;                 // failover.grant of each node; empty: the same for all
  bool skewed_clocks = true;                      // offsets, and rates up to half a percent apart
  ClusterId cluster{1};
  std::string names = "n";                        // a node is this and its number, from 1 on
  std::uint64_t wall_skew_us = 0;                 // wall clocks are up to so far ahead
};

struct Figures {
  std::uint64_t written = 0, acknowledged = 0, given_up = 0, lost_async = 0;
  std::uint64_t abandoned = 0;                    // executed, and not to be answered: the node had lost its authority meanwhile
  MonoMicros longest_without_service = 0;         // of any segment
  std::uint64_t most_serving = 0;                 // nodes that might serve one segment at one moment: never above 1
};

class World {
 public:
  explicit World(WorldOptions options);
  ~World();

  void step();                                         // one step of virtual time
  void run_for(MonoMicros time);
  [[nodiscard]] bool run_until(const std::function<bool()>& condition, MonoMicros limit);
  void write(bool on) { writing_ = on; }

  // ---- faults, by the node's place
  void kill(std::size_t node);
  void start(std::size_t node);
  void pause(std::size_t node, bool paused);
  void isolate(std::size_t node, bool isolated);       // from the other nodes and etcd
  void cut(std::size_t a, std::size_t b, bool cut);
  void cut_etcd(std::size_t node, bool cut);
  void etcd_down(bool down);
  void compact_etcd();
  [[nodiscard]] etcd::MemoryRows etcd_copy() const { return etcd_.rows(); }
  void restore_etcd(const etcd::MemoryRows& copy) { etcd_.restore(copy); }
  void drain(std::size_t node);
  void leave(std::size_t node);                        // as a clean stop ends; then it is killed
  void accept_empty();
  void accept(const ownership::PartitionId& id);
  bool take_back_accepted();                           // true: there was something
  void heal();                                         // all of the above but kills; dead nodes are started

  // ---- for what a test puts around the nodes: listeners, clients
  static constexpr MonoMicros step_us = 5'000;
  std::function<void(std::size_t)> on_started, on_stopping;   // a process begins, ends: its store is there in both
  // The end of a node's round: `moved`, more is held by replicas, or somebody else owns something.
  std::function<void(std::size_t, bool moved)> on_round;
  [[nodiscard]] bool paused(std::size_t node) const;
  [[nodiscard]] bool isolated(std::size_t node) const;
  [[nodiscard]] bool etcd_cut(std::size_t node) const;
  [[nodiscard]] std::uint64_t life(std::size_t node) const;
  [[nodiscard]] MonoMicros clock(std::size_t node) const;
  [[nodiscard]] WallMicros wall(std::size_t node) const;
  [[nodiscard]] bool serves(std::size_t node, SegmentId segment) const;
  [[nodiscard]] const region::HeldTable& held(std::size_t node) const;
  [[nodiscard]] std::shared_ptr<const protocol::MapAnswer> map(std::size_t node) const;   // as the node tells it; null: not yet
  // One operation of a client at this node, as its request threads carry it out.
  store::WriteOutcome commit(std::size_t node, const std::function<store::WriteOutcome(store::Store&, WallMicros)>& operation);

  // ---- looking
  [[nodiscard]] std::size_t size() const { return nodes_.size(); }
  [[nodiscard]] bool alive(std::size_t node) const;
  [[nodiscard]] std::optional<std::size_t> leader() const;
  [[nodiscard]] std::optional<std::size_t> owner(SegmentId segment) const;   // who serves it now
  [[nodiscard]] bool all_served() const;
  [[nodiscard]] bool healthy() const;                  // every partition, by the ownership document
  // Healthy, and every copy is counted in the set of its partition by the process that lives now: the next loss is the first.
  [[nodiscard]] bool whole() const;
  [[nodiscard]] bool drained(std::size_t node) const;
  [[nodiscard]] const region::RegionCore& core(std::size_t node) const;
  [[nodiscard]] store::Store& store(std::size_t node);
  [[nodiscard]] const Figures& figures() const { return figures_; }
  [[nodiscard]] MonoMicros now() const { return now_; }
  // Empty: acknowledged writes are there and all copies are equal. To be asked when healthy and quiet.
  [[nodiscard]] std::string check();
  [[nodiscard]] std::string story() const;             // the last events, for a failed test

 private:
  struct SimNode;
  struct Link;
  class SimOutside;
  void tell_held(SimNode& node);
  void connect(MonoMicros now);
  void deliver(SimNode& node);
  void pump(SimNode& node);
  void begin_turn(SimNode& node);
  void end_turn(SimNode& node);
  void write_some();
  void acknowledge();
  void watch_service();
  Link& link(std::size_t a, std::size_t b);
  std::uint64_t random();

  const WorldOptions options_;
  std::uint64_t state_;
  MonoMicros now_ = 1'000'000;
  etcd::MemoryEtcd etcd_;
  std::vector<std::unique_ptr<SimNode>> nodes_;
  std::map<std::pair<std::size_t, std::size_t>, std::unique_ptr<Link>> links_;
  bool writing_ = false;
  struct Key {
    std::uint64_t next = 1;
    std::uint64_t acknowledged = 0;
    bool pending = false, executed = false;       // executed: the turn that it was written in is over
    std::uint64_t pending_value = 0;
    std::size_t node = 0;
    std::uint64_t life = 0;
    Position position;
    SegmentId segment;
    MonoMicros since = 0;
  };
  std::vector<Key> keys_;
  std::vector<MonoMicros> unserved_since_;
  Figures figures_;
  std::deque<std::string> story_;
  bool formed_ = false;
};

}  // namespace zaris::region_simulation
