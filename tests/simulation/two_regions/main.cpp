// Runs two regions of several nodes, gateways and a follower in one deterministic process, once per seed.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>

#include "tests/simulation/two_regions/run.hpp"

namespace {

using namespace zaris;
using namespace zaris::simulation;
using namespace zaris::two_regions;

volatile std::uint64_t running_seed = 0;

void crashed(int signal) {
  char line[96];
  const int n = std::snprintf(line, sizeof line, "seed %llu: crash (signal %d)\n", static_cast<unsigned long long>(running_seed), signal);
  if (n > 0) (void)!::write(STDOUT_FILENO, line, static_cast<std::size_t>(n));
  ::_exit(static_cast<int>(ExitCode::crash));
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Runs two regions of three nodes, two gateways and a follower in one deterministic process, once per seed.\n"
               "Exit codes: 0 all seeds held, 127 crash, 128 liveness, 129 correctness."};
  std::string seeds = "1-40";
  std::uint64_t one = 0;
  double minutes = 0;
  bool trace = false, keep_going = false, verbose = false, probes = false, twice = false;
  app.add_option("--seeds", seeds, "A-B, inclusive")->capture_default_str();
  auto* single = app.add_option("--seed", one, "just this one");
  app.add_option("--minutes", minutes, "new seeds until the time is up");
  app.add_flag("--trace", trace, "print every event on stderr");
  app.add_flag("--keep-going", keep_going, "report every failing seed; the exit code is the first one's");
  app.add_flag("--verbose", verbose, "print each seed's options");
  app.add_flag("--probes", probes, "print the probes");
  app.add_flag("--twice", twice, "run each seed twice and compare the traces");
  CLI11_PARSE(app, argc, argv);

  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) ::signal(signal, crashed);
  std::uint64_t first = one, last = one;
  if (!single->count()) {
    const std::size_t dash = seeds.find('-');
    first = std::stoull(seeds.substr(0, dash));
    last = minutes > 0 ? ~0ull : dash == std::string::npos ? first : std::stoull(seeds.substr(dash + 1));
  }
  const auto started = std::chrono::steady_clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count(); };
  Probes all;
  int exit_code = 0;
  std::uint64_t runs = 0, failures = 0;
  double simulated = 0;  // seconds
  for (std::uint64_t seed = first; seed <= last; ++seed) {
    if (minutes > 0 && elapsed() > minutes * 60) break;
    running_seed = seed;
    const TwoOptions options = TwoOptions::drawn(seed);
    if (verbose || trace) fmt::print("{}\n", options.describe());
    std::fflush(stdout);
    const RunResult result = TwoRegions(options, trace).run();
    ++runs;
    simulated += static_cast<double>(result.virtual_us) / 1e6;
    all.add(result.probes);
    if (twice) {
      const RunResult again = TwoRegions(options).run();
      if (again.trace_hash != result.trace_hash || again.final_random != result.final_random) {
        fmt::print("seed {}: two runs differ\n", seed);
        return static_cast<int>(ExitCode::correctness);
      }
    }
    if (!result.failure) continue;
    ++failures;
    if (!verbose && !trace) fmt::print("{}\n", options.describe());
    fmt::print("seed {}: {} at {:.6f} s: {}\n", seed, result.failure->rule, static_cast<double>(result.virtual_us) / 1e6, result.failure->story);
    if (exit_code == 0) exit_code = static_cast<int>(result.failure->code);
    if (!keep_going) break;
  }
  fmt::print("{} seeds, {} failed, {:.0f} simulated seconds in {:.1f} s: {:.0f} a second, {:.0f} seeds a minute\n", runs, failures, simulated, elapsed(), simulated / elapsed(),
             static_cast<double>(runs) * 60 / elapsed());
  if (probes) {
    for (const auto& [name, times] : all.all()) fmt::print("  {:>10} {}\n", times, name);
  }
  return exit_code;
}
