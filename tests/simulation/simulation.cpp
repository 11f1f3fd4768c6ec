#include "tests/simulation/simulation.hpp"

#include "tests/simulation/run.hpp"

namespace zaris::simulation {

RunResult run_simulation(const SimOptions& options, bool print_trace) { return SimulationRun(options, print_trace).run(); }

const std::vector<std::string>& expected_probes() {
  static const std::vector<std::string> probes = {
      "stream end: below_floor", "apply: MarkGap", "link: target_rollback", "state: held source_reset", "state: held large_removal",
      "state: held target_changed", "operator: accept source_reset", "operator: accept large_removal", "operator: accept target_changed", "operator: refill",
      "source: a neighbour writes", "stream end: source_standby", "operator: accept source_standby",
      "operator: pause", "operator: rewind", "bootstrap: resumed", "bootstrap: again", "stream: resumed", "feed: parts", "walk: inside one slot",
      "walk: a key came while it was in the slot", "apply: RemovalLimit", "apply: WouldLose", "conflict: loser kept", "cursor: disk full",
      "cursor: file lost", "follower: crash", "follower: clean stop", "feed: half-open", "target: request timed out", "target: lost everything",
      "target: lost with its identity", "target: lost a tail", "source: lost everything", "source: lost with its identity", "source: expired",
      "source: evicted", "source: pin lost", "source: log trimmed", "spill: written", "spill: read", "spill: a write failed", "spill: damaged", "clock: an hour on", "clock: an hour back", "range: removals",
      "bootstraps counted under crashes alone", "link: mark ahead of cursor", "bootstrap reason: below_floor", "bootstrap reason: target_lost",
      "bootstrap reason: rewind", "bootstrap reason: accepted", "converged"};
  return probes;
}

}  // namespace zaris::simulation
