// What zaris-gateway refuses to start with.
#include <gtest/gtest.h>

#include "cluster/config/load.hpp"

namespace zaris::config {
namespace {

Loaded<GatewayConfig> load(std::vector<Sources::Flag> flags) { return load_gateway_config({{}, std::move(flags), {}}); }

bool complains_of(const Loaded<GatewayConfig>& loaded, const std::string& key) {
  for (const Mistake& mistake : loaded.mistakes) {
    if (mistake.key == key) return true;
  }
  return false;
}

TEST(GatewayConfig, NeedsTheRegionsNodes) { EXPECT_TRUE(complains_of(load({}), "upstream.seeds")); }

TEST(GatewayConfig, ASeedIsAClientAddress) {
  const auto loaded = load({{"upstream.seeds", "[http://n1:7861]", "--set"}, {"listeners.feed.insecure", "true", "--set"}, {"upstream.insecure", "true", "--set"}});
  EXPECT_TRUE(complains_of(loaded, "upstream.seeds"));
}

TEST(GatewayConfig, WithoutCertificatesOnlyWhereItIsSaid) {
  const Sources::Flag seeds{"upstream.seeds", "[zaris://n1:7861]", "--set"};
  const auto none = load({seeds});
  EXPECT_TRUE(complains_of(none, "listeners.feed.address"));
  EXPECT_TRUE(complains_of(none, "upstream.tls.ca"));
  const auto said = load({seeds, {"listeners.feed.insecure", "true", "--set"}, {"upstream.insecure", "true", "--set"}});
  EXPECT_TRUE(said.ok()) << show(said.mistakes);
  EXPECT_EQ(said.config.listeners.admin.address, "127.0.0.1:7882");
}

}  // namespace
}  // namespace zaris::config
