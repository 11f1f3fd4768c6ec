#include "cluster/admin/metrics.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace zaris::admin {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr MetricFamily things{"zaris_things_total", MetricType::counter, "kind: a, b", "Things."};
constexpr MetricFamily state{"zaris_state", MetricType::gauge, "state", "State."};
constexpr MetricFamily delay{"zaris_delay_seconds", MetricType::histogram, "", "Delay."};

TEST(Metrics, are_folded_at_the_scrape_and_go_with_their_object) {
  Metrics metrics;
  int n = 1;
  const int handle = metrics.add([&](MetricSink& sink) { sink.put(things, n, {{"kind", "a"}}); });
  EXPECT_THAT(metrics.scrape(), HasSubstr("zaris_things_total{kind=\"a\"} 1"));
  n = 5;
  EXPECT_THAT(metrics.scrape(), HasSubstr("zaris_things_total{kind=\"a\"} 5"));
  metrics.remove(handle);
  EXPECT_THAT(metrics.scrape(), Not(HasSubstr("zaris_things_total")));
}

TEST(Metrics, exactly_one_state_is_1) {
  Metrics metrics;
  static constexpr std::string_view states[] = {"up", "down"};
  metrics.add([&](MetricSink& sink) { sink.put_state(state, "state", states, "down"); });
  EXPECT_THAT(metrics.scrape(), HasSubstr("zaris_state{state=\"up\"} 0\nzaris_state{state=\"down\"} 1\n"));
}

TEST(Metrics, a_family_is_capped_and_says_how_many_series_it_left_out) {
  Metrics metrics(10);
  metrics.add([](MetricSink& sink) {
    for (int i = 0; i < 25; ++i) sink.put(things, i, {{"kind", std::to_string(i)}});
  });
  const std::string text = metrics.scrape();
  EXPECT_THAT(text, HasSubstr("zaris_things_total{kind=\"9\"} 9"));
  EXPECT_THAT(text, Not(HasSubstr("kind=\"10\"")));
  EXPECT_THAT(text, HasSubstr("zaris_metrics_series_dropped_total{family=\"zaris_things_total\"} 15"));
}

TEST(Metrics, a_known_delay_lands_in_its_bucket) {
  Histogram histogram(latency_bounds());
  histogram.observe(0.003);
  histogram.observe(0.005);
  histogram.observe(100);
  Metrics metrics;
  metrics.add([&](MetricSink& sink) { sink.put(delay, histogram); });
  const std::string text = metrics.scrape();
  EXPECT_THAT(text, HasSubstr("zaris_delay_seconds_bucket{le=\"0.0025\"} 0"));
  EXPECT_THAT(text, HasSubstr("zaris_delay_seconds_bucket{le=\"0.005\"} 2"));
  EXPECT_THAT(text, HasSubstr("zaris_delay_seconds_bucket{le=\"60\"} 2"));
  EXPECT_THAT(text, HasSubstr("zaris_delay_seconds_bucket{le=\"+Inf\"} 3"));
  EXPECT_THAT(text, HasSubstr("zaris_delay_seconds_count 3"));
}

TEST(Metrics, the_process_says_what_it_is_and_takes) {
  Metrics metrics;
  add_process_metrics(metrics, "zarisd", "1.2.3", "abc");
  const std::string text = metrics.scrape();
  EXPECT_THAT(text, HasSubstr("zaris_build_info{component=\"zarisd\",version=\"1.2.3\",revision=\"abc\"} 1"));
  for (const MetricFamily& family : process_families()) EXPECT_THAT(text, HasSubstr("# HELP " + std::string(family.name) + " " + std::string(family.help)));
  EXPECT_THAT(text, Not(HasSubstr("process_start_time_seconds 0\n")));
}

}  // namespace
}  // namespace zaris::admin
