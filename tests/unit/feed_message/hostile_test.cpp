// What the fuzz targets do, in the normal suite: the kept corpus, and some thousands of mutations of it. Whatever is
// accepted must survive a second trip unchanged.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "examples.hpp"

namespace zaris::feed {
namespace {

void try_both(std::string_view bytes) {
  if (const auto m = decode_from_follower(bytes); m && *m) {
    const std::string again = encode(**m);
    const auto second = decode_from_follower(again);
    ASSERT_TRUE(second && *second);
    ASSERT_EQ(encode(**second), again);
  }
  if (const auto m = decode_from_gateway(bytes); m && *m) {
    const std::string again = encode(**m);
    const auto second = decode_from_gateway(again);
    ASSERT_TRUE(second && *second) << second.error().what;
    ASSERT_EQ(encode(**second), again);
  }
}

std::vector<std::string> seeds() {
  std::vector<std::string> out;
  for (const auto& [what, message] : follower_examples()) out.push_back(encode(message));
  for (const auto& [what, message] : gateway_examples()) out.push_back(encode(message));
  for (const auto& file : std::filesystem::directory_iterator(ZARIS_FUZZ_CORPUS)) {
    std::ifstream in(file.path(), std::ios::binary);
    out.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return out;
}

TEST(FeedMessageHostile, TheCorpusIsReadOrRefused) {
  const auto all = seeds();
  EXPECT_GT(all.size(), 25u);
  for (const std::string& seed : all) try_both(seed);
}

TEST(FeedMessageHostile, MutationsAreReadOrRefused) {
  const auto all = seeds();
  std::mt19937_64 random(20261130);
  static constexpr unsigned char interesting[] = {0x00, 0x7f, 0x80, 0x90, 0x9f, 0xc0, 0xc1, 0xc4, 0xc6, 0xcc, 0xcf, 0xd3, 0xdb, 0xdc, 0xdd, 0xdf, 0xff};
  for (int round = 0; round < 60'000; ++round) {
    std::string bytes = all[random() % all.size()];
    for (std::uint64_t n = 1 + random() % 4; n > 0; --n) {
      const std::size_t at = bytes.empty() ? 0 : random() % bytes.size();
      switch (random() % 6) {
        case 0: if (!bytes.empty()) bytes[at] = static_cast<char>(random()); break;
        case 1: if (!bytes.empty()) bytes[at] = static_cast<char>(interesting[random() % sizeof interesting]); break;
        case 2: bytes.insert(at, 1, static_cast<char>(interesting[random() % sizeof interesting])); break;
        case 3: if (!bytes.empty()) bytes.erase(at, 1 + random() % 8); break;
        case 4: bytes.resize(at); break;
        default: bytes.insert(at, all[random() % all.size()].substr(0, random() % 64)); break;
      }
    }
    try_both(bytes);
    if (HasFatalFailure()) FAIL() << "round " << round;
  }
}

}  // namespace
}  // namespace zaris::feed
