#include "cluster/store/pins.hpp"

#include <algorithm>

namespace zaris::store {

void Pins::set(const PinKey& key, const Scope& scope, SegmentId segment, PinPlace place, WallMicros now) {
  const Position at = place.acknowledged;
  const std::lock_guard hold(lock_);
  auto [it, fresh] = pins_.try_emplace(key);
  Pin& pin = it->second;
  if (fresh) {
    pin.scope = scope;
    pin.since_us = now;
    pin.at.resize(segments_);
  }
  At& a = pin.at[segment.value()];
  const bool here = owned_[segment.value()];
  if (a.lost && here) return;  // until its reader has been told and drops it
  // An owner repeats what it has said; only its reader makes a pin younger.
  if (here || !a.set || a.acknowledged != at) pin.moved_us = std::max(pin.moved_us, now);
  found(pin, a);
  if (!a.set) ++pin.set;
  if (a.set && at >= a.acknowledged && at <= a.moved) {
    a.acknowledged = at;
  } else {
    a = At{true, false, at, at};
  }
  a.moved = std::max(a.moved, place.moved);
}

void Pins::attach(const PinKey& key, bool attached, WallMicros now) {
  const std::lock_guard hold(lock_);
  auto it = pins_.find(key);
  if (it == pins_.end()) return;
  it->second.attached = attached;
  it->second.moved_us = std::max(it->second.moved_us, now);
  (void)next(it);
}

bool Pins::drop(const PinKey& key) {
  const std::lock_guard hold(lock_);
  return pins_.erase(key) != 0;
}

void Pins::unset(Pin& pin, At& a) {
  if (a.set) --pin.set;
  a.set = false;
}

void Pins::found(Pin& pin, At& a) {
  if (a.lost) --pin.lost;
  a.lost = false;
}

void Pins::cut(Pin& pin) {
  if (pin.lost == 0) ++lost_;
  for (std::uint32_t s = 0; s < segments_; ++s) {
    At& a = pin.at[s];
    if (!a.set || !owned_[s]) continue;
    unset(pin, a);
    a.lost = true;
    ++pin.lost;
  }
}

void Pins::clear(const PinKey& key, SegmentId segment) {
  const std::lock_guard hold(lock_);
  auto it = pins_.find(key);
  if (it == pins_.end()) return;
  At& a = it->second.at[segment.value()];
  unset(it->second, a);
  if (owned_[segment.value()]) found(it->second, a);
  (void)next(it);
}

void Pins::owned(SegmentId segment, bool owned, ClusterId replicas) {
  const std::lock_guard hold(lock_);
  owned_[segment.value()] = owned;
  if (owned) return;
  for (auto it = pins_.begin(); it != pins_.end(); it = next(it)) {
    if (it->first.target != replicas) continue;
    At& a = it->second.at[segment.value()];
    unset(it->second, a);
    found(it->second, a);
  }
}

void Pins::leave(SegmentId segment) {
  const std::lock_guard hold(lock_);
  for (auto it = pins_.begin(); it != pins_.end(); it = next(it)) {
    At& a = it->second.at[segment.value()];
    unset(it->second, a);
    found(it->second, a);
  }
}

std::optional<PinPlace> Pins::place(const PinKey& key, SegmentId segment) const {
  const std::lock_guard hold(lock_);
  auto it = pins_.find(key);
  if (it == pins_.end()) return std::nullopt;
  const At& a = it->second.at[segment.value()];
  if (!a.set) return std::nullopt;
  return PinPlace{a.acknowledged, a.moved};
}

std::optional<Revision> Pins::lowest(SegmentId segment, ClusterId not_target) const {
  const std::lock_guard hold(lock_);
  std::optional<Revision> out;
  for (const auto& [key, pin] : pins_) {
    const At& a = pin.at[segment.value()];
    if (!a.set || key.target == not_target) continue;
    if (!out || a.acknowledged.revision < *out) out = a.acknowledged.revision;
  }
  return out;
}

void Pins::pass_over(SegmentId segment, const LogChunk& chunk) {
  const std::lock_guard hold(lock_);
  for (auto& [key, pin] : pins_) {
    At& a = pin.at[segment.value()];
    if (!a.set || pin.attached || pin.scope.full() || a.moved.revision >= chunk.last()) continue;
    // Only over what was seen not to match: a copy's log begins above pins that were set before it (begin_copy).
    if (a.moved.revision.next() < chunk.first) continue;
    // Generation records never go down the live tail, so they match nobody. Those of other regions do not either, but end it (feed
    // rule 9): a reader must not be moved over them.
    auto i = static_cast<std::uint32_t>(std::max(a.moved.revision.value() + 1, chunk.first.value()) - chunk.first.value());
    const std::uint32_t count = chunk.count();
    for (; i < count; ++i) {
      const LogIndex& index = chunk.index[i];
      if ((index.flags & log_flag_generation) != 0) continue;
      if (pin.scope.has(index.slot, key_at(chunk.bytes + index.offset))) break;
    }
    if (i > 0) a.moved = std::max(a.moved, Position{chunk.generation, Revision{chunk.first.value() + i - 1}});
  }
}

bool Pins::let_go(SegmentId segment, Revision last, WallMicros now, WallMicros age_max, bool force) {
  bool free = true;
  const std::lock_guard hold(lock_);
  for (auto it = pins_.begin(); it != pins_.end(); it = next(it)) {
    Pin& pin = it->second;
    At& a = pin.at[segment.value()];
    if (!a.set || a.moved.revision >= last) continue;
    const bool too_old = now > pin.moved_us && now - pin.moved_us > age_max;
    if (!force && !too_old) {
      free = false;
    } else if (owned_[segment.value()]) {
      cut(pin);
    } else {
      unset(pin, a);
    }
  }
  return free;
}

std::vector<Pins::Row> Pins::rows() const {
  const std::lock_guard hold(lock_);
  std::vector<Row> out;
  for (const auto& [key, pin] : pins_) {
    Row row;
    row.info.key = key;
    row.info.scope = pin.scope;
    row.info.attached = pin.attached;
    row.info.since_us = pin.since_us;
    row.info.moved_us = pin.moved_us;
    row.info.lost = pin.lost > 0;
    for (std::uint32_t s = 0; s < segments_; ++s) {
      if (!pin.at[s].set || !owned_[s]) continue;
      ++row.info.segments;
      row.at.emplace_back(SegmentId{static_cast<std::uint16_t>(s)}, pin.at[s].moved.revision);
    }
    out.push_back(std::move(row));
  }
  return out;
}

std::uint64_t Pins::lost() const {
  const std::lock_guard hold(lock_);
  return lost_;
}

}  // namespace zaris::store
