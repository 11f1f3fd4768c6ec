// What a process exposes at /metrics. Hot paths count in their own plain counters; a collector folds them into series at
// the moment of a scrape, so that counting costs an add and nothing is shared. Families are declared once, in a table per
// component, from which docs/reference/metrics.md is made; a name that is in no table is a bug.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace zaris::admin {

enum class MetricType : std::uint8_t { counter, gauge, histogram };

// Views into string literals. Rules: base units, `_total` on counters only, labels of bounded values.
struct MetricFamily {
  std::string_view name;
  MetricType type = MetricType::gauge;
  std::string_view labels;  // as documented: "command: get, put …; result: ok, error"; empty: none
  std::string_view help;
};

using Labels = std::vector<std::pair<std::string, std::string>>;

// Cumulative distribution with fixed bounds; any thread may observe.
class Histogram {
 public:
  static constexpr std::size_t bounds_max = 24;
  explicit Histogram(std::span<const double> bounds);
  void observe(double value, std::uint64_t times = 1);
  [[nodiscard]] std::span<const double> bounds() const { return {bounds_.data(), size_}; }
  struct Snapshot {
    std::vector<std::uint64_t> counts;  // per bucket, the last beyond every bound; not cumulative
    double sum = 0;
  };
  [[nodiscard]] Snapshot snapshot() const;

 private:
  std::array<double, bounds_max> bounds_{};
  std::size_t size_ = 0;
  std::array<std::atomic<std::uint64_t>, bounds_max + 1> counts_{};
  std::atomic<double> sum_{0};
};
// 0.5 ms … 60 s; 1 ms … 1 h.
[[nodiscard]] std::span<const double> latency_bounds();
[[nodiscard]] std::span<const double> delay_bounds();

// Where a collector puts what it has folded. A series is put once per scrape; an object that is gone is simply not put.
class MetricSink {
 public:
  virtual ~MetricSink() = default;
  virtual void put(const MetricFamily& family, double value, Labels labels = {}) = 0;
  // A distribution that somebody else counts: per bucket, not cumulative, one more than there are bounds.
  virtual void put(const MetricFamily& family, std::span<const double> bounds, std::span<const std::uint64_t> counts, double sum, Labels labels = {}) = 0;
  void put(const MetricFamily& family, const Histogram& histogram, Labels labels = {});
  // All of `states` at 0 but `now`, at 1, in label `label`.
  void put_state(const MetricFamily& family, std::string_view label, std::span<const std::string_view> states, std::string_view now, const Labels& others = {});
};

class Metrics {
 public:
  explicit Metrics(std::size_t series_per_family_max = 2000);
  ~Metrics();
  // Called at every scrape, on the scraping thread, in the order of adding. Returns a handle for remove().
  int add(std::function<void(MetricSink&)> collect);
  void remove(int handle);
  // The text exposition format.
  [[nodiscard]] std::string scrape();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// process_*, zaris_build_info, zaris_log_messages_total …: what every process has. `component`: "zarisd".
void add_process_metrics(Metrics& metrics, const std::string& component, const std::string& version, const std::string& revision);
[[nodiscard]] std::span<const MetricFamily> process_families();

// docs/reference/metrics.md
struct MetricChapter {
  std::string title;
  std::span<const MetricFamily> families;
};
[[nodiscard]] std::string metrics_page(const std::vector<MetricChapter>& chapters);

}  // namespace zaris::admin
