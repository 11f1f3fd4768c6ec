// Kind repair: just the keys whose newest writes the source has lost become what they are there. Design page follower, "Repair".
#include <fmt/format.h>

#include "cluster/store/applier.hpp"

namespace zaris::store {

bool Applier::check_repair() {
  const Mark& mark = state_->mark;
  const ApplyRepair& repair = *batch_.repair;
  // What a walk has not covered yet holds whatever it held: a list of keys says nothing of it.
  if (mark.phase == Phase::bootstrap || !mark.low || !mark.high) return refuse(Status::invalid_argument, "a repair of a mark in bootstrap");
  if (repair.as_of.at.generation <= repair.surviving.at.generation) {
    return refuse(Status::invalid_argument, fmt::format("as of {}, which is of no later generation than what survived, {}", to_string(repair.as_of.at), to_string(repair.surviving.at)));
  }
  // Up to the horizon an absence has left no tombstone, so that the log does not name all that is to be put right.
  if (mark.phase == Phase::stream && mark.horizon && repair.surviving.at < mark.horizon->at) {
    return refuse(Status::invalid_argument, fmt::format("{} survived, below the mark's horizon {}", to_string(repair.surviving.at), to_string(mark.horizon->at)));
  }
  if (mark.phase == Phase::repair && mark.horizon && repair.as_of.at < mark.horizon->at) {
    return refuse(Status::invalid_argument, fmt::format("as of {}, below {} of the batch before", to_string(repair.as_of.at), to_string(mark.horizon->at)));
  }
  for (std::size_t i = 0; i < incoming_.size(); ++i) {
    const Incoming& in = incoming_[i];
    if (in.deleted != Deleted::no && in.deleted != Deleted::by_repair) return refuse(Status::invalid_argument, fmt::format("record {}: a tombstone of the source's own in a repair", i));
    if (in.deleted == Deleted::no && in.source > repair.as_of.at) return refuse(Status::invalid_argument, fmt::format("record {}: newer than the repair", i));
    if (i == 0) continue;
    const KeyPlace& before = incoming_[i - 1].at;
    if (in.at.slot < before.slot || (in.at.slot == before.slot && in.at.key <= before.key)) {
      return refuse(Status::invalid_argument, fmt::format("record {}: not in (slot, key) order", i));
    }
  }
  return true;
}

bool Applier::apply_repair() {
  const ApplyRepair& repair = *batch_.repair;
  Segment& s = *segment_;
  std::uint64_t taken = 0;  // live records that go or become older ones
  for (Incoming& in : incoming_) {
    const Word* old = s.find(in.at);
    const bool there = old != nullptr && (*old & word_tombstone) == 0;
    if (!there) {
      in.skipped = in.deleted != Deleted::no;  // absent on both sides
      continue;
    }
    const Held h = held(*old);
    const bool same = in.deleted == Deleted::no && h.entry() == in.entry && h.trailer().item_version() == in.item_version;
    const WallMicros expires_us = expiry_of(*old, h);
    const bool hidden = expires_us != 0 && expires_us <= now_;  // there for nobody: nobody's loss
    if (!same && !hidden) ++taken;
    if ((*old & word_foreign) != 0) {
      in.skipped = same && h.trailer().origin() == Origin{batch_.source_cluster, in.source};
    } else if (!same && !hidden) {
      ++answer_.conflicts;
      note_loss(in.at, *old);
    }
  }
  if (taken > batch_.removals_left) {
    answer_.removal_count = taken;
    answer_.would_lose.clear();
    return refuse(Status::removal_limit, fmt::format("{} keys would be removed or rolled back, {} may be", taken, batch_.removals_left));
  }
  if (!answer_.would_lose.empty()) return refuse(Status::would_lose, "records that were written here would be lost");
  for (Incoming& in : incoming_) {
    if (in.skipped) {
      ++answer_.skipped;
    } else if (in.deleted == Deleted::no) {
      commit(in, s.find(in.at));
    } else {
      store_.commit_tombstone(s, in.at, s.find(in.at), Deleted::by_repair, Origin{batch_.source_cluster, repair.as_of.at}, now_, garbage_);
      ++answer_.removed;
    }
  }
  Mark mark = state_->mark;
  mark.horizon = mark.horizon ? later(*mark.horizon, repair.as_of) : repair.as_of;
  mark.high = later(*mark.high, repair.as_of);
  mark.phase = repair.final ? Phase::stream : Phase::repair;
  if (repair.final) {
    if (repair.surviving.at < mark.low->at) mark.low = repair.surviving;
    mark.high = later(repair.surviving, *mark.horizon);
  }
  finish_mark(std::move(mark));
  return true;
}

}  // namespace zaris::store
