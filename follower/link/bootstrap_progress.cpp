#include "follower/link/bootstrap_progress.hpp"

#include <algorithm>

namespace zaris::follower {

void BootstrapProgress::begin(SegmentId segment, MonoMicros now) {
  if (open_.empty()) {  // a new round
    total_ = 0;
    records_ = 0;
    since_ = now;
  }
  if (open_.insert(segment).second) ++total_;
}

void BootstrapProgress::done(SegmentId segment) { open_.erase(segment); }

std::optional<double> BootstrapProgress::eta_seconds(MonoMicros now, std::uint64_t source_live_keys, std::uint64_t source_segments) const {
  if (open_.empty() || now <= since_) return std::nullopt;
  const double elapsed = static_cast<double>(now - since_) / 1e6;
  if (source_live_keys > 0 && source_segments > 0) {
    const double work = static_cast<double>(source_live_keys) * static_cast<double>(total_) / static_cast<double>(source_segments);
    if (records_ == 0) return std::nullopt;
    const double left = std::max(0.0, work - static_cast<double>(records_));
    return left * elapsed / static_cast<double>(records_);
  }
  if (segments_done() == 0) return std::nullopt;
  return elapsed / static_cast<double>(segments_done()) * static_cast<double>(open_.size());
}

}  // namespace zaris::follower
