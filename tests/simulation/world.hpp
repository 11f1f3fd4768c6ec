// What every part of one run shares: virtual time, random streams, the trace, and the first broken promise.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/simulation/clock.hpp"
#include "tests/simulation/options.hpp"
#include "tests/simulation/prng.hpp"
#include "tests/simulation/trace.hpp"

namespace zaris::simulation {

enum class ExitCode : int { ok = 0, crash = 127, liveness = 128, correctness = 129 };

struct Failure {
  ExitCode code = ExitCode::correctness;
  std::string rule;  // a short name, the same for every seed that breaks it
  std::string story;
};

// Owned by the run; parts hold references. Members that a callback may use outlive every part.
class Pipe;

struct World {
  World(const SimOptions& drawn, bool print_trace)
      : options(drawn), trace(print_trace), root(drawn.seed), network(root.fork()), workload(root.fork()),
        faults(root.fork()), disk(root.fork()), follower(root.fork()), regions(root.fork()), checking(root.fork()) {
    const auto clock = [this] {
      const MonoMicros mono = root.between(0, 1'000'000'000);
      const double mono_ppm = root.real() * 200.0 - 100.0, wall_ppm = root.real() * 200.0 - 100.0;
      return ProcessClock(mono, mono_ppm, root.between(-2'000'000, 2'000'000), wall_ppm);
    };
    source_clock = clock();
    target_clock = clock();
    follower_clock = clock();
  }

  void fail(ExitCode code, std::string rule, std::string story) {
    if (!failure) failure = Failure{code, std::move(rule), std::move(story)};
  }
  void broken(std::string rule, std::string story) { fail(ExitCode::correctness, std::move(rule), std::move(story)); }
  template <class Line, class... Numbers>
  void note(std::string_view what, Line&& line, Numbers... numbers) {
    trace.note(queue.now(), what, std::forward<Line>(line), numbers...);
  }
  [[nodiscard]] MonoMicros now() const { return queue.now(); }

  SimOptions options;
  EventQueue queue;
  Trace trace;
  Probes probes;
  Prng root, network, workload, faults, disk, follower, regions, checking;
  std::vector<std::weak_ptr<Pipe>> pipes;  // what is left in them at the end is emptied: it holds them
  ProcessClock source_clock, target_clock, follower_clock;
  bool healed = false;  // the liveness phase: no new faults, answers arrive
  std::optional<Failure> failure;
};

}  // namespace zaris::simulation
