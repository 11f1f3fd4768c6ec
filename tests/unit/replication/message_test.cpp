// docs/formats/region.md shows the bytes that this build writes; whatever else comes is read or refused.
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <map>
#include <random>

#include "cluster/protocol/frame.hpp"
#include "cluster/replication/message.hpp"
#include "examples.hpp"

namespace zaris::replication {
namespace {

std::map<std::string, std::string> blocks_of_page() {
  std::ifstream in(ZARIS_REGION_PAGE);
  std::map<std::string, std::string> blocks;
  std::string line, name;
  while (std::getline(in, line)) {
    if (line.starts_with("```hex ")) {
      name = line.substr(7);
    } else if (line.starts_with("```")) {
      name.clear();
    } else if (!name.empty()) {
      for (const char c : line)
        if (std::isxdigit(static_cast<unsigned char>(c)) != 0) blocks[name] += c;
    }
  }
  return blocks;
}

std::string hex(const std::string& bytes) {
  std::string out;
  for (const char c : bytes) {
    char two[3];
    std::snprintf(two, sizeof two, "%02x", static_cast<unsigned char>(c));
    out += two;
  }
  return out;
}

TEST(RegionPage, ShowsTheBytesThatThisBuildWrites) {
  const auto blocks = blocks_of_page();
  std::size_t shown = 0;
  for (const Example& example : examples()) {
    const auto block = blocks.find(example.name);
    EXPECT_NE(block, blocks.end()) << "docs/formats/region.md has no example " << example.name << ": " << hex(example.bytes);
    if (block == blocks.end()) continue;
    EXPECT_EQ(block->second, hex(example.bytes)) << example.name;
    ++shown;
  }
  EXPECT_EQ(shown, blocks.size()) << "an example on the page that nothing checks";
}

TEST(RegionPage, HasEveryOpcodeBetweenNodes) {
  std::map<std::uint8_t, int> seen;
  for (const Example& example : examples()) {
    protocol::Frame frame;
    ASSERT_EQ(protocol::FrameParser(1u << 20).parse(example.bytes, frame).step, protocol::FrameStep::frame) << example.name;
    ++seen[frame.header.opcode];
  }
  for (unsigned number = protocol::first_node_opcode; number <= static_cast<unsigned>(protocol::Opcode::replica_credit); ++number) {
    const auto opcode = static_cast<std::uint8_t>(number);
    if (!protocol::known(opcode)) continue;
    EXPECT_EQ(seen[opcode], 1) << protocol::name(static_cast<protocol::Opcode>(opcode));
  }
}

TEST(RegionExamples, SurviveTheTripByteForByte) {
  for (const Example& example : examples()) {
    const auto again = trip(example.bytes);
    ASSERT_TRUE(again) << example.name;
    EXPECT_EQ(hex(*again), hex(example.bytes)) << example.name;
  }
}

TEST(RegionHostile, EveryTruncationIsRefused) {
  for (const Example& example : examples()) {
    for (std::size_t size = protocol::frame_header_bytes; size < example.bytes.size(); ++size) {
      std::string cut = example.bytes.substr(0, size);
      protocol::end_frame(cut, 0);
      EXPECT_FALSE(trip(cut)) << example.name << " cut to " << size;
    }
  }
}

TEST(RegionHostile, PlacesThatANewerBuildAddsAreSkipped) {
  // A Credit of two places.
  std::string bytes;
  const std::size_t at = protocol::begin_frame(bytes, protocol::Opcode::replica_credit, 0, 0);
  bytes += "\x92\x07\xa3new";
  protocol::end_frame(bytes, at);
  protocol::Frame frame;
  ASSERT_EQ(protocol::FrameParser(1u << 20).parse(bytes, frame).step, protocol::FrameStep::frame);
  Credit credit;
  ASSERT_TRUE(decode(frame.body, credit));
  EXPECT_EQ(credit.bytes, 7u);
}

TEST(RegionHostile, AnnouncedCountsCostNothingBeforeTheyAreThere) {
  // A Follow that announces four thousand million rows.
  std::string bytes;
  const std::size_t at = protocol::begin_frame(bytes, protocol::Opcode::follow, 0, 0);
  bytes += std::string("\x93\x01\xc2\xdd\xff\xff\xff\xff", 8);
  protocol::end_frame(bytes, at);
  EXPECT_FALSE(trip(bytes));
}

TEST(RegionHostile, ALineageOutOfOrderIsRefused) {
  Following following;
  FollowingRow& row = following.rows.emplace_back();
  row.how = FollowHow::copy;
  row.lineage = Lineage(Root{}, {{Generation{7}, 1, Revision{1}, 0}, {Generation{9}, 2, Revision{5}, 0}});
  row.as_of = {Generation{9}, Revision{5}};
  std::string good;
  encode(good, following);
  ASSERT_TRUE(trip(good));
  for (const Position as_of : {Position{Generation{9}, Revision{4}}, Position{Generation{7}, Revision{6}}}) {
    row.as_of = as_of;
    std::string bad;
    encode(bad, following);
    EXPECT_FALSE(trip(bad)) << to_string(as_of);
  }
  // Entry [9, …, 5, …] becomes [6, …, 5, …].
  const std::size_t entry = good.rfind("\x94\x09");
  ASSERT_NE(entry, std::string::npos);
  good[entry + 1] = 6;
  EXPECT_FALSE(trip(good));
}

TEST(RegionHostile, MutationsAreReadOrRefused) {
  const auto all = examples();
  std::mt19937_64 random(20261130);
  static constexpr unsigned char interesting[] = {0x00, 0x7f, 0x80, 0x90, 0x9f, 0xc0, 0xc1, 0xc4, 0xc6, 0xcc, 0xcf, 0xd3, 0xdb, 0xdc, 0xdd, 0xdf, 0xff};
  for (int round = 0; round < 100'000; ++round) {
    std::string bytes = all[random() % all.size()].bytes;
    for (std::uint64_t n = 1 + random() % 4; n > 0 && bytes.size() > protocol::frame_header_bytes; --n) {
      const std::size_t at = protocol::frame_header_bytes + random() % (bytes.size() - protocol::frame_header_bytes);
      switch (random() % 6) {
        case 0: bytes[at] = static_cast<char>(random()); break;
        case 1: bytes[at] = static_cast<char>(interesting[random() % sizeof interesting]); break;
        case 2: bytes.insert(at, 1, static_cast<char>(interesting[random() % sizeof interesting])); break;
        case 3: bytes.erase(at, 1 + random() % 8); break;
        case 4: bytes.resize(at); break;
        default: bytes.insert(at, all[random() % all.size()].bytes.substr(0, random() % 64)); break;
      }
    }
    if (random() % 8 != 0 && bytes.size() >= protocol::frame_header_bytes) protocol::end_frame(bytes, 0);
    if (random() % 16 == 0) bytes[5] = static_cast<char>(protocol::first_node_opcode + random() % 26);
    const auto once = trip(bytes);
    if (!once) continue;
    const auto twice = trip(*once);
    ASSERT_TRUE(twice) << hex(bytes);
    ASSERT_EQ(hex(*once), hex(*twice)) << hex(bytes);
  }
}

}  // namespace
}  // namespace zaris::replication
