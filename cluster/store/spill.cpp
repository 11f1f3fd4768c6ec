#include "cluster/store/spill.hpp"

#include <algorithm>

#include "cluster/store/spill_image.hpp"

namespace zaris::store {
namespace {
constexpr WallMicros untaken_us = 10'000'000;
}

SpillCache::SpillCache(SpillDevice& device, std::size_t bytes_max, std::function<void(SegmentId)> arrived)
    : device_(device), bytes_max_(bytes_max), arrived_(std::move(arrived)) {}

SpillCache::Taken SpillCache::take(SegmentId segment, const SpilledChunk& chunk) {
  Taken out;
  std::vector<std::shared_ptr<const LogChunk>> dying;
  std::vector<std::pair<SegmentId, SpilledChunk>> reads;
  {
    const std::lock_guard hold(lock_);
    auto [at, added] = entries_.try_emplace(chunk.place);
    Entry& entry = at->second;
    if (added) {
      entry.segment = segment;
      entry.chunk = chunk;
      entry.since_us = now_us_;
      wanted_.push_back(chunk.place);
    } else if (entry.state == State::failed) {
      out.failed = std::move(entry.error);
      entries_.erase(at);
    } else if (entry.state == State::loaded) {
      out.chunk = entry.loaded;
      if (entry.taken) {
        used_.splice(used_.end(), used_, entry.used);
      } else {
        entry.taken = true;
        entry.used = used_.insert(used_.end(), chunk.place);
        untaken_bytes_ -= chunk.place.length;
        taken_bytes_ += chunk.place.length;
        evict(dying);
      }
    }
    next_reads(reads);
  }
  begin(reads);
  return out;
}

void SpillCache::evict(std::vector<std::shared_ptr<const LogChunk>>& dying) {
  while (!used_.empty() && taken_bytes_ + untaken_bytes_ > bytes_max_ && (used_.size() > 1 || untaken_bytes_ > 0)) {
    const auto at = entries_.find(used_.front());
    used_.pop_front();
    taken_bytes_ -= at->first.length;
    dying.push_back(std::move(at->second.loaded));
    entries_.erase(at);
  }
}

void SpillCache::next_reads(std::vector<std::pair<SegmentId, SpilledChunk>>& out) {
  while (!wanted_.empty() && (untaken_bytes_ == 0 || untaken_bytes_ + wanted_.front().length <= bytes_max_)) {
    const auto at = entries_.find(wanted_.front());
    wanted_.pop_front();
    if (at == entries_.end() || at->second.state != State::wanted) continue;
    at->second.state = State::reading;
    untaken_bytes_ += at->first.length;
    out.emplace_back(at->second.segment, at->second.chunk);
  }
}

void SpillCache::begin(const std::vector<std::pair<SegmentId, SpilledChunk>>& reads) {
  for (const auto& [segment, chunk] : reads) {
    device_.read(chunk.place, [cache = weak_from_this(), segment = segment, chunk = chunk](Result<std::string> image) {
      if (const auto self = cache.lock()) self->on_read(segment, chunk, std::move(image));
    });
  }
}

void SpillCache::on_read(SegmentId segment, const SpilledChunk& chunk, Result<std::string> image) {
  Result<std::shared_ptr<const LogChunk>> loaded = image ? chunk_from_image(std::move(*image), segment, chunk) : tl::unexpected(std::move(image.error()));
  std::vector<std::shared_ptr<const LogChunk>> dying;
  std::vector<std::pair<SegmentId, SpilledChunk>> reads;
  {
    const std::lock_guard hold(lock_);
    read_bytes_ += chunk.place.length;
    const auto at = entries_.find(chunk.place);
    if (at == entries_.end()) return;
    if (loaded) {
      at->second.state = State::loaded;
      at->second.loaded = std::move(*loaded);
    } else {
      at->second.state = State::failed;
      at->second.error = std::move(loaded.error());
      untaken_bytes_ -= chunk.place.length;
    }
    at->second.since_us = now_us_;
    evict(dying);
    next_reads(reads);
  }
  begin(reads);
  arrived_(segment);
}

void SpillCache::forget_older(WallMicros now) {
  std::vector<std::shared_ptr<const LogChunk>> dying;
  std::vector<std::pair<SegmentId, SpilledChunk>> reads;
  {
    const std::lock_guard hold(lock_);
    now_us_ = now;
    for (auto at = entries_.begin(); at != entries_.end();) {
      Entry& entry = at->second;
      const bool waits = (entry.state == State::loaded && !entry.taken) || entry.state == State::failed;
      if (!waits || now < entry.since_us || now - entry.since_us < untaken_us) {
        ++at;
        continue;
      }
      if (entry.state == State::loaded) untaken_bytes_ -= at->first.length;
      dying.push_back(std::move(entry.loaded));
      at = entries_.erase(at);
    }
    next_reads(reads);
  }
  begin(reads);
}

std::uint64_t SpillCache::bytes() const {
  const std::lock_guard hold(lock_);
  return taken_bytes_ + untaken_bytes_;
}

std::uint64_t SpillCache::read_bytes() const {
  const std::lock_guard hold(lock_);
  return read_bytes_;
}

void SpillWriter::write(SegmentId segment, std::shared_ptr<LogChunk> chunk, bool owned) {
  chunk->leaving = true;
  bytes_ += chunk->footprint_bytes;
  if (owned) owned_bytes_ += chunk->footprint_bytes;
  std::string image = spill_image(segment, *chunk);
  device_.write(std::move(image), [answers = answers_, segment, chunk = std::move(chunk), owned](Result<SpillPlace> place) mutable {
    const std::lock_guard hold(answers->lock);
    answers->done.push_back(Done{segment, std::move(chunk), owned, std::move(place)});
  });
}

void SpillWriter::take_done(std::vector<Done>& out, WallMicros now) {
  out.clear();
  {
    const std::lock_guard hold(answers_->lock);
    std::swap(out, answers_->done);
  }
  for (const Done& done : out) {
    done.chunk->leaving = false;
    bytes_ -= done.chunk->footprint_bytes;
    if (done.owned) owned_bytes_ -= done.chunk->footprint_bytes;
    failed_us_ = done.place ? 0 : now;
  }
}

}  // namespace zaris::store
