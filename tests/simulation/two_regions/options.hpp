// What one seed draws for two regions of several nodes: their shapes, what the feed ships, the load, and which faults are on.
#pragma once
#include <cstdint>
#include <string>

#include "cluster/record/position.hpp"

namespace zaris::two_regions {

// A mean interval of 0 switches a fault off.
struct TwoOptions {
  std::uint64_t seed = 0;

  // ---- shape
  std::uint32_t source_segments = 8, target_segments = 8;
  std::uint32_t source_copies = 3, target_copies = 3;   // of each segment, in a region of three nodes
  bool one_process_target = false;
  bool ship_replicated = true;            // feed.ship; false: committed, so that followers may be ahead of what survives
  bool partial_scope = false;
  bool async_writers = false;             // acknowledged by the owner alone; else by a replica
  bool big_values = false;                // over 256 KiB now and then: Parts
  std::uint32_t keys = 60, writes_per_step = 1;
  std::uint32_t feed_connections = 1;
  std::uint64_t source_log_bytes = 1u << 20, target_log_bytes = 1u << 20;
  std::uint64_t source_spill_bytes = 0;
  std::uint64_t credit_bytes = 1u << 20, batch_bytes = 64u << 10, chunk_records = 1024;
  std::uint64_t wall_skew_us = 0;
  MonoMicros verify_every = 0;                          // rounds of verification: nothing may ever be found to differ

  // ---- faults
  MonoMicros safety_us = 30'000'000;
  MonoMicros source_every = 0, target_every = 0;        // of a region's nodes, or its etcd: one at a time, the next when it is whole
  bool lost_tails = false;                              // half of the source's faults: a node that no other one hears goes on, and dies
  MonoMicros gateway_every = 0;                         // killed, frozen
  MonoMicros follower_every = 0;                        // killed, stopped, frozen
  MonoMicros line_every = 0;                            // a connection of the feed or to the target breaks
  MonoMicros trim_every = 0;                            // logs are trimmed as far as pins allow
  double cursor_lost = 0;                               // share of the follower's deaths that take its file along

  [[nodiscard]] static TwoOptions drawn(std::uint64_t seed);
  [[nodiscard]] std::string describe() const;           // one line, for people
};

}  // namespace zaris::two_regions
