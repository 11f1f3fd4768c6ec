#include "cluster/store/walk.hpp"

#include <algorithm>

#include "cluster/record/record_table.hpp"

namespace zaris::store {

SegmentWalk::SegmentWalk(StoreImpl& store, Segment& segment, Scope scope, std::optional<SlotKey> from, Options options)
    : store_(store), segment_(segment), scope_(std::move(scope)), options_(options), from_(std::move(from)) {
  if (!options_.claims_log) return;
  const std::lock_guard hold(segment_.lock);
  claim_.keeps_above = segment_.log.head();
  segment_.walks.push_back(&claim_);
}

SegmentWalk::~SegmentWalk() {
  const std::lock_guard hold(segment_.lock);
  drop_view();
  if (options_.claims_log) std::erase(segment_.walks, &claim_);
}

void SegmentWalk::drop_view() {
  if (!view_) return;
  view_->detach(segment_.table(view_slot_));
  view_.reset();
}

void SegmentWalk::build_view(Slot slot) {
  SlotTable& table = segment_.table(slot);
  std::uint64_t at = 0;
  {
    const std::lock_guard hold(segment_.lock);
    drop_view();
    view_ = std::make_unique<SortedView>(scope_, from_ && from_->slot == slot ? std::optional(from_->key) : std::nullopt);
    view_slot_ = slot;
    view_->attach(table);  // from here on additions are reported, so the leaves can be collected one lock hold each
    at = view_->collect(table, 0);
  }
  while (at != 0) {
    const std::lock_guard hold(segment_.lock);
    at = view_->collect(table, at);
  }
  view_->sort();
}

bool SegmentWalk::hidden(Word word) const {
  if ((word & word_tombstone) != 0) return true;
  if (!options_.hide_expired_at || (word & word_expires) == 0) return false;
  const WallMicros expires_us = expiry_of(word, held(word));
  return expires_us != 0 && expires_us <= *options_.hide_expired_at;
}

void SegmentWalk::copy(Word word, Slot slot, Taken& out) const {
  const Held h = held(word);
  out.items.push_back({out.arena.size(), static_cast<std::uint32_t>(h.size), h.trailer().item_version(), slot, h.foreign});
  out.arena.append(h.data, h.size);
}

void SegmentWalk::fill_from_view(Slot slot, const WalkLimits& limits, Taken& out) {
  SlotTable& table = segment_.table(slot);
  std::string last;
  std::size_t looked_at = 0;
  bool all = true;
  view_->each([&](const std::string& key) {
    if (looked_at >= std::max<std::size_t>(limits.records_max, 1) * 4 || out.items.size() >= std::max<std::size_t>(limits.records_max, 1)) {
      all = false;
      return false;
    }
    const Word* word = table.find(hash_of(key), key);
    if (word != nullptr && !hidden(*word)) {
      if (!out.items.empty() && out.arena.size() + held(*word).size > limits.bytes_max) {
        all = false;
        return false;
      }
      copy(*word, slot, out);
    }
    ++looked_at;
    last = key;
    return true;
  });
  if (all) {
    out.to = SlotKey{Slot{static_cast<std::uint16_t>(slot.value() + 1)}, {}};
    drop_view();
  } else {
    view_->advance(last);
    out.to = SlotKey{slot, std::move(last)};
  }
}

bool SegmentWalk::fill(const WalkLimits& limits, Taken& out, Slot& slot) {
  out.as_of = segment_.head();
  const std::uint32_t end = segment_.first.value() + segment_.slots;
  std::size_t examined = 0;
  std::uint32_t at = slot.value();
  for (; at < end; ++at) {
    const Slot here{static_cast<std::uint16_t>(at)};
    const SlotTable& table = segment_.table(here);
    if (view_ && view_slot_ != here) drop_view();
    if (table.live == 0 || !scope_.has_slot(here)) {
      drop_view();
      continue;
    }
    if (view_ || table.live > whole_records_max || table.live_bytes > whole_bytes_max) {
      if (!out.items.empty() || examined > 0) break;  // a page of its own
      if (!view_) {
        slot = here;
        return false;
      }
      fill_from_view(here, limits, out);
      return true;
    }
    if (examined > 0 && (examined + table.live > examined_max || out.items.size() + table.live > limits.records_max ||
                         out.arena.size() + table.live_bytes > limits.bytes_max)) {
      break;
    }
    const std::size_t before = out.items.size();
    const bool partial = from_ && from_->slot == here;
    table.visit([&](Word word) {
      if (hidden(word)) return;
      const std::string_view key = key_at(record_of(word));
      if ((partial && key <= from_->key) || !scope_.has_key(key)) return;
      copy(word, here, out);
    });
    examined += table.live;
    if (before == 0 && (out.items.size() > limits.records_max || out.arena.size() > limits.bytes_max)) {
      ++at;
      break;  // this slot alone is more than a page: take() cuts it once it is sorted
    }
  }
  if (at < end) out.to = SlotKey{Slot{static_cast<std::uint16_t>(at)}, {}};
  return true;
}

void SegmentWalk::take(const WalkLimits& limits, Taken& out) {
  out.arena.reserve(std::min<std::size_t>(limits.bytes_max, whole_bytes_max));
  out.items.reserve(std::min<std::size_t>(limits.records_max, whole_records_max));
  Slot slot = segment_.first;
  if (from_ && from_->slot > slot) slot = from_->slot;
  for (;;) {
    {
      const std::lock_guard hold(segment_.lock);
      if (options_.owned_only && !segment_.owned()) [[unlikely]] {
        out.not_owned = true;
        return;
      }
      if (fill(limits, out, slot)) {
        if (out.to && out.to->slot.value() >= segment_.first.value() + segment_.slots) out.to.reset();
        if (options_.claims_log) claim_.keeps_above = out.as_of.revision;
        break;
      }
    }
    build_view(slot);
  }
  // The copies stand in the tables' order; the key's order is found without the lock. (From a view they are in order.)
  const auto key_of = [&out](const Taken::Item& i) { return key_at(out.arena.data() + i.offset); };
  const auto less = [&](const Taken::Item& a, const Taken::Item& b) { return a.slot != b.slot ? a.slot < b.slot : key_of(a) < key_of(b); };
  if (!view_ && !std::is_sorted(out.items.begin(), out.items.end(), less)) std::sort(out.items.begin(), out.items.end(), less);
  // A single small slot that passes the page's own limits is cut.
  if (out.items.size() > 1 && (out.items.size() > limits.records_max || out.arena.size() > limits.bytes_max)) {
    std::size_t keep = 0, bytes = 0;
    while (keep < out.items.size() && keep < std::max<std::size_t>(limits.records_max, 1) &&
           (keep == 0 || bytes + out.items[keep].size <= limits.bytes_max)) {
      bytes += out.items[keep++].size;
    }
    if (keep < out.items.size()) {
      out.items.resize(keep);
      out.to = SlotKey{out.items.back().slot, std::string(key_of(out.items.back()))};
    }
  }
  from_ = out.to;
  done_ = !out.to;
}

WalkPage SegmentWalk::next(const WalkLimits& limits) {
  WalkPage page;
  page.from = from_;
  if (done_) {
    const std::lock_guard hold(segment_.lock);
    page.as_of = segment_.head();
    return page;
  }
  Taken taken;
  take(limits, taken);
  page.to = taken.to;
  page.as_of = taken.as_of;
  page.count = taken.items.size();
  page.table.reserve(taken.items.size() * record_row_bytes);
  page.records.reserve(taken.arena.size());
  for (const auto& item : taken.items) {
    const std::string_view record = taken.record(item);
    append_row(page.table, RecordRow{item.size, 0, item.slot, 0});
    page.records.append(record);
    page.digest += record_digest(record.substr(1, record.size() - 1 - (item.foreign ? trailer_foreign : trailer_own)), item.item_version);
  }
  return page;
}

namespace {

bool has_slot_of(const Scope& scope, Slot first, std::uint32_t slots) {
  for (std::uint32_t i = 0; i < slots; ++i) {
    if (scope.has_slot(Slot{static_cast<std::uint16_t>(first.value() + i)})) return true;
  }
  return false;
}

}  // namespace

std::unique_ptr<Walk> StoreImpl::begin_walk(SegmentId id, const Scope& scope, std::optional<SlotKey> from) {
  return std::make_unique<SegmentWalk>(*this, segment(id), scope, std::move(from), SegmentWalk::Options{true, std::nullopt, false});
}

ScanPage StoreImpl::scan(const ScanRequest& request, WallMicros now) {
  constexpr std::size_t pages_max = 64;  // a scan that matches little stops after so many, with a token and few records
  ScanPage out;
  const std::size_t count_max = std::max<std::size_t>(request.count_max, 1);
  std::size_t bytes = 0;
  std::optional<SlotKey> after = request.after;
  std::uint32_t index = after ? after->slot.value() >> segment_shift_ : 0;
  bool entered = false;
  std::unique_ptr<SegmentWalk> walk;
  if (after) {
    const std::lock_guard hold(idle_scans_lock_);
    for (auto it = idle_scans_.begin(); it != idle_scans_.end(); ++it) {
      if (it->at != *after || it->scope != request.scope.text()) continue;
      walk = std::move(it->walk);
      walk->hide_expired_at(now);
      idle_scans_.erase(it);
      break;
    }
  }
  for (std::size_t pages = 0; index < options_.segments; ++pages) {
    if (!walk) {
      walk = std::make_unique<SegmentWalk>(*this, *segments_[index], request.scope, after, SegmentWalk::Options{false, now, true});
    }
    SegmentWalk::Taken taken;
    walk->take(WalkLimits{count_max - out.records.size(), request.bytes_max - bytes}, taken);
    if (taken.not_owned) {
      walk.reset();
      // In a segment without a slot of the scope nothing is missed, whoever owns it.
      if (request.scope.full() || has_slot_of(request.scope, segments_[index]->first, segments_[index]->slots)) {
        if (!entered) out.status = Status::moved;
        break;
      }
    } else {
      entered = true;
    }
    for (const auto& item : taken.items) {
      const std::string_view record = taken.record(item);
      bytes += record.size();
      if (!request.keys_only) {
        out.records.emplace_back(record);
        continue;
      }
      const RecordView v = trusted_record(record);
      out.records.push_back(make_record(EntryFields{.key = v.key, .value = {}, .expires_us = v.expires_us, .tag = v.tag},
                                        RecordHeader{v.revision, v.item_version, v.timestamp_us, v.deleted, v.generation, v.origin}));
    }
    after = taken.to;
    if (!after) {
      walk.reset();
      // Only into segments of the scope: a token beyond it would lead whoever goes on from there past what others own in between.
      do ++index;
      while (index < options_.segments && !request.scope.slot_ranges().empty() && !has_slot_of(request.scope, segments_[index]->first, segments_[index]->slots));
      if (index == options_.segments) return out;
      after = SlotKey{first_slot(SegmentId{static_cast<std::uint16_t>(index)}, options_.segments), {}};
    }
    if (out.records.size() >= count_max || bytes >= request.bytes_max || pages + 1 >= pages_max) break;
    if (!out.records.empty() && walk && walk->has_view()) break;
  }
  out.next = std::move(after);
  if (walk && walk->has_view() && out.next) {
    std::list<IdleScan> dying;  // their walks take segment locks when they go
    const std::lock_guard hold(idle_scans_lock_);
    idle_scans_.push_front(IdleScan{request.scope.text(), *out.next, std::move(walk)});
    while (idle_scans_.size() > idle_scans_max) dying.splice(dying.end(), idle_scans_, std::prev(idle_scans_.end()));
  }
  return out;
}

}  // namespace zaris::store
