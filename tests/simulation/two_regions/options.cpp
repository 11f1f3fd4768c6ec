#include "tests/simulation/two_regions/options.hpp"

#include <fmt/format.h>

#include "tests/simulation/prng.hpp"

namespace zaris::two_regions {

TwoOptions TwoOptions::drawn(std::uint64_t seed) {
  simulation::Prng draw(seed * 0x9e3779b97f4a7c15ull + 77);
  TwoOptions o;
  o.seed = seed;
  o.source_segments = 4u << draw.below(2);
  o.target_segments = 4u << draw.below(3);
  o.source_copies = 2 + static_cast<std::uint32_t>(draw.below(2));
  o.target_copies = 2 + static_cast<std::uint32_t>(draw.below(2));
  o.one_process_target = draw.chance(0.2);
  o.ship_replicated = draw.chance(0.7);
  o.partial_scope = draw.chance(0.4);
  o.async_writers = draw.chance(0.3);
  o.big_values = draw.chance(0.2);
  o.keys = draw.chance(0.5) ? 40 : 200;
  o.writes_per_step = draw.chance(0.7) ? 1 : 3;
  o.feed_connections = 1 + static_cast<std::uint32_t>(draw.below(2));
  if (draw.chance(0.5)) o.source_log_bytes = 64u << 10;
  if (draw.chance(0.3)) o.target_log_bytes = 64u << 10;
  if (draw.chance(0.4)) o.credit_bytes = 16u << 10;
  if (draw.chance(0.4)) o.batch_bytes = 2u << 10;
  if (draw.chance(0.6)) o.chunk_records = 4;
  if (draw.chance(0.5)) o.wall_skew_us = 500'000;
  const auto mean = [&](double on, std::int64_t low, std::int64_t high) { return draw.chance(on) ? draw.between(low, high) : 0; };
  o.source_every = mean(0.8, 500'000, 6'000'000);
  o.target_every = mean(0.6, 500'000, 6'000'000);
  o.gateway_every = mean(0.5, 1'000'000, 8'000'000);
  o.follower_every = mean(0.5, 500'000, 8'000'000);
  o.line_every = mean(0.4, 300'000, 3'000'000);
  o.trim_every = mean(0.5, 100'000, 1'000'000);
  if (draw.chance(0.3)) o.cursor_lost = 0.3;
  simulation::Prng later(seed * 0x9e3779b97f4a7c15ull + 78);  // the other draws of a seed stay what they were
  o.lost_tails = !o.ship_replicated && later.chance(0.8);
  if (later.chance(0.5)) o.verify_every = later.between(300'000, 3'000'000);
  if (later.chance(0.4)) o.source_spill_bytes = static_cast<std::uint64_t>(later.between(32 << 10, 4 << 20));
  return o;
}

std::string TwoOptions::describe() const {
  return fmt::format(
      "seed={} source={}x{} target={}x{}{} ship={} scope={} writers={}{} keys={} writes={} connections={} log={}/{} credit={} batch={} chunk={} skew={} "
      "faults: source={}{} target={} gateway={} follower={} line={} trim={} cursor_lost={} verify={} spill={}",
      seed, source_segments, source_copies, target_segments, target_copies, one_process_target ? " (one process)" : "", ship_replicated ? "replicated" : "committed",
      partial_scope ? "partial" : "full", async_writers ? "async" : "replica", big_values ? " big" : "", keys, writes_per_step, feed_connections, source_log_bytes,
      target_log_bytes, credit_bytes, batch_bytes, chunk_records, wall_skew_us, source_every, lost_tails ? " (lost tails)" : "", target_every, gateway_every, follower_every, line_every, trim_every,
      cursor_lost, verify_every, source_spill_bytes);
}

}  // namespace zaris::two_regions
