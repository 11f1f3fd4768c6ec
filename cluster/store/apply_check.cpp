// Kind check: does the target hold of a range just what the source has there, as of the place where the mark stands? Nothing is told from running
// digests: the records' bytes are read. Design page follower, "Verify".
#include <fmt/format.h>
#include <set>

#include "cluster/store/applier.hpp"

namespace zaris::store {

bool Applier::check_check() {
  const Mark& mark = state_->mark;
  const ApplyRange& range = *batch_.range;
  if (mark.phase != Phase::stream || !mark.low || mark.low != mark.high) return refuse(Status::invalid_argument, "a check of a mark that is not in step");
  if (mark.low->at != range.as_of.at) {
    return refuse(Status::invalid_argument, fmt::format("a check as of {}; the mark stands at {}", to_string(range.as_of.at), to_string(mark.low->at)));
  }
  if (range.from && range.to && *range.to < *range.from) return refuse(Status::invalid_argument, "the range ends before it starts");
  return records_in_range();
}

bool Applier::apply_check() {
  const ApplyRange& range = *batch_.range;
  Segment& s = *segment_;
  if (range.equal) {
    answer_.differing = range_equals() ? 0 : 1;
    finish_mark(state_->mark);
    keep_view(*state_);
    return true;
  }
  const auto differs = [&](const KeyPlace& at, const Word* here) {
    ++answer_.differing;
    if (here != nullptr) note_loss(at, *here);
    else if (!range.mend && answer_.would_lose.size() < would_lose_max) answer_.would_lose.push_back(LostRecord{std::string(at.key), {}});
  };
  std::uint64_t taken = 0;  // live records that a mend would remove or replace
  std::set<Slot> slots;
  each_in_range([&](Slot slot, Word word) {
    slots.insert(slot);
    const std::string_view key = key_at(record_of(word));
    const std::uint64_t hash = hash_of(key);
    if (has_incoming(hash, key)) return;
    const KeyPlace at{key, hash, slot, s.id};
    removals_.push_back(Removal{at});
    ++taken;
    differs(at, &word);
  });
  for (Incoming& in : incoming_) {
    const Word* old = s.find(in.at);
    slots.insert(in.at.slot);
    if (old == nullptr || (*old & word_tombstone) != 0) {
      differs(in.at, nullptr);
      continue;
    }
    const Held h = held(*old);
    in.skipped = h.entry() == in.entry && h.trailer().item_version() == in.item_version;
    if (in.skipped) continue;
    ++taken;
    differs(in.at, old);
  }
  for (const Slot slot : slots) answer_.memory_slots += s.table(slot).digest != content_digest(s.table(slot)) ? 1 : 0;
  if (range.mend && taken > batch_.removals_left) {
    answer_.removal_count = taken;  // an operator is to look at this first: nothing is changed
    answer_.would_lose.clear();
  } else if (range.mend) {
    if (!answer_.would_lose.empty()) return refuse(Status::would_lose, "records here differ from the source's");
    mend();
    // Bytes that had changed in memory have gone into the running digest of their slot as what they had become.
    for (const Slot slot : slots) s.table(slot).digest = content_digest(s.table(slot));
  }
  finish_mark(state_->mark);
  return true;
}

void Applier::mend() {
  for (Incoming& in : incoming_) {
    if (!in.skipped) commit(in, segment_->find(in.at));
  }
  for (const Removal& removal : removals_) {
    store_.commit_tombstone(*segment_, removal.at, segment_->find(removal.at), Deleted::by_repair, Origin{batch_.source_cluster, batch_.range->as_of.at}, now_, garbage_);
  }
  answer_.removed = removals_.size();
}

}  // namespace zaris::store
