// How far the running bootstraps of a link are. Time left comes from the remaining work and the rate so far, never from a
// derivative of lag.
#pragma once
#include <cstdint>
#include <optional>
#include <set>

#include "cluster/record/position.hpp"

namespace zaris::follower {

class BootstrapProgress {
 public:
  // A segment's bootstrap begins (or goes on after an interruption). Repeating it is harmless.
  void begin(SegmentId segment, MonoMicros now);
  void records(std::uint64_t count) { records_ += count; }
  void done(SegmentId segment);

  [[nodiscard]] bool running() const { return !open_.empty(); }
  [[nodiscard]] std::uint64_t segments_done() const { return total_ - open_.size(); }
  [[nodiscard]] std::uint64_t segments_total() const { return total_; }
  [[nodiscard]] std::uint64_t records_done() const { return records_; }
  // `source_live_keys` 0: unknown (a partial scope); then segments stand for the work.
  [[nodiscard]] std::optional<double> eta_seconds(MonoMicros now, std::uint64_t source_live_keys, std::uint64_t source_segments) const;

 private:
  std::set<SegmentId> open_;
  std::uint64_t total_ = 0, records_ = 0;
  MonoMicros since_ = 0;
};

}  // namespace zaris::follower
