#include "cluster/region/settings_watch.hpp"

#include <gtest/gtest.h>

namespace zaris::region {
namespace {

using Settings = std::map<std::string, std::string>;

std::map<std::string, Held<MemberRow>> members(const Settings& n1, const Settings& n2) {
  std::map<std::string, Held<MemberRow>> out;
  out["n1"].value.settings = n1;
  out["n2"].value.settings = n2;
  return out;
}

TEST(SettingsWatch, SaysWhatAnotherNodeHasOtherwiseAndWhenItIsOver) {
  const Settings own{{"replication.ack", "replica"}, {"feed.ship", "replicated"}};
  SettingsWatch watch("n1", own);
  EXPECT_FALSE(watch.look(members(own, own)));
  EXPECT_TRUE(watch.look(members(own, {{"replication.ack", "async"}, {"feed.ship", "replicated"}})));
  EXPECT_EQ(watch.text(), "n2: replication.ack is async there, replica here");
  EXPECT_FALSE(watch.look(members(own, {{"replication.ack", "async"}, {"feed.ship", "replicated"}}))) << "once";
  EXPECT_TRUE(watch.look(members(own, own)));
  EXPECT_EQ(watch.text(), "");
}

TEST(SettingsWatch, LeavesOutWhatAnotherVersionDoesNotTellOrKnow) {
  const Settings own{{"replication.ack", "replica"}};
  SettingsWatch watch("n1", own);
  EXPECT_FALSE(watch.look(members(own, {})));
  EXPECT_FALSE(watch.look(members(own, {{"of.later", "1"}})));
  EXPECT_FALSE(watch.look(members({{"replication.ack", "async"}}, own))) << "of its own name";
}

}  // namespace
}  // namespace zaris::region
