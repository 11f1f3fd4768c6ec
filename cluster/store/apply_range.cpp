// Kinds range and delta: the target's keys of a range become exactly those of the source: those that the batch brings, and of a delta, those that it
// says have not changed, which is proven by their digest before anything is done.
#include <algorithm>
#include <bit>
#include <cstring>
#include <fmt/format.h>
#include <unordered_set>

#include "cluster/store/applier.hpp"

namespace zaris::store {
namespace {
constexpr std::uint32_t view_above = 1024;  // a slot of more keys is not gone through anew for every range that ends in it

std::unordered_set<std::uint32_t> names_of(std::string_view names) {
  std::unordered_set<std::uint32_t> out(names.size() / sizeof(std::uint32_t) * 2);
  for (std::size_t i = 0; i < names.size(); i += sizeof(std::uint32_t)) {
    std::uint32_t name;
    std::memcpy(&name, names.data() + i, sizeof name);
    out.insert(name);
  }
  return out;
}

}  // namespace

bool Applier::in_range(Slot slot, std::string_view key) const {
  const ApplyRange& range = *batch_.range;
  if (range.from && (slot < range.from->slot || (slot == range.from->slot && key <= range.from->key))) return false;
  return !range.to || slot < range.to->slot || (slot == range.to->slot && key <= range.to->key);
}

bool Applier::records_in_range() {
  for (std::size_t i = 0; i < incoming_.size(); ++i) {
    const Incoming& in = incoming_[i];
    if (!in_range(in.at.slot, in.at.key)) return refuse(Status::invalid_argument, fmt::format("record {}: outside the range", i));
    if (in.source > batch_.range->as_of.at) return refuse(Status::invalid_argument, fmt::format("record {}: newer than the range", i));
    if (i == 0) continue;
    const KeyPlace& before = incoming_[i - 1].at;
    if (in.at.slot < before.slot || (in.at.slot == before.slot && in.at.key <= before.key)) {
      return refuse(Status::invalid_argument, fmt::format("record {}: not in (slot, key) order", i));
    }
  }
  return true;
}

void Applier::index_incoming() {
  if (incoming_.empty()) return;
  by_hash_.assign(std::bit_ceil(incoming_.size() * 2), 0);
  const std::size_t mask = by_hash_.size() - 1;
  for (std::uint32_t i = 0; i < incoming_.size(); ++i) {
    std::size_t at = incoming_[i].at.hash & mask;
    while (by_hash_[at] != 0) at = (at + 1) & mask;
    by_hash_[at] = i + 1;
  }
}

bool Applier::has_incoming(std::uint64_t hash, std::string_view key) const {
  if (by_hash_.empty()) return false;
  const std::size_t mask = by_hash_.size() - 1;
  for (std::size_t at = hash & mask; by_hash_[at] != 0; at = (at + 1) & mask) {
    const KeyPlace& in = incoming_[by_hash_[at] - 1].at;
    if (in.hash == hash && in.key == key) return true;
  }
  return false;
}

// Under a mark that was put back to where it is known to be the source's still: what came from there behind that may be what the source has lost.
bool Applier::rolled_back(Word word) const {
  const auto& since = state_->mark.since;
  if (!since || (word & word_foreign) == 0) return false;
  const Origin origin = held(word).trailer().origin();
  return origin.cluster == batch_.source_cluster && origin.at > since->at;
}

bool Applier::range_equals() {
  std::uint64_t count = 0;
  Digest digest;
  each_in_range([&](Slot, Word word) {
    const Held h = held(word);
    digest += record_digest(h.entry(), h.trailer().item_version());
    ++count;
  });
  return count == batch_.range->equal->count && digest == batch_.range->equal->digest;
}

void Applier::keep_view(MarkState& state) {
  const ApplyRange& range = *batch_.range;
  if (!range.to || range.to->slot < first_ || range.to->slot > last_ || range.final) return segment_->drop_view(state);
  const Slot slot = range.to->slot;
  SlotTable& table = segment_->table(slot);
  if (state.view && state.view_slot == slot && state.view->position() <= range.to->key) {
    state.view->advance(range.to->key);
    return;
  }
  segment_->drop_view(state);
  if (table.live <= view_above) return;
  state.view = std::make_unique<SortedView>(link_->scope, range.to->key);
  state.view_slot = slot;
  for (std::uint64_t at = state.view->collect(table, 0); at != 0;) at = state.view->collect(table, at);
  state.view->sort();
  state.view->attach(table);
}

bool Applier::apply_range() {
  const ApplyRange& range = *batch_.range;
  Segment& s = *segment_;
  if (range.equal && !is_delta()) {
    if (!range_equals()) return refuse(Status::range_differs, "the range here has another count or digest");
  } else {
    for (const Incoming& in : incoming_) s.table(in.at.slot).prefetch(in.at.hash);
    std::uint64_t live = 0, hidden = 0;  // what has expired is there for nobody: it goes uncounted, and is nobody's loss
    std::uint64_t others = 0;  // of a delta: what is here as it is at the source
    Digest digest;
    const auto named = is_delta() ? names_of(range.equal->names) : std::unordered_set<std::uint32_t>{};
    each_in_range([&](Slot slot, Word word) {
      const std::string_view key = key_at(record_of(word));
      const std::uint64_t hash = hash_of(key);
      if (has_incoming(hash, key)) return;
      if (is_delta()) {
        const Held h = held(word);
        const Digest own = record_digest(h.entry(), h.trailer().item_version());
        if (range.equal->names.empty() || named.contains(own.name())) {
          digest += own;
          ++others;
          return;
        }
      }
      const KeyPlace at{key, hash, slot, s.id};
      removals_.push_back(Removal{at});
      const WallMicros expires_us = expiry_of(word, held(word));
      if (expires_us != 0 && expires_us <= now_) {
        ++hidden;
        return;
      }
      ++live;
      if ((word & word_foreign) != 0 && !rolled_back(word)) return;
      ++answer_.conflicts;
      note_loss(at, word);
    });
    if (is_delta() && (others != range.equal->count || digest != range.equal->digest)) {
      answer_.would_lose.clear();
      return refuse(Status::range_differs, "the keys that have not changed at the source are others here");
    }
    for (Incoming& in : incoming_) {
      const Word* old = s.find(in.at);
      if (old == nullptr || (*old & word_tombstone) != 0) continue;
      const Held h = held(*old);
      const bool same = h.entry() == in.entry && h.trailer().item_version() == in.item_version;
      if ((*old & word_foreign) != 0) in.skipped = same && h.trailer().origin() == Origin{batch_.source_cluster, in.source};
      if (same || ((*old & word_foreign) != 0 && !rolled_back(*old))) continue;
      ++answer_.conflicts;
      note_loss(in.at, *old);
    }
    if (live > batch_.removals_left) {
      answer_.removal_count = live;
      answer_.would_lose.clear();
      return refuse(Status::removal_limit, fmt::format("{} keys would be removed, {} may be", live, batch_.removals_left));
    }
    if (!answer_.would_lose.empty()) return refuse(Status::would_lose, "records that were written here would be lost");
    if (state_->view) state_->view->deaf = true;
    for (Incoming& in : incoming_) {
      if (in.skipped) {
        ++answer_.skipped;
      } else {
        commit(in, s.find(in.at));
      }
    }
    if (state_->view) state_->view->deaf = false;
    for (const Removal& removal : removals_) {
      store_.commit_tombstone(s, removal.at, s.find(removal.at), Deleted::by_repair, Origin{batch_.source_cluster, range.as_of.at}, now_, garbage_);
    }
    answer_.removed = removals_.size() - hidden;
  }
  Mark mark = state_->mark;
  mark.low = mark.high = mark.horizon = range.as_of;
  if (range.final) {
    mark.phase = Phase::stream;
    mark.last_key.reset();
    mark.since.reset();
  } else {
    mark.last_key = range.to;
  }
  finish_mark(std::move(mark));
  keep_view(*state_);
  return true;
}

}  // namespace zaris::store
