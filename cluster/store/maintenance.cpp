// What the maintenance thread does, a bounded amount per call: expiry, eviction, trimming the log.
#include <algorithm>
#include <limits>
#include <queue>

#include "cluster/store/store_impl.hpp"

namespace zaris::store {

bool StoreImpl::sweep_expiry(WallMicros now) {
  constexpr std::size_t per_hold = 64;
  constexpr std::size_t per_call = 4096;
  constexpr WallMicros look_again_us = 30'000'000;  // what lies in a standby scope is the source's to remove
  constexpr WallMicros owner_removes_us = 1'000'000;  // what is not owned is kept in sight for the day when it will be
  std::vector<ExpiryEntry> due;
  std::size_t left = per_call;
  bool more = false;
  for (const auto& segment : segments_) {
    Segment& s = *segment;
    if (left == 0) return true;
    due.clear();
    Garbage garbage;
    bool changed = false;
    {
      const std::lock_guard hold(s.lock);
      s.wheel.take_due(now, std::min(per_hold, left), due);
      for (const ExpiryEntry& entry : due) {
        SlotTable& table = s.table(entry.slot);
        table.visit_hash(entry.hash, [&](Word* word) {
          if ((*word & word_tombstone) != 0 || (*word & word_expires) == 0) return;
          const Held h = held(*word);
          const WallMicros expires_us = expiry_of(*word, h);
          if (expires_us > now) {
            s.wheel.add(entry.slot, entry.hash, expires_us);  // overwritten with a later one since
            return;
          }
          if (!s.owned()) {
            s.wheel.add(entry.slot, entry.hash, now + owner_removes_us);
            return;
          }
          const KeyPlace at{h.key(), entry.hash, entry.slot, s.id};
          if (links_.standby(entry.slot, at.key)) {
            s.wheel.add(entry.slot, entry.hash, now + look_again_us);
            return;
          }
          commit_tombstone(s, at, word, Deleted::by_expiry, std::nullopt, now, garbage);
          ++s.counters.expired;
          changed = true;
        });
      }
      s.counters.expiry_backlog = s.wheel.backlog(now);
      more = more || s.counters.expiry_backlog != 0;
      report_memory(s);
    }
    left -= due.size();
    if (changed) moved(s.id);
  }
  return more;
}

bool StoreImpl::evict_one(WallMicros now) {
  constexpr unsigned samples = 8;
  const std::uint32_t count = options_.segments;
  std::uint64_t random = mix(random_.fetch_add(1, std::memory_order_relaxed));
  const auto start = static_cast<std::uint32_t>(random % count);
  for (std::uint32_t k = 0; k < count; ++k) {
    Segment& s = *segments_[(start + k) % count];
    Garbage garbage;
    {
      const std::lock_guard hold(s.lock);
      if (!s.owned() || s.live == 0) continue;
      Word* oldest = nullptr;
      std::uint64_t oldest_hash = 0;
      unsigned oldest_age = 0, seen = 0;
      Slot oldest_slot;
      const unsigned clock = (now >> 26) & 0xff;
      random = mix(random);
      const auto from = static_cast<std::uint32_t>(random % s.slots);
      for (std::uint32_t i = 0; i < s.slots && seen < samples; ++i) {
        const Slot slot{static_cast<std::uint16_t>(s.first.value() + (from + i) % s.slots)};
        SlotTable& table = s.table(slot);
        if (table.live == 0) continue;
        for (unsigned n = 0; n < std::min<unsigned>(table.live, samples - seen); ++n) {
          random = mix(random);
          std::uint64_t hash = 0;
          Word* word = table.sample(random, hash);
          if (word == nullptr || (*word & word_tombstone) != 0) continue;
          if (links_.standby(slot, key_at(record_of(*word)))) continue;
          const unsigned age = (clock - static_cast<unsigned>((*word & word_clock) >> word_clock_shift)) & 0xff;
          ++seen;
          if (oldest != nullptr && age <= oldest_age) continue;
          oldest = word;
          oldest_hash = hash;
          oldest_age = age;
          oldest_slot = slot;
        }
      }
      if (oldest == nullptr) continue;
      const KeyPlace at{key_at(record_of(*oldest)), oldest_hash, oldest_slot, s.id};
      commit_tombstone(s, at, oldest, Deleted::by_eviction, std::nullopt, now, garbage);
      ++s.counters.evicted;
      used_.fetch_add(s.unreported_bytes, std::memory_order_relaxed);  // at once: the caller waits for it
      s.unreported_bytes = 0;
    }
    moved(s.id);
    return true;
  }
  return false;
}

bool StoreImpl::evict(WallMicros now) {
  constexpr int per_call = 256;
  if (!options_.evict) return false;
  const std::uint64_t start = options_.memory_max_bytes / 10 * 8, stop = options_.memory_max_bytes / 10 * 7;
  if (used() > start) evicting_ = true;
  for (int i = 0; i < per_call && evicting_; ++i) {
    if (used() <= stop || !evict_one(now)) evicting_ = false;
  }
  return evicting_;
}

StoreImpl::Trim StoreImpl::trim_oldest(Segment& s, WallMicros now, bool force_pins, Whose whose) {
  std::shared_ptr<const LogChunk> chunk;  // freed, unless a reader holds it, after the lock
  std::unique_lock hold(s.lock);
  // A term may have begun since the caller looked: from then on the log is bounded by the budget alone.
  if (whose == Whose::others && s.owned()) return Trim::not_yet;
  chunk = s.log.oldest();
  if (!chunk) return Trim::empty;
  const Revision last = chunk->last();
  if (!s.owned() && last >= (force_pins ? s.owner_memory_floor : s.owner_floor)) return Trim::not_yet;
  for (const WalkClaim* walk : s.walks) {
    if (walk->keeps_above < last && !force_pins) return Trim::kept;
  }
  pins_.pass_over(s.id, *chunk);
  if (!pins_.let_go(s.id, last, now, options_.log_pin_age_us, force_pins)) return Trim::kept;
  const bool tells = options_.cluster_member && chunk->tombstones != 0;
  const std::uint64_t marks = tells ? s.mark_versions.now() : 0;
  s.reclaim_tombstones(*chunk);
  trimmed_records_.fetch_add(chunk->count(), std::memory_order_relaxed);
  if (spill_writer_ && s.owned()) spill_passed_by_.fetch_add(chunk->count(), std::memory_order_relaxed);
  chunk = s.log.drop_oldest();
  s.log_complete_since_us = std::max(s.log_complete_since_us, chunk->last_commit_us.load(std::memory_order_relaxed));
  if (tells && s.mark_versions.now() != marks) {
    hold.unlock();
    moved(s.id);
  }
  return Trim::gone;
}

// Whatever the budget: it is about what is owned, and the owner has trimmed this already.
bool StoreImpl::trim_replicas(WallMicros now) {
  int left = 256;  // per call
  if (!floors_moved_.exchange(false, std::memory_order_relaxed)) return false;
  for (const auto& s : segments_) {
    if (s->owned()) continue;
    if (trim_replica(*s, now, left)) floors_moved_.store(true, std::memory_order_relaxed);
    if (left <= 0) return true;
  }
  return false;
}

// True: it is worth another look later.
bool StoreImpl::trim_replica(Segment& s, WallMicros now, int& left) {
  if (spill_writer_) {
    Revision floor;
    {
      const std::lock_guard hold(s.lock);
      if (s.owned()) return false;
      floor = s.owner_floor;
    }
    if (const auto oldest = s.log.oldest_spilled(); oldest && oldest->last() < floor) {
      // Whole chunks only.
      Revision through = oldest->first;
      while (const auto next = s.log.spilled_with(through)) {
        if (next->last() >= floor) break;
        through = next->last().next();
      }
      s.log.forget_spilled(Revision{through.value() - 1});
    }
  }
  Trim trim = Trim::gone;
  while (left > 0 && (trim = trim_oldest(s, now, false, Whose::others)) == Trim::gone) --left;
  if (trim == Trim::gone || trim == Trim::kept) return true;
  // What the owner has in memory no more.
  if (!spills(now)) {
    while (left > 0 && (trim = trim_oldest(s, now, true, Whose::others)) == Trim::gone) --left;
    return trim == Trim::gone;
  }
  for (auto chunk = s.log.first_staying(); chunk; chunk = s.log.first_staying()) {
    {
      const std::lock_guard hold(s.lock);
      if (s.owned() || chunk->last() >= s.owner_memory_floor) return false;
    }
    if (left-- <= 0 || spill_writer_->bytes() >= spill_slack_) return true;
    spill(s, std::move(chunk));
  }
  return false;
}

bool StoreImpl::trim_log(WallMicros now) {
  constexpr int per_call = 256;
  if (write_rate_.due(now)) {
    const std::uint64_t of = owned_changes_.load(std::memory_order_relaxed);
    std::uint64_t appended = 0;
    for (const auto& s : segments_) {
      if (s->owned()) appended += s->log.bytes_total();
    }
    write_rate_.sample(appended, of, now);
  }
  bool more = false;
  if (spill_writer_) {
    settle_spill(now);
    more = bound_spill(now);
  }
  more = (options_.cluster_member && trim_replicas(now)) || more;
  if (spills(now)) more = spill_out(now) || more;
  // What is on its way out is in memory still, up to a bound; a spill that cannot follow is gone past.
  const std::uint64_t budget = options_.log_budget_bytes + (spills(now) ? spill_slack_ : 0);
  const auto held = [this] { return log_share_.bytes.load(std::memory_order_relaxed); };
  if (held() <= budget) return more;
  using Row = std::pair<WallMicros, std::size_t>;
  std::priority_queue<Row, std::vector<Row>, std::greater<>> oldest;
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    if (options_.cluster_member && !segments_[i]->owned()) continue;
    const WallMicros at = segments_[i]->log.oldest_commit();
    if (at != std::numeric_limits<WallMicros>::max()) oldest.emplace(at, i);
  }
  std::vector<std::size_t> kept;  // oldest first
  int dropped = 0;
  while (held() > budget && !oldest.empty() && dropped < per_call) {
    const auto [at, i] = oldest.top();
    oldest.pop();
    switch (trim_oldest(*segments_[i], now, false)) {
      case Trim::kept: kept.push_back(i); continue;
      case Trim::not_yet: continue;
      case Trim::empty: continue;
      case Trim::gone: break;
    }
    ++dropped;
    if (const WallMicros next = segments_[i]->log.oldest_commit(); next != std::numeric_limits<WallMicros>::max()) oldest.emplace(next, i);
  }
  if (held() > budget && dropped >= per_call) return true;
  // What is left is held by pins and walks; past the hard ceiling they lose their places, the oldest first.
  for (const std::size_t i : kept) {
    while (held() > options_.log_pin_bytes && held() > budget) {
      if (dropped++ >= 2 * per_call) return true;
      if (trim_oldest(*segments_[i], now, true) != Trim::gone) break;
    }
  }
  return more;
}

void StoreImpl::trim_log_hard(SegmentId id) {
  if (spill_writer_) forget_spilled(segment(id), Revision{~std::uint64_t{0}}, 0);
  while (trim_oldest(segment(id), 0, false) == Trim::gone) {
  }
}

}  // namespace zaris::store
