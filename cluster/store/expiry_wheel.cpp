#include "cluster/store/expiry_wheel.hpp"

#include <algorithm>
#include <limits>

namespace zaris::store {
namespace {
constexpr std::uint64_t second = 1'000'000;
std::uint32_t seconds_up(WallMicros at) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>((at + second - 1) / second, std::numeric_limits<std::uint32_t>::max()));
}
}  // namespace

void ExpiryWheel::add(Slot slot, std::uint64_t hash, WallMicros expires_us) {
  put(ExpiryEntry{hash, expires_us > std::numeric_limits<WallMicros>::max() - second ? std::numeric_limits<std::uint32_t>::max() : seconds_up(expires_us), slot});
  ++size_;
}

void ExpiryWheel::put(const ExpiryEntry& entry) {
  const std::uint32_t ahead = entry.due_s > now_s_ ? entry.due_s - now_s_ : 0;
  unsigned level = 0;
  while (level + 1 < levels && ahead >= (64u << (6 * level))) ++level;
  level_[level][entry.due_s >> (6 * level)].push_back(entry);
}

void ExpiryWheel::take_due(WallMicros now, std::size_t most, std::vector<ExpiryEntry>& out) {
  const auto now_s = static_cast<std::uint32_t>(now / second);
  now_s_ = std::max(now_s_, now_s);
  // A coarse bucket that has begun is spread over the finer ones; what is due in it lands in the finest.
  for (unsigned level = levels - 1; level > 0; --level) {
    auto& buckets = level_[level];
    while (!buckets.empty() && buckets.begin()->first <= (now_s_ >> (6 * level))) {
      const auto entries = std::move(buckets.begin()->second);
      buckets.erase(buckets.begin());
      for (const auto& e : entries) {
        // Never back into the same bucket: it would be spread again at once.
        const std::uint32_t ahead = e.due_s > now_s_ ? e.due_s - now_s_ : 0;
        unsigned to = 0;
        while (to + 1 < level && ahead >= (64u << (6 * to))) ++to;
        level_[to][e.due_s >> (6 * to)].push_back(e);
      }
    }
  }
  auto& finest = level_[0];
  while (!finest.empty() && finest.begin()->first <= now_s && most > 0) {
    auto& entries = finest.begin()->second;
    const std::size_t n = std::min(most, entries.size());
    out.insert(out.end(), entries.end() - static_cast<std::ptrdiff_t>(n), entries.end());
    entries.resize(entries.size() - n);
    most -= n;
    size_ -= n;
    if (entries.empty()) finest.erase(finest.begin());
  }
}

std::size_t ExpiryWheel::backlog(WallMicros now) const {
  const auto now_s = static_cast<std::uint32_t>(now / second);
  std::size_t n = 0;
  for (unsigned level = 0; level < levels; ++level) {
    for (const auto& [bucket, entries] : level_[level]) {
      if (((std::uint64_t{bucket} + 1) << (6 * level)) > std::uint64_t{now_s} + 1) break;
      n += entries.size();
    }
  }
  return n;
}

}  // namespace zaris::store
