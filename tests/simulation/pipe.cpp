#include "tests/simulation/pipe.hpp"

namespace zaris::simulation {

MonoMicros network_delay(World& world) {
  const SimOptions& o = world.options;
  MonoMicros delay = o.latency_us + world.network.between(0, o.jitter_us);
  if (!world.healed && o.spike > 0 && world.network.chance(o.spike)) delay += world.network.between(0, 2'000'000);
  return delay;
}

std::shared_ptr<Pipe> make_pipe(World& world, const MonoMicros* frozen_until) {
  auto pipe = std::make_shared<Pipe>(world, frozen_until);
  world.pipes.push_back(pipe);
  return pipe;
}

void Pipe::send(std::size_t bytes, std::function<void()> deliver) {
  if (cut_) return;
  newest_due_ = std::max(newest_due_, world_.now() + network_delay(world_));
  items_.push_back(Item{newest_due_, bytes, std::move(deliver)});
  bytes_ += bytes;
  world_.queue.at(newest_due_, [self = shared_from_this()] { self->pump(); });
}

void Pipe::cut(std::size_t keep) {
  cut_ = true;
  while (items_.size() > keep) {
    bytes_ -= items_.back().bytes;
    items_.pop_back();
  }
}

void Pipe::pump() {
  while (!items_.empty() && !swallowing_ && items_.front().due <= world_.now()) {
    const MonoMicros not_before = std::max(held_until_, *frozen_until_);
    if (not_before > world_.now()) {
      world_.queue.at(not_before, [self = shared_from_this()] { self->pump(); });
      return;
    }
    Item item = std::move(items_.front());
    items_.pop_front();
    bytes_ -= item.bytes;
    item.deliver();
  }
}

}  // namespace zaris::simulation
