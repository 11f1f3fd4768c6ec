// What a region says of itself, and what comes of an operator's word, when nodes are gone. Deterministic, as region_test.cpp.
#include <gmock/gmock.h>

#include <algorithm>

#include "tests/simulation/region/region_world.hpp"

namespace zaris::region_simulation {
namespace {

using ::testing::HasSubstr;
using namespace ownership;

constexpr MonoMicros second = 1'000'000;

// Two groups of two: nobody of the one may hold what the other has.
struct Groups : World {
  explicit Groups(const std::string& called = "n") : World({.nodes = 4, .replication_factor = 2, .policy = Durability::owner, .names = called}), names(called) {
    EXPECT_TRUE(run_until([&] { return healthy(); }, 60 * second)) << story();
    run_for(2 * second);
    const std::string leads = names + std::to_string(*leader() + 1);
    for (const Partition& one : map_of(*leader())) {
      if (!one.has_member(leads)) lost = one;
    }
    EXPECT_EQ(lost.members().size(), 2u);
  }
  [[nodiscard]] const std::vector<Partition>& map_of(std::size_t node) const { return core(node).mirror().map()->value.partitions; }
  [[nodiscard]] std::size_t place(const std::string& name) const { return static_cast<std::size_t>(std::stoul(name.substr(names.size()))) - 1; }
  [[nodiscard]] PartitionOwner row() const { return *core(*leader()).mirror().ownership()->value.find(lost.id); }
  [[nodiscard]] bool pending() const { return core(*leader()).mirror().accepted().contains(to_string(lost.id)); }
  void lose() {
    for (const std::string& name : lost.members()) kill(place(name));
    ASSERT_TRUE(run_until([&] { return row().state == PartitionState::unavailable; }, 60 * second)) << story();
  }
  const std::string names;
  Partition lost;                        // of the group that the leader is not in
};

TEST(Accepted, what_nobody_who_lives_may_begin_waits_and_is_said_to_wait) {
  Groups world;
  world.lose();
  EXPECT_THAT(world.row().reason, testing::Not(HasSubstr(", not "))) << "who answers is named, and who does not";
  world.accept_empty();
  ASSERT_TRUE(world.run_until([&] { return world.row().reason.find("an operator has accepted the loss: whichever of " + world.lost.primary) != std::string::npos; }, 10 * second)) << world.row().reason;
  world.run_for(20 * second);
  EXPECT_TRUE(world.pending());
  EXPECT_FALSE(world.owner(world.lost.first));
  world.start(world.place(world.lost.replicas[0]));
  ASSERT_TRUE(world.run_until([&] { return world.owner(world.lost.first).has_value(); }, 60 * second)) << world.story();
  EXPECT_TRUE(world.run_until([&] { return !world.pending(); }, 5 * second)) << "it is fulfilled, and gone";
}

TEST(Accepted, what_is_taken_back_does_not_come_about) {
  Groups world;
  world.lose();
  world.accept_empty();
  ASSERT_TRUE(world.run_until([&] { return world.pending(); }, 5 * second));
  world.take_back_accepted();
  ASSERT_TRUE(world.run_until([&] { return !world.pending(); }, 5 * second));
  world.start(world.place(world.lost.replicas[0]));
  world.run_for(30 * second);
  EXPECT_FALSE(world.owner(world.lost.first)) << "it begins empty on nobody's word";
  EXPECT_EQ(world.row().state, PartitionState::unavailable);
  world.accept_empty();
  EXPECT_TRUE(world.run_until([&] { return world.owner(world.lost.first).has_value(); }, 60 * second)) << world.story();
}

// The document cuts long reasons; the leader that compared with the whole of them wrote one every few milliseconds.
TEST(Accepted, a_reason_that_is_too_long_for_the_document_is_written_once) {
  Groups world(std::string(60, 'n'));
  world.lose();
  world.run_for(5 * second);
  const auto& leader = world.core(*world.leader()).leader();
  const std::uint64_t writes = leader.counters().writes;
  world.accept_empty();
  world.run_for(20 * second);
  EXPECT_LE(leader.counters().writes - writes, 16u);
}

// Both come to the leader at one moment: whichever etcd took first counts, and the other knows.
TEST(Accepted, what_is_taken_back_while_the_leader_acts_on_it_counts_or_is_too_late) {
  // When it acts, to the step; the same in every world of this seed.
  Groups first;
  first.lose();
  first.accept_empty();
  first.start(first.place(first.lost.replicas[0]));
  const MonoMicros began = first.now();
  ASSERT_TRUE(first.run_until([&] { return first.row().owner == first.lost.replicas[0]; }, 60 * second));
  const MonoMicros acts = first.now() - began;
  for (MonoMicros after = acts - 12 * World::step_us; after < acts + 4 * World::step_us; after += World::step_us) {
    Groups world;
    world.lose();
    world.accept_empty();
    world.start(world.place(world.lost.replicas[0]));
    world.run_for(after);
    const bool there = world.take_back_accepted();
    const bool begun = world.row().owner == world.lost.replicas[0];
    world.run_for(20 * second);
    EXPECT_EQ(world.owner(world.lost.first).has_value(), !there) << "after " << after << " us, begun: " << begun << "\n" << world.story();
    EXPECT_FALSE(world.pending());
  }
}

TEST(Accepted, is_withdrawn_once_the_partition_has_an_owner) {
  Groups world;
  // Cut off, not dead: both still have everything, and come back with it.
  for (const std::string& name : world.lost.members()) world.isolate(world.place(name), true);
  ASSERT_TRUE(world.run_until([&] { return world.row().state == PartitionState::unavailable || world.row().state == PartitionState::recovering; }, 60 * second)) << world.story();
  world.heal();
  ASSERT_TRUE(world.run_until([&] { return world.healthy(); }, 60 * second)) << world.story();
  // Said too late: of a partition that has an owner by now it must not speak at its next loss.
  world.accept(world.lost.id);
  ASSERT_TRUE(world.run_until([&] { return world.pending(); }, 5 * second));
  EXPECT_TRUE(world.run_until([&] { return !world.pending(); }, 5 * second)) << world.story();
}

TEST(Heard, an_owner_that_dies_while_etcd_is_away_is_known_to_be_gone) {
  Groups world;
  const PartitionOwner row = world.row();
  const std::size_t owner = world.place(*row.owner);
  for (std::size_t i = 0; i < world.size(); ++i) EXPECT_TRUE(world.core(i).hears(*row.owner, row.incarnation)) << i;
  world.etcd_down(true);
  world.run_for(10 * second);
  for (std::size_t i = 0; i < world.size(); ++i) EXPECT_TRUE(world.core(i).hears(*row.owner, row.incarnation)) << "connected with it: " << i;
  world.kill(owner);
  const auto known = [&] {
    for (std::size_t i = 0; i < world.size(); ++i) {
      if (i != owner && world.core(i).hears(*row.owner, row.incarnation)) return false;
    }
    return true;
  };
  EXPECT_TRUE(world.run_until(known, 10 * second));
  EXPECT_EQ(world.row().state, PartitionState::healthy) << "as it was written down, and nobody can write";
  // Another process under its name is not the one that owned.
  world.etcd_down(false);
  world.start(owner);
  world.run_for(500'000);
  EXPECT_FALSE(world.core((owner + 1) % world.size()).hears(*row.owner, row.incarnation));
}

TEST(Health, says_how_many_copies_are_in_step_now_not_when_the_state_changed_last) {
  World world({.nodes = 3, .replication_factor = 3, .policy = Durability::owner});
  ASSERT_TRUE(world.run_until([&] { return world.healthy(); }, 60 * second)) << world.story();
  world.run_for(20 * second);
  const std::size_t stays = *world.owner(SegmentId{0});
  const auto reason = [&] {
    const auto leads = world.leader();
    if (!leads || !world.core(*leads).mirror().ownership()) return std::string();
    for (const Partition& one : world.core(*leads).mirror().map()->value.partitions) {
      if (one.first == SegmentId{0}) return world.core(*leads).mirror().ownership()->value.find(one.id)->reason;
    }
    return std::string();
  };
  world.kill((stays + 1) % 3);
  ASSERT_TRUE(world.run_until([&] { return reason() == "1 of 2 replicas are in step"; }, 30 * second)) << reason();
  world.kill((stays + 2) % 3);
  ASSERT_TRUE(world.run_until([&] { return reason() == "0 of 2 replicas are in step"; }, 30 * second)) << reason();
  world.start((stays + 1) % 3);
  ASSERT_TRUE(world.run_until([&] { return reason() == "1 of 2 replicas are in step"; }, 60 * second)) << reason();
}

TEST(Waits, of_a_drain_says_of_each_partition_who_is_missing) {
  Groups world;
  const std::string leaving = *world.row().owner;
  const std::string other = world.lost.primary == leaving ? world.lost.replicas[0] : world.lost.primary;
  world.kill(world.place(other));
  ASSERT_TRUE(world.run_until([&] { return world.row().owner == leaving && world.core(*world.leader()).mirror().synchronised().at(world.lost.id).value.members.empty(); }, 60 * second)) << world.story();
  world.drain(world.place(leaving));
  const auto said = [&]() -> std::string {
    const auto& waits = world.core(*world.leader()).leader().waits();
    const auto found = waits.find(world.lost.id);
    return found == waits.end() ? "" : found->second;
  };
  EXPECT_TRUE(world.run_until([&] { return said() == leaving + " drains, and nobody can take it: " + other + " is not there"; }, 20 * second)) << said();
  world.start(world.place(other));
  EXPECT_TRUE(world.run_until([&] { return world.drained(world.place(leaving)); }, 60 * second)) << said();
  EXPECT_TRUE(world.run_until([&] { return said().empty(); }, 10 * second)) << said();
}

}  // namespace
}  // namespace zaris::region_simulation
