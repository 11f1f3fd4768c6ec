// What one seed draws: the shape of the two regions, the load, and which faults are on and how strong (swarm: some are
// fully off, others extreme). Everything follows from the seed; the text printed is for people.
#pragma once
#include <cstdint>
#include <string>

#include "cluster/record/position.hpp"

namespace zaris::simulation {

enum class ScopeKind : std::uint8_t { full, one_prefix, several_prefixes, slots, prefix_and_slots };

// A mean interval of 0 switches a fault off.
struct SimOptions {
  std::uint64_t seed = 0;

  // ---- shape
  std::uint32_t source_segments = 1, target_segments = 1;
  ScopeKind scope = ScopeKind::full;
  std::uint32_t keys = 8;
  bool big_values = false;             // over 256 KiB now and then: Parts
  bool large_slot = false;             // one hash tag with more than a page of keys
  bool prefilled_target = false;       // keys of the target's own in the scope when the link comes
  MonoMicros safety_us = 8'000'000;
  MonoMicros write_every_us = 20'000;  // mean
  std::uint32_t write_burst = 4;       // at most so many operations at once
  double expiry = 0.2;                 // share of puts that carry one

  // ---- limits, drawn small enough to force the rare paths
  std::uint64_t value_bytes_max = 8u << 10;
  std::uint64_t log_budget = 64u << 10, pin_bytes = 1u << 20;
  MonoMicros pin_age_us = 3'600'000'000;
  std::uint64_t source_memory = 1u << 30;   // small: eviction
  std::uint64_t spill_bytes = 0;            // of log that has left the source's memory; 0: it is gone then
  MonoMicros spill_us = 1'000;              // for a chunk, at most
  double spill_fails = 0;                   // share of writes that find the disk full, and of reads that find it damaged
  std::uint64_t target_log_budget = 64u << 10;
  std::uint64_t batch_bytes = 256u << 10, chunk_bytes = 256u << 10, chunk_records = 1024;
  MonoMicros fresh_interval_us = 100'000, heartbeat_us = 2'000'000;
  std::uint64_t window_bytes = 64u << 10;   // of a socket: what is on its way in one direction
  std::uint64_t credit_bytes = 64u << 10, queue_bytes = 128u << 10;
  MonoMicros commit_interval_us = 50'000;
  std::uint32_t feed_connections = 1, target_connections = 2;
  double max_removal_ratio = 0.10;
  std::uint64_t max_removal_floor = 100;

  // ---- network
  MonoMicros latency_us = 500, jitter_us = 500;
  double spike = 0.0;                  // share of messages that are held up to 2 s
  bool answers_out_of_order = false;   // the target's, between its segments
  MonoMicros feed_cut_every = 0, feed_half_open_every = 0, target_cut_every = 0;
  double late_duplicate = 0.0;         // share of applies that arrive once more, later
  MonoMicros freeze_every = 0;         // a process stands still for up to 20 s

  // ---- crashes, disks, clocks, operators
  MonoMicros follower_crash_every = 0;
  double crash_per_action = 0.0;
  double cursor_lost = 0.0;            // share of crashes that take the cursor file along
  MonoMicros disk_full_every = 0;
  MonoMicros fsync_us = 2'000;
  MonoMicros target_reset_every = 0;
  double target_identity_lost = 0.0;   // share of target resets that take the coordinator along
  MonoMicros target_tail_every = 0;
  MonoMicros source_reset_every = 0;
  double source_identity_lost = 0.0;
  double refill = 0.5;                 // share of source resets that an operator answers by refilling from the target
  MonoMicros trim_hard_every = 0;
  MonoMicros clock_step_every = 0;
  MonoMicros operator_pause_every = 0, operator_rewind_every = 0;
  MonoMicros cannot_confirm_every = 0; // the source may not echo for a while
  MonoMicros neighbour_every = 0;      // a third region's link writes keys of its own at the source

  MonoMicros verify_every = 0;         // rounds of verification: nothing may ever be found to differ
  std::uint64_t verify_rate = 1u << 20;
  bool verify_repair = false;
  bool strays_at_target = false;       // somebody writes past the link: verification is to find it

  // The seed's class in which follower crashes are the only fault: its bootstraps are counted exactly.
  bool only_follower_crashes = false;

  [[nodiscard]] static SimOptions swarm(std::uint64_t seed);
  [[nodiscard]] std::string describe() const;  // one line, name=value, off faults left out
};

}  // namespace zaris::simulation
