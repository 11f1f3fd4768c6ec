#include "tests/simulation/simulation.hpp"

#include <fmt/format.h>

#include <cmath>

#include "tests/simulation/checker.hpp"
#include "tests/simulation/follower_process.hpp"
#include "tests/simulation/workload.hpp"

namespace zaris::simulation {
namespace {

constexpr MonoMicros hour_us = 3'600'000'000;
constexpr MonoMicros converge_bound_us = 120'000'000;  // of virtual time, backoffs and dead peers included

class Run {
 public:
  Run(const SimOptions& options, bool print_trace)
      : world_(options, print_trace), keys_(options, world_.regions), target_(world_, keys_), checker_(world_, keys_, target_, disk_),
        source_(world_, keys_, [this](std::string_view bytes) { checker_.from_source(bytes); }),
        follower_(world_, keys_, source_, target_, disk_, checker_), workload_(world_, keys_, source_, target_, checker_) {
    checker_.watch(source_);
    const auto offset = [&] { return world_.regions.between(-2'000'000, 2'000'000); };
    const auto ppm = [&] { return world_.regions.real() * 200.0 - 100.0; };
    world_.source_clock = ProcessClock(world_.regions.between(0, 1'000'000'000), ppm(), offset(), ppm());
    world_.target_clock = ProcessClock(world_.regions.between(0, 1'000'000'000), ppm(), offset(), ppm());
    target_.on_down = [this] { follower_.target_went_down(); };
    follower_.dies_now = [this] {
      return !world_.healed && world_.options.crash_per_action > 0 && world_.faults.chance(world_.options.crash_per_action);
    };
    follower_.on_gone = [this] { follower_gone(); };
  }

  RunResult run() {
    workload_.prefill();
    follower_.start();
    workload_.start();
    start_faults();
    observe();
    maintain();
    while (!world_.failure && world_.now() < world_.options.safety_us) world_.queue.step();
    if (!world_.failure) converge();
    if (!world_.failure) {
      checker_.final_check();
      count_bootstraps();
    }
    RunResult result;
    result.seed = world_.options.seed;
    result.trace_hash = world_.trace.hash();
    for (Prng* stream : {&world_.network, &world_.workload, &world_.faults, &world_.disk, &world_.follower, &world_.regions}) {
      result.final_random = result.final_random * 31 + stream->next();
    }
    result.steps = world_.queue.steps();
    result.virtual_us = world_.now();
    result.failure = world_.failure;
    result.probes = world_.probes;
    return result;
  }

 private:
  // ---- faults
  void every(MonoMicros mean, std::function<void()> fault) {
    if (mean == 0) return;
    const auto delay = static_cast<MonoMicros>(-std::log(1.0 - world_.faults.real()) * static_cast<double>(mean));
    world_.queue.after(delay, [this, mean, fault] {
      if (world_.healed) return;
      fault();
      every(mean, fault);
    });
  }

  void start_faults() {
    const SimOptions& o = world_.options;
    every(o.feed_cut_every, [this] { follower_.cut_feed(); });
    every(o.feed_half_open_every, [this] { follower_.half_open_feed(); });
    every(o.target_cut_every, [this] {
      if (world_.faults.chance(0.9)) follower_.cut_target();
      else follower_.swallow_target();
    });
    every(o.freeze_every, [this] { freeze_something(); });
    every(o.follower_crash_every, [this] { follower_.crash(world_.options.cursor_lost > 0 && world_.faults.chance(world_.options.cursor_lost)); });
    every(o.disk_full_every, [this] {
      disk_.set_full(true);
      world_.queue.after(world_.faults.between(1'000, 3'000'000), [this] { disk_.set_full(false); });
    });
    every(o.target_reset_every, [this] {
      const bool identity = world_.faults.chance(world_.options.target_identity_lost);
      target_.lose_everything(identity);
      checker_.target_went_back();
    });
    every(o.target_tail_every, [this] {
      target_.lose_tail();
      checker_.target_went_back();
    });
    every(o.source_reset_every, [this] { source_.lose_everything(world_.faults.chance(world_.options.source_identity_lost)); });
    every(o.trim_hard_every, [this] { source_.trim_hard(); });
    every(o.clock_step_every, [this] { step_a_clock(); });
    every(o.cannot_confirm_every, [this] {
      source_.set_may_confirm(false);
      world_.queue.after(world_.faults.between(1'000, 3'000'000), [this] { source_.set_may_confirm(true); });
    });
    every(o.operator_pause_every, [this] {
      if (follower_.pause()) world_.probes.hit("operator: pause");
      world_.queue.after(world_.faults.between(1'000, 3'000'000), [this] { follower_.resume(); });
    });
    every(o.operator_rewind_every, [this] {
      rewind_wanted_ = true;
      follower_.terminate();
    });
  }

  void freeze_something() {
    const MonoMicros until = world_.now() + world_.faults.between(1'000, world_.faults.chance(0.2) ? 20'000'000 : 1'500'000);
    const auto who = world_.faults.below(3);
    world_.note("freeze", [&] { return fmt::format("{} until {}", who == 0 ? "source" : who == 1 ? "target" : "follower", until); }, who, until);
    if (who == 0) source_.freeze_until(until);
    if (who == 1) target_.freeze_until(until);
    if (who == 2 && follower_.running()) follower_.freeze_until(until);
  }

  void step_a_clock() {
    const std::int64_t by = world_.faults.chance(0.5) ? hour_us : -hour_us;
    ProcessClock* clocks[] = {&world_.source_clock, &world_.target_clock, &world_.follower_clock};
    clocks[world_.faults.below(3)]->step_wall(by);
    world_.probes.hit(by > 0 ? "clock: an hour on" : "clock: an hour back");
  }

  void follower_gone() {
    const MonoMicros pause = world_.healed ? 1'000 : world_.faults.between(0, world_.faults.chance(0.2) ? 3'000'000 : 100'000);
    world_.queue.after(pause, [this] {
      if (follower_.running()) return;
      if (rewind_wanted_) follower_.rewind_on_disk();
      rewind_wanted_ = false;
      follower_.start();
    });
  }

  // ---- what looks and works at all times
  void maintain() {
    world_.queue.after(50'000 + world_.regions.between(0, 50'000), [this] {
      source_.maintain();
      target_.maintain();
      maintain();
    });
  }

  void observe() {
    world_.queue.after(world_.checking.between(20'000, 200'000), [this] {
      if (follower_.running() && follower_.frozen_until() <= world_.now()) {
        const auto status = follower_.status();
        checker_.reported(status);
        world_.note("status", [&] {
          return fmt::format("{} {} staleness {:.3f} phases {}/{}/{} caught_up {}", name(status.state), status.reason, status.staleness_seconds,
                             status.segments_bootstrap, status.segments_stream, status.segments_stopped, status.caught_up);
        }, static_cast<int>(status.state), status.applied_records);
        count(status);
        operate(status);
      }
      observe();
    });
  }

  void count(const follower::LinkStatus& status) {
    world_.probes.hit(fmt::format("state: {}{}", name(status.state), status.state == follower::LinkState::held ? " " + status.reason.substr(0, status.reason.find_first_of(": ")) : ""));
    if (status.target_rollbacks) world_.probes.hit("link: target_rollback");
    if (status.mark_ahead_of_cursor) world_.probes.hit("link: mark ahead of cursor");
    if (status.mark_behind_cursor) world_.probes.hit("link: mark behind cursor");
    for (std::size_t i = 0; i < follower::bootstrap_reason_count; ++i) {
      if (status.bootstraps_by_reason[i]) world_.probes.hit(fmt::format("bootstrap reason: {}", name(static_cast<follower::BootstrapReason>(i))));
    }
  }

  // An operator looks now and then, and does what the state asks for.
  void operate(const follower::LinkStatus& status) {
    const bool waits = status.state == follower::LinkState::held || (world_.healed && status.state == follower::LinkState::paused);
    if (!waits || operator_busy_) return;
    operator_busy_ = true;
    const MonoMicros delay = world_.healed ? 100'000 : world_.faults.between(10'000, 4'000'000);
    world_.queue.after(delay, [this] {
      operator_busy_ = false;
      if (!follower_.running() || !source_.up()) return;
      const auto now = follower_.status();
      if (now.state == follower::LinkState::paused && world_.healed) follower_.resume();
      if (now.state != follower::LinkState::held) return;
      if (now.reason.starts_with("source_reset") && world_.faults.chance(world_.options.refill)) {
        world_.probes.hit("operator: refill");
        workload_.refill();
      }
      // The operator accepts what stands there now; the word counts for this history and for no later one.
      if (now.reason.starts_with("source_reset") || now.reason.starts_with("wrong_cluster")) checker_.accepted_source();
      if (follower_.accept(now.reason)) world_.probes.hit("operator: accept " + now.reason.substr(0, now.reason.find_first_of(": ")));
    });
  }

  // ---- the liveness phase
  void converge() {
    world_.healed = true;
    world_.note("healed", [] { return std::string(); });
    disk_.set_full(false);
    source_.set_may_confirm(true);
    const MonoMicros quiet = world_.now() + 1'000'000;
    while (!world_.failure && world_.now() < quiet) world_.queue.step();  // writers end; regions that are down come back
    workload_.stop();
    const MonoMicros bound = world_.now() + converge_bound_us;
    std::string missing = "nothing was looked at";
    MonoMicros next_look = 0;
    while (!world_.failure && world_.now() < bound) {
      if (world_.now() >= next_look) {
        next_look = world_.now() + 50'000;
        missing = unfinished();
        if (missing.empty()) {
          world_.probes.hit("converged");
          return;
        }
      }
      world_.queue.step();
    }
    world_.fail(ExitCode::liveness, "converges", fmt::format("{} s after everything healed: {}", converge_bound_us / 1'000'000, missing));
  }

  [[nodiscard]] std::string unfinished() const {
    if (!follower_.running()) return "the follower does not run";
    const auto status = follower_.status();
    std::string state = fmt::format("state {} {}, staleness {:.3f}, caught_up {}, segments in bootstrap/stream/stopped {}/{}/{}", name(status.state),
                                    status.reason, status.staleness_seconds, status.caught_up, status.segments_bootstrap, status.segments_stream,
                                    status.segments_stopped);
    if (status.state != follower::LinkState::running || !status.caught_up) return state;
    const std::string difference = checker_.difference();
    return difference.empty() ? "" : state + "; " + difference;
  }

  void count_bootstraps() {
    if (!world_.options.only_follower_crashes) return;
    std::uint64_t cells = 0;
    for (std::uint32_t s = 0; s < world_.options.source_segments; ++s) {
      for (std::uint32_t t = 0; t < world_.options.target_segments; ++t) {
        cells += keys_.overlap(SegmentId{static_cast<std::uint16_t>(s)}, SegmentId{static_cast<std::uint16_t>(t)}) ? 1 : 0;
      }
    }
    world_.probes.hit("bootstraps counted under crashes alone");
    if (checker_.opens() != cells) {
      world_.broken("bootstraps_by_crash", fmt::format("follower crashes alone: {} marks were opened for {} cells", checker_.opens(), cells));
    }
  }

  World world_;
  Keys keys_;
  CursorDisk disk_;
  TargetRegion target_;
  Checker checker_;
  SourceRegion source_;
  FollowerProcess follower_;
  Workload workload_;
  bool operator_busy_ = false, rewind_wanted_ = false;
};

}  // namespace

RunResult run_simulation(const SimOptions& options, bool print_trace) { return Run(options, print_trace).run(); }

const std::vector<std::string>& expected_probes() {
  static const std::vector<std::string> probes = {
      "stream end: below_floor", "apply: MarkGap", "link: target_rollback", "state: held source_reset", "state: held large_removal",
      "state: held target_changed", "operator: accept source_reset", "operator: accept large_removal", "operator: accept target_changed", "operator: refill",
      "operator: pause", "operator: rewind", "bootstrap: resumed", "bootstrap: again", "stream: resumed", "feed: parts", "walk: inside one slot",
      "walk: a key came while it was in the slot", "apply: RemovalLimit", "apply: WouldLose", "conflict: loser kept", "cursor: disk full",
      "cursor: file lost", "follower: crash", "follower: clean stop", "feed: half-open", "target: request timed out", "target: lost everything",
      "target: lost with its identity", "target: lost a tail", "source: lost everything", "source: lost with its identity", "source: expired",
      "source: evicted", "source: pin lost", "source: log trimmed", "clock: an hour on", "clock: an hour back", "range: removals",
      "bootstraps counted under crashes alone", "link: mark ahead of cursor", "bootstrap reason: below_floor", "bootstrap reason: target_lost",
      "bootstrap reason: rewind", "bootstrap reason: accepted", "converged"};
  return probes;
}

}  // namespace zaris::simulation
