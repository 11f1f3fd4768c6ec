// What the feed and the tools read: digests, states, logs, single records, pins' figures.
#include <algorithm>
#include <limits>

#include "cluster/store/store_impl.hpp"

namespace zaris::store {
namespace {

constexpr std::uint64_t keeps_up = 16;  // holds less than this part of its bound

std::optional<double> seconds_left(const PinInfo& info, double rate, WallMicros now) {
  if (info.held_records == 0 || (info.attached && info.held_bytes < info.bytes_max / keeps_up)) return std::nullopt;
  std::optional<double> left;
  if (!info.attached && info.age_max_us != 0) {
    const std::uint64_t away = now > info.moved_us ? now - info.moved_us : 0;
    left = static_cast<double>(info.age_max_us > away ? info.age_max_us - away : 0) / 1e6;
  }
  const std::uint64_t room = info.bytes_max > info.held_bytes ? info.bytes_max - info.held_bytes : 0;
  if (room == 0) return 0;
  if (rate > 0) {
    const double by_bytes = static_cast<double>(room) / rate / 1e6;
    left = left ? std::min(*left, by_bytes) : by_bytes;
  }
  return left;
}

}  // namespace

Digest StoreImpl::slot_digest(Slot slot, std::uint64_t* count) const {
  Segment& s = segment(segment_of(slot, options_.segments));
  const std::lock_guard hold(s.lock);
  const SlotTable& t = s.table(slot);
  if (count != nullptr) *count = t.live;
  return t.digest;
}

Digest StoreImpl::segment_digest(SegmentId id, std::uint64_t* count, Position* as_of) const {
  Segment& s = segment(id);
  const std::lock_guard hold(s.lock);
  Digest sum;
  for (std::uint32_t i = 0; i < s.slots; ++i) sum += s.table(Slot{static_cast<std::uint16_t>(s.first.value() + i)}).digest;
  if (count != nullptr) *count = s.live;
  if (as_of != nullptr) *as_of = s.head();
  return sum;
}

std::uint64_t StoreImpl::memory_slots(SegmentId id, Slot first, Slot last) const {
  Segment& s = segment(id);
  std::uint64_t found = 0;
  for (std::uint32_t n = std::max(first.value(), s.first.value()); n <= last.value() && n < s.first.value() + s.slots; ++n) {
    const std::lock_guard hold(s.lock);
    const SlotTable& table = s.table(Slot{static_cast<std::uint16_t>(n)});
    found += table.digest != content_digest(table) ? 1 : 0;
  }
  return found;
}

SegmentState StoreImpl::state(SegmentId id) const {
  Segment& s = segment(id);
  const std::lock_guard hold(s.lock);
  SegmentState out;
  out.head = s.head();
  out.floor = s.log.floor();
  out.memory_floor = s.log.memory_floor();
  out.log_bytes_total = s.log.bytes_total();
  out.live_keys = s.live;
  out.live_bytes = s.live_bytes;
  out.tombstones = s.tombstones;
  out.newest_timestamp_us = s.newest_timestamp_us;
  out.role = s.role.load(std::memory_order_relaxed);
  out.copying = s.copy != nullptr;
  if (s.copy) out.copied_to = s.copy->to;
  return out;
}

Lineage StoreImpl::lineage(SegmentId id) const {
  Segment& s = segment(id);
  const std::lock_guard hold(s.lock);
  return s.lineage;
}

LogRead StoreImpl::read_log(SegmentId id, Revision after, std::size_t bytes_max, LogStretch& out) const {
  SegmentLog& log = segment(id).log;
  for (;;) {
    const LogRead read = log.read(after, bytes_max, out);
    if (read != LogRead::fetching) [[likely]] return read;
    const auto place = log.spilled_with(after.next());
    if (!place) continue;  // forgotten meanwhile
    SpillCache::Taken taken = spill_cache_->take(id, *place);
    if (taken.chunk) return SegmentLog::stretch_of(std::move(taken.chunk), after, bytes_max, out);
    if (!taken.failed) return LogRead::fetching;
    spill_read_failures_.fetch_add(1, std::memory_order_relaxed);
    note_spill_fault(*taken.failed);
    log.forget_spilled(place->last());
  }
}

std::uint64_t StoreImpl::log_bytes_after(SegmentId id, Revision after) const { return segment(id).log.bytes_after(after); }

Store::Fetched StoreImpl::fetch(SegmentId id, const std::vector<std::string>& keys) const {
  std::vector<KeyPlace> places;
  places.reserve(keys.size());
  for (const auto& key : keys) places.push_back(place(key));
  Fetched out;
  out.records.resize(keys.size());
  Segment& s = segment(id);
  const std::lock_guard hold(s.lock);
  out.as_of = s.head();
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (places[i].segment != id) continue;
    const Word* word = s.find(places[i]);
    if (word != nullptr && (*word & word_tombstone) == 0) out.records[i] = std::string(held(*word).bytes());
  }
  return out;
}

void StoreImpl::set_pin(const PinKey& key, const Scope& scope, SegmentId id, Position at, WallMicros now) {
  set_pin_place(key, scope, id, PinPlace{at, at}, now);
}

void StoreImpl::set_pin_place(const PinKey& key, const Scope& scope, SegmentId id, PinPlace place, WallMicros now) {
  (void)segment(id);
  pins_.set(key, scope, id, place, now);
  if (options_.cluster_member) floors_moved_.store(true, std::memory_order_relaxed);
}

void StoreImpl::clear_pin(const PinKey& key, SegmentId id) {
  (void)segment(id);
  pins_.clear(key, id);
  if (options_.cluster_member) floors_moved_.store(true, std::memory_order_relaxed);
}

std::vector<PinInfo> StoreImpl::pins(WallMicros now) const {
  auto rows = pins_.rows();
  std::vector<PinInfo> out;
  out.reserve(rows.size());
  const double rate = write_rate_.bytes_per_us();
  for (auto& row : rows) {
    PinInfo info = std::move(row.info);
    // With a spill the log is kept whoever needs it, up to what memory and spill hold in all, and a chunk's index lies there too.
    info.bytes_max = spill_writer_ ? options_.log_budget_bytes + options_.spill_bytes : options_.log_pin_bytes;
    info.age_max_us = spill_writer_ ? 0 : options_.log_pin_age_us;
    for (const auto& [id, above] : row.at) {
      const Segment& s = segment(id);
      info.held_bytes += s.log.bytes_after(above);
      const std::uint64_t head = s.log.head().value(), from = std::max(above.value() + 1, s.log.floor().value());
      info.held_records += head + 1 > from ? head + 1 - from : 0;
    }
    if (spill_writer_) info.held_bytes += info.held_records * sizeof(LogIndex);
    info.seconds_left = seconds_left(info, rate, now);
    out.push_back(std::move(info));
  }
  return out;
}

}  // namespace zaris::store
