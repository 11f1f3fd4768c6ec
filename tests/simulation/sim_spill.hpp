// A source's disk for the log that leaves memory: slow, full for a while, or bad at giving back, as the seed draws it.
#pragma once
#include <map>
#include <string>

#include "cluster/store/spill_device.hpp"
#include "tests/simulation/world.hpp"

namespace zaris::simulation {

class SimSpill final : public store::SpillDevice, public std::enable_shared_from_this<SimSpill> {
 public:
  explicit SimSpill(World& world) : world_(world) {}

  void write(std::string bytes, Written done) override {
    // One after the other, as from one thread.
    busy_until_ = std::max(busy_until_, world_.now()) + world_.disk.between(1, std::max<MonoMicros>(world_.options.spill_us, 2));
    world_.queue.at(busy_until_, [self = shared_from_this(), bytes = std::move(bytes), done = std::move(done)]() mutable { self->written(std::move(bytes), done); });
  }
  void read(const store::SpillPlace& place, Read done) override {
    const MonoMicros delay = world_.disk.between(1, std::max<MonoMicros>(world_.options.spill_us, 2));
    world_.queue.after(delay, [self = shared_from_this(), place, done = std::move(done)] { self->give(place, done); });
  }
  void drop(const store::SpillPlace& place) override { kept_.erase(place); }

 private:
  void written(std::string bytes, const Written& done) {
    if (!world_.healed && world_.disk.chance(world_.options.spill_fails)) {
      world_.probes.hit("spill: a write failed");
      return done(failure("spill_full", "the disk is full"));
    }
    world_.probes.hit("spill: written");
    const store::SpillPlace place{1, next_, static_cast<std::uint32_t>(bytes.size())};
    next_ += bytes.size();
    kept_.emplace(place, std::move(bytes));
    done(place);
  }
  void give(const store::SpillPlace& place, const Read& done) {
    const auto at = kept_.find(place);
    if (at == kept_.end()) return done(failure("spill_failed", "dropped"));
    std::string bytes = at->second;
    if (!world_.healed && world_.disk.chance(world_.options.spill_fails)) {
      world_.probes.hit("spill: damaged");
      bytes[world_.disk.below(bytes.size())] ^= 1;
    } else {
      world_.probes.hit("spill: read");
    }
    done(std::move(bytes));
  }

  World& world_;
  MonoMicros busy_until_ = 0;
  std::map<store::SpillPlace, std::string> kept_;
  std::uint64_t next_ = 0;
};

}  // namespace zaris::simulation
