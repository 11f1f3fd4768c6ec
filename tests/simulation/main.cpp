// The simulator's command: seeds one after the other until there are no more, the time is up, or one fails.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <string>

#include "tests/simulation/simulation.hpp"

namespace {

using namespace zaris::simulation;

volatile std::uint64_t running_seed = 0;

// An assertion or a fault of the machine inside a core: say which seed, exit as documented.
void crashed(int signal) {
  char text[160];
  const int size = std::snprintf(text, sizeof text, "\nseed %llu: crash (signal %d); again: tests/simulate --seed %llu --trace\n",
                                 static_cast<unsigned long long>(running_seed), signal, static_cast<unsigned long long>(running_seed));
  (void)!write(STDERR_FILENO, text, static_cast<std::size_t>(size));
  _exit(static_cast<int>(ExitCode::crash));
}

struct Range { std::uint64_t first = 1, last = 1; };

Range parse_range(const std::string& text) {
  const std::size_t dash = text.find('-');
  Range range;
  range.first = std::stoull(text.substr(0, dash));
  range.last = dash == std::string::npos ? range.first : std::stoull(text.substr(dash + 1));
  return range;
}

void say(const RunResult& result) {
  const Failure& failure = *result.failure;
  const char* kind = failure.code == ExitCode::liveness ? "liveness" : "correctness";
  fmt::print("seed {}: {} ({}) at {:.6f} s: {}\n  again: tests/simulate --seed {} --trace\n", result.seed, kind, failure.rule,
             static_cast<double>(result.virtual_us) / 1e6, failure.story, result.seed);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Runs both regions, the feed and the follower in one deterministic process, once per seed.\n"
               "Exit codes: 0 all seeds held, 127 crash, 128 liveness, 129 correctness."};
  std::string seeds = "1-1000";
  std::uint64_t one = 0;
  double minutes = 0;
  bool trace = false, keep_going = false, verbose = false, probes = false, twice = false;
  app.add_option("--seeds", seeds, "A-B, inclusive")->capture_default_str();
  auto* single = app.add_option("--seed", one, "just this one");
  app.add_option("--minutes", minutes, "stop after so long; with it and no --seeds, go on without end");
  app.add_flag("--trace", trace, "print every event on stderr");
  app.add_flag("--keep-going", keep_going, "report every failing seed; the exit code is the first one's");
  app.add_flag("--verbose", verbose, "print each seed's options");
  app.add_flag("--probes", probes, "print the probes, and fail when a listed path was never gone");
  app.add_flag("--twice", twice, "run each seed twice and compare the traces");
  CLI11_PARSE(app, argc, argv);

  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) ::signal(signal, crashed);
  Range range = single->count() ? Range{one, one} : parse_range(seeds);
  if (minutes > 0 && !app.get_option("--seeds")->count() && !single->count()) range.last = ~0ull;
  const auto started = std::chrono::steady_clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count(); };

  Probes all;
  int exit_code = 0;
  std::uint64_t runs = 0, failures = 0, steps = 0;
  double simulated = 0;  // seconds
  for (std::uint64_t seed = range.first; seed <= range.last; ++seed) {
    if (minutes > 0 && elapsed() > minutes * 60) break;
    running_seed = seed;
    const SimOptions options = SimOptions::swarm(seed);
    if (verbose || trace) fmt::print("{}\n", options.describe());
    std::fflush(stdout);
    const RunResult result = run_simulation(options, trace);
    ++runs;
    simulated += static_cast<double>(result.virtual_us) / 1e6;
    steps += result.steps;
    all.add(result.probes);
    if (twice) {
      const RunResult again = run_simulation(options);
      if (again.trace_hash != result.trace_hash || again.final_random != result.final_random) {
        fmt::print("seed {}: two runs differ\n", seed);
        return static_cast<int>(ExitCode::correctness);
      }
    }
    if (!result.failure) continue;
    ++failures;
    if (!verbose && !trace) fmt::print("{}\n", options.describe());
    say(result);
    if (exit_code == 0) exit_code = static_cast<int>(result.failure->code);
    if (!keep_going) break;
  }
  fmt::print("{} seeds, {} failed, {} events, {:.0f} simulated seconds in {:.1f} s: {:.0f} a second, {:.0f} seeds a minute\n", runs, failures, steps, simulated, elapsed(),
             simulated / elapsed(), static_cast<double>(runs) * 60 / elapsed());
  if (probes) {
    for (const auto& [name, times] : all.all()) fmt::print("  {:>10} {}\n", times, name);
    for (const std::string& name : expected_probes()) {
      if (all.count(name) > 0) continue;
      fmt::print("never reached: {}\n", name);
      if (exit_code == 0) exit_code = 1;
    }
  }
  return exit_code;
}
