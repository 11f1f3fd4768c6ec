// A replica takes the owner's content, range by range.
#include <algorithm>
#include <fmt/format.h>
#include <unordered_set>

#include "cluster/record/record_table.hpp"
#include "cluster/base/assert.hpp"
#include "cluster/store/replica_records.hpp"

namespace zaris::store {
namespace {

constexpr std::uint32_t view_above = 1024;  // a slot of more keys is not gone through anew for every page that ends in it

bool in_page(const CopyPage& page, Slot slot, std::string_view key) {
  if (page.from && (slot < page.from->slot || (slot == page.from->slot && key <= page.from->key))) return false;
  return !page.to || slot < page.to->slot || (slot == page.to->slot && key <= page.to->key);
}

// Empty: good.
std::string read_page(const CopyPage& page, const ReplicaLimits& limits, std::vector<ReplicaRecord>& out) {
  if (!table_fits(page.table, page.records.size())) return "the table does not fit the records";
  if (page.from && page.to && *page.to < *page.from) return "the page ends before it starts";
  const std::size_t n = row_count(page.table);
  out.reserve(n);
  const char* p = page.records.data();
  for (std::size_t i = 0; i < n; ++i) {
    const RecordRow row = read_row(page.table, i);
    const std::string_view bytes(p, row.length);
    p += row.length;
    const auto bad = [i](const std::string& why) { return fmt::format("record {}: {}", i, why); };
    ReplicaRecord& record = out.emplace_back();
    if (auto why = read_replica_record(bytes, row, limits, record); !why.empty()) return bad(why);
    if (!record.view.live()) return bad("a tombstone in a page");
    const KeyPlace& at = record.at;
    if (!in_page(page, at.slot, at.key)) return bad("outside the page");
    if (record.view.position() > page.as_of) return bad("newer than the page");
    if (i == 0) continue;
    const KeyPlace& before = out[i - 1].at;
    if (at.slot < before.slot || (at.slot == before.slot && at.key <= before.key)) return bad("not in (slot, key) order");
  }
  return {};
}

// The live keys of the page's range that it does not name.
class Removals {
 public:
  Removals(Segment& segment, const CopyPage& page, const std::vector<ReplicaRecord>& records) : segment_(segment), page_(page) {
    named_.reserve(records.size());
    for (const ReplicaRecord& record : records) named_.insert(record.at.key);
  }
  // Copies of the keys: the words go one by one.
  struct Key {
    std::string key;
    std::uint64_t hash;
    Slot slot;
  };
  std::vector<Key> find(const CopyState& copy) {
    const std::uint32_t first = segment_.first.value(), last = first + segment_.slots - 1;
    const std::uint32_t begin = page_.from ? std::max<std::uint32_t>(first, page_.from->slot.value()) : first;
    const std::uint32_t end = page_.to ? std::min<std::uint32_t>(last, page_.to->slot.value()) : last;
    for (std::uint32_t n = begin; n <= end; ++n) {
      const Slot slot{static_cast<std::uint16_t>(n)};
      const SlotTable& table = segment_.table(slot);
      if (table.live + table.tombstones == 0) continue;
      if (copy.view && copy.view_slot == slot && page_.from && page_.from->slot == slot && copy.view->position() == page_.from->key) {
        copy.view->each([&](const std::string& key) {
          if (!in_page(page_, slot, key)) return false;
          if (!named_.contains(key)) keys_.push_back(Key{key, hash_of(key), slot});
          return true;
        });
        continue;
      }
      table.visit([&](Word word) {
        const std::string_view key = key_at(record_of(word));
        if (in_page(page_, slot, key) && !named_.contains(key)) keys_.push_back(Key{std::string(key), hash_of(key), slot});
      });
    }
    return std::move(keys_);
  }

 private:
  Segment& segment_;
  const CopyPage& page_;
  std::unordered_set<std::string_view> named_;
  std::vector<Key> keys_;
};

// For the next page, if this one ends in a large slot.
void keep_view(Segment& s, CopyState& copy) {
  const SlotKey& to = *copy.to;
  const std::uint32_t first = s.first.value();
  if (to.slot.value() < first || to.slot.value() >= first + s.slots) return copy.view.reset();
  const SlotTable& table = s.table(to.slot);
  if (copy.view && copy.view_slot == to.slot && copy.view->position() <= to.key) return copy.view->advance(to.key);
  copy.view.reset();
  if (table.live <= view_above) return;
  copy.view = std::make_unique<SortedView>(Scope{}, to.key);
  copy.view_slot = to.slot;
  for (std::uint64_t at = copy.view->collect(table, 0); at != 0;) at = copy.view->collect(table, at);
  copy.view->sort();
}

}  // namespace

ReplicaAnswer StoreImpl::begin_copy(SegmentId id, const CopyStart& start, WallMicros now) {
  Segment& s = segment(id);
  ReplicaAnswer answer;
  std::vector<std::shared_ptr<const LogChunk>> chunks;  // freed after the lock
  {
    const std::lock_guard hold(s.lock);
    answer.head = s.head();
    if (s.role.load(std::memory_order_relaxed) != SegmentRole::replica) {
      answer.outcome = ReplicaOutcome::not_replica;
      answer.reason = "the segment is no replica here";
      return answer;
    }
    const auto& entries = start.lineage.entries();
    if (entries.empty() || entries.back().generation != start.as_of.generation || start.as_of.revision < entries.back().first) {
      answer.outcome = ReplicaOutcome::malformed;
      answer.reason = fmt::format("{} is not of the lineage's last generation", to_string(start.as_of));
      return answer;
    }
    while (!s.marks.empty()) s.erase_mark(s.marks.begin());
    // A tombstone lies in the log.
    while (auto chunk = s.log.oldest()) {
      s.reclaim_tombstones(*chunk);
      chunks.push_back(s.log.drop_oldest());
    }
    s.log.forget_spilled(Revision{~std::uint64_t{0}});
    s.log.restart(start.as_of.revision);
    s.lineage = start.lineage;
    s.generation = start.as_of.generation;
    s.newest_timestamp_us = std::max(s.newest_timestamp_us, start.newest_timestamp_us);
    s.log_complete_since_us = std::max({s.log_complete_since_us, start.newest_timestamp_us, now});
    s.owner_floor = s.owner_memory_floor = Revision{0};
    s.copied = true;
    s.copy = std::make_unique<CopyState>();
    s.copy->began_at = start.as_of;
    answer.head = s.head();
  }
  moved(id);
  return answer;
}

void StoreImpl::end_copy(Segment& s) {
  s.recall_tombstones();
  s.unreported_bytes = 0;
  const std::unique_ptr<CopyState> copy = std::move(s.copy);
  for (const auto& [key, mark] : copy->marks) put_mark(s, key, mark);
}

ReplicaAnswer StoreImpl::copy_page(SegmentId id, const CopyPage& page, WallMicros now) {
  Segment& s = segment(id);
  const ReplicaLimits limits{id, segment_shift_, options_.key_bytes_max, options_.value_bytes_max};
  std::vector<ReplicaRecord> records;
  std::string malformed = read_page(page, limits, records);
  if (malformed.empty()) {
    for (ReplicaRecord& record : records) make_block(record);
  }
  ReplicaAnswer answer;
  Garbage garbage;
  const std::lock_guard hold(s.lock);
  answer.head = s.head();
  const auto refuse = [&](ReplicaOutcome outcome, std::string reason) {
    answer.outcome = outcome;
    answer.reason = std::move(reason);
    return answer;
  };
  if (s.role.load(std::memory_order_relaxed) != SegmentRole::replica || !s.copy) {
    return refuse(ReplicaOutcome::not_replica, "the segment is no replica that a copy is on its way to");
  }
  if (!malformed.empty()) return refuse(ReplicaOutcome::malformed, std::move(malformed));
  if (page.as_of != s.head()) {
    return refuse(ReplicaOutcome::gap, fmt::format("a page as of {}; the log here ends at {}", to_string(page.as_of), to_string(s.head())));
  }
  CopyState& copy = *s.copy;
  if (page.from != copy.to) return refuse(ReplicaOutcome::gap, "the page does not begin where the one before it ended");
  for (const Removals::Key& gone : Removals(s, page, records).find(copy)) {
    const KeyPlace at{gone.key, gone.hash, gone.slot, id};
    if (Word* word = s.find(at); word != nullptr) s.forget(at, word, garbage);
  }
  for (ReplicaRecord& record : records) {
    const RecordView& view = record.view;
    Word* old = s.find(record.at);
    if (old != nullptr && (*old & word_tombstone) == 0 && held(*old).bytes() == view.bytes) continue;
    s.commit(Change{record.at, record.block, view.deleted, view.item_version, view.timestamp_us, view.origin, view.expires_us, ChangeKind::from_page},
             old, now, garbage);
  }
  s.unreported_bytes = 0;
  copy.to = page.to;
  if (page.to) {
    keep_view(s, copy);
  } else {
    end_copy(s);
  }
  return answer;
}

ReplicaAnswer StoreImpl::finish_copy(SegmentId id) {
  Segment& s = segment(id);
  ReplicaAnswer answer;
  const std::lock_guard hold(s.lock);
  answer.head = s.head();
  if (s.role.load(std::memory_order_relaxed) != SegmentRole::replica || !s.copy) {
    answer.outcome = ReplicaOutcome::not_replica;
    answer.reason = "the segment is no replica that a copy is on its way to";
  } else if (s.copy->to || s.copy->began_at != answer.head) {
    answer.outcome = ReplicaOutcome::gap;
    answer.reason = "pages or runs have come since the copy began: only pages can make it whole";
  } else {
    end_copy(s);
  }
  return answer;
}

void StoreImpl::keep_half_copy(SegmentId id) {
  Segment& s = segment(id);
  std::vector<std::shared_ptr<const LogChunk>> chunks;  // freed after the lock
  {
    const std::lock_guard hold(s.lock);
    if (!s.copy) return;
    ZARIS_ASSERT(s.role.load(std::memory_order_relaxed) == SegmentRole::replica, id.value());
    end_copy(s);
    while (!s.marks.empty()) s.erase_mark(s.marks.begin());  // they speak of more than is here
    while (auto chunk = s.log.oldest()) {
      s.reclaim_tombstones(*chunk);
      chunks.push_back(s.log.drop_oldest());
    }
    // What the copy had not reached yet is of before, and may be newer than where the copy stood.
    Revision highest = s.head().revision;
    for (std::uint16_t i = 0; i < s.slots; ++i) {
      s.table(Slot{static_cast<std::uint16_t>(s.first.value() + i)}).visit([&](Word word) {
        highest = std::max(highest, trusted_record(held(word).bytes()).position().revision);
      });
    }
    s.log.forget_spilled(Revision{~std::uint64_t{0}});
    s.log.restart(highest);
    s.lineage = Lineage();
  }
  moved(id);
}

}  // namespace zaris::store
