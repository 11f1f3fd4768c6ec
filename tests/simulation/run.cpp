#include "tests/simulation/run.hpp"

#include <fmt/format.h>

#include <cmath>

namespace zaris::simulation {
namespace {

constexpr MonoMicros hour_us = 3'600'000'000;
constexpr MonoMicros converge_bound_us = 120'000'000;  // of virtual time, backoffs and dead peers included

// "source_reset" of "source_reset: the source …".
[[nodiscard]] std::string code_of(const std::string& reason) { return reason.substr(0, reason.find_first_of(": ")); }

}  // namespace

SimulationRun::SimulationRun(const SimOptions& options, bool print_trace)
    : world(options, print_trace), keys(options, world.regions), target(world, keys), checker(world, keys, target, disk),
      source(world, keys, [this](std::string_view bytes) { checker.from_source(bytes); }),
      follower(world, keys, source, target, disk, checker), workload(world, keys, source, target, checker), neighbour(world, keys, source) {
  checker.watch(source);
  target.on_down = [this] { follower.target_went_down(); };
  follower.dies_now = [this] {
    return !world.healed && world.options.crash_per_action > 0 && world.faults.chance(world.options.crash_per_action);
  };
  follower.on_gone = [this] { follower_gone(); };
}

RunResult SimulationRun::run() {
  workload.prefill();
  follower.start();
  workload.start();
  start_faults();
  start_observers();
  while (!world.failure && world.now() < world.options.safety_us) step();
  if (!world.failure) converge();
  if (!world.failure) {
    checker.final_check();
    count_bootstraps();
  }
  return result();
}

SimulationRun::~SimulationRun() {
  for (const auto& held : world.pipes) {
    if (const auto pipe = held.lock()) pipe->cut(0);
  }
}

RunResult SimulationRun::result() {
  RunResult result;
  result.seed = world.options.seed;
  result.trace_hash = world.trace.hash();
  for (Prng* stream : {&world.network, &world.workload, &world.faults, &world.disk, &world.follower, &world.regions}) {
    result.final_random = result.final_random * 31 + stream->next();
  }
  result.steps = world.queue.steps();
  result.virtual_us = world.now();
  result.failure = world.failure;
  result.probes = world.probes;
  return result;
}

void SimulationRun::start_observers() {
  observe();
  maintain();
}

void SimulationRun::run_for(MonoMicros time) {
  const MonoMicros until = world.now() + time;
  while (!world.failure && world.now() < until) step();
}

bool SimulationRun::run_until(const std::function<bool()>& done, MonoMicros bound) {
  const MonoMicros until = world.now() + bound;
  while (!world.failure && world.now() < until) {
    if (done()) return true;
    step();
  }
  return false;
}

// ---- faults
void SimulationRun::every(MonoMicros mean, std::function<void()> fault) {
  if (mean == 0) return;
  const auto delay = static_cast<MonoMicros>(-std::log(1.0 - world.faults.real()) * static_cast<double>(mean));
  world.queue.after(delay, [this, mean, fault] {
    if (world.healed) return;
    fault();
    every(mean, fault);
  });
}

void SimulationRun::start_faults() {
  const SimOptions& o = world.options;
  every(o.feed_cut_every, [this] { follower.cut_feed(); });
  every(o.feed_half_open_every, [this] { follower.half_open_feed(); });
  every(o.target_cut_every, [this] {
    if (world.faults.chance(0.9)) follower.cut_target();
    else follower.swallow_target();
  });
  every(o.freeze_every, [this] { freeze_something(); });
  every(o.follower_crash_every, [this] { follower.crash(world.options.cursor_lost > 0 && world.faults.chance(world.options.cursor_lost)); });
  every(o.disk_full_every, [this] {
    disk.set_full(true);
    world.queue.after(world.faults.between(1'000, 3'000'000), [this] { disk.set_full(false); });
  });
  every(o.target_reset_every, [this] {
    const bool identity = world.faults.chance(world.options.target_identity_lost);
    target.lose_everything(identity);
    checker.target_went_back();
  });
  every(o.target_tail_every, [this] {
    target.lose_tail();
    checker.target_went_back();
  });
  every(o.source_reset_every, [this] { source.lose_everything(world.faults.chance(world.options.source_identity_lost)); });
  every(o.trim_hard_every, [this] { source.trim_hard(); });
  every(o.clock_step_every, [this] { step_a_clock(); });
  every(o.cannot_confirm_every, [this] {
    source.set_may_confirm(false);
    world.queue.after(world.faults.between(1'000, 3'000'000), [this] { source.set_may_confirm(true); });
  });
  every(o.neighbour_every, [this] { neighbour.write(); });
  every(o.operator_pause_every, [this] {
    if (follower.pause()) world.probes.hit("operator: pause");
    world.queue.after(world.faults.between(1'000, 3'000'000), [this] { follower.resume(); });
  });
  every(o.operator_rewind_every, [this] {
    rewind_wanted_ = true;
    follower.terminate();
  });
}

void SimulationRun::freeze_something() {
  const MonoMicros until = world.now() + world.faults.between(1'000, world.faults.chance(0.2) ? 20'000'000 : 1'500'000);
  const auto who = world.faults.below(3);
  world.note("freeze", [&] { return fmt::format("{} until {}", who == 0 ? "source" : who == 1 ? "target" : "follower", until); }, who, until);
  if (who == 0) source.freeze_until(until);
  if (who == 1) target.freeze_until(until);
  if (who == 2 && follower.running()) follower.freeze_until(until);
}

void SimulationRun::step_a_clock() {
  const std::int64_t by = world.faults.chance(0.5) ? hour_us : -hour_us;
  ProcessClock* clocks[] = {&world.source_clock, &world.target_clock, &world.follower_clock};
  clocks[world.faults.below(3)]->step_wall(by);
  world.probes.hit(by > 0 ? "clock: an hour on" : "clock: an hour back");
}

void SimulationRun::follower_gone() {
  const MonoMicros pause = world.healed ? 1'000 : world.faults.between(0, world.faults.chance(0.2) ? 3'000'000 : 100'000);
  world.queue.after(pause, [this] {
    if (follower.running() || !restarts_follower) return;
    if (rewind_wanted_) follower.rewind_on_disk();
    rewind_wanted_ = false;
    follower.start();
  });
}

// ---- what looks and works at all times
void SimulationRun::maintain() {
  world.queue.after(50'000 + world.regions.between(0, 50'000), [this] {
    source.maintain();
    target.maintain();
    maintain();
  });
}

void SimulationRun::observe() {
  world.queue.after(world.checking.between(20'000, 200'000), [this] {
    if (follower.running() && follower.frozen_until() <= world.now()) {
      const auto status = follower.status();
      checker.reported(status);
      world.note("status", [&] {
        return fmt::format("{} {} staleness {:.3f} phases {}/{}/{} caught_up {}", name(status.state), status.reason, status.staleness_seconds,
                           status.segments_bootstrap, status.segments_stream, status.segments_stopped, status.caught_up);
      }, static_cast<int>(status.state), status.applied_records);
      count(status);
      if (operator_on) operate(status);
    }
    observe();
  });
}

void SimulationRun::count(const follower::LinkStatus& status) {
  world.probes.hit(fmt::format("state: {}{}", name(status.state), status.state == follower::LinkState::held ? " " + code_of(status.reason) : ""));
  if (status.target_rollbacks) world.probes.hit("link: target_rollback");
  if (status.mark_ahead_of_cursor) world.probes.hit("link: mark ahead of cursor");
  if (status.mark_behind_cursor) world.probes.hit("link: mark behind cursor");
  for (std::size_t i = 0; i < follower::bootstrap_reason_count; ++i) {
    if (status.bootstraps_by_reason[i]) world.probes.hit(fmt::format("bootstrap reason: {}", name(static_cast<follower::BootstrapReason>(i))));
  }
}

// An operator looks now and then, and does what the state asks for.
void SimulationRun::operate(const follower::LinkStatus& status) {
  const bool waits = status.state == follower::LinkState::held || (world.healed && status.state == follower::LinkState::paused);
  if (!waits || operator_busy_) return;
  operator_busy_ = true;
  const MonoMicros delay = world.healed ? 100'000 : world.faults.between(10'000, 4'000'000);
  world.queue.after(delay, [this] {
    operator_busy_ = false;
    if (!follower.running() || !source.up()) return;
    const auto now = follower.status();
    if (now.state == follower::LinkState::paused && world.healed) follower.resume();
    if (now.state != follower::LinkState::held) return;
    if (now.reason.starts_with("source_reset") && world.faults.chance(world.options.refill)) {
      world.probes.hit("operator: refill");
      workload.refill();
    }
    // The operator accepts what stands there now; the word counts for this history and for no later one.
    if (now.reason.starts_with("source_reset") || now.reason.starts_with("wrong_cluster") || now.reason.starts_with("source_changed")) checker.accepted_source();
    if (follower.accept(now.reason)) world.probes.hit("operator: accept " + code_of(now.reason));
  });
}

// ---- the liveness phase
void SimulationRun::converge() {
  world.healed = true;
  world.note("healed", [] { return std::string(); });
  disk.set_full(false);
  source.set_may_confirm(true);
  const MonoMicros quiet = world.now() + 1'000'000;
  while (!world.failure && world.now() < quiet) world.queue.step();  // writers end; regions that are down come back
  workload.stop();
  // A copy goes chunk by chunk, each there and back.
  const MonoMicros bound = world.now() + converge_bound_us + static_cast<MonoMicros>(keys.size() / world.options.chunk_records + 1) * 4 * (world.options.latency_us + world.options.jitter_us);
  std::string missing = "nothing was looked at";
  MonoMicros next_look = 0;
  while (!world.failure && world.now() < bound) {
    if (world.now() >= next_look) {
      next_look = world.now() + 50'000;
      missing = unfinished();
      if (missing.empty()) {
        world.probes.hit("converged");
        return;
      }
    }
    world.queue.step();
  }
  world.fail(ExitCode::liveness, "converges", fmt::format("{} s after everything healed: {}", converge_bound_us / 1'000'000, missing));
}

std::string SimulationRun::unfinished() const {
  if (!follower.running()) return "the follower does not run";
  const auto status = follower.status();
  std::string state = fmt::format("state {} {}, staleness {:.3f}, caught_up {}, segments in bootstrap/stream/stopped {}/{}/{}", name(status.state),
                                  status.reason, status.staleness_seconds, status.caught_up, status.segments_bootstrap, status.segments_stream,
                                  status.segments_stopped);
  if (status.state != follower::LinkState::running || !status.caught_up) return state;
  const std::string difference = checker.difference();
  return difference.empty() ? "" : state + "; " + difference;
}

void SimulationRun::count_bootstraps() {
  if (!world.options.only_follower_crashes) return;
  std::uint64_t cells = 0;
  for (std::uint32_t s = 0; s < world.options.source_segments; ++s) {
    for (std::uint32_t t = 0; t < world.options.target_segments; ++t) {
      cells += keys.overlap(SegmentId{static_cast<std::uint16_t>(s)}, SegmentId{static_cast<std::uint16_t>(t)}) ? 1 : 0;
    }
  }
  world.probes.hit("bootstraps counted under crashes alone");
  if (checker.opens() != cells) {
    world.broken("bootstraps_by_crash", fmt::format("follower crashes alone: {} marks were opened for {} cells", checker.opens(), cells));
  }
}

}  // namespace zaris::simulation
