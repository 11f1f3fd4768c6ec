// What clients ask: put, del, touch, get.
#include <algorithm>

#include "cluster/base/assert.hpp"
#include "cluster/store/store_impl.hpp"

namespace zaris::store {
namespace {

Block make_tombstone(const KeyPlace& at, std::uint32_t tag, bool with_origin) {
  const EntryFields fields{.key = at.key, .value = {}, .expires_us = 0, .tag = tag, .tombstone = true};
  Block block(record_size(fields, with_origin));
  write_record(block.data(), fields, with_origin);
  return block;
}

std::uint32_t next_version(const Word* old) { return old == nullptr ? 1 : held(*old).trailer().item_version() + 1; }

}  // namespace

KeyPlace StoreImpl::place(std::string_view key) const {
  const Slot slot = slot_of(key);
  return {key, hash_of(key), slot, SegmentId{static_cast<std::uint16_t>(slot.value() >> segment_shift_)}};
}

Status StoreImpl::no_room(Segment& s, Status why) {
  const std::lock_guard hold(s.lock);
  return s.owned() ? why : write_refused(s);
}

std::uint64_t StoreImpl::used() const {
  const std::int64_t n = used_.load(std::memory_order_relaxed);
  return n > 0 ? static_cast<std::uint64_t>(n) : 0;
}

void StoreImpl::report_memory(Segment& s) {
  if (s.unreported_bytes < report_above_ && s.unreported_bytes > -report_above_) return;
  used_.fetch_add(s.unreported_bytes, std::memory_order_relaxed);
  s.unreported_bytes = 0;
}

bool StoreImpl::room_for(std::size_t record_bytes, WallMicros now) {
  const std::uint64_t need = record_bytes + 16;
  if (used() + need <= options_.memory_max_bytes) [[likely]] return true;
  if (!options_.evict || need > options_.memory_max_bytes) return false;
  // The background eviction has fallen behind: this write makes its own room.
  for (int i = 0; i < 1024 && used() + need > options_.memory_max_bytes; ++i) {
    if (!evict_one(now)) break;
  }
  return used() + need <= options_.memory_max_bytes;
}

Position StoreImpl::commit_tombstone(Segment& s, const KeyPlace& at, Word* old, Deleted cause, const std::optional<Origin>& origin,
                                     WallMicros now, Garbage& garbage) {
  Block block = make_tombstone(at, s.next_tag(), origin.has_value());
  return s.commit(Change{at, block, cause, next_version(old), s.commit_time(now), origin, 0}, old, now, garbage);
}

Word* StoreImpl::settle_due(Segment& s, const KeyPlace& at, Word* old, WallMicros now, Garbage& garbage, bool& visible) {
  visible = old != nullptr && (*old & word_tombstone) == 0;
  if (!visible || (*old & word_expires) == 0) return old;
  const WallMicros expires_us = expiry_of(*old, held(*old));
  if (expires_us == 0 || expires_us > now) return old;
  visible = false;
  if (links_.standby(at.slot, at.key)) return old;
  commit_tombstone(s, at, old, Deleted::by_expiry, std::nullopt, now, garbage);
  ++s.counters.expired;
  return s.find(at);
}

void StoreImpl::prefetch(std::span<const std::string_view> keys) const {
  constexpr std::size_t at_once = 64;
  KeyPlace places[at_once];
  for (std::size_t from = 0; from < keys.size(); from += at_once) {
    const std::size_t n = std::min(at_once, keys.size() - from);
    for (std::size_t i = 0; i < n; ++i) {
      places[i] = place(keys[from + i]);
      __builtin_prefetch(&segment(places[i].segment).table(places[i].slot));
    }
    for (std::size_t i = 0; i < n; ++i) segment(places[i].segment).table(places[i].slot).prefetch(places[i].hash);
    for (std::size_t i = 0; i < n; ++i) {
      Segment& s = segment(places[i].segment);
      const std::lock_guard hold(s.lock);
      s.table(places[i].slot).prefetch_record(places[i].hash);
    }
  }
}

WriteOutcome StoreImpl::put(const Put& put, WallMicros now) {
  WriteOutcome out;
  const KeyPlace at = place(put.key);
  out.segment = at.segment;
  Segment& s = segment(at.segment);
  if (put.key.size() > options_.key_bytes_max || put.value.size() > options_.value_bytes_max) {
    out.status = no_room(s, Status::item_too_large);
    return out;
  }
  const bool in_the_past = put.expires_us != 0 && put.expires_us <= now;
  const EntryFields fields{.key = put.key, .value = put.value, .expires_us = put.expires_us, .tag = s.next_tag(), .tombstone = false};
  const std::size_t size = record_size(fields, false);
  if (!in_the_past && !room_for(size, now)) {
    out.status = no_room(s, Status::capacity_exceeded);
    return out;
  }
  Block block(size);
  write_record(block.data(), fields, false);
  Garbage garbage;
  {
    const std::lock_guard hold(s.lock);
    if (!s.owned()) [[unlikely]] {
      out.status = write_refused(s);
      return out;
    }
    Word* old = s.find(at);
    bool visible = false;
    old = settle_due(s, at, old, now, garbage, visible);
    out.position = s.head();
    if (visible && (put.only_if_absent || put.expected)) out.token = held(*old).token();
    if (put.only_if_absent && visible) {
      out.status = Status::conflict;
    } else if (put.expected && !visible) {
      out.status = Status::not_found;
    } else if (put.expected && out.token != *put.expected) {
      out.status = Status::conflict;
    } else if (in_the_past) {
      if (visible) out.position = commit_tombstone(s, at, old, Deleted::by_expiry, std::nullopt, now, garbage);
      out.token = {};
      ++s.counters.puts;
    } else {
      const std::uint32_t version = next_version(old);
      out.position = s.commit(Change{at, block, Deleted::no, version, s.commit_time(now), std::nullopt, put.expires_us}, old, now, garbage);
      out.token = {version, fields.tag};
      ++s.counters.puts;
    }
    report_memory(s);
  }
  moved(at.segment);
  return out;
}

WriteOutcome StoreImpl::del(std::string_view key, const std::optional<ItemToken>& expected, WallMicros now) {
  WriteOutcome out;
  const KeyPlace at = place(key);
  out.segment = at.segment;
  Segment& s = segment(at.segment);
  Block block = make_tombstone(at, s.next_tag(), false);
  Garbage garbage;
  {
    const std::lock_guard hold(s.lock);
    if (!s.owned()) [[unlikely]] {
      out.status = write_refused(s);
      return out;
    }
    bool visible = false;
    Word* old = settle_due(s, at, s.find(at), now, garbage, visible);
    out.position = s.head();
    if (visible) out.token = held(*old).token();
    if (!visible) {
      out.status = Status::not_found;
    } else if (expected && out.token != *expected) {
      out.status = Status::conflict;
    } else {
      const std::uint32_t version = out.token.item_version + 1;
      const std::uint32_t tag = scan::load32(block.data() + block.size() - trailer_own - 4);
      out.position = s.commit(Change{at, block, Deleted::by_delete, version, s.commit_time(now), std::nullopt, 0}, old, now, garbage);
      out.token = {version, tag};
      ++s.counters.deletes;
    }
    report_memory(s);
  }
  moved(at.segment);
  return out;
}

WriteOutcome StoreImpl::touch(std::string_view key, WallMicros expires_us, const std::optional<ItemToken>& expected, WallMicros now) {
  WriteOutcome out;
  const KeyPlace at = place(key);
  out.segment = at.segment;
  Segment& s = segment(at.segment);
  const std::uint32_t tag = s.next_tag();
  Garbage garbage;
  {
    const std::lock_guard hold(s.lock);
    if (!s.owned()) [[unlikely]] {
      out.status = write_refused(s);
      return out;
    }
    bool visible = false;
    Word* old = settle_due(s, at, s.find(at), now, garbage, visible);
    out.position = s.head();
    if (visible) out.token = held(*old).token();
    if (!visible) {
      out.status = Status::not_found;
    } else if (expected && out.token != *expected) {
      out.status = Status::conflict;
    } else if (expires_us != 0 && expires_us <= now) {
      out.position = commit_tombstone(s, at, old, Deleted::by_expiry, std::nullopt, now, garbage);
      out.token = {};
      ++s.counters.puts;
    } else {
      // The value stands only under the lock, so the new record is made here.
      const RecordView record = trusted_record(held(*old).bytes());
      const EntryFields fields{.key = record.key, .value = record.value, .expires_us = expires_us, .tag = tag, .tombstone = false};
      Block block(record_size(fields, false));
      write_record(block.data(), fields, false);
      const std::uint32_t version = record.item_version + 1;
      out.position = s.commit(Change{at, block, Deleted::no, version, s.commit_time(now), std::nullopt, expires_us}, old, now, garbage);
      out.token = {version, tag};
      ++s.counters.puts;
    }
    report_memory(s);
  }
  moved(at.segment);
  return out;
}

ReadOutcome StoreImpl::get(std::string_view key, WallMicros now, std::string& out) {
  ReadOutcome outcome;
  const KeyPlace at = place(key);
  Segment& s = segment(at.segment);
  const std::lock_guard hold(s.lock);
  if (!s.owned()) [[unlikely]] {
    outcome.status = Status::moved;
    return outcome;
  }
  Word* word = s.find(at);
  if (word == nullptr || (*word & word_tombstone) != 0) {
    outcome.status = Status::not_found;
    ++s.counters.gets_miss;
    return outcome;
  }
  const Held h = held(*word);
  const RecordView record = trusted_record(h.bytes());
  if (record.expired(now)) {
    outcome.status = Status::not_found;
    ++s.counters.gets_miss;
    return outcome;
  }
  if (const Word clock = clock_bits(now); (*word & word_clock) != clock) *word = (*word & ~word_clock) | clock;
  ++s.counters.gets_hit;
  outcome.token = record.token();
  outcome.expires_us = record.expires_us;
  outcome.position = record.position();
  out.append(record.value);
  return outcome;
}

}  // namespace zaris::store
