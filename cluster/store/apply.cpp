#include <algorithm>
#include <fmt/format.h>
#include <mutex>

#include "cluster/record/record_table.hpp"
#include "cluster/store/applier.hpp"

namespace zaris::store {
namespace {

constexpr std::size_t ahead = 16;  // records whose memory is asked for before it is needed

std::string show(const std::optional<NamedPosition>& p) { return p ? to_string(p->at) : "nothing"; }

}  // namespace

ApplyAnswer StoreImpl::apply(const ApplyBatch& batch, WallMicros now) { return Applier(*this, batch, now).run(); }

Applier::Applier(StoreImpl& store, const ApplyBatch& batch, WallMicros now) : store_(store), batch_(batch), now_(now) {}

bool Applier::refuse(Status status, std::string reason) {
  answer_.status = status;
  answer_.reason = std::move(reason);
  return false;
}

void Applier::refuse_record(std::size_t index, Status status, std::string reason) {
  if (answer_.refused_index) return;
  answer_.refused_index = static_cast<std::uint32_t>(index);
  answer_.refused_status = status;
  deferred_reason_ = std::move(reason);
}

bool Applier::decode() {
  if (batch_.target_segment.value() >= store_.options_.segments) return refuse(Status::invalid_argument, "no such segment here");
  segment_ = store_.segments_[batch_.target_segment.value()].get();
  if (!table_fits(batch_.table, batch_.records.size())) return refuse(Status::invalid_argument, "the table does not fit the records");
  const std::size_t n = row_count(batch_.table);
  const bool ranged = batch_.kind == ApplyKind::range || batch_.kind == ApplyKind::check || is_delta();
  if (ranged && !batch_.range) return refuse(Status::invalid_argument, "kind range, delta or check without a range");
  if (is_delta() && (!batch_.range->equal || batch_.range->equal->names.size() % sizeof(std::uint32_t) != 0)) {
    return refuse(Status::invalid_argument, "kind delta without a count, digest and names of the keys that did not change");
  }
  if (batch_.kind == ApplyKind::repair && !batch_.repair) return refuse(Status::invalid_argument, "kind repair without a repair");
  if (n != 0 && (batch_.kind == ApplyKind::open || (batch_.range && batch_.range->equal && !is_delta()))) {
    return refuse(Status::invalid_argument, "this kind of batch carries no records");
  }
  incoming_.resize(n);
  const char* p = batch_.records.data();
  for (std::size_t i = 0; i < n; ++i) {
    const RecordRow row = read_row(batch_.table, i);
    const std::string_view bytes(p, row.length);
    p += row.length;
    auto parsed = parse_record(bytes);
    if (!parsed) return refuse(Status::invalid_argument, fmt::format("record {}: {}", i, parsed.error().what));
    const RecordView& r = *parsed;
    Incoming& in = incoming_[i];
    if ((static_cast<std::uint8_t>(r.entry[0]) & 0xf0) != 0x90) {
      return refuse(Status::invalid_argument, fmt::format("record {}: an entry of more than 15 places", i));
    }
    in.at = store_.place(r.key);
    if (in.at.slot != row.slot || in.at.segment != batch_.target_segment) {
      return refuse(Status::invalid_argument, fmt::format("record {}: its key belongs into slot {} of segment {}", i, in.at.slot.value(), in.at.segment.value()));
    }
    if (ranged && !r.live()) return refuse(Status::invalid_argument, fmt::format("record {}: a tombstone in a range", i));
    in.entry = r.entry;
    in.source = r.position();
    in.item_version = r.item_version;
    in.timestamp_us = r.timestamp_us;
    in.expires_us = r.expires_us;
    in.deleted = r.deleted;
    if (r.key.size() > store_.options_.key_bytes_max || r.value.size() > store_.options_.value_bytes_max) {
      refuse_record(i, Status::item_too_large,
                    fmt::format("record {}: key of {} and value of {} bytes; the limits here are {} and {}", i, r.key.size(), r.value.size(),
                                store_.options_.key_bytes_max, store_.options_.value_bytes_max));
    }
  }
  if (answer_.refused_index) return true;  // nothing will be applied: nothing is made
  for (Incoming& in : incoming_) {
    if (only_reads()) break;
    in.block = Block(wrapped_size(in.entry.size(), true));
    RecordHeader header;
    header.origin = Origin{batch_.source_cluster, in.source};
    wrap_entry(in.block.data(), in.entry, header);
  }
  for (std::size_t i = 0; i < batch_.may_lose.size(); ++i) may_lose_.emplace(batch_.may_lose[i], i < batch_.may_lose_names.size() ? batch_.may_lose_names[i] : 0);
  if (ranged) index_incoming();
  return true;
}

bool Applier::admit() {
  links_ = store_.links_.table();
  link_ = find_link(*links_, batch_.link);
  if (link_ == nullptr) return refuse(Status::mark_gap, "the link is not open here");
  if (batch_.scope != link_->scope.id()) return refuse(Status::scope_mismatch, "the link was opened with another scope");
  if (batch_.site_epoch != link_->site_epoch) {
    return refuse(Status::epoch_superseded, fmt::format("site epoch {}; here it is {}", batch_.site_epoch.value(), link_->site_epoch.value()));
  }
  if (batch_.source_cluster != link_->source_cluster) return refuse(Status::source_changed, "the link was opened for another source");
  key_ = MarkKey{std::string(batch_.link), batch_.scope, batch_.source_segment};
  // One of an earlier registration came with its segment, from a node that had not heard that the link was dropped.
  if (auto it = segment_->marks.find(key_); it != segment_->marks.end() && it->second.mark.registered_us != link_->registered_us) segment_->erase_mark(it);
  if (auto it = segment_->marks.find(key_); it != segment_->marks.end()) {
    state_ = &it->second;
    answer_.mark = state_->mark;
  }
  const FollowerTerm newest = state_ != nullptr ? std::max(state_->mark.follower_term, link_->follower_term) : link_->follower_term;
  if (batch_.follower_term < newest) {
    return refuse(Status::term_superseded, fmt::format("follower term {} is older than {}", batch_.follower_term.value(), newest.value()));
  }
  if (state_ != nullptr && batch_.kind != ApplyKind::open && state_->mark.history != batch_.history) {
    return refuse(Status::source_changed, "the mark is of another history");
  }
  const std::optional<MarkToken> stands = state_ != nullptr ? std::optional(state_->mark.token) : std::nullopt;
  if (stands != batch_.expected) return refuse(Status::mark_gap, "the mark has another token");
  if (state_ == nullptr && batch_.kind != ApplyKind::open) return refuse(Status::mark_gap, "no mark was opened");

  // Which of our slots are the source segment's.
  // Where the source has no more segments than we, ours lies in one of its whole and nothing is clipped.
  const std::uint32_t theirs = batch_.source_segments;
  if (theirs != 0 && (!valid_segment_count(theirs) || batch_.source_segment.value() >= theirs)) {
    return refuse(Status::invalid_argument, fmt::format("segment {} of a source with {} segments", batch_.source_segment.value(), theirs));
  }
  std::uint32_t first = segment_->first.value(), end = first + segment_->slots;
  if (theirs != 0) {
    const std::uint32_t begins = first_slot(batch_.source_segment, theirs).value();
    first = std::max(first, begins);
    end = std::min(end, begins + slots_per_segment(theirs));
  }
  if (first >= end) return refuse(Status::invalid_argument, "the source segment has no slot in this target segment");
  first_ = Slot{static_cast<std::uint16_t>(first)};
  last_ = Slot{static_cast<std::uint16_t>(end - 1)};
  for (std::size_t i = 0; i < incoming_.size(); ++i) {
    const KeyPlace& at = incoming_[i].at;
    if (at.slot < first_ || at.slot > last_) return refuse(Status::invalid_argument, fmt::format("record {}: not of that source segment", i));
    if (!link_->scope.has(at.slot, at.key)) return refuse(Status::invalid_argument, fmt::format("record {}: outside the link's scope", i));
  }
  if (state_ != nullptr && state_->mark.low && batch_.prev && batch_.prev->at > state_->mark.low->at) {
    return refuse(Status::invalid_argument, fmt::format("the run starts at {}, above the mark's low {}", show(batch_.prev), show(state_->mark.low)));
  }
  return true;
}

bool Applier::check_stream() {
  const Mark& mark = state_->mark;
  if (!batch_.prev || !batch_.last) return refuse(Status::invalid_argument, "a stream batch names where it starts and ends");
  if (!mark.low || mark.phase == Phase::repair) return refuse(Status::invalid_argument, "the mark covers nothing that a stream could go on from");
  if (batch_.last->at < batch_.prev->at) return refuse(Status::invalid_argument, "the run ends before it starts");
  Position before = batch_.prev->at;
  for (std::size_t i = 0; i < incoming_.size(); ++i) {
    if (incoming_[i].source <= before || incoming_[i].source > batch_.last->at) {
      return refuse(Status::invalid_argument, fmt::format("record {}: {} does not follow {} within the run", i, to_string(incoming_[i].source), to_string(before)));
    }
    before = incoming_[i].source;
  }
  return true;
}

bool Applier::check_range() {
  const Mark& mark = state_->mark;
  const ApplyRange& range = *batch_.range;
  if (mark.phase != Phase::bootstrap) return refuse(Status::invalid_argument, "a range for a mark that is not in bootstrap");
  if (mark.low && range.as_of.at < mark.low->at) {
    return refuse(Status::invalid_argument, fmt::format("as of {}, below the mark's low {}", to_string(range.as_of.at), show(mark.low)));
  }
  if (range.from && range.to && *range.to < *range.from) return refuse(Status::invalid_argument, "the range ends before it starts");
  if (!range.to && !range.final) return refuse(Status::invalid_argument, "a range to the end that is not the last");
  // Everything up to `from` must be covered. No key of ours lies at or before (first slot, empty key), but the empty key itself.
  const bool from_start = !range.from || range.from->slot < first_ || (range.from->slot == first_ && range.from->key.empty() && first_.value() != 0);
  if (!from_start && (!mark.last_key || *range.from > *mark.last_key)) {
    return refuse(Status::invalid_argument, "the range begins above the last key covered");
  }
  return records_in_range();
}

void Applier::note_loss(const KeyPlace& at, Word word) {
  if (const auto named = may_lose_.find(at.key); named != may_lose_.end()) {
    if (named->second == 0 && lost_.size() < would_lose_max && !batch_.may_lose_names.empty()) lost_.push_back(LostRecord{std::string(at.key), std::string(held(word).bytes())});
    if (named->second == 0 || named->second == record_name(held(word).bytes())) return;
  }
  if (answer_.would_lose.size() >= would_lose_max) return;
  answer_.would_lose.push_back(LostRecord{std::string(at.key), std::string(held(word).bytes())});
}

void Applier::commit(Incoming& in, Word* old) {
  if (old != nullptr && (*old & word_tombstone) == 0) ++answer_.replaced;
  segment_->commit(Change{in.at, in.block, in.deleted, in.item_version, in.timestamp_us, Origin{batch_.source_cluster, in.source}, in.expires_us}, old,
                   now_, garbage_);
  ++answer_.applied;
  ++segment_->counters.applied;
}

void Applier::finish_mark(Mark mark) {
  mark.token = MarkToken{segment_->generation, batch_.session, state_ != nullptr ? state_->mark.token.number + 1 : 1};
  mark.follower_term = batch_.follower_term;
  mark.site_epoch = batch_.site_epoch;
  mark.registered_us = link_->registered_us;
  mark.closed_time_us = std::max(mark.closed_time_us, batch_.closed_time_us);
  if (state_ == nullptr) {
    state_ = &segment_->marks[key_];
    segment_->mark_versions.there(key_);
  }
  state_->first = first_;  // not known of a mark that came here with its segment
  state_->last = last_;
  state_->mark = std::move(mark);
  segment_->changed(*state_);
  answer_.mark = state_->mark;
}

void Applier::apply_open() {
  if (state_ != nullptr) segment_->drop_view(*state_);
  Mark mark;
  mark.source_cluster = batch_.source_cluster;
  mark.history = batch_.history;
  mark.phase = Phase::bootstrap;
  mark.since = batch_.prev;
  finish_mark(std::move(mark));
}

bool Applier::apply_stream() {
  Mark mark = state_->mark;
  const Position low = mark.low->at, high = mark.high->at;
  // First pass: what is skipped, and who would lose something. It touches what the second pass needs.
  Segment& s = *segment_;
  const std::size_t n = incoming_.size();
  for (std::size_t i = 0; i < n + 2 * ahead; ++i) {
    if (i < n) s.table(incoming_[i].at.slot).prefetch(incoming_[i].at.hash);
    if (i >= ahead && i - ahead < n) s.table(incoming_[i - ahead].at.slot).prefetch_record(incoming_[i - ahead].at.hash);
    if (i < 2 * ahead) continue;
    Incoming& in = incoming_[i - 2 * ahead];
    if (in.source <= low) {
      in.skipped = true;
      continue;
    }
    if (mark.phase == Phase::bootstrap && mark.last_key &&
        (in.at.slot > mark.last_key->slot || (in.at.slot == mark.last_key->slot && in.at.key > mark.last_key->key))) {
      in.skipped = true;  // the range that will cover it brings it
      continue;
    }
    const Word* old = s.find(in.at);
    if (old == nullptr) continue;
    if ((*old & word_foreign) != 0) {
      if (in.source <= high) {  // only after a repair: what the repair fetched may be newer than the stream
        const Origin origin = held(*old).trailer().origin();
        if (origin.cluster == batch_.source_cluster && origin.at >= in.source) in.skipped = true;
      }
      continue;
    }
    const Held h = held(*old);
    if ((*old & word_tombstone) == 0 && h.entry() == in.entry && h.trailer().item_version() == in.item_version) continue;
    ++answer_.conflicts;
    if ((*old & word_tombstone) == 0) note_loss(in.at, *old);
  }
  if (!answer_.would_lose.empty()) return refuse(Status::would_lose, "records that were written here would be lost");
  for (Incoming& in : incoming_) {
    if (in.skipped) {
      ++answer_.skipped;
      continue;
    }
    commit(in, s.find(in.at));
  }
  mark.low = later(*mark.low, *batch_.last);
  mark.high = later(*mark.high, *batch_.last);
  finish_mark(std::move(mark));
  return true;
}

ApplyAnswer Applier::run() {
  if (!decode()) return std::move(answer_);
  bool changed = false;
  {
    const std::lock_guard hold(segment_->lock);
    answer_.target_generation = segment_->generation;
    bool good = segment_->owned() ? admit() : refuse(StoreImpl::write_refused(*segment_), "the segment is not owned here");
    if (good) {
      if (batch_.kind == ApplyKind::stream) good = check_stream();
      if (batch_.kind == ApplyKind::range || is_delta()) good = check_range();
      if (batch_.kind == ApplyKind::repair) good = check_repair();
      if (batch_.kind == ApplyKind::check) good = check_check();
    }
    if (good && answer_.refused_index) good = refuse(answer_.refused_status, deferred_reason_);
    if (good && !incoming_.empty() && !only_reads() && store_.used() + batch_.records.size() > store_.options_.memory_max_bytes) {
      refuse_record(0, Status::capacity_exceeded, "");
      good = refuse(Status::capacity_exceeded, fmt::format("the memory ceiling of {} bytes is reached", store_.options_.memory_max_bytes));
    }
    if (good) {
      if (batch_.kind == ApplyKind::open) apply_open();
      if (batch_.kind == ApplyKind::stream) good = apply_stream();
      if (batch_.kind == ApplyKind::range || is_delta()) good = apply_range();
      if (batch_.kind == ApplyKind::repair) good = apply_repair();
      if (batch_.kind == ApplyKind::check) good = apply_check();
    }
    if (good && !lost_.empty()) answer_.would_lose = std::move(lost_);
    if (!good) {
      if (answer_.status != answer_.refused_status) answer_.refused_index.reset();
      answer_.applied = answer_.skipped = answer_.replaced = answer_.removed = answer_.conflicts = 0;
    }
    // Where there may be replicas, they are told of marks too.
    changed = good && (answer_.applied + answer_.removed != 0 || store_.options_.cluster_member);
    answer_.target_position = segment_->head();
    answer_.marks_version = segment_->mark_versions.now();
    store_.report_memory(*segment_);
  }
  if (changed) store_.moved(batch_.target_segment);
  return std::move(answer_);
}

}  // namespace zaris::store
