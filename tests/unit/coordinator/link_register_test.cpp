// Who may write into a scope: the decision as a table.
#include "cluster/coordinator/link_register.hpp"

#include <gtest/gtest.h>

#include <functional>

namespace zaris::coordinator {
namespace {

Scope scope_of(std::vector<std::string> prefixes) { return Scope::make(std::move(prefixes)).value(); }

LinkEntry entry_of(const std::string& link, const Scope& scope) {
  LinkEntry entry;
  entry.link = link;
  entry.source_cluster = ClusterId{1};
  entry.scope = scope;
  entry.site_epoch = SiteEpoch{4};
  entry.follower_term = FollowerTerm{10};
  entry.opened_us = 50;
  return entry;
}

LinkOpening opening_of(const std::string& link, const Scope& scope) {
  LinkOpening opening;
  opening.link = link;
  opening.source_cluster = ClusterId{1};
  opening.scope = scope;
  opening.site_epoch = SiteEpoch{4};
  opening.follower_term = FollowerTerm{10};
  opening.now_us = 99;
  return opening;
}

struct Case {
  const char* what;
  std::function<void(LinkOpening&)> change;
  std::string code;  // empty: admitted
};

TEST(LinkRegisterTest, WhoIsAdmitted) {
  LinkRegister links;
  links.links = {entry_of("one", scope_of({"t1:"})), entry_of("two", scope_of({"t2:"}))};
  const std::vector<Case> table = {
      {"the same again", [](auto&) {}, ""},
      {"no name", [](auto& o) { o.link = ""; }, "link_name_invalid"},
      {"a name of 256 bytes", [](auto& o) { o.link = std::string(256, 'x'); }, "link_name_invalid"},
      {"a scope of its own", [](auto& o) { o.link = "three", o.scope = scope_of({"t3:"}); }, ""},
      {"another link's scope", [](auto& o) { o.link = "three"; }, "scope_mismatch"},
      {"everything, over another link's part", [](auto& o) { o.link = "three", o.scope = Scope(); }, "scope_mismatch"},
      {"a part of another link's scope", [](auto& o) { o.link = "three", o.scope = scope_of({"t2:a"}); }, "scope_mismatch"},
      {"growing into another link's scope", [](auto& o) { o.scope = scope_of({"t1:", "t2:"}); }, "scope_mismatch"},
      {"another scope, by one that had this one open", [](auto& o) { o.scope = scope_of({"t1:", "t4:"}), o.reopens = true; }, "term_superseded"},
      {"another source, by one that had this link open", [](auto& o) { o.source_cluster = ClusterId{2}, o.reopens = true; }, "term_superseded"},
      {"the same, with an operator's yes", [](auto& o) { o.source_cluster = ClusterId{2}, o.reopens = o.replace_source = true; }, ""},
      {"the same scope once more", [](auto& o) { o.reopens = true; }, ""},
      {"growing into free keys", [](auto& o) { o.scope = scope_of({"t1:", "t4:"}); }, ""},
      {"growing into keys that stand here", [](auto& o) { o.scope = scope_of({"t1:", "t4:"}), o.live_keys = 3; }, "scope_holds_data"},
      {"the same with yes", [](auto& o) { o.scope = scope_of({"t1:", "t4:"}), o.live_keys = 3, o.adopt_data = true; }, ""},
      {"yes does not help against another link", [](auto& o) { o.link = "three", o.adopt_data = true; }, "scope_mismatch"},
      {"an older follower", [](auto& o) { o.follower_term = FollowerTerm{9}; }, "term_superseded"},
      {"a newer follower", [](auto& o) { o.follower_term = FollowerTerm{11}; }, ""},
      {"an older site epoch", [](auto& o) { o.site_epoch = SiteEpoch{3}; }, "epoch_superseded"},
      {"a newer site epoch", [](auto& o) { o.site_epoch = SiteEpoch{5}; }, ""},
      {"another source", [](auto& o) { o.source_cluster = ClusterId{2}; }, "source_changed"},
      {"another source with yes", [](auto& o) { o.source_cluster = ClusterId{2}, o.replace_source = true; }, ""},
      {"another source with a yes that is about data", [](auto& o) { o.source_cluster = ClusterId{2}, o.adopt_data = true; }, "source_changed"},
      {"data with a yes that is about the source", [](auto& o) { o.scope = scope_of({"t1:", "t4:"}), o.live_keys = 3, o.replace_source = true; }, "scope_holds_data"},
  };
  for (const auto& row : table) {
    auto opening = opening_of("one", scope_of({"t1:"}));
    row.change(opening);
    const auto opened = admit(links, SiteEpoch{0}, opening);
    EXPECT_EQ(opened ? "" : opened.error().code, row.code) << row.what;
    if (opened) {
      EXPECT_TRUE(opened->entry.standby) << row.what;
      EXPECT_EQ(opened->entry.scope, opening.scope) << row.what;
      EXPECT_EQ(opened->entry.follower_term, opening.follower_term) << row.what;
    }
  }
}

TEST(LinkRegisterTest, TheActiveSideTakesNothing) {
  LinkRegister links;
  links.links = {entry_of("one", Scope())};
  links.links[0].standby = false;
  EXPECT_EQ(admit(links, SiteEpoch{0}, opening_of("one", Scope())).error().code, "epoch_superseded");
}

TEST(LinkRegisterTest, AScopesEpochOutlivesItsLink) {
  EXPECT_EQ(admit(LinkRegister{}, SiteEpoch{5}, opening_of("new", Scope())).error().code, "epoch_superseded");
  EXPECT_EQ(admit(LinkRegister{}, SiteEpoch{4}, opening_of("new", Scope()))->entry.site_epoch, SiteEpoch{4});
}

TEST(LinkRegisterTest, WhatLeavesAScopeIsRememberedUntilItIsFedAgain) {
  LinkRegister links;
  links.links = {entry_of("one", scope_of({"a", "b"}))};
  auto narrower = admit(links, SiteEpoch{0}, opening_of("one", scope_of({"a"}))).value();
  EXPECT_FALSE(narrower.first);
  EXPECT_EQ(narrower.replaced_scope, scope_of({"a", "b"}));
  ASSERT_EQ(narrower.entry.left_scopes.size(), 1u);
  links.links[0] = narrower.entry;
  const auto wider = admit(links, SiteEpoch{0}, opening_of("one", scope_of({"a", "b", "c"}))).value();
  EXPECT_TRUE(wider.entry.left_scopes.empty());
  EXPECT_EQ(wider.replaced_scope, scope_of({"a"}));
}

TEST(LinkRegisterTest, TheStandbyOfAKey) {
  LinkRegister links;
  links.links = {entry_of("one", scope_of({"t1:"})), entry_of("two", scope_of({"t2:"}))};
  links.links[1].standby = false;
  EXPECT_EQ(links.standby_of(Slot{0}, "t1:x"), &links.links[0]);
  EXPECT_EQ(links.standby_of(Slot{0}, "t2:x"), nullptr);
  EXPECT_EQ(links.standby_of(Slot{0}, ""), nullptr);
}

}  // namespace
}  // namespace zaris::coordinator
