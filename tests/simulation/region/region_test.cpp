// A region of three nodes and more: forms, fails over, heals, drains, and never has two owners. Deterministic; the story of a failed
// seed is printed.
#include <gmock/gmock.h>

#include <algorithm>

#include "tests/simulation/region/region_world.hpp"

namespace zaris::region_simulation {
namespace {

constexpr MonoMicros second = 1'000'000;

void expect_sound(World& world) {
  EXPECT_LE(world.figures().most_serving, 1u) << world.story();
  world.write(false);
  world.run_for(2 * second);
  world.heal();
  ASSERT_TRUE(world.run_until([&] { return world.healthy(); }, 120 * second)) << world.story();
  // Something may just be given back.
  (void)world.run_until([&] { return world.check().empty(); }, 10 * second);
  EXPECT_EQ(world.check(), "") << world.story();
  EXPECT_LE(world.figures().most_serving, 1u) << world.story();
}

struct Formed : World {
  explicit Formed(WorldOptions options = {}) : World(options) {
    EXPECT_TRUE(run_until([&] { return healthy(); }, 60 * second)) << story();
    write(true);
    run_for(2 * second);
  }
};

TEST(Region, forms_serves_and_keeps_its_copies_equal) {
  Formed world;
  world.run_for(5 * second);
  EXPECT_GT(world.figures().acknowledged, 1000u);
  EXPECT_EQ(world.figures().given_up, 0u);
  expect_sound(world);
}

TEST(Region, a_wall_clock_that_is_wrong_is_seen_by_every_other_node) {
  WorldOptions options;
  options.wall_skew_us = 7'200'000'000;
  Formed world(options);
  for (std::size_t i = 0; i < world.size(); ++i) {
    for (std::size_t j = 0; j < world.size(); ++j) {
      const auto found = world.core(i).clocks().estimate("n" + std::to_string(j + 1));
      ASSERT_EQ(found.has_value(), i != j) << i << " of " << j;
      if (!found) continue;
      const auto truth = static_cast<std::int64_t>(world.wall(j)) - static_cast<std::int64_t>(world.wall(i));
      EXPECT_LE(std::abs(found->ahead_us - truth), found->within_us) << i << " of " << j;
      EXPECT_LT(found->within_us, 50'000) << i << " of " << j;
      EXPECT_TRUE(found->beyond);
    }
  }
  EXPECT_NE(world.story().find("clock_skew: the wall clock of n2 is "), std::string::npos) << world.story();
  world.isolate(1, true);
  ASSERT_TRUE(world.run_until([&] { return !world.core(0).clocks().estimate("n2"); }, 20 * second)) << "nothing is said of a node that is not heard";
  expect_sound(world);
}

TEST(Region, an_owner_that_dies_is_replaced_within_four_seconds) {
  Formed world;
  const auto leader = *world.leader();
  const std::size_t victim = (leader + 1) % world.size();
  world.kill(victim);
  const MonoMicros died = world.now();
  ASSERT_TRUE(world.run_until([&] { return world.all_served(); }, 20 * second)) << world.story();
  EXPECT_LT(world.now() - died, 4 * second);
  world.run_for(5 * second);
  expect_sound(world);
}

TEST(Region, a_leader_that_dies_is_replaced_within_eight_seconds) {
  Formed world;
  world.kill(*world.leader());
  const MonoMicros died = world.now();
  ASSERT_TRUE(world.run_until([&] { return world.all_served(); }, 30 * second)) << world.story();
  EXPECT_LT(world.now() - died, 8 * second);
  expect_sound(world);
}

TEST(Region, a_frozen_owner_is_replaced_and_fenced_when_it_wakes) {
  Formed world;
  const std::size_t victim = (*world.leader() + 1) % world.size();
  world.pause(victim, true);
  ASSERT_TRUE(world.run_until([&] { return world.all_served(); }, 40 * second)) << world.story();
  world.pause(victim, false);
  world.run_for(5 * second);
  expect_sound(world);
}

TEST(Region, an_owner_that_wakes_between_its_fence_and_a_promotion_goes_on) {
  Formed world;
  const std::size_t leader = *world.leader(), victim = (leader + 1) % world.size(), other = (leader + 2) % world.size();
  world.pause(victim, true);
  world.isolate(other, true);                // its answer is waited for: nobody is promoted at once
  ASSERT_TRUE(world.run_until([&] { return world.story().find("is minted for a failover") != std::string::npos; }, 40 * second)) << world.story();
  world.run_for(10'000);
  world.pause(victim, false);
  world.run_for(1 * second);
  world.isolate(other, false);
  ASSERT_TRUE(world.run_until([&] { return world.all_served(); }, 30 * second)) << world.story();
  world.run_for(5 * second);
  expect_sound(world);
}

TEST(Region, a_node_that_is_cut_off_stops_serving_before_another_begins) {
  Formed world;
  const std::size_t victim = (*world.leader() + 1) % world.size();
  world.isolate(victim, true);
  ASSERT_TRUE(world.run_until([&] { return world.all_served(); }, 40 * second)) << world.story();
  world.run_for(5 * second);
  expect_sound(world);
}

// A rolling change of failover.grant, or a mistake: whoever is owner counts on no more than what it was granted.
TEST(Region, nodes_with_grants_of_different_length_never_serve_together) {
  for (std::size_t cut = 0; cut < 3; ++cut) {
    Formed world({.grants = {3 * second, 300'000, 10 * second}});
    world.run_for(15 * second);
    world.isolate(cut, true);
    ASSERT_TRUE(world.run_until([&] { return world.all_served(); }, 60 * second)) << world.story();
    world.run_for(15 * second);
    expect_sound(world);
    world.heal();
    ASSERT_TRUE(world.run_until([&] { return world.healthy(); }, 120 * second)) << world.story();
    expect_sound(world);
  }
}

TEST(Region, serves_on_without_etcd_and_promotes_nobody) {
  Formed world;
  const auto promotions = world.core(*world.leader()).leader().counters().promotions;
  world.etcd_down(true);
  const auto before = world.figures().acknowledged;
  world.run_for(60 * second);
  EXPECT_TRUE(world.all_served()) << world.story();
  EXPECT_GT(world.figures().acknowledged, before + 10'000);
  EXPECT_LT(world.figures().longest_without_service, second) << world.story();
  world.etcd_down(false);
  world.run_for(10 * second);
  for (std::size_t i = 0; i < world.size(); ++i) EXPECT_LE(world.core(i).leader().counters().promotions, promotions) << world.story();
  expect_sound(world);
}

TEST(Region, a_drain_hands_everything_over_without_a_long_pause) {
  Formed world;
  const std::size_t leaving = (*world.leader() + 1) % world.size();
  world.drain(leaving);
  ASSERT_TRUE(world.run_until([&] { return world.drained(leaving); }, 20 * second)) << world.story();
  ASSERT_TRUE(world.run_until([&] { return world.all_served(); }, 5 * second)) << world.story();
  EXPECT_LT(world.figures().longest_without_service, second);
  world.kill(leaving);
  world.run_for(3 * second);
  EXPECT_LT(world.figures().longest_without_service, second) << world.story();
  expect_sound(world);
}

// Two come back with nothing, and an operator accepts what little the third lacks, at the moment in which that one freezes: it is not begun empty beside it.
TEST(Region, what_is_accepted_as_lost_is_not_begun_empty_beside_a_holder_that_sleeps) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    Formed world({.seed = seed});
    world.write(false);
    world.run_for(second);
    const std::size_t sleeps = seed % world.size();
    for (std::size_t node = 0; node < world.size(); ++node) {
      if (node != sleeps) world.kill(node);
    }
    for (std::size_t node = 0; node < world.size(); ++node) world.start(node);
    world.run_for(8 * second);
    world.pause(sleeps, true);
    world.accept_empty();
    world.run_for(15 * second);
    world.pause(sleeps, false);
    ASSERT_TRUE(world.run_until([&] { return world.all_served(); }, 60 * second)) << "seed " << seed << '\n' << world.story();
    expect_sound(world);
  }
}

// One node is being copied to when the others go.
struct HalfCopied : Formed {
  explicit HalfCopied(std::uint64_t seed) : Formed({.seed = seed, .keys = 20'000, .writes_per_step = 200, .log_budget_bytes = 16u << 10, .log_pin_bytes = 16u << 10, .window_bytes = 16u << 10}), half((*leader() + 1) % size()) {
    write(false);
    run_for(second);
    kill(half);
    run_for(8 * second);
    start(half);
    EXPECT_TRUE(run_until([&] { return copying(); }, 20 * second)) << story();
  }
  bool copying() {
    for (std::uint16_t s = 0; s < 8; ++s) {
      if (store(half).state(SegmentId{s}).copying) return true;
    }
    return false;
  }
  std::uint64_t keys(std::size_t node) {
    std::uint64_t all = 0;
    for (std::uint16_t s = 0; s < 8; ++s) all += store(node).state(SegmentId{s}).live_keys;
    return all;
  }
  std::size_t half;
};

// Nobody has the rest any more: an operator's word gives it the partitions with what it has got.
TEST(Region, a_copy_that_nobody_can_finish_is_served_when_an_operator_says_so) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    HalfCopied world(seed);
    for (std::size_t node = 0; node < world.size(); ++node) {
      if (node != world.half) world.kill(node);
    }
    ASSERT_TRUE(world.copying());
    const std::uint64_t had = world.keys(world.half);
    EXPECT_GT(had, 0u);
    for (std::size_t node = 0; node < world.size(); ++node) world.start(node);
    world.run_for(10 * second);
    EXPECT_FALSE(world.all_served());
    world.accept_empty();
    ASSERT_TRUE(world.run_until([&] { return world.healthy(); }, 60 * second)) << "seed " << seed << '\n' << world.story();
    ASSERT_TRUE(world.run_until([&] { return world.whole(); }, 60 * second)) << world.story();
    for (std::size_t node = 0; node < world.size(); ++node) EXPECT_EQ(world.keys(node), had) << node;
    world.write(true);
    world.run_for(2 * second);
    world.write(false);
    ASSERT_TRUE(world.run_until([&] { return world.check().find("is not what it is at") == std::string::npos; }, 10 * second)) << world.check();
  }
}

// Somebody who has everything is only asleep when the operator speaks: nothing is lost.
TEST(Region, a_half_copy_is_not_served_beside_a_holder_that_sleeps) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    HalfCopied world(seed);
    const std::size_t sleeps = (world.half + 1) % world.size(), dies = (world.half + 2) % world.size();
    world.pause(sleeps, true);
    world.kill(dies);
    world.run_for(6 * second);
    world.accept_empty();
    world.run_for(static_cast<MonoMicros>(seed) * second);
    world.pause(sleeps, false);
    world.start(dies);
    ASSERT_TRUE(world.run_until([&] { return world.all_served(); }, 60 * second)) << "seed " << seed << '\n' << world.story();
    expect_sound(world);
  }
}

// A node is told to stop just after another has died: what it holds is needed, and it stays until somebody has taken over.
TEST(Region, a_node_that_is_stopped_after_another_died_waits_for_the_failover) {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    Formed world({.seed = seed});
    const std::size_t leaves = seed % 2 == 0 ? *world.leader() : (*world.leader() + 1) % world.size(), dies = (leaves + 1) % world.size();
    world.kill(dies);
    world.run_for(static_cast<MonoMicros>(seed / 3) * 300'000);
    world.drain(leaves);
    ASSERT_TRUE(world.run_until([&] { return world.drained(leaves); }, 14 * second)) << "seed " << seed << '\n' << world.story();
    world.leave(leaves);
    ASSERT_TRUE(world.run_until([&] { return world.all_served(); }, 20 * second)) << "seed " << seed << '\n' << world.story();
    expect_sound(world);
  }
}

// Whoever takes its leave is counted no longer: a node that dies half a second later is the only one that is missed.
TEST(Region, a_node_that_dies_after_another_was_stopped_is_replaced) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    Formed world({.seed = seed});
    const std::size_t leaves = (*world.leader() + 1) % world.size(), dies = (leaves + 1 + seed % 2) % world.size();
    world.drain(leaves);
    ASSERT_TRUE(world.run_until([&] { return world.drained(leaves); }, 20 * second)) << world.story();
    world.leave(leaves);
    world.run_for(500'000);
    world.kill(dies);
    ASSERT_TRUE(world.run_until([&] { return world.all_served(); }, 20 * second)) << "seed " << seed << '\n' << world.story();
    expect_sound(world);
  }
}

// The owner dies while the only other node that has its newest writes is frozen: whoever is left waits for that one. Counted by a promise of `all`, which these
// writes were not given, it would not wait, and they would be gone.
TEST(Region, an_owner_lost_together_with_the_only_other_holder_takes_nothing_with_it) {
  for (const auto promise : {ownership::AckPolicy::replica, ownership::AckPolicy::all}) {
    Formed world({.promise = promise});
    const std::size_t left = *world.leader(), dies = (left + 1) % world.size(), freezes = (left + 2) % world.size();
    SegmentId segment{0};
    while (world.owner(segment) != dies) segment = SegmentId{static_cast<std::uint16_t>(segment.value() + 1)};
    world.cut(left, dies, true);
    world.run_for(300'000);
    world.pause(freezes, true);
    world.kill(dies);
    world.write(false);
    world.run_for(20 * second);
    EXPECT_EQ(world.owner(segment).has_value(), promise == ownership::AckPolicy::all) << world.story();
    world.pause(freezes, false);
    world.cut(left, dies, false);
    world.start(dies);
    ASSERT_TRUE(world.run_until([&] { return world.whole(); }, 60 * second)) << world.story();
    EXPECT_EQ(world.check().empty(), promise == ownership::AckPolicy::replica) << world.check() << world.story();
  }
}

// What is being executed when the stop comes is part of what is handed over, and answered. Of writes that nobody but the owner had to
// confirm, none is lost either.
TEST(Region, a_drain_answers_what_is_under_way) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    Formed world({.seed = seed, .policy = seed % 2 == 0 ? Durability::replica : Durability::owner, .writes_per_step = 20});
    for (std::size_t leaving = 0; leaving < world.size(); ++leaving) {
      const Figures before = world.figures();
      world.drain(leaving);
      ASSERT_TRUE(world.run_until([&] { return world.drained(leaving); }, 20 * second)) << world.story();
      EXPECT_EQ(world.figures().abandoned, before.abandoned) << "seed " << seed << '\n' << world.story();
      world.kill(leaving);
      world.start(leaving);
      ASSERT_TRUE(world.run_until([&] { return world.whole(); }, 60 * second)) << world.story();
    }
    expect_sound(world);
    EXPECT_EQ(world.figures().lost_async, 0u) << "seed " << seed << '\n' << world.story();
  }
}

// Which happens once all that held some partition are evicted.
TEST(Region, nothing_is_kept_for_a_node_that_has_left_the_map) {
  Formed world({.nodes = 5, .replication_factor = 3, .segments = 16});
  const std::vector<std::string> gone = world.core(*world.leader()).mirror().map()->value.partitions.front().members();
  const auto place = [](const std::string& name) { return static_cast<std::size_t>(name.back() - '1'); };
  const auto kept = [&] {
    std::size_t pins = 0;
    for (std::size_t i = 0; i < world.size(); ++i) {
      if (!world.alive(i)) continue;
      for (const store::PinInfo& pin : world.store(i).pins(world.wall(i))) {
        if (pin.key.target == ClusterId{1} && pin.holds_here() && std::find(gone.begin(), gone.end(), pin.key.link) != gone.end()) ++pins;
      }
    }
    return pins;
  };
  for (const std::string& name : gone) world.kill(place(name));
  world.run_for(15 * second);
  world.write(false);
  EXPECT_GT(kept(), 0u) << "they may come back";
  const auto left = [&] {
    if (!world.leader()) return false;
    const auto& partitions = world.core(*world.leader()).mirror().map()->value.partitions;
    return std::none_of(partitions.begin(), partitions.end(), [&](const auto& partition) {
      return std::any_of(gone.begin(), gone.end(), [&](const std::string& name) { return partition.has_member(name); });
    });
  };
  ASSERT_TRUE(world.run_until(left, 900 * second)) << world.story();
  EXPECT_TRUE(world.run_until([&] { return kept() == 0; }, 10 * second)) << world.story();
}

TEST(Region, a_hand_over_that_is_refused_costs_no_term) {
  Formed world;
  const std::size_t leader = *world.leader(), victim = (leader + 1) % world.size(), other = (leader + 2) % world.size();
  // It has nobody to hand over to: the one drains as well, the other it does not reach.
  world.cut(victim, other, true);
  world.drain(leader);
  world.drain(victim);
  world.run_for(3 * second);
  const std::string story = world.story();
  std::size_t terms = 0;
  for (auto at = story.find("a new term of this node begins"); at != std::string::npos; at = story.find("a new term of this node begins", at + 1)) ++terms;
  EXPECT_LE(terms, 2u) << story;
  world.cut(victim, other, false);
  ASSERT_TRUE(world.run_until([&] { return world.drained(victim); }, 60 * second)) << world.story();
  world.kill(victim);
  world.run_for(2 * second);
  expect_sound(world);
}

// A partition that the leader calls healthy although nobody serves it or a copy that it counts has died with its process.
std::string said_to_be_healthy_and_is_not(const World& world) {
  const auto leads = world.leader();
  if (!leads) return {};
  const auto& mirror = world.core(*leads).mirror();
  for (const auto& row : mirror.ownership()->value.partitions) {
    if (row.state != ownership::PartitionState::healthy) continue;
    const auto* partition = mirror.map()->value.find(row.id);
    if (!world.owner(partition->first)) return "nobody serves segment " + std::to_string(partition->first.value());
    for (const auto& member : mirror.synchronised().at(row.id).value.members) {
      const std::size_t node = static_cast<std::size_t>(std::stoul(member.name.substr(1))) - 1;
      if (!world.alive(node) || world.core(node).roles().incarnation() != member.incarnation) return member.name + " is counted and is another process";
    }
  }
  return {};
}

// Whoever is to take over is cut off at that moment, and the leader dies over it: the one that has stopped for them still sees who lives. Healthy
// means that the next loss is the first.
TEST(Region, a_hand_over_that_cannot_be_done_leaves_nothing_undone) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    Formed world({.seed = seed});
    const std::size_t leader = *world.leader(), leaves = (leader + 1) % world.size(), takes = (leader + 2) % world.size();
    world.drain(leader);
    ASSERT_TRUE(world.run_until([&] { return world.drained(leader); }, 20 * second)) << world.story();
    world.drain(leaves);
    ASSERT_TRUE(world.run_until([&] { return !world.all_served(); }, 5 * second)) << world.story();
    world.cut(leaves, takes, true);
    world.kill(leader);
    world.start(leader);
    const auto known_again = [&] {
      const auto leads = world.leader();
      if (!leads) return false;
      const auto& members = world.core(*leads).mirror().members();
      const auto at = members.find("n" + std::to_string(leader + 1));
      return at != members.end() && at->second.value.incarnation == world.core(leader).roles().incarnation();
    };
    ASSERT_TRUE(world.run_until(known_again, 30 * second)) << world.story();
    world.run_for(3 * second);
    EXPECT_EQ(said_to_be_healthy_and_is_not(world), "") << "seed " << seed << '\n' << world.story();
    world.cut(leaves, takes, false);
    ASSERT_TRUE(world.run_until([&] { return world.healthy(); }, 60 * second)) << "seed " << seed << '\n' << world.story();
    EXPECT_TRUE(world.whole()) << "seed " << seed << '\n' << world.story();
    world.kill(leaves);
    ASSERT_TRUE(world.run_until([&] { return world.all_served(); }, 30 * second)) << "seed " << seed << '\n' << world.story();
    expect_sound(world);
  }
}

TEST(Region, what_a_node_owned_comes_back_to_it_when_it_is_in_step_again) {
  Formed world;
  const std::size_t victim = (*world.leader() + 1) % world.size();
  std::vector<SegmentId> its;
  for (std::uint16_t s = 0; s < 8; ++s) {
    if (world.owner(SegmentId{s}) == victim) its.push_back(SegmentId{s});
  }
  ASSERT_FALSE(its.empty());
  world.kill(victim);
  ASSERT_TRUE(world.run_until([&] { return world.all_served(); }, 20 * second)) << world.story();
  world.start(victim);
  const auto back = [&] {
    for (const SegmentId segment : its) {
      if (world.owner(segment) != victim) return false;
    }
    return true;
  };
  EXPECT_TRUE(world.run_until(back, 60 * second)) << world.story();
  expect_sound(world);
}

TEST(Region, a_node_that_slept_through_a_compaction_lists_anew) {
  Formed world;
  const std::size_t sleeper = (*world.leader() + 1) % world.size();
  world.cut_etcd(sleeper, true);
  world.run_for(3 * second);
  world.kill((*world.leader() + 2) % world.size() == sleeper ? (*world.leader() + 3) % world.size() : (*world.leader() + 2) % world.size());
  world.run_for(10 * second);
  world.compact_etcd();
  world.cut_etcd(sleeper, false);
  world.run_for(10 * second);
  EXPECT_GT(world.core(sleeper).mirror().counters().lists, 1u);
  expect_sound(world);
}

TEST(Region, when_all_nodes_of_a_partition_are_gone_it_is_unavailable_until_an_operator_speaks) {
  Formed world;
  world.write(false);
  world.run_for(2 * second);
  for (std::size_t i = 0; i < world.size(); ++i) world.kill(i);
  world.run_for(5 * second);
  for (std::size_t i = 0; i < world.size(); ++i) world.start(i);
  world.run_for(30 * second);
  for (std::uint16_t s = 0; s < 8; ++s) EXPECT_FALSE(world.owner(SegmentId{s})) << world.story();
  world.accept_empty();
  ASSERT_TRUE(world.run_until([&] { return world.healthy(); }, 60 * second)) << world.story();
  for (std::size_t i = 0; i < world.size(); ++i) {
    for (std::uint16_t s = 0; s < 8; ++s) EXPECT_EQ(world.store(i).lineage(SegmentId{s}).root().cause, RootCause::restarted_empty);
  }
  EXPECT_LE(world.figures().most_serving, 1u);
}

TEST(Region, a_node_that_comes_back_empty_spreads_nothing) {
  Formed world;
  const std::size_t victim = (*world.leader() + 1) % world.size();
  for (int i = 0; i < 5; ++i) {
    world.kill(victim);
    world.run_for(static_cast<MonoMicros>(i) * second);
    world.start(victim);
    world.run_for(3 * second);
  }
  expect_sound(world);
}

// A majority of four copies cannot be had with two nodes; who comes back is let in all the same.
TEST(Region, with_two_of_four_nodes_gone_a_third_that_restarts_gets_in_step) {
  Formed world({.nodes = 4, .replication_factor = 4});
  for (const std::size_t gone : {2, 3, 1}) {
    world.kill(gone);
    world.run_for(10 * second);
  }
  world.start(1);
  const auto in_step = [&] {
    for (std::uint16_t i = 0; i < 8; ++i) {
      const auto owner = world.owner(SegmentId{i});
      if (!owner) return false;
    }
    for (const std::size_t node : {std::size_t{0}, std::size_t{1}}) {
      for (const auto& role : world.core(node).roles().states()) {
        if (role.generation == Generation{}) continue;
        const std::string other = node == 0 ? "n2" : "n1";
        if (std::ranges::none_of(role.synchronised, [&](const ownership::Member& member) { return member.name == other && member.incarnation == world.core(1 - node).roles().incarnation(); })) return false;
      }
    }
    return true;
  };
  EXPECT_TRUE(world.run_until(in_step, 60 * second)) << world.story();
  world.start(2);
  world.start(3);
  expect_sound(world);
}

}  // namespace
}  // namespace zaris::region_simulation
