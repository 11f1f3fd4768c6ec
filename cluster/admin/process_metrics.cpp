// The metrics that every process has, from /proc/self; names equal to those of the Go client.
#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "cluster/admin/metrics.hpp"
#include "cluster/logging/event_log.hpp"

namespace zaris::admin {
namespace {

constexpr MetricFamily families[] = {
    {"zaris_build_info", MetricType::gauge, "component; version; revision", "Always 1; the labels say which build this process runs."},
    {"zaris_log_messages_total", MetricType::counter, "level: debug, info, warning, error", "Log records written, by level."},
    {"zaris_log_messages_suppressed_total", MetricType::counter, "", "Log records withheld by rate limiting."},
    {"zaris_metrics_series", MetricType::gauge, "", "Series this process exposed at its last scrape."},
    {"zaris_metrics_series_dropped_total", MetricType::counter, "family", "Series left out because a family reached its cap; above 0 means dashboards show a part."},
    {"process_cpu_seconds_total", MetricType::counter, "", "CPU time spent in user and system mode."},
    {"process_resident_memory_bytes", MetricType::gauge, "", "Resident memory."},
    {"process_virtual_memory_bytes", MetricType::gauge, "", "Virtual memory."},
    {"process_open_fds", MetricType::gauge, "", "Open file descriptors."},
    {"process_max_fds", MetricType::gauge, "", "Limit of open file descriptors."},
    {"process_start_time_seconds", MetricType::gauge, "", "Unix time at which the process started."},
};
constexpr const MetricFamily& build_info = families[0];
constexpr const MetricFamily& log_messages = families[1];
constexpr const MetricFamily& log_suppressed = families[2];
constexpr const MetricFamily& cpu_seconds = families[5];
constexpr const MetricFamily& resident = families[6];
constexpr const MetricFamily& virtual_memory = families[7];
constexpr const MetricFamily& open_fds = families[8];
constexpr const MetricFamily& max_fds = families[9];
constexpr const MetricFamily& start_time = families[10];

// Wall clock of this process's start: boot time plus ticks since boot (proc(5), field 22 of stat).
double start_seconds() {
  double boot = 0;
  std::ifstream in("/proc/stat");
  for (std::string word; in >> word;) {
    if (word == "btime") {
      in >> boot;
      break;
    }
  }
  std::ifstream stat("/proc/self/stat");
  std::stringstream text;
  text << stat.rdbuf();
  const std::string all = text.str();
  std::istringstream rest(all.substr(all.rfind(')') + 1));
  std::string field;
  for (int i = 3; i < 22; ++i) rest >> field;
  double ticks = 0;
  rest >> ticks;
  return boot + ticks / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

std::uint64_t count_fds() {
  std::uint64_t n = 0;
  if (DIR* dir = ::opendir("/proc/self/fd")) {
    while (::readdir(dir) != nullptr) ++n;
    ::closedir(dir);
  }
  return n > 3 ? n - 3 : 0;  // ".", "..", the directory itself
}

}  // namespace

std::span<const MetricFamily> process_families() { return families; }

void add_process_metrics(Metrics& metrics, const std::string& component, const std::string& version, const std::string& revision) {
  const double started = start_seconds();
  metrics.add([=](MetricSink& sink) {
    sink.put(build_info, 1, {{"component", component}, {"version", version}, {"revision", revision}});
    const logging::Counts logs = logging::counts();
    static constexpr const char* levels[] = {"debug", "info", "warning", "error"};
    for (std::size_t i = 0; i < 4; ++i) sink.put(log_messages, static_cast<double>(logs.by_level[i]), {{"level", levels[i]}});
    sink.put(log_suppressed, static_cast<double>(logs.withheld));
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& t) { return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6; };
    sink.put(cpu_seconds, seconds(usage.ru_utime) + seconds(usage.ru_stime));
    unsigned long long size = 0, rss = 0;
    if (std::FILE* file = std::fopen("/proc/self/statm", "r")) {
      if (std::fscanf(file, "%llu %llu", &size, &rss) != 2) size = rss = 0;
      std::fclose(file);
    }
    const auto page = static_cast<double>(::sysconf(_SC_PAGESIZE));
    sink.put(resident, static_cast<double>(rss) * page);
    sink.put(virtual_memory, static_cast<double>(size) * page);
    sink.put(open_fds, static_cast<double>(count_fds()));
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    sink.put(max_fds, static_cast<double>(limit.rlim_cur));
    sink.put(start_time, started);
  });
}

}  // namespace zaris::admin
