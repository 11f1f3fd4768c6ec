// The states of a node as its leader holds them.
#include "cluster/ownership/membership.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace zaris::ownership {
namespace {

constexpr BootMicros s = boot_second;
const Incarnation first{1}, second{2};

Membership make(BootMicros now = 0) {
  std::vector<Node> nodes;
  for (const char* name : {"a", "b"}) nodes.push_back({.name = name, .host = "h", .cluster_address = std::string(name) + ":1", .client_address = {}, .client_tls_address = {}, .feed_address = {}, .admin_address = {}});
  return Membership(*Roster::make(std::move(nodes)), {.suspect_us = 2 * s, .confirm_us = 10 * s, .grace_us = 30 * s, .evict_us = 100 * s}, now);
}

std::vector<MemberState> path(const std::vector<MemberChange>& changes, const std::string& node) {
  std::vector<MemberState> out;
  for (const MemberChange& c : changes) {
    EXPECT_FALSE(c.reason.empty());
    if (c.node == node) out.push_back(c.to);
  }
  return out;
}

TEST(Membership, SilenceGoesThroughTheStatesOneAfterTheOther) {
  Membership m = make();
  EXPECT_TRUE(m.heartbeat("a", first, s).empty());
  const auto step = [&](BootMicros at, std::vector<MemberState> wanted) {
    EXPECT_TRUE(m.heartbeat("b", first, at).empty());
    EXPECT_TRUE(m.tick(at - 1).empty()) << at;
    EXPECT_EQ(path(m.tick(at), "a"), wanted) << at;
  };
  EXPECT_EQ(m.next_tick(), 2 * s);
  step(3 * s, {MemberState::suspected});
  step(11 * s, {MemberState::unreachable});
  m.lease_seen("a", false, 20 * s);
  m.lease_seen("a", false, 25 * s);  // only the first time counts
  step(41 * s, {MemberState::lost});
  step(121 * s, {MemberState::evicted});
  EXPECT_EQ(m.state("a"), MemberState::evicted);
  EXPECT_EQ(m.state("b"), MemberState::alive);
  EXPECT_EQ(path(m.heartbeat("a", first, 200 * s), "a"), std::vector{MemberState::alive});
}

TEST(Membership, OneLateTickGoesThroughAllThatIsDue) {
  Membership m = make();
  EXPECT_EQ(path(m.tick(500 * s), "a"), (std::vector{MemberState::suspected, MemberState::unreachable}));
  EXPECT_EQ(m.next_tick(), 530 * s) << "grace counts from when it was confirmed";
}

TEST(Membership, WhoStillRenewsIsNeverEvicted) {
  Membership m = make();
  m.lease_seen("a", true, 0);
  (void)m.tick(100 * s);
  (void)m.tick(1000 * s);
  EXPECT_EQ(m.state("a"), MemberState::lost);
  EXPECT_TRUE(m.tick(100'000 * s).empty()) << "silent for a day, but its lease key exists";
  m.lease_seen("a", false, 100'000 * s);
  EXPECT_TRUE(m.tick(100'101 * s - 1).empty());
  m.coordinator_away();
  EXPECT_TRUE(m.tick(100'101 * s).empty()) << "nobody knows now whether it renews";
  m.lease_seen("a", false, 100'200 * s);
  EXPECT_TRUE(m.tick(100'301 * s - 1).empty());
  EXPECT_EQ(path(m.tick(100'301 * s), "a"), std::vector{MemberState::evicted});
}

TEST(Membership, ASignalThatANodeHasLeftIsProbedBeforeItIsBelieved) {
  Membership m = make();
  EXPECT_TRUE(m.left("a", s));
  EXPECT_FALSE(m.left("a", s)) << "one probe at a time";
  EXPECT_EQ(m.state("a"), MemberState::alive);
  EXPECT_TRUE(m.probed("a", true, s).empty()) << "one that answers stays";
  EXPECT_TRUE(m.left("a", 2 * s));
  EXPECT_EQ(path(m.probed("a", false, 2 * s), "a"), std::vector{MemberState::unreachable}) << "without waiting for ten seconds";
  EXPECT_FALSE(m.left("a", 2 * s));
  EXPECT_EQ(path(m.heartbeat("a", first, 3 * s), "a"), std::vector{MemberState::alive});
  EXPECT_TRUE(m.left("a", 4 * s));
  EXPECT_TRUE(m.heartbeat("a", first, 4 * s).empty());
  EXPECT_TRUE(m.probed("a", false, 5 * s).empty()) << "it was heard meanwhile";
  EXPECT_TRUE(m.probed("a", false, 5 * s).empty()) << "nobody asked";
  EXPECT_FALSE(m.left("x", s));
  EXPECT_TRUE(m.heartbeat("x", first, s).empty());
  EXPECT_EQ(m.state("x"), MemberState::decommissioned);
}

TEST(Membership, AProbeThatIsAnsweredEndsASuspicion) {
  Membership m = make();
  (void)m.tick(3 * s);
  EXPECT_EQ(m.state("a"), MemberState::suspected);
  EXPECT_TRUE(m.left("a", 3 * s));
  EXPECT_EQ(path(m.probed("a", true, 4 * s), "a"), std::vector{MemberState::alive});
}

TEST(Membership, AnotherProcessUnderTheNameIsToldAndTheOldOneIsNotHeardAgain) {
  Membership m = make();
  EXPECT_TRUE(m.heartbeat("a", first, s).empty());
  const auto changes = m.heartbeat("a", second, s);
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_TRUE(changes[0].restarted);
  EXPECT_EQ(changes[0].to, MemberState::alive);
  EXPECT_TRUE(m.heartbeat("a", first, 100 * s).empty());
  EXPECT_EQ(m.incarnation("a"), second);
  EXPECT_EQ(path(m.tick(3 * s), "a"), std::vector{MemberState::suspected}) << "the old process' heartbeat did not count";
  const auto back = m.heartbeat("a", Incarnation{3}, 50 * s);
  ASSERT_EQ(back.size(), 1u);
  EXPECT_TRUE(back[0].restarted);
  EXPECT_EQ(back[0].from, MemberState::suspected);
  EXPECT_TRUE(m.heartbeat("a", Incarnation{}, 51 * s).empty());
}

TEST(Membership, DecommissionedIsAnOperatorsWord) {
  Membership m = make();
  EXPECT_EQ(path(m.decommission("a"), "a"), std::vector{MemberState::decommissioned});
  EXPECT_TRUE(m.decommission("a").empty());
  EXPECT_TRUE(m.heartbeat("a", first, s).empty());
  EXPECT_TRUE(path(m.tick(500 * s), "a").empty());
  EXPECT_EQ(m.state("a"), MemberState::decommissioned);
  EXPECT_EQ(path(m.readmit("a", 501 * s), "a"), std::vector{MemberState::alive});
  EXPECT_TRUE(m.readmit("a", 501 * s).empty());
  EXPECT_EQ(m.states().size(), 2u);
}

}  // namespace
}  // namespace zaris::ownership
