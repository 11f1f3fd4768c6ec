#include "tests/simulation/options.hpp"

#include <fmt/format.h>

#include <cmath>

#include "tests/simulation/prng.hpp"

namespace zaris::simulation {
namespace {

constexpr MonoMicros ms = 1'000, s = 1'000'000;

// Log-uniform, so that "extreme" is as likely as "mild".
std::int64_t spread(Prng& prng, std::int64_t low, std::int64_t high) {
  const double x = std::log(static_cast<double>(low)) +
                   prng.real() * (std::log(static_cast<double>(high)) - std::log(static_cast<double>(low)));
  return static_cast<std::int64_t>(std::exp(x));
}

MonoMicros fault(Prng& prng, double on, MonoMicros low, MonoMicros high) {
  const bool yes = prng.chance(on);
  const MonoMicros every = spread(prng, low, high);
  return yes ? every : 0;
}

void draw_shape(SimOptions& o, Prng& prng) {
  o.source_segments = 1u << prng.below(4);
  o.target_segments = prng.chance(0.5) ? o.source_segments : 1u << prng.below(5);
  constexpr ScopeKind kinds[] = {ScopeKind::full, ScopeKind::full, ScopeKind::full, ScopeKind::one_prefix,
                                 ScopeKind::several_prefixes, ScopeKind::slots, ScopeKind::prefix_and_slots};
  o.scope = kinds[prng.below(std::size(kinds))];
  o.keys = static_cast<std::uint32_t>(spread(prng, 3, 60));
  o.big_values = prng.chance(0.06);
  o.large_slot = prng.chance(0.08);
  o.prefilled_target = prng.chance(0.25);
  o.safety_us = spread(prng, 3 * s, 12 * s);
  o.write_every_us = spread(prng, 8 * ms, 250 * ms);
  o.write_burst = static_cast<std::uint32_t>(spread(prng, 1, 24));
  o.expiry = prng.chance(0.4) ? prng.real() * 0.6 : 0.0;
}

void draw_limits(SimOptions& o, Prng& prng) {
  o.value_bytes_max = o.big_values ? 400u << 10 : (prng.chance(0.2) ? 64u << 10 : 4u << 10);
  o.log_budget = static_cast<std::uint64_t>(prng.chance(0.6) ? spread(prng, 8 << 10, 256 << 10) : 64 << 20);
  o.pin_bytes = o.log_budget + static_cast<std::uint64_t>(prng.chance(0.5) ? spread(prng, 1 << 10, 256 << 10) : 64 << 20);
  o.pin_age_us = prng.chance(0.3) ? spread(prng, 1 * s, 20 * s) : 24 * 3600 * s;
  o.source_memory = prng.chance(0.12) ? static_cast<std::uint64_t>(spread(prng, 1400 << 10, 3 << 20)) : 1u << 30;
  o.target_log_budget = static_cast<std::uint64_t>(spread(prng, 4 << 10, 4 << 20));
  o.batch_bytes = static_cast<std::uint64_t>(spread(prng, 1 << 10, 256 << 10));
  o.chunk_bytes = static_cast<std::uint64_t>(spread(prng, 1 << 10, 256 << 10));
  o.chunk_records = static_cast<std::uint64_t>(prng.chance(0.5) ? spread(prng, 1, 64) : 1024);
  o.fresh_interval_us = spread(prng, 10 * ms, 200 * ms);
  o.heartbeat_us = std::max<MonoMicros>(spread(prng, 300 * ms, 5 * s), 4 * o.fresh_interval_us);
  o.window_bytes = static_cast<std::uint64_t>(spread(prng, 4 << 10, 1 << 20));
  const std::uint64_t record = o.value_bytes_max + (4u << 10);
  o.credit_bytes = 2 * record * static_cast<std::uint64_t>(spread(prng, 1, 8));
  o.queue_bytes = o.credit_bytes * static_cast<std::uint64_t>(spread(prng, 1, 4));
  o.commit_interval_us = spread(prng, 1 * ms, 300 * ms);
  o.feed_connections = prng.chance(0.25) ? 2 + static_cast<std::uint32_t>(prng.below(2)) : 1;
  o.target_connections = 1 + static_cast<std::uint32_t>(prng.below(3));
  if (prng.chance(0.25)) {
    o.max_removal_floor = prng.below(4);
    o.max_removal_ratio = prng.real() * 0.3;
  }
}

void draw_network(SimOptions& o, Prng& prng) {
  o.latency_us = spread(prng, 50, 60 * ms);
  o.jitter_us = spread(prng, 10, 60 * ms);
  o.spike = prng.chance(0.3) ? prng.real() * 0.05 : 0.0;
  o.answers_out_of_order = prng.chance(0.3);
  o.feed_cut_every = fault(prng, 0.5, 200 * ms, 8 * s);
  o.feed_half_open_every = fault(prng, 0.25, 1 * s, 10 * s);
  o.target_cut_every = fault(prng, 0.5, 200 * ms, 8 * s);
  o.late_duplicate = prng.chance(0.4) ? prng.real() * 0.2 : 0.0;
  o.freeze_every = fault(prng, 0.3, 1 * s, 10 * s);
}

void draw_crashes(SimOptions& o, Prng& prng) {
  o.follower_crash_every = fault(prng, 0.5, 150 * ms, 6 * s);
  o.crash_per_action = prng.chance(0.4) ? static_cast<double>(spread(prng, 1, 100)) / 10'000.0 : 0.0;
  o.cursor_lost = prng.chance(0.4) ? prng.real() * 0.6 : 0.0;
  o.disk_full_every = fault(prng, 0.25, 500 * ms, 6 * s);
  o.fsync_us = spread(prng, 100, 100 * ms);
  o.target_reset_every = fault(prng, 0.3, 1 * s, 10 * s);
  o.target_identity_lost = prng.chance(0.4) ? prng.real() : 0.0;
  o.target_tail_every = fault(prng, 0.3, 500 * ms, 6 * s);
  o.source_reset_every = fault(prng, 0.25, 2 * s, 12 * s);
  o.source_identity_lost = prng.chance(0.2) ? prng.real() : 0.0;
  o.refill = prng.real();
  o.trim_hard_every = fault(prng, 0.5, 50 * ms, 3 * s);
  o.clock_step_every = fault(prng, 0.4, 500 * ms, 5 * s);
  o.operator_pause_every = fault(prng, 0.25, 1 * s, 8 * s);
  o.operator_rewind_every = fault(prng, 0.2, 1 * s, 8 * s);
  o.cannot_confirm_every = fault(prng, 0.2, 1 * s, 5 * s);
}

}  // namespace

SimOptions SimOptions::swarm(std::uint64_t seed) {
  Prng prng(seed ^ 0x5a617269732d3031ull);
  SimOptions o;
  o.seed = seed;
  draw_shape(o, prng);
  draw_limits(o, prng);
  draw_network(o, prng);
  draw_crashes(o, prng);
  // They share the credit: with less than a record or two each, nothing heals in the time that is given.
  o.credit_bytes *= o.feed_connections;
  o.queue_bytes *= o.feed_connections;
  Prng later(seed ^ 0x6e65696768626f72ull);  // the other draws of a seed stay what they were
  o.neighbour_every = fault(later, 0.15, 100 * ms, 5 * s);
  o.verify_every = fault(later, 0.5, 200 * ms, 3 * s);
  o.verify_rate = static_cast<std::uint64_t>(spread(later, 64 << 10, 64 << 20));
  if (later.chance(0.4)) {
    o.spill_bytes = static_cast<std::uint64_t>(spread(later, 16 << 10, 16 << 20));
    o.spill_us = spread(later, 20, 200 * ms);
    o.spill_fails = later.chance(0.3) ? later.real() * 0.3 : 0.0;
  }
  if (prng.chance(0.08)) {
    // Follower crashes and nothing else that could cost a copy: nothing is trimmed, both regions stay.
    o.only_follower_crashes = true;
    o.log_budget = o.pin_bytes = 1u << 30;
    o.pin_age_us = 24 * 3600 * s;
    o.source_memory = 1u << 30;
    o.max_removal_floor = 100;
    o.target_reset_every = o.target_tail_every = o.source_reset_every = 0;
    o.trim_hard_every = o.operator_rewind_every = o.clock_step_every = 0;
    o.prefilled_target = false;
    o.neighbour_every = 0;
    if (o.follower_crash_every == 0) o.follower_crash_every = 400 * ms;
  }
  return o;
}

std::string SimOptions::describe() const {
  constexpr const char* scopes[] = {"full", "one_prefix", "several_prefixes", "slots", "prefix_and_slots"};
  std::string out = fmt::format("seed={} segments={}/{} scope={} keys={} safety={}ms write={}us×{}", seed, source_segments,
                                target_segments, scopes[static_cast<int>(scope)], keys, safety_us / ms, write_every_us, write_burst);
  const auto flag = [&](const char* name, bool on) { if (on) out += fmt::format(" {}", name); };
  const auto every = [&](const char* name, MonoMicros us) { if (us) out += fmt::format(" {}={}ms", name, us / ms); };
  const auto share = [&](const char* name, double p) { if (p > 0) out += fmt::format(" {}={:.4f}", name, p); };
  flag("big_values", big_values);
  flag("large_slot", large_slot);
  flag("prefilled_target", prefilled_target);
  flag("only_follower_crashes", only_follower_crashes);
  share("expiry", expiry);
  out += fmt::format(" value_max={} log={}+{} memory={} target_log={} batch={} chunk={}/{} fresh={}ms heartbeat={}ms window={} credit={} queue={}",
                     value_bytes_max, log_budget, pin_bytes - log_budget, source_memory, target_log_budget, batch_bytes,
                     chunk_bytes, chunk_records, fresh_interval_us / ms, heartbeat_us / ms, window_bytes, credit_bytes, queue_bytes);
  out += fmt::format(" commit={}us connections={}/{} removal={:.2f}/{} latency={}us+{}us fsync={}us", commit_interval_us,
                     feed_connections, target_connections, max_removal_ratio, max_removal_floor, latency_us, jitter_us, fsync_us);
  if (pin_age_us < 3600 * s) every("pin_age", pin_age_us);
  if (spill_bytes > 0) out += fmt::format(" spill={}/{}us", spill_bytes, spill_us);
  share("spill_fails", spill_fails);
  share("spike", spike);
  flag("answers_out_of_order", answers_out_of_order);
  every("feed_cut", feed_cut_every);
  every("feed_half_open", feed_half_open_every);
  every("target_cut", target_cut_every);
  share("late_duplicate", late_duplicate);
  every("freeze", freeze_every);
  every("follower_crash", follower_crash_every);
  share("crash_per_action", crash_per_action);
  share("cursor_lost", cursor_lost);
  every("disk_full", disk_full_every);
  every("target_reset", target_reset_every);
  if (target_reset_every) share("target_identity_lost", target_identity_lost);
  every("target_tail", target_tail_every);
  every("source_reset", source_reset_every);
  if (source_reset_every) share("source_identity_lost", source_identity_lost);
  every("trim_hard", trim_hard_every);
  every("clock_step", clock_step_every);
  every("operator_pause", operator_pause_every);
  every("operator_rewind", operator_rewind_every);
  every("cannot_confirm", cannot_confirm_every);
  every("neighbour", neighbour_every);
  every("verify", verify_every);
  return out;
}

}  // namespace zaris::simulation
