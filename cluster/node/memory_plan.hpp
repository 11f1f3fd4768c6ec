// What a node may take in memory in all, and what the machine or its cgroup has.
#pragma once
#include <cstdint>
#include <string>

#include "cluster/config/node_config.hpp"

namespace zaris::node {

struct MemoryPlan {
  std::uint64_t records = 0;   // memory.max_bytes
  std::uint64_t log = 0;       // log.pin_bytes: its hard ceiling
  std::uint64_t replicas = 0;  // copies of what other nodes of the region own, and of their logs: as much again for each copy
  std::uint64_t buffers = 0;   // threads, answers that wait, frames under way
  std::uint64_t feed = 0;      // sessions' bounded buffers
  [[nodiscard]] std::uint64_t total() const { return records + log + replicas + buffers + feed; }
  [[nodiscard]] std::string text() const;
};
[[nodiscard]] MemoryPlan plan_memory(const config::NodeConfig& config, std::uint32_t threads);

struct MemoryAvailable {
  std::uint64_t bytes = 0;
  std::string source;          // "the machine", "its cgroup (/sys/fs/cgroup/…/memory.max)"
};
[[nodiscard]] MemoryAvailable available_memory();

// Threads for `node.threads: 0`: cores that the scheduler and the cgroup's cpu.max let this process have, at least 1.
[[nodiscard]] std::uint32_t available_cores();
// Of MemoryPlan::buffers, what frames that are partly here and answers that wait may hold, over all connections.
[[nodiscard]] std::uint64_t client_buffers_max(const config::NodeConfig& config, std::uint32_t threads);
// Threads that serve clients on so many cores: three quarters. The feed's threads and the kernel's network work need the rest; more
// threads than that take turns with them, each with fewer requests per round.
[[nodiscard]] constexpr std::uint32_t client_threads(std::uint32_t cores) { return cores - (cores + 3) / 4 > 0 ? cores - (cores + 3) / 4 : 1; }

// Parts that tests look at: cgroup v2 files as text. Empty text or "max": no limit.
[[nodiscard]] std::uint64_t parse_memory_max(const std::string& text);  // 0: none
[[nodiscard]] double parse_cpu_max(const std::string& text);            // 0: none

}  // namespace zaris::node
