// The documents in the coordinator: what is written is read back, what is garbage is refused, and they stay small.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <sstream>

#include "cluster/ownership/compressed_document.hpp"
#include "cluster/ownership/ownership.hpp"
#include "cluster/ownership/planner.hpp"

namespace zaris::ownership {
namespace {

using Json = nlohmann::ordered_json;

PartitionMap example_map() {
  PartitionMap map{.version = 7, .topology_version = 3, .segments = 4, .replication_factor = 2, .provisional = false, .partitions = {}};
  map.partitions.push_back({{0x0123456789ab4def, 0x8123456789abcdef}, SegmentId{0}, 2, "a", {"b"}});
  map.partitions.push_back({{0xfedcba9876544210, 0x9edcba9876543210}, SegmentId{2}, 2, "b", {"a"}});
  return map;
}

Ownership example_ownership() {
  Ownership o{.version = 12, .map_version = 7, .leader_term = 481, .partitions = {}};
  o.partitions.push_back({{0x0123456789ab4def, 0x8123456789abcdef}, "b", Incarnation{0x00000000deadbeef}, Generation{1700000000}, PartitionState::degraded, "0 of 1 replicas are in step"});
  o.partitions.push_back({{0xfedcba9876544210, 0x9edcba9876543210}, std::nullopt, {}, {}, PartitionState::unavailable, {}});
  return o;
}

SynchronisedSet example_set() { return {Generation{1700000000}, {{"a", Incarnation{5}}, {"c", Incarnation{0xfedcba9876543210}}}}; }

std::vector<Json> examples_of_the_page() {
  std::ifstream in(ZARIS_OWNERSHIP_PAGE);
  std::vector<Json> out;
  std::string line, block;
  bool inside = false;
  while (std::getline(in, line)) {
    if (line == "```json") inside = true;
    else if (line == "```" && inside) {
      out.push_back(Json::parse(block));
      block.clear();
      inside = false;
    } else if (inside) block += line + "\n";
  }
  return out;
}

TEST(Documents, ThePageShowsWhatIsWrittenAndWhatIsRead) {
  const auto page = examples_of_the_page();
  ASSERT_EQ(page.size(), 3u);
  EXPECT_EQ(*parse_document(encode(example_map()), "it"), nlohmann::json(page[0]));
  EXPECT_EQ(*decode_partition_map(compress_document(page[0])), example_map());
  EXPECT_EQ(*parse_document(encode(example_ownership()), "it"), nlohmann::json(page[1]));
  EXPECT_EQ(*decode_ownership(compress_document(page[1])), example_ownership());
  EXPECT_EQ(encode(example_set()), page[2].dump());
  EXPECT_EQ(*decode_synchronised_set(page[2].dump()), example_set());
}

TEST(Documents, UnknownFieldsAreSkipped) {
  Json document = examples_of_the_page()[0];
  document["later"] = {{"deep", {{"er", Json::array({1, 2})}}}};
  document["partitions"][0]["weight"] = 3;
  EXPECT_EQ(*decode_partition_map(compress_document(document)), example_map());
}

TEST(Documents, EveryFieldOfAnotherKindIsRefused) {
  const auto page = examples_of_the_page();
  const Json wrong[] = {Json(nullptr), Json(-1), Json(1.5), Json("x"), Json::array(), Json::object(), Json(true), Json(1ull << 40)};
  for (const int which : {0, 1}) {
    const auto refused = [&](const Json& document) {
      const std::string bytes = compress_document(document);
      if (which == 0) {
        const auto map = decode_partition_map(bytes);
        return !map || !(*map == example_map());
      }
      const auto ownership = decode_ownership(bytes);
      return !ownership || !(*ownership == example_ownership());
    };
    for (const auto& [field, value] : page[which].items()) {
      for (const Json& w : wrong) {
        if (w == value) continue;
        Json document = page[which];
        document[field] = w;
        EXPECT_TRUE(refused(document)) << field << " " << w;
      }
      Json document = page[which];
      document.erase(field);
      EXPECT_TRUE(refused(document)) << field;
    }
    for (const auto& [field, value] : page[which]["partitions"][0].items()) {
      for (const Json& w : wrong) {
        Json document = page[which];
        document["partitions"][0][field] = w;
        EXPECT_TRUE(refused(document)) << field << " " << w;
      }
    }
  }
}

TEST(Documents, RunsThatOverlapLeaveGapsOrRepeatAreRefused) {
  const auto with = [](auto change) {
    Json document = Json::parse(parse_document(encode(example_map()), "it")->dump());
    change(document);
    const auto map = decode_partition_map(compress_document(document));
    EXPECT_FALSE(map);
    return map ? std::string() : map.error().what;
  };
  EXPECT_THAT(with([](Json& d) { d["partitions"][1]["first"] = 1; }), testing::HasSubstr("overlap"));
  EXPECT_THAT(with([](Json& d) { d["partitions"][1]["first"] = 3; }), testing::HasSubstr("gap"));
  EXPECT_THAT(with([](Json& d) { d["partitions"][1]["segments"] = 16384; }), testing::HasSubstr("16384 segments"));
  EXPECT_THAT(with([](Json& d) { d["partitions"][1]["segments"] = 0; }), testing::HasSubstr("0 segments"));
  EXPECT_THAT(with([](Json& d) { d["partitions"][1]["segments"] = 1; }), testing::HasSubstr("belong to no partition"));
  EXPECT_THAT(with([](Json& d) { d["partitions"][1]["id"] = d["partitions"][0]["id"]; }), testing::HasSubstr("twice"));
  EXPECT_THAT(with([](Json& d) { d["partitions"][1]["id"] = "0123456789AB4DEF8123456789ABCDEF"; }), testing::HasSubstr("another kind"));
  EXPECT_THAT(with([](Json& d) { d["partitions"][1]["replicas"] = {"b"}; }), testing::HasSubstr("twice"));
  EXPECT_THAT(with([](Json& d) { d["partitions"][1]["replicas"] = {"a", "c"}; }), testing::HasSubstr("replicas at a replication factor"));
  EXPECT_THAT(with([](Json& d) { d["partitions"][1]["primary"] = "a b"; }), testing::HasSubstr("no node's name"));
  EXPECT_THAT(with([](Json& d) { d["segments"] = 3; }), testing::HasSubstr("number of segments"));
  EXPECT_THAT(with([](Json& d) { d["replication_factor"] = 0; }), testing::HasSubstr("replication factor"));
  EXPECT_THAT(with([](Json& d) { d["partitions"] = Json::array(); }), testing::HasSubstr("belong to no partition"));
}

TEST(Documents, AnOwnerHasAnIncarnationAndAGeneration) {
  for (const char* field : {"incarnation", "generation"}) {
    Json document = examples_of_the_page()[1];
    document["partitions"][0][field] = std::string(field) == "generation" ? Json(0) : Json("0000000000000000");
    EXPECT_FALSE(decode_ownership(compress_document(document))) << field;
  }
}

TEST(Documents, GarbageAndBombsAreRefusedWithinBounds) {
  std::mt19937_64 random(11);
  const std::string good[] = {encode(example_map()), encode(example_ownership())};
  for (int round = 0; round < 4000; ++round) {
    std::string bytes = good[round % 2];
    switch (round / 2 % 4) {
      case 0: bytes.resize(random() % bytes.size()); break;
      case 1: bytes[random() % bytes.size()] ^= static_cast<char>(1 + random() % 255); break;
      case 2: bytes += good[(round + 1) % 2]; break;
      default:
        bytes.resize(random() % 200);
        for (char& c : bytes) c = static_cast<char>(random());
    }
    if (const auto map = decode_partition_map(bytes)) { EXPECT_TRUE(invalid_because(*map).empty()); }
    if (const auto ownership = decode_ownership(bytes)) { EXPECT_TRUE(invalid_because(*ownership).empty()); }
    if (const auto set = decode_synchronised_set(bytes)) { EXPECT_LT(set->members.size(), replication_factor_max); }
  }
  EXPECT_FALSE(decode_partition_map(std::string(document_bytes_max + 1, 'x')));
  // Millions of brackets, and a frame that unpacks to more than it may.
  EXPECT_FALSE(parse_document_text(std::string(document_text_bytes_max, '['), "it"));
  EXPECT_FALSE(parse_document_text(R"({"a":)" + std::string(1'000'000, '[') + std::string(1'000'000, ']') + "}", "it"));
  for (const char* element : {"{},", "[],", "0,", "\"\","}) {  // as wide as it may be long; a parser that looks back at each element would not end
    std::string wide = "{\"a\":[";
    while (wide.size() < document_text_bytes_max - 10) wide += element;
    EXPECT_FALSE(parse_document_text(wide + "0]}", "it")) << element;
  }
  std::string many = "{\"a\":[";
  for (int i = 0; i < 250'000; ++i) many += "{},";
  EXPECT_TRUE(parse_document_text(many + "{}]}", "it"));
  EXPECT_FALSE(decode_synchronised_set(R"({"generation":1,"members":[)" + std::string(20'000, ' ') + "]}"));
  EXPECT_FALSE(decode_partition_map(std::string("\x28\xb5\x2f\xfd\xe0\xff\xff\xff\xff\xff\xff\xff\x7f", 13)));
}

PartitionMap planned(std::uint32_t nodes, std::uint32_t partitions, std::uint32_t factor) {
  PlanRequest request{.segments = 16384, .partitions = partitions, .replication_factor = factor, .identity_seed = {1, 2}};
  for (std::uint32_t i = 0; i < nodes; ++i) request.nodes.push_back({"zaris-node-" + std::to_string(i), "host-" + std::to_string(i)});
  return plan(request).map;
}

TEST(Documents, AreFarBelowWhatTheCoordinatorTakes) {
  std::mt19937_64 random(3);
  for (const auto& [nodes, partitions, most] : {std::tuple(9u, 9u, 4u << 10), std::tuple(9u, 1000u, 64u << 10), std::tuple(12u, 16384u, 1u << 20)}) {
    const PartitionMap map = planned(nodes, partitions, 3);
    const std::string bytes = encode(map);
    EXPECT_LT(bytes.size(), most);
    EXPECT_EQ(*decode_partition_map(bytes), map);
    Ownership ownership{.version = 1, .map_version = map.version, .leader_term = 9, .partitions = {}};
    for (const Partition& p : map.partitions) {
      ownership.partitions.push_back({p.id, p.primary, Incarnation{random() | 1}, Generation{static_cast<std::uint32_t>(random()) | 1}, PartitionState::healthy, "all 2 replicas are in step"});
    }
    const std::string owners = encode(ownership);
    EXPECT_LT(owners.size(), most);
    EXPECT_EQ(*decode_ownership(owners), ownership);
  }
}

TEST(Documents, AReasonIsCutAndLeftOutBeforeADocumentGrowsTooLarge) {
  std::mt19937_64 random(5);
  Ownership ownership = example_ownership();
  ownership.partitions[0].reason = std::string(5000, 'x');
  ownership.partitions[1].reason = "not \xff text\n";
  auto back = decode_ownership(encode(ownership));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->partitions[0].reason.size(), 160u);
  EXPECT_EQ(back->partitions[1].reason, "not \\xff text\\x0a");
  ownership.partitions.clear();
  for (std::uint64_t i = 1; i <= 16384; ++i) {
    PartitionOwner p{{i, random()}, "a", Incarnation{random() | 1}, Generation{1}, PartitionState::healthy, {}};
    for (int c = 0; c < 160; ++c) p.reason.push_back(static_cast<char>(0x21 + random() % 90 + (random() % 90 == 0)));
    std::erase(p.reason, '\\');
    ownership.partitions.push_back(std::move(p));
  }
  const std::string bytes = encode(ownership);
  EXPECT_LE(bytes.size(), document_bytes_max);
  back = decode_ownership(bytes);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->partitions.size(), 16384u);
  EXPECT_EQ(back->partitions[0].reason, "");
}

TEST(Documents, AMapIsAcceptedOnlyIfItIsNewer) {
  const auto map = [](std::uint64_t version, bool provisional = false, std::uint32_t segments = 4) {
    return PartitionMap{.version = version, .topology_version = 1, .segments = segments, .replication_factor = 1, .provisional = provisional, .partitions = {}};
  };
  const struct { std::optional<PartitionMap> held; PartitionMap offered; bool accepted; } rows[] = {
      {std::nullopt, map(1), true},  {std::nullopt, map(1, true), true}, {map(5), map(6), true},        {map(5), map(5), false},
      {map(5), map(4), false},       {map(9, true), map(1), true},       {map(1), map(9, true), false}, {map(5, true), map(6, true), true},
      {map(5, true), map(5, true), false}, {map(5), map(6, false, 8), false}, {map(5, true), map(6, false, 8), false},
  };
  for (const auto& row : rows) {
    const Acceptance acceptance = accept_map(row.held ? &*row.held : nullptr, row.offered);
    EXPECT_EQ(acceptance.accepted, row.accepted) << acceptance.reason;
    EXPECT_FALSE(acceptance.reason.empty());
  }
  Ownership held, offered;
  held.version = offered.version = 3;
  EXPECT_TRUE(accept_ownership(nullptr, offered).accepted);
  EXPECT_FALSE(accept_ownership(&held, offered).accepted);
  offered.version = 4;
  EXPECT_TRUE(accept_ownership(&held, offered).accepted);
  EXPECT_FALSE(accept_ownership(&offered, held).accepted);
}

TEST(SegmentTable, KnowsThePartitionOfEverySegment) {
  const PartitionMap map = planned(9, 7, 2);
  const SegmentTable table(map);
  EXPECT_TRUE(table.complete());
  EXPECT_EQ(table.segments(), 16384u);
  EXPECT_EQ(table.map_version(), map.version);
  for (std::uint32_t s = 0; s < 16384; ++s) {
    const SegmentId id{static_cast<std::uint16_t>(s)};
    ASSERT_TRUE(map.partitions[table.partition_of(id)].holds(id));
    ASSERT_EQ(map.holder_of(id), &map.partitions[table.partition_of(id)]);
  }
  EXPECT_FALSE(SegmentTable().complete());
}

TEST(Roster, IsOrderedAndRefusesWhatCannotBe) {
  const auto node = [](std::string name, std::string address) { return Node{.name = std::move(name), .host = "h", .cluster_address = std::move(address), .client_address = {}, .client_tls_address = {}, .feed_address = {}, .admin_address = {}}; };
  const auto roster = Roster::make({node("b", "h:1"), node("a", "h:2")});
  ASSERT_TRUE(roster);
  EXPECT_EQ(roster->nodes()[0].name, "a");
  EXPECT_EQ(roster->find("b")->cluster_address, "h:1");
  EXPECT_EQ(roster->find("c"), nullptr);
  EXPECT_FALSE(Roster::make({node("a", "h:1"), node("a", "h:2")}));
  EXPECT_FALSE(Roster::make({node("a", "h:1"), node("b", "h:1")}));
  for (const auto& name : {std::string(), std::string("a b"), std::string(64, 'a'), std::string("\xff")}) EXPECT_FALSE(Roster::make({node(name, "h:1")})) << name;
  EXPECT_FALSE(Roster::make({node("a", "")}));
  Node homeless = node("a", "h:1");
  homeless.host.clear();
  EXPECT_FALSE(Roster::make({homeless}));
  EXPECT_FALSE(Roster::make(std::vector<Node>(nodes_max + 1, node("a", "h:1"))));
}

}  // namespace
}  // namespace zaris::ownership
