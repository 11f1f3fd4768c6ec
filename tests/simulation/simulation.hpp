// One run: two regions, a follower, a disk, clients, an operator and faults, all from one seed. A safety phase in which
// anything may go wrong, then everything heals and the link must get there within a bounded time.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/simulation/world.hpp"

namespace zaris::simulation {

struct RunResult {
  std::uint64_t seed = 0;
  std::uint64_t trace_hash = 0;
  std::uint64_t final_random = 0;   // the next number of every stream, folded: "unseed"
  std::uint64_t steps = 0;
  MonoMicros virtual_us = 0;
  std::optional<Failure> failure;
  Probes probes;
};

[[nodiscard]] RunResult run_simulation(const SimOptions& options, bool print_trace = false);

// Paths that the suite's seeds must have gone, each at least once.
[[nodiscard]] const std::vector<std::string>& expected_probes();

}  // namespace zaris::simulation
