// docs/reference/metrics.md is made from the tables in the code and is current.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "cluster/admin/certificate_watch.hpp"
#include "cluster/node/node.hpp"
#include "follower/shell/link_metrics.hpp"
#include "programs/feed_metrics/feed_metrics.hpp"

namespace zaris {
namespace {

std::vector<admin::MetricChapter> chapters() {
  return {{"Every process", admin::process_families()},
          {"Every process: health", admin::admin_families()},
          {"Every process: certificates", admin::certificate_families()},
          {"zarisd: node", node::node_families()},
          {"zarisd: one of several nodes", node::region_families()},
          {"zarisd and zaris-gateway: feed", feed_families()},
          {"zaris-gateway", table_families()},
          {"zaris-follower", follower::follower_families()}};
}

TEST(MetricsPage, is_current) {
  const std::string path = std::string(ZARIS_SOURCE_DIR) + "/docs/reference/metrics.md";
  const std::string wanted = admin::metrics_page(chapters());
  if (std::getenv("ZARIS_REGENERATE") != nullptr) std::ofstream(path) << wanted;
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  EXPECT_EQ(text.str(), wanted) << "stale: run tests/unit/config/regenerate";
}

TEST(MetricsPage, names_follow_the_rules) {
  for (const auto& chapter : chapters()) {
    for (const admin::MetricFamily& family : chapter.families) {
      const std::string name(family.name);
      EXPECT_TRUE(name.starts_with("zaris_") || name.starts_with("process_")) << name;
      EXPECT_EQ(name.ends_with("_total"), family.type == admin::MetricType::counter) << name;
      EXPECT_FALSE(family.help.empty()) << name;
    }
  }
}

}  // namespace
}  // namespace zaris
