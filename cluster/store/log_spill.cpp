// What the maintenance thread does where the log goes on outside memory: chunks that are over the budget go there, oldest first; what is
// over the spill's own bound goes for good, oldest first. Design page record, "Spill".
#include <limits>
#include <queue>

#include "cluster/store/store_impl.hpp"

namespace zaris::store {
namespace {

constexpr int per_call = 256;

using Row = std::pair<WallMicros, std::size_t>;
using Oldest = std::priority_queue<Row, std::vector<Row>, std::greater<>>;

}  // namespace

void StoreImpl::note_spill_fault(const Error& error) const {
  const std::lock_guard hold(spill_fault_lock_);
  spill_fault_ = error.text();
}

std::string StoreImpl::spill_fault() const {
  const std::lock_guard hold(spill_fault_lock_);
  return spill_fault_;
}

// Chunks that lie outside now give their memory back.
void StoreImpl::settle_spill(WallMicros now) {
  spill_cache_->forget_older(now);
  spill_writer_->take_done(spill_done_, now);
  for (SpillWriter::Done& done : spill_done_) {
    if (!done.place) {
      spill_write_failures_.fetch_add(1, std::memory_order_relaxed);
      note_spill_fault(done.place.error());
      continue;  // it stays in memory, and is tried again or trimmed
    }
    spill_written_bytes_.fetch_add(done.place->length, std::memory_order_relaxed);
    Segment& s = segment(done.segment);
    bool taken = false, tell = false;
    {
      const std::lock_guard hold(s.lock);
      if (s.log.oldest() == done.chunk) {
        const std::uint64_t marks = s.mark_versions.now();
        pins_.pass_over(s.id, *done.chunk);
        s.reclaim_tombstones(*done.chunk);
        taken = s.log.spill_oldest(*done.chunk, *done.place);
        tell = options_.cluster_member && s.mark_versions.now() != marks;
      }
    }
    if (!taken) options_.spill->drop(*done.place);
    if (tell) moved(s.id);
  }
  if (!spill_done_.empty()) floors_moved_.store(true, std::memory_order_relaxed);
  spill_done_.clear();
}

void StoreImpl::forget_spilled(Segment& s, Revision through, WallMicros now) {
  const std::lock_guard hold(s.lock);
  const auto newest = s.log.spilled_with(Revision{std::min(through.value(), s.log.memory_floor().value() - 1)});
  if (!newest) return;
  (void)pins_.let_go(s.id, newest->last(), now, options_.log_pin_age_us, true);
  trimmed_records_.fetch_add(s.log.forget_spilled(newest->last()), std::memory_order_relaxed);
  s.log_complete_since_us = std::max(s.log_complete_since_us, newest->last_commit_us);
}

bool StoreImpl::bound_spill(WallMicros now) {
  const auto held = [this] { return log_share_.spilled_bytes.load(std::memory_order_relaxed); };
  if (held() <= options_.spill_bytes) return false;
  Oldest oldest;
  const auto look = [&](std::size_t i) {
    if (const auto chunk = segments_[i]->log.oldest_spilled()) oldest.emplace(chunk->last_commit_us, i);
  };
  for (std::size_t i = 0; i < segments_.size(); ++i) look(i);
  for (int n = 0; held() > options_.spill_bytes && !oldest.empty(); ++n) {
    if (n >= per_call) return true;
    const std::size_t i = oldest.top().second;
    oldest.pop();
    const auto chunk = segments_[i]->log.oldest_spilled();
    if (!chunk) continue;
    forget_spilled(*segments_[i], chunk->last(), now);
    look(i);
  }
  return false;
}

void StoreImpl::spill(Segment& s, std::shared_ptr<LogChunk> chunk) {
  {
    const std::lock_guard hold(s.lock);
    s.log.seal(*chunk);
  }
  spill_writer_->write(s.id, std::move(chunk), s.owned());
}

bool StoreImpl::spill_out(WallMicros now) {
  const auto staying = [this] {
    const std::uint64_t held = log_share_.bytes.load(std::memory_order_relaxed);
    return held - std::min(held, spill_writer_->owned_bytes());
  };
  if (staying() <= options_.log_budget_bytes) return false;
  Oldest oldest;
  const auto look = [&](std::size_t i) {
    if (!segments_[i]->owned()) return;
    if (const auto chunk = segments_[i]->log.first_staying()) oldest.emplace(chunk->last_commit_us.load(std::memory_order_relaxed), i);
  };
  for (std::size_t i = 0; i < segments_.size(); ++i) look(i);
  for (int n = 0; staying() > options_.log_budget_bytes && !oldest.empty(); ++n) {
    if (n >= per_call) return true;
    if (spill_writer_->bytes() >= spill_slack_ || !spills(now)) return false;  // the answers go first
    const std::size_t i = oldest.top().second;
    oldest.pop();
    auto chunk = segments_[i]->log.first_staying();
    if (!chunk) continue;
    spill(*segments_[i], std::move(chunk));
    look(i);
  }
  return false;
}

}  // namespace zaris::store
