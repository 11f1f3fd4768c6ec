// docs/formats/etcd.md shows the rows that this build writes, and names every key.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "cluster/region/rows.hpp"

namespace zaris::region {
namespace {

std::string page() {
  std::ifstream in(ZARIS_ETCD_PAGE);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(EtcdPage, ShowsTheRowsThatThisBuildWrites) {
  const std::string text = page();
  SettingsRow settings;
  settings.cluster = ClusterId{0xbb};
  settings.region = "a";
  settings.store = "main";
  settings.segments = 256;
  settings.replication_factor = 2;
  settings.created_us = 1'700'000'000'000'000;
  const ownership::Incarnation incarnation{0x1122334455667788};
  for (const std::string& row : {encode(settings), encode(MemberRow{incarnation, "0.2.0", 1'700'000'000'000'000, "db7", "10.0.0.1:7811", {{"replication.ack", "replica"}}}), encode(LeaderRow{"n1", incarnation}),
                                 encode(BeaconRow{3, 7, Generation{1'700'000'000}})}) {
    EXPECT_NE(text.find("```json\n" + row + "\n```"), std::string::npos) << "docs/formats/etcd.md lacks " << row;
  }
  EXPECT_EQ(*decode_settings(encode(settings)), settings);
}

TEST(EtcdPage, NamesEveryKey) {
  const std::string text = page();
  const KeyNames keys{""};
  for (const std::string& key : {keys.settings(), keys.leader(), keys.map(), keys.ownership(), keys.generation(), keys.beacon(), keys.links(), keys.members() + "NAME",
                                 keys.synchronised() + "PARTITION", keys.drains() + "NAME", keys.accepted() + "PARTITION"}) {
    EXPECT_NE(text.find("| `" + key + "` |"), std::string::npos) << key;
  }
}

// A version that did not say where it runs may be the one that holds the name.
TEST(Rows, AMemberOfAnOlderVersionIsRead) {
  const auto old = decode_member(R"({"format":1,"incarnation":"1122334455667788","started_us":1700000000000000,"version":"0.2.0"})");
  ASSERT_TRUE(old);
  EXPECT_EQ(describe(*old), "running since 2023-11-14T22:13:20Z, version 0.2.0");
  EXPECT_EQ(describe(MemberRow{old->incarnation, "0.3.0", ~WallMicros{0}, "db\n7", "10.0.0.1:7811"}), "on host db\\x0a7, listening on 10.0.0.1:7811, running since an unknown time, version 0.3.0");
  EXPECT_FALSE(decode_member(R"({"format":1,"host":7,"incarnation":"1122334455667788","started_us":1700000000000000,"version":"0.2.0"})"));
}

TEST(Rows, WhatCannotBeReadSaysSo) {
  for (const char* bad : {"", "[]", "{}", "{\"format\":1}", R"({"format":2,"name":"n1","incarnation":"1122334455667788"})", R"({"format":1,"name":1,"incarnation":"1122334455667788"})",
                          R"({"format":1,"name":"n1","incarnation":"11223344"})"}) {
    const auto row = decode_leader(bad);
    ASSERT_FALSE(row) << bad;
    EXPECT_EQ(row.error().code, "cluster_document_malformed") << bad;
  }
}

// The first leader plans with them: more partitions than segments, and none of its nodes would stay up.
TEST(Rows, SettingsThatNoRegionCanHaveAreRefused) {
  const auto with = [](std::uint64_t segments, std::uint64_t partitions, std::uint64_t factor) {
    return decode_settings(R"({"cluster_id":"00000000000000bb","created_us":1,"format":1,"region":"a","store":"main","segments":)" + std::to_string(segments) +
                           ",\"partitions\":" + std::to_string(partitions) + ",\"replication_factor\":" + std::to_string(factor) + "}");
  };
  EXPECT_TRUE(with(256, 0, 2));
  EXPECT_TRUE(with(16'384, 16'384, 9));
  EXPECT_FALSE(with(256, 257, 2));
  EXPECT_FALSE(with(16'385, 0, 2));
  EXPECT_FALSE(with(256, 0, 10));
  EXPECT_FALSE(with((1ull << 32) + 256, 0, 2)) << "is not 256";
  EXPECT_FALSE(decode_beacon(R"({"format":1,"generation":4294967297,"map_version":3,"ownership_version":7})"));
}

}  // namespace
}  // namespace zaris::region
