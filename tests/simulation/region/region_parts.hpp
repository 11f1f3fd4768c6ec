// What a World is made of: its nodes, the lines between them, and what a node sees of both. Internal to tests/simulation/region.
#pragma once
#include "tests/unit/store/memory_spill.hpp"
#include "tests/simulation/region/region_world.hpp"

namespace zaris::region_simulation {

inline constexpr WallMicros wall_start = 1'790'000'000'000'000;

struct World::Link {
  bool cut = false;
  bool up = false;
  MonoMicros next_dial = 0;
  // Towards the first and the second of the pair.
  std::deque<std::string> to[2];
  std::size_t bytes[2] = {0, 0};
  MonoMicros heard[2] = {0, 0};
  bool told_up[2] = {false, false};      // the node believes that it is connected
};

class World::SimOutside final : public region::Outside {
 public:
  SimOutside(World& world, std::size_t self) : world_(world), self_(self) {}
  MonoMicros now() override;
  WallMicros wall_now() override { return world_.wall(self_); }
  std::uint64_t random() override { return world_.random() | 1; }
  bool send(const std::string& node, std::string_view frames) override;
  bool connected(const std::string& node) const override;
  void say(region::Weight weight, std::string_view event, const std::string& text) override;

 private:
  World& world_;
  const std::size_t self_;
};

struct World::SimNode {
  std::size_t place = 0;
  std::string name;
  MonoMicros offset = 0;
  double rate = 1;
  WallMicros wall_offset = 0;
  bool alive = false, paused = false, isolated = false, etcd_cut = false;
  std::uint64_t life = 0;
  std::unique_ptr<SimOutside> outside;
  std::unique_ptr<etcd::MemoryEtcd::Client> client;
  std::deque<std::function<void()>> posted;
  std::unique_ptr<PostedEtcd> etcd;
  std::shared_ptr<store::MemorySpill> spill;  // may be empty
  std::unique_ptr<store::Store> store;
  std::unique_ptr<store::Committer> committer;
  std::unique_ptr<store::DirtyMap> dirty;
  std::unique_ptr<region::ServingTable> serving;
  region::ServingTable::Turns* turns = nullptr;
  MonoMicros turn_ends = 0;              // of the turn of its request thread that is under way; 0: none is
  std::unique_ptr<region::HeldTable> held;
  std::unique_ptr<region::RegionCore> core;
  std::deque<std::string> to_self;
  std::shared_ptr<const protocol::MapAnswer> map;
  bool changed = false;                  // the mirror

  [[nodiscard]] MonoMicros clock(MonoMicros now) const { return offset + static_cast<MonoMicros>(static_cast<double>(now) * rate); }
};

}  // namespace zaris::region_simulation
