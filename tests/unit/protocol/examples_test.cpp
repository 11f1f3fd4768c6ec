// docs/formats/native.md shows the bytes that this build writes, and every opcode is on it.
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <random>

#include "cluster/protocol/frame.hpp"
#include "examples.hpp"

namespace zaris::protocol {
namespace {

std::map<std::string, std::string> blocks_of_page() {
  std::ifstream in(ZARIS_NATIVE_PAGE);
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

TEST(NativePage, ShowsTheBytesThatThisBuildWrites) {
  const auto blocks = blocks_of_page();
  std::size_t shown = 0;
  for (const Example& example : examples()) {
    const auto block = blocks.find(example.name);
    ASSERT_NE(block, blocks.end()) << "docs/formats/native.md has no example " << example.name << ": " << hex(example.bytes);
    EXPECT_EQ(block->second, hex(example.bytes)) << example.name;
    ++shown;
  }
  EXPECT_EQ(shown, blocks.size()) << "an example on the page that nothing checks";
}

TEST(NativePage, NamesEveryOpcodeWithARequestAndAnAnswer) {
  std::map<std::uint8_t, int> seen;
  for (const Example& example : examples()) {
    Frame frame;
    ASSERT_EQ(FrameParser(1u << 20).parse(example.bytes, frame).step, FrameStep::frame) << example.name;
    seen[frame.header.opcode] |= example.side == Side::request ? 1 : 2;
  }
  for (unsigned number = 0; number < first_node_opcode; ++number) {  // the others: docs/formats/region.md
    const auto opcode = static_cast<std::uint8_t>(number);
    if (!known(opcode)) continue;
    EXPECT_EQ(seen[opcode], 3) << name(static_cast<Opcode>(opcode));
  }
}

TEST(Examples, SurviveTheTripByteForByte) {
  for (const Example& example : examples()) {
    if (example.name == "batch-answer") continue;  // written with the short and the long form of an item
    const auto again = trip(example.side, example.bytes);
    ASSERT_TRUE(again) << example.name;
    EXPECT_EQ(hex(*again), hex(example.bytes)) << example.name;
  }
}

// What the fuzz target does, in the normal suite.
TEST(Hostile, MutationsAreReadOrRefused) {
  const auto all = examples();
  std::mt19937_64 random(20261130);
  static constexpr unsigned char interesting[] = {0x00, 0x7f, 0x80, 0x90, 0x9f, 0xc0, 0xc1, 0xc4, 0xc6, 0xcc, 0xcf, 0xd3, 0xdb, 0xdc, 0xdd, 0xdf, 0xff};
  for (int round = 0; round < 100'000; ++round) {
    const Example& seed = all[random() % all.size()];
    std::string bytes = seed.bytes;
    for (std::uint64_t n = 1 + random() % 4; n > 0 && bytes.size() > frame_header_bytes; --n) {
      const std::size_t at = frame_header_bytes + random() % (bytes.size() - frame_header_bytes);
      switch (random() % 6) {
        case 0: bytes[at] = static_cast<char>(random()); break;
        case 1: bytes[at] = static_cast<char>(interesting[random() % sizeof interesting]); break;
        case 2: bytes.insert(at, 1, static_cast<char>(interesting[random() % sizeof interesting])); break;
        case 3: bytes.erase(at, 1 + random() % 8); break;
        case 4: bytes.resize(at); break;
        default: bytes.insert(at, all[random() % all.size()].bytes.substr(0, random() % 64)); break;
      }
    }
    if (random() % 8 != 0 && bytes.size() >= frame_header_bytes) end_frame(bytes, 0);  // mostly with an honest length
    if (random() % 16 == 0) bytes[5] = static_cast<char>(random());
    ASSERT_TRUE(steady(Side::request, bytes)) << hex(bytes);
    ASSERT_TRUE(steady(Side::answer, bytes)) << hex(bytes);
  }
}

}  // namespace
}  // namespace zaris::protocol
