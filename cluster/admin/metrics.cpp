#include "cluster/admin/metrics.hpp"

#include <fmt/format.h>
#include <prometheus/client_metric.h>
#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "cluster/base/assert.hpp"

namespace zaris::admin {
namespace {

constexpr std::array<double, 17> latency{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 60};
constexpr std::array<double, 20> delay{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 60, 120, 300, 600, 1800, 3600};

constexpr MetricFamily series_now{"zaris_metrics_series", MetricType::gauge, "", "Series this process exposed at its last scrape."};
constexpr MetricFamily series_dropped{"zaris_metrics_series_dropped_total", MetricType::counter, "family",
                                      "Series left out because a family reached its cap; above 0 means dashboards show a part."};

prometheus::MetricType type_of(MetricType type) {
  switch (type) {
    case MetricType::counter: return prometheus::MetricType::Counter;
    case MetricType::gauge: return prometheus::MetricType::Gauge;
    case MetricType::histogram: return prometheus::MetricType::Histogram;
  }
  return prometheus::MetricType::Untyped;
}

class Fold : public MetricSink {
 public:
  explicit Fold(std::size_t series_max) : series_max_(series_max) {}

  void put(const MetricFamily& family, double value, Labels labels) override {
    prometheus::ClientMetric metric;
    if (family.type == MetricType::counter) metric.counter.value = value;
    else metric.gauge.value = value;
    add(family, std::move(metric), std::move(labels));
  }
  void put(const MetricFamily& family, std::span<const double> bounds, std::span<const std::uint64_t> counts, double sum, Labels labels) override {
    prometheus::ClientMetric metric;
    std::uint64_t cumulative = 0;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      cumulative += counts[i];
      metric.histogram.bucket.push_back({cumulative, i < bounds.size() ? bounds[i] : std::numeric_limits<double>::infinity()});
    }
    metric.histogram.sample_count = cumulative;
    metric.histogram.sample_sum = sum;
    add(family, std::move(metric), std::move(labels));
  }

  std::vector<prometheus::MetricFamily> families;
  std::map<std::string, std::uint64_t> dropped;
  std::size_t series = 0;

 private:
  void add(const MetricFamily& family, prometheus::ClientMetric metric, Labels labels) {
    auto at = std::find_if(families.begin(), families.end(), [&](const auto& f) { return f.name == family.name; });
    if (at == families.end()) {
      families.push_back({std::string(family.name), std::string(family.help), type_of(family.type), {}});
      at = families.end() - 1;
    }
    if (at->metric.size() >= series_max_) {
      ++dropped[std::string(family.name)];
      return;
    }
    for (auto& [key, value] : labels) metric.label.push_back({std::move(key), std::move(value)});
    at->metric.push_back(std::move(metric));
    ++series;
  }
  std::size_t series_max_;
};

}  // namespace

std::span<const double> latency_bounds() { return latency; }
std::span<const double> delay_bounds() { return delay; }

Histogram::Histogram(std::span<const double> bounds) : size_(bounds.size()) {
  ZARIS_ASSERT(size_ <= bounds_max, size_);
  std::copy(bounds.begin(), bounds.end(), bounds_.begin());
}

void Histogram::observe(double value, std::uint64_t times) {
  const auto end = bounds_.begin() + static_cast<std::ptrdiff_t>(size_);
  const auto at = static_cast<std::size_t>(std::lower_bound(bounds_.begin(), end, value) - bounds_.begin());
  counts_[at].fetch_add(times, std::memory_order_relaxed);
  sum_.fetch_add(value * static_cast<double>(times), std::memory_order_relaxed);
}

Histogram::Snapshot Histogram::snapshot() const {
  Snapshot out;
  for (std::size_t i = 0; i <= size_; ++i) out.counts.push_back(counts_[i].load(std::memory_order_relaxed));
  out.sum = sum_.load(std::memory_order_relaxed);
  return out;
}

void MetricSink::put(const MetricFamily& family, const Histogram& histogram, Labels labels) {
  const Histogram::Snapshot snapshot = histogram.snapshot();
  put(family, histogram.bounds(), snapshot.counts, snapshot.sum, std::move(labels));
}

void MetricSink::put_state(const MetricFamily& family, std::string_view label, std::span<const std::string_view> states, std::string_view now, const Labels& others) {
  for (const std::string_view state : states) {
    Labels labels = others;
    labels.emplace_back(label, state);
    put(family, state == now ? 1 : 0, std::move(labels));
  }
}

struct Metrics::Impl : prometheus::Collectable {
  std::size_t series_max;
  mutable std::mutex mutex;
  std::map<int, std::function<void(MetricSink&)>> collectors;
  int next = 1;
  mutable std::map<std::string, std::uint64_t> dropped;

  explicit Impl(std::size_t max) : series_max(max) {}

  std::vector<prometheus::MetricFamily> Collect() const override {
    const std::lock_guard lock(mutex);
    Fold fold(series_max);
    for (const auto& [handle, collect] : collectors) collect(fold);
    for (const auto& [family, count] : fold.dropped) dropped[family] += count;
    for (const auto& [family, count] : dropped) fold.put(series_dropped, static_cast<double>(count), {{"family", family}});
    if (dropped.empty()) fold.put(series_dropped, 0, {{"family", ""}});
    fold.put(series_now, static_cast<double>(fold.series + 1), {});
    return std::move(fold.families);
  }
};

Metrics::Metrics(std::size_t series_per_family_max) : impl_(std::make_unique<Impl>(series_per_family_max)) {}
Metrics::~Metrics() = default;

int Metrics::add(std::function<void(MetricSink&)> collect) {
  const std::lock_guard lock(impl_->mutex);
  impl_->collectors.emplace(impl_->next, std::move(collect));
  return impl_->next++;
}

void Metrics::remove(int handle) {
  const std::lock_guard lock(impl_->mutex);
  impl_->collectors.erase(handle);
}

std::string Metrics::scrape() { return prometheus::TextSerializer().Serialize(impl_->Collect()); }

std::string metrics_page(const std::vector<MetricChapter>& chapters) {
  std::string out =
      "# Metrics\n\n"
      "<!-- Made from the tables in the code by tests/unit/config/regenerate; a test fails when it is stale. -->\n\n"
      "Every process serves these at `/metrics` on its admin listener. Time is in seconds, size in bytes, parts are ratios of 1; a moment\n"
      "is a Unix time, so that the query does `time() - x`. All label values of a counter are there at 0 from the start. A state is a set of\n"
      "series of which exactly one is 1. Names and label values are an interface: they change only with a release that has both.\n";
  for (const MetricChapter& chapter : chapters) {
    out += fmt::format("\n## {}\n\n| name | type | labels | meaning |\n|---|---|---|---|\n", chapter.title);
    for (const MetricFamily& family : chapter.families) {
      static constexpr std::string_view types[] = {"counter", "gauge", "histogram"};
      out += fmt::format("| `{}` | {} | {} | {} |\n", family.name, types[static_cast<int>(family.type)],
                         family.labels.empty() ? std::string("–") : std::string(family.labels), family.help);
    }
  }
  return out;
}

}  // namespace zaris::admin
