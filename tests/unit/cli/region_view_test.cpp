// What an operator is told of a region, from what its nodes say.
#include <gtest/gtest.h>

#include <cstdlib>

#include <nlohmann/json.hpp>

#include "cluster/cli/region_view.hpp"

namespace zaris::cli {
namespace {

using protocol::RegionStatusAnswer;

// Three nodes, three partitions, two copies each; partition i is owned by node i and copied by the next.
NodeWord node(int self) {
  static const std::string names[] = {"n1", "n2", "n3"};
  NodeWord word;
  word.name = names[self];
  word.address = "127.0.0.1:786" + std::to_string(self);
  auto& status = word.status.emplace();
  status.node = word.name;
  status.region = "a";
  status.state = "serving";
  status.segments = 12;
  status.live_keys = 10;
  status.digest = Digest{1, 1};
  auto& region = word.region.emplace();
  region.map_version = 3;
  region.ownership_version = 7;
  region.node = word.name;
  region.leader = "n1";
  region.leader_term = 41;
  region.converged = region.registered = true;
  region.replication_factor = 2;
  for (const auto& name : names) region.members.push_back({name, "", true, true, name == "n1", false, self == 0 ? "alive" : "", "0.2.0", {}, {}});
  for (std::uint32_t i = 0; i < 3; ++i) {
    auto& partition = region.partitions.emplace_back();
    partition.id = "p" + std::to_string(i);
    partition.first = 4 * i;
    partition.segments = 4;
    partition.primary = partition.owner = names[i];
    partition.state = "healthy";
    partition.replicas = partition.synchronised = {names[(i + 1) % 3]};
    partition.generation = Generation{10 + i};
    partition.role = i == static_cast<std::uint32_t>(self) ? "serving" : "replica";
    partition.lag_revisions = i == static_cast<std::uint32_t>(self) ? i : 0;
  }
  return word;
}

std::vector<NodeWord> three() { return {node(0), node(1), node(2)}; }

std::string faults(const std::vector<NodeWord>& words) {
  std::string out;
  const auto view = view_of(words);
  for (const auto& fault : view["faults"]) out += fault.get<std::string>() + "\n";
  return out;
}

TEST(RegionView, OfNodesThatAgreeIsHealthy) {
  const auto view = view_of(three());
  EXPECT_TRUE(view["healthy"]) << view["faults"];
  EXPECT_TRUE(view["converged"]);
  EXPECT_EQ(view["leader"], "n1");
  EXPECT_EQ(view["nodes_up"], 3);
  EXPECT_EQ(view["lag_revisions_max"], 2) << "each owner's word about its own partition";
  EXPECT_EQ(view["nodes"][1]["owns"], 1);
  EXPECT_EQ(view["nodes"][1]["replica_of"], 1);
  EXPECT_EQ(view["nodes"][1]["member_state"], "alive") << "the leader's word";
  EXPECT_EQ(view["partitions"][2]["segments"], "8-11");
}

TEST(RegionView, NamesANodeThatDoesNotAnswer) {
  auto words = three();
  words[1].status.reset();
  words[1].region.reset();
  words[1].error = Error{"unreachable", "connection refused", {}};
  const auto view = view_of(words);
  EXPECT_FALSE(view["healthy"]);
  EXPECT_EQ(view["nodes_up"], 2);
  EXPECT_EQ(view["nodes"][1]["state"], "silent");
  EXPECT_TRUE(view["partitions"][1]["lag_revisions"].is_null()) << "its owner is not heard";
  EXPECT_NE(faults(words).find("node n2 (127.0.0.1:7861) does not answer: connection refused"), std::string::npos) << faults(words);
  EXPECT_FALSE(sum_of(words, view).whole) << "what it holds is in no sum";
}

TEST(RegionView, BelievesTheNewestOwnership) {
  auto words = three();
  for (const int newer : {1, 2}) {
    words[static_cast<std::size_t>(newer)].region->ownership_version = 8;
    words[static_cast<std::size_t>(newer)].region->partitions[0].owner = "n2";
  }
  const auto view = view_of(words);
  EXPECT_EQ(view["partitions"][0]["owner"], "n2");
  EXPECT_FALSE(view["converged"]);
  EXPECT_NE(faults(words).find("n1 has map 3 and ownership 7"), std::string::npos) << faults(words);
}

TEST(RegionView, SaysWhatIsWrongWithAPartition) {
  const auto with = [](auto change) {
    auto words = three();
    for (auto& word : words) change(word.region->partitions[1]);
    return faults(words);
  };
  EXPECT_NE(with([](auto& p) { p.state = "degraded", p.reason = "1 of 2"; }).find("segments 4-7: degraded: 1 of 2"), std::string::npos);
  EXPECT_NE(with([](auto& p) { p.owner = "", p.state = "unavailable"; }).find("nobody owns them"), std::string::npos);
  EXPECT_NE(with([](auto& p) { p.synchronised.clear(); }).find("no replica is in step with n2"), std::string::npos);
  EXPECT_EQ(with([](auto& p) { p.synchronised.clear(), p.replicas.clear(); }), "") << "one copy is what was asked for";
}

// Its owner is gone, etcd too: what was written last says that all is well.
TEST(RegionView, SaysOfAnOwnerThatNobodyHears) {
  auto words = three();
  words[1].status.reset();
  words[1].region.reset();
  words[1].error = Error{"unreachable", "connection refused", {}};
  for (const std::size_t alive : {0u, 2u}) words[alive].region->partitions[1].state = "not_heard";
  const auto view = view_of(words);
  EXPECT_FALSE(view["healthy"]);
  EXPECT_EQ(view["partitions"][1]["state"], "not_heard");
  EXPECT_NE(faults(words).find("segments 4-7: their owner n2 is not heard"), std::string::npos) << faults(words);
  EXPECT_EQ(sum_of(words, view).status.state, "unavailable");
  words[2].region->partitions[1].state = "healthy";
  EXPECT_EQ(view_of(words)["partitions"][1]["state"], "healthy") << "somebody hears it";
}

TEST(RegionView, IsNotServedWhereAnOwnerMayNotServeNow) {
  auto words = three();
  EXPECT_EQ(sum_of(words, view_of(words)).status.state, "serving");
  words[1].region->partitions[1].serves_by = "nothing";
  const RegionSum sum = sum_of(words, view_of(words));
  EXPECT_EQ(sum.status.state, "unavailable");
  EXPECT_EQ(sum.status.state_reason, "1 of 3 partitions are not served, segments 4-7 among them");
  EXPECT_TRUE(sum.whole) << "what it holds is known";
}

// What a rolling restart waits for before it stops the next one.
TEST(RegionView, LacksACopyWhereANodeThatIsThereIsNotInStep) {
  auto words = three();
  EXPECT_EQ(lacks_copies(view_of(words)), "");
  for (auto& word : words) word.region->partitions[1].synchronised.clear();
  EXPECT_EQ(lacks_copies(view_of(words)), "node n3 is not in step yet with segments 4-7");
  // One that was started a moment ago has nothing: it waits for its predecessor's lease to run out, and is not registered yet.
  for (auto& word : words) word.region->partitions[1].synchronised = {"n3"};
  EXPECT_EQ(lacks_copies(view_of(words)), "");
  words[2].region->registered = false;
  EXPECT_EQ(lacks_copies(view_of(words)), "node n3 is not there (not waited for with --without n3)");
  words[2].region->registered = true;
  words[2].status->state = "starting";
  EXPECT_EQ(lacks_copies(view_of(words)), "node n3 is starting (not waited for with --without n3)");
  words[2].status->state = "serving";
  words[1].region->partitions[1].state = "recovering";
  EXPECT_EQ(lacks_copies(view_of(words)), "segments 4-7 are not served yet");
  words[1].region->partitions[1].state = "healthy";
  words[0].region->converged = false;
  EXPECT_EQ(lacks_copies(view_of(words)), "its nodes do not agree yet on who owns what");
  words[0].region->converged = true;
  for (auto& word : words) word.region->members[2].registered = false;
  EXPECT_EQ(lacks_copies(view_of(words)), "node n3 is not there (not waited for with --without n3)");
  EXPECT_EQ(lacks_copies(view_of(words), {"n3"}), "segments 4-7 have 1 of 2 copies by the map");
  for (auto& word : words) {
    word.region->partitions[1].synchronised = word.region->partitions[1].replicas = {"n1"};
    word.region->partitions[2].owner = word.region->partitions[2].primary = "n1";
    word.region->partitions[2].synchronised = word.region->partitions[2].replicas = {"n2"};
  }
  words[0].region->partitions[2].role = "serving";
  EXPECT_EQ(lacks_copies(view_of(words), {"n3"}), "");
}

TEST(RegionView, BelievesAnOwnerBeforeThoseWhoDoNotHearIt) {
  auto words = three();
  for (const std::size_t other : {0u, 2u}) words[other].region->partitions[1].state = "not_heard";
  EXPECT_TRUE(view_of(words)["healthy"]) << faults(words);
  words[1].region->partitions[1].state = "not_heard";
  words[0].region->partitions[1].state = "healthy";
  EXPECT_EQ(view_of(words)["partitions"][1]["state"], "not_heard") << "it serves by nothing, and knows it";
}

TEST(RegionView, SaysWhoBeginsWhatWasAcceptedAsLost) {
  auto words = three();
  const auto set = [&](auto change) {
    for (auto& word : words) change(*word.region);
  };
  EXPECT_TRUE(view_of(words)["accepted"].empty());
  set([](auto& region) { region.partitions[1].accepted = true, region.partitions[1].state = "unavailable", region.partitions[1].owner = ""; });
  const auto said = [&] { return view_of(words)["accepted"][0].get<std::string>(); };
  EXPECT_EQ(said(), "segments 4-7: whoever holds most of n2 and n3 takes them, empty if none holds anything");
  set([](auto& region) { region.members[1].registered = false; });
  EXPECT_EQ(said(), "segments 4-7: n3 takes them with what it holds, empty if it holds nothing; not waited for: n2");
  set([](auto& region) { region.members[2].registered = false; });
  EXPECT_EQ(said(), "segments 4-7: nobody who lives may begin them: the wish waits for n2 or n3, and is fulfilled with what that one holds then, empty if it holds nothing");
}

TEST(RegionView, SaysWhatIsWrongWithANode) {
  const auto with = [](auto change) {
    auto words = three();
    change(words[2]);
    return faults(words);
  };
  EXPECT_NE(with([](auto& n) { n.status->state = "draining"; }).find("node n3 is draining"), std::string::npos);
  EXPECT_NE(with([](auto& n) { n.region->etcd_trouble = "connection refused"; }).find("etcd does not answer node n3"), std::string::npos);
  EXPECT_NE(with([](auto& n) { n.region->registered = false; }).find("not registered"), std::string::npos);
  EXPECT_NE(with([](auto& n) { n.region->name_taken = true; }).find("under the name of node n3"), std::string::npos);
  EXPECT_NE(with([](auto& n) { n.region->converged = false; }).find("have not converged"), std::string::npos);
  EXPECT_EQ(with([](auto& n) { n.region->members[1].draining = true; }), "") << "a drain is somebody's wish";
}

// A wrong clock is that of the node whose clock is off the region's middle one, whoever says so.
TEST(RegionView, NamesTheNodeWhoseClockIsWrong) {
  auto words = three();
  const auto ahead = [&](std::size_t sees, std::size_t of, std::int64_t us) { words[sees].region->members[of].clock = RegionStatusAnswer::Member::Clock{us, 100, std::abs(us) > 500'000}; };
  EXPECT_TRUE(view_of(words)["nodes"][1]["clock_skew_seconds"].is_null()) << "before the first round trip";
  const std::int64_t hour = 3'600'000'000;
  for (const std::size_t other : {0u, 2u}) {
    ahead(other, 1, hour);
    ahead(1, other, -hour);
    ahead(other, 2 - other, 40);
  }
  const auto view = view_of(words);
  EXPECT_EQ(view["nodes"][1]["clock_skew_seconds"], 3600.0);
  EXPECT_EQ(view["nodes"][0]["clock_skew_seconds"], 0.0);
  EXPECT_EQ(faults(words), "the wall clock of node n2 is 3600.000 s ahead of the others': keys that it owns expire too early\n");
  words[2].region.reset(), words[2].status.reset();
  EXPECT_NE(faults(words).find("node n1 is 3600.000 s behind"), std::string::npos) << "of two nobody can tell which";
  EXPECT_NE(faults(words).find("node n2 is 3600.000 s ahead"), std::string::npos);
}

TEST(RegionView, SaysThatNobodyLeads) {
  auto words = three();
  for (auto& word : words) word.region->leader.clear();
  EXPECT_NE(faults(words).find("no leader"), std::string::npos);
}

TEST(RegionView, OfNobodyIsNotHealthy) {
  EXPECT_FALSE(view_of({})["healthy"]);
  auto words = three();
  for (auto& word : words) word.status.reset(), word.region.reset(), word.error = Error{"timed_out", "", {}};
  EXPECT_FALSE(view_of(words)["healthy"]);
}

TEST(RegionSum, CountsWhatOwnersCount) {
  const auto words = three();
  const RegionSum sum = sum_of(words, view_of(words));
  EXPECT_TRUE(sum.whole);
  EXPECT_EQ(sum.status.live_keys, 30u);
  EXPECT_EQ(sum.status.state, "serving");
  EXPECT_EQ(sum.status.generation, Generation{12});
}

TEST(RegionView, OfAProcessThatAloneIsItsRegion) {
  protocol::StatusAnswer status;
  status.node = "n1";
  status.segments = 256;
  status.state = "serving";
  NodeWord word{"n1", "", status, alone(status), {}};
  EXPECT_TRUE(view_of({word})["healthy"]) << view_of({word})["faults"];
  word.status->state = "holding";
  word.region = alone(*word.status);
  EXPECT_FALSE(view_of({word})["healthy"]);
}

}  // namespace
}  // namespace zaris::cli
