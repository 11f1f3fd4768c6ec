#include "cluster/store/segment.hpp"

#include <algorithm>
#include <cstring>

#include "cluster/base/assert.hpp"

namespace zaris::store {

std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

Digest content_digest(const SlotTable& table) {
  Digest sum;
  table.visit([&](Word word) {
    if ((word & word_tombstone) != 0) return;
    const Held h = held(word);
    sum += record_digest(h.entry(), h.trailer().item_version());
  });
  return sum;
}

Segment::Segment(const Setup& setup, LogShare& log_share)
    : tables_(new SlotTable[slots_per_segment(setup.segments)]), id(setup.id), first(first_slot(setup.id, setup.segments)),
      slots(static_cast<std::uint16_t>(slots_per_segment(setup.segments))), role(setup.blank ? SegmentRole::none : SegmentRole::owner),
      log(setup.chunk_bytes_max, log_share), log_complete_since_us(setup.now), wheel(setup.now), seed_(setup.seed) {
  log.count_as_owned(!setup.blank);
  if (setup.blank) return;
  newest_timestamp_us = setup.now;
  generation = setup.generation;
  lineage = Lineage(Root{setup.history, setup.generation, setup.now, setup.cause},
                    {LineageEntry{setup.generation, setup.generation_id, Revision{1}, setup.now}});
  mark_versions.begin_term(generation);
  const std::string record =
      make_generation_record(Revision{1}, setup.now, generation, setup.generation_id, setup.history, setup.cause);
  log.append(record, nullptr, LogNote{0, first, log_flag_generation}, generation, Revision{1}, setup.now);
}

Segment::~Segment() {
  for (auto& [key, state] : marks) drop_view(state);
}

std::uint32_t Segment::next_tag() {
  return static_cast<std::uint32_t>(mix(seed_ ^ (tags_.fetch_add(1, std::memory_order_relaxed) * 0xd1342543de82ef95ull)));
}

Position Segment::commit(const Change& change, Word* old, WallMicros now, Garbage& garbage) {
  SlotTable& t = table(change.place.slot);
  const Position position{generation, log.head().next()};
  const bool is_live = change.deleted == Deleted::no;
  char* data = change.block.data();
  const std::size_t size = change.block.size();
  if (change.kind == ChangeKind::commit) [[likely]] {
    patch_header(data, size, RecordHeader{position.revision, change.item_version, change.timestamp_us, change.deleted, generation, change.origin});
  }

  std::int64_t grown = 0;
  std::size_t old_size = 0;
  WallMicros already_due_us = 0;  // when the wheel looks at this key anyway
  const bool was_live = old != nullptr && (*old & word_tombstone) == 0;
  if (was_live) {
    const Held h = held(*old);
    old_size = h.size;
    t.digest -= record_digest(h.entry(), h.trailer().item_version());
    t.live_bytes -= h.size;
    live_bytes -= h.size;
    --t.live;
    --live;
    const std::size_t freed = block_footprint(h.size);
    record_bytes -= freed;
    grown -= static_cast<std::int64_t>(freed);
    if (change.expires_us != 0) already_due_us = expiry_of(*old, h);
  } else if (old != nullptr) {
    --t.tombstones;
    --tombstones;
  }

  std::uint8_t flags = 0;
  Word word = clock_bits(now);
  if (change.origin) {
    flags |= log_flag_foreign;
    word |= word_foreign;
  }
  if (!is_live) flags |= log_flag_tombstone;
  const char* logged = nullptr;
  if (change.kind != ChangeKind::from_page) [[likely]] {
    logged = log.append({data, size}, change.block.shared(), LogNote{key_prefix_of(change.place.key), change.place.slot, flags}, generation,
                        position.revision, now);
  }

  if (is_live) {
    const std::size_t entry_size = size - 1 - (change.origin ? trailer_foreign : trailer_own);
    t.digest += record_digest({data + 1, entry_size}, change.item_version);
    t.live_bytes += size;
    live_bytes += size;
    ++t.live;
    ++live;
    const std::size_t taken = block_footprint(size);
    record_bytes += taken;
    grown += static_cast<std::int64_t>(taken);
    if (change.expires_us != 0) word |= word_expires;
    if (was_live && fits_in_place(*old, old_size, size)) {
      // Nobody reads a record but under the lock. The change's own block stays its caller's, for its next record.
      std::memcpy(address_of(*old), change.block.data() - 2, size + 2);
      word |= reinterpret_cast<Word>(address_of(*old));
    } else {
      word |= change.block.take();
    }
  } else {
    ++t.tombstones;
    ++tombstones;
    word |= word_tombstone | reinterpret_cast<Word>(logged);
  }

  if (old != nullptr) {
    if (address_of(*old) != address_of(word)) garbage.add(*old);
    *old = (word & ~word_hash) | hash_bits(change.place.hash);
  } else {
    std::int64_t table_growth = 0;
    t.insert(change.place.hash, word, table_growth);
    table_bytes += table_growth;
    grown += table_growth;
  }
  if (is_live && change.expires_us != 0 && (already_due_us == 0 || already_due_us > change.expires_us)) {
    wheel.add(change.place.slot, change.place.hash, change.expires_us);
  }
  if (is_live && !was_live && t.views != nullptr) {
    for (SortedView* v = t.views; v != nullptr; v = v->next_view()) v->report(change.place.key);
  }
  newest_timestamp_us = std::max(newest_timestamp_us, change.timestamp_us);
  unreported_bytes += grown;
  return position;
}

void Segment::log_only(const Change& change, WallMicros now) {
  std::uint8_t flags = 0;
  if (change.origin) flags |= log_flag_foreign;
  if (change.deleted != Deleted::no) flags |= log_flag_tombstone;
  log.append({change.block.data(), change.block.size()}, change.block.shared(), LogNote{key_prefix_of(change.place.key), change.place.slot, flags},
             generation, log.head().next(), now);
  newest_timestamp_us = std::max(newest_timestamp_us, change.timestamp_us);
}

void Segment::forget(const KeyPlace& at, Word* word, Garbage& garbage) {
  SlotTable& t = table(at.slot);
  if ((*word & word_tombstone) != 0) {
    --t.tombstones;
    --tombstones;
  } else {
    const Held h = held(*word);
    t.digest -= record_digest(h.entry(), h.trailer().item_version());
    t.live_bytes -= h.size;
    live_bytes -= h.size;
    --t.live;
    --live;
    const std::size_t freed = block_footprint(h.size);
    record_bytes -= freed;
    unreported_bytes -= static_cast<std::int64_t>(freed);
  }
  garbage.add(*word);
  t.erase(at.hash, word);
}

void Segment::recall_tombstones() {
  for (const auto& chunk : log.chunks()) {
    const std::uint32_t count = chunk->tombstones == 0 ? 0 : chunk->count();
    for (std::uint32_t i = 0; i < count; ++i) {
      const LogIndex& index = chunk->index[i];
      if ((index.flags & log_flag_tombstone) == 0) continue;
      const char* record = chunk->bytes + index.offset;
      const std::string_view key = key_at(record);
      const std::uint64_t hash = hash_of(key);
      SlotTable& t = table(index.slot);
      Word word = word_tombstone | reinterpret_cast<Word>(record);
      if ((index.flags & log_flag_foreign) != 0) word |= word_foreign;
      if (Word* at = t.find(hash, key); at != nullptr) {
        // A live record was put after this; a tombstone is this or another, and the log's last one stands.
        if ((*at & word_tombstone) == 0 || held(*at).trailer().revision() >= Revision{chunk->first.value() + i}) continue;
        *at = word | hash_bits(hash);
        continue;
      }
      std::int64_t grown = 0;
      t.insert(hash, word, grown);
      table_bytes += grown;
      unreported_bytes += grown;
      ++t.tombstones;
      ++tombstones;
    }
  }
}

bool Segment::holds(Position at) const {
  if (at.revision > log.head()) return false;
  const auto& entries = lineage.entries();
  for (auto e = entries.rbegin(); e != entries.rend(); ++e) {
    if (at.revision >= e->first) return e->generation == at.generation;
  }
  return false;
}

void Segment::drop_view(MarkState& state) {
  if (!state.view) return;
  state.view->detach(table(state.view_slot));
  state.view.reset();
}

std::map<MarkKey, MarkState>::iterator Segment::erase_mark(std::map<MarkKey, MarkState>::iterator at) {
  drop_view(at->second);
  mark_versions.gone(at->first);
  return marks.erase(at);
}

void Segment::reclaim_tombstones(const LogChunk& chunk) {
  const std::uint32_t count = chunk.tombstones == 0 ? 0 : chunk.count();
  for (std::uint32_t i = 0; i < count; ++i) {
    const LogIndex& index = chunk.index[i];
    if ((index.flags & log_flag_tombstone) == 0) continue;
    const char* record = chunk.bytes + index.offset;
    const std::string_view key = key_at(record);
    const std::uint64_t hash = hash_of(key);
    SlotTable& t = table(index.slot);
    Word* at = t.find(hash, key);
    if (at == nullptr || (*at & word_tombstone) == 0 || address_of(*at) != record) continue;
    t.erase(hash, at);
    --t.tombstones;
    --tombstones;
    if ((index.flags & log_flag_foreign) == 0) continue;
    // From now on nothing here says that this key was taken away at that source position.
    const Origin origin = Trailer{record + index.length - trailer_foreign}.origin();
    for (auto& [mark_key, state] : marks) {
      Mark& mark = state.mark;
      if (index.slot < state.first || index.slot > state.last) continue;
      std::optional<NamedPosition>& up_to = owned() ? mark.horizon : state.blind_to;
      if (!mark.low || mark.source_cluster != origin.cluster || (up_to && up_to->at >= origin.at)) continue;
      const bool named_by_high = mark.high && mark.high->at.generation == origin.at.generation;
      up_to = NamedPosition{origin.at, named_by_high ? mark.high->generation_id : 0};
      if (owned()) changed(state);
    }
  }
}

}  // namespace zaris::store
