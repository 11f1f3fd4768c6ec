// The writers of a World: what they put, what was acknowledged to them, for how long nobody served them, and what must be there in the end.
#include <algorithm>
#include <fmt/format.h>

#include "cluster/placement/slot.hpp"
#include "tests/simulation/region/region_parts.hpp"

namespace zaris::region_simulation {

using namespace ownership;

namespace {
constexpr MonoMicros acknowledge_us = 1'000'000;
}

// A node's request thread is held up now and then between a write and its answer, for up to 50 ms.
void World::begin_turn(SimNode& node) {
  if (node.turn_ends != 0) return;
  node.turns->begin();
  node.turn_ends = now_ + (random() % 8 == 0 ? static_cast<MonoMicros>(random() % 10) * step_us : 0) + step_us;
}

void World::end_turn(SimNode& node) {
  if (node.turn_ends == 0 || now_ < node.turn_ends) return;
  for (Key& key : keys_) {
    if (!key.pending || key.executed || key.node != node.place || key.life != node.life) continue;
    key.executed = node.serving->answers(key.segment, node.clock(now_));
    if (key.executed) continue;
    key.pending = false;
    ++figures_.abandoned;
  }
  node.turns->end();
  node.turn_ends = 0;
}

void World::write_some() {
  for (std::uint32_t i = 0; i < options_.writes_per_step; ++i) {
    Key& key = keys_[random() % keys_.size()];
    if (key.pending) continue;
    const std::string name = fmt::format("key-{}", &key - keys_.data());
    const SegmentId segment = segment_of(slot_of(name), options_.segments);
    for (auto& node : nodes_) {
      if (!node->alive || node->paused || node->isolated || !node->serving->serves(segment, node->clock(now_))) continue;
      begin_turn(*node);
      const std::uint64_t value = key.next;
      const std::string text = std::to_string(value);
      const auto written = commit(node->place, [&](store::Store& store, WallMicros at) { return store.put({name, text, 0, std::nullopt, false}, at); });
      if (written.status != Status::ok) break;
      ++key.next;
      ++figures_.written;
      key.pending = true;
      key.executed = false;
      key.pending_value = value;
      key.node = node->place;
      key.life = node->life;
      key.position = written.position;
      key.segment = segment;
      key.since = now_;
      break;
    }
  }
}

void World::acknowledge() {
  for (auto& node : nodes_) {
    if (node->alive && !node->paused) end_turn(*node);
  }
  for (Key& key : keys_) {
    if (!key.pending) continue;
    SimNode& node = *nodes_[key.node];
    if (!node.alive || node.life != key.life || now_ - key.since > acknowledge_us) {
      key.pending = false;
      ++figures_.given_up;
      continue;
    }
    if (node.paused || !key.executed) continue;
    const auto state = node.store->state(key.segment);
    if (state.role != store::SegmentRole::owner || state.head.generation != key.position.generation) continue;
    const bool async = options_.policy == Durability::owner;
    if (!async && node.core->replicator().held().held(key.segment, state.head).by(options_.policy) < key.position) continue;
    key.pending = false;
    key.acknowledged = std::max(key.acknowledged, key.pending_value);
    ++figures_.acknowledged;
  }
}

void World::watch_service() {
  for (std::uint32_t i = 0; i < options_.segments; ++i) {
    const SegmentId segment{static_cast<std::uint16_t>(i)};
    std::uint64_t serving = 0;
    bool reachable = false;
    for (const auto& node : nodes_) {
      // A paused one counts: it would look at its deadline when it wakes, and its clock goes on.
      if (!node->alive || !node->serving->serves(segment, node->clock(now_))) continue;
      ++serving;
      reachable = reachable || (!node->paused && !node->isolated);
    }
    figures_.most_serving = std::max(figures_.most_serving, serving);
    if (reachable) {
      formed_ = true;
      if (unserved_since_[i] != 0 && now_ - unserved_since_[i] > 200'000) {
        story_.push_back(fmt::format("{:9.3f} segment {} was not served for {} ms", static_cast<double>(now_) / 1e6, i, (now_ - unserved_since_[i]) / 1000));
      }
      unserved_since_[i] = 0;
    } else if (formed_) {
      if (unserved_since_[i] == 0) unserved_since_[i] = now_;
      figures_.longest_without_service = std::max(figures_.longest_without_service, now_ - unserved_since_[i]);
    }
  }
}

std::string World::check() {
  std::string wrong;
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    const std::string name = fmt::format("key-{}", i);
    const SegmentId segment = segment_of(slot_of(name), options_.segments);
    const auto at = owner(segment);
    if (!at) return "nobody serves segment " + std::to_string(segment.value());
    std::string value;
    const auto read = nodes_[*at]->store->get(name, wall_start + static_cast<WallMicros>(now_), value);
    const std::uint64_t there = read.status == Status::ok ? std::stoull(value) : 0;
    if (there >= keys_[i].acknowledged) continue;
    if (options_.policy == Durability::owner) ++figures_.lost_async;
    else wrong += fmt::format("{} has {} at {}, {} was acknowledged\n", name, there, nodes_[*at]->name, keys_[i].acknowledged);
  }
  for (std::uint32_t i = 0; i < options_.segments; ++i) {
    const SegmentId segment{static_cast<std::uint16_t>(i)};
    const auto at = owner(segment);
    const auto& map = nodes_[*at]->core->mirror().map()->value;
    const Partition* partition = map.holder_of(segment);
    for (const auto& node : nodes_) {
      if (!node->alive || node->place == *at || !partition->has_member(node->name)) continue;
      const auto mine = nodes_[*at]->store->state(segment), theirs = node->store->state(segment);
      if (nodes_[*at]->store->segment_digest(segment) == node->store->segment_digest(segment) && mine.head == theirs.head &&
          nodes_[*at]->store->lineage(segment) == node->store->lineage(segment)) continue;
      wrong += fmt::format("segment {} at {} ({}) is not what it is at {} ({})\n", i, node->name, to_string(theirs.head), nodes_[*at]->name, to_string(mine.head));
    }
  }
  return wrong;
}

}  // namespace zaris::region_simulation
