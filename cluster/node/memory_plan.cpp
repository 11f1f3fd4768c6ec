#include "cluster/node/memory_plan.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <sstream>

#include "cluster/config/units.hpp"
#include "cluster/store/store.hpp"

namespace zaris::node {
namespace {

std::string read_text(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// This process's folder in the unified hierarchy, "" without one.
std::string cgroup_path() {
  std::istringstream in(read_text("/proc/self/cgroup"));
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("0::")) return "/sys/fs/cgroup" + line.substr(3);
  }
  return {};
}

// A limit of any folder on the way up counts.
template <class Look>
void each_level(Look look) {
  std::string path = cgroup_path();
  while (path.starts_with("/sys/fs/cgroup")) {
    look(path);
    if (path == "/sys/fs/cgroup") break;
    path = path.substr(0, path.rfind('/'));
  }
}

}  // namespace

std::uint64_t parse_memory_max(const std::string& text) {
  std::uint64_t bytes = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  (void)end;
  return error == std::errc{} ? bytes : 0;
}

double parse_cpu_max(const std::string& text) {
  double quota = 0, period = 0;
  std::istringstream in(text);
  if (!(in >> quota >> period) || period <= 0) return 0;
  return quota / period;
}

// One frame and one answer of the largest size for each thread, and room for clients that are slow.
std::uint64_t client_buffers_max(const config::NodeConfig& config, std::uint32_t threads) {
  const std::uint64_t frame = config.limits.key + config.limits.value + (64u << 10);
  return threads * 2 * frame + (64ull << 20);
}

MemoryPlan plan_memory(const config::NodeConfig& config, std::uint32_t threads) {
  MemoryPlan plan;
  plan.records = config.memory.max_bytes;
  plan.log = config.log.pin_bytes + (config.log.spill_path.empty() ? 0 : store::spill_cache_bytes_max);
  if (!config.standalone) plan.replicas = (config.replication.factor - 1) * (config.memory.max_bytes + config.log.budget_bytes);
  // Each thread's own buffers; connections are charged what an idle one takes.
  plan.buffers = threads * (1ull << 20) + config.limits.connections * 2048ull + client_buffers_max(config, threads);
  if (!config.listeners.feed.address.empty()) {
    plan.feed = std::min<std::uint64_t>(config.feed.max_sessions, 1000) * (64u << 10) + 16 * (config.feed.batch_bytes + config.feed.chunk_bytes);
  }
  return plan;
}

std::string MemoryPlan::text() const {
  const auto mib = [](std::uint64_t bytes) { return fmt::format("{} MiB", (bytes + (1u << 20) - 1) >> 20); };
  const std::string copies = replicas != 0 ? fmt::format(", copies of other nodes' partitions {}", mib(replicas)) : std::string();
  return fmt::format("{} in all: records {}, op-log {}{}, buffers {}, feed {}", mib(total()), mib(records), mib(log), copies, mib(buffers), mib(feed));
}

MemoryAvailable available_memory() {
  MemoryAvailable out;
  out.bytes = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  out.source = "the machine";
  each_level([&](const std::string& path) {
    const std::uint64_t limit = parse_memory_max(read_text(path + "/memory.max"));
    if (limit != 0 && limit < out.bytes) {
      out.bytes = limit;
      out.source = fmt::format("its cgroup ({}/memory.max)", path);
    }
  });
  return out;
}

std::uint32_t available_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  double cores = ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  each_level([&](const std::string& path) {
    const double limit = parse_cpu_max(read_text(path + "/cpu.max"));
    if (limit > 0) cores = std::min(cores, std::ceil(limit));
  });
  return static_cast<std::uint32_t>(std::max(1.0, cores));
}

}  // namespace zaris::node
