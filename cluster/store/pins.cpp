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
  if (pin.lost) return;  // until its reader has been told and drops it
  pin.moved_us = std::max(pin.moved_us, now);
  At& a = pin.at[segment.value()];
  if (a.set && at >= a.acknowledged && at <= a.moved) {
    a.acknowledged = at;
  } else {
    a = At{true, at, at};
  }
  a.moved = std::max(a.moved, place.moved);
}

void Pins::attach(const PinKey& key, bool attached, WallMicros now) {
  const std::lock_guard hold(lock_);
  auto it = pins_.find(key);
  if (it == pins_.end()) return;
  it->second.attached = attached;
  it->second.moved_us = std::max(it->second.moved_us, now);
}

bool Pins::drop(const PinKey& key) {
  const std::lock_guard hold(lock_);
  return pins_.erase(key) != 0;
}

std::optional<PinPlace> Pins::place(const PinKey& key, SegmentId segment) const {
  const std::lock_guard hold(lock_);
  auto it = pins_.find(key);
  if (it == pins_.end() || it->second.lost) return std::nullopt;
  const At& a = it->second.at[segment.value()];
  if (!a.set) return std::nullopt;
  return PinPlace{a.acknowledged, a.moved};
}

std::optional<Revision> Pins::lowest(SegmentId segment, ClusterId not_target) const {
  const std::lock_guard hold(lock_);
  std::optional<Revision> out;
  for (const auto& [key, pin] : pins_) {
    const At& a = pin.at[segment.value()];
    if (pin.lost || !a.set || key.target == not_target) continue;
    if (!out || a.acknowledged.revision < *out) out = a.acknowledged.revision;
  }
  return out;
}

bool Pins::let_go(SegmentId segment, const LogChunk& chunk, WallMicros now, WallMicros age_max, bool force) {
  const Revision last = chunk.last();
  bool free = true;
  const std::lock_guard hold(lock_);
  for (auto& [key, pin] : pins_) {
    At& a = pin.at[segment.value()];
    if (pin.lost || !a.set || a.moved.revision >= last) continue;
    // Only over what was seen not to match: a copy's log begins above pins that were set before it (begin_copy).
    if (!pin.attached && !pin.scope.full() && a.moved.revision.next() >= chunk.first) {
      // Records of other regions and generation records never go down the live tail (feed rule 9), so they match nobody.
      auto i = static_cast<std::uint32_t>(std::max(a.moved.revision.value() + 1, chunk.first.value()) - chunk.first.value());
      const std::uint32_t count = chunk.count();
      for (; i < count; ++i) {
        const LogIndex& index = chunk.index[i];
        if ((index.flags & (log_flag_foreign | log_flag_generation)) != 0) continue;
        if (pin.scope.has(index.slot, key_at(chunk.bytes + index.offset))) break;
      }
      if (i > 0) a.moved = std::max(a.moved, Position{chunk.generation, Revision{chunk.first.value() + i - 1}});
      if (a.moved.revision >= last) continue;
    }
    const bool too_old = now > pin.moved_us && now - pin.moved_us > age_max;
    if (force || too_old) {
      pin.lost = true;
      ++lost_;
      continue;
    }
    free = false;
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
    row.info.lost = pin.lost;
    for (std::uint32_t s = 0; s < segments_; ++s) {
      if (!pin.at[s].set) continue;
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
