#include "cluster/placement/slot.hpp"

#include <gtest/gtest.h>

#include <random>

namespace zaris {
namespace {

// Bit by bit, straight from the polynomial: what the tables must agree with.
std::uint16_t plain_crc(std::string_view bytes) {
  std::uint16_t crc = 0;
  for (const char c : bytes) {
    crc = static_cast<std::uint16_t>(crc ^ (static_cast<unsigned char>(c) << 8));
    for (int i = 0; i < 8; ++i) crc = static_cast<std::uint16_t>((crc << 1) ^ ((crc & 0x8000) != 0 ? 0x1021 : 0));
  }
  return crc;
}

TEST(Slot, TheCheckValueOfTheStandard) { EXPECT_EQ(crc16_xmodem("123456789"), 0x31C3); }

TEST(Slot, TablesAgreeWithThePolynomialAtEveryLength) {
  std::mt19937 random(7);
  for (std::size_t n = 0; n < 300; ++n) {
    std::string s(n, '\0');
    for (auto& c : s) c = static_cast<char>(random());
    EXPECT_EQ(crc16_xmodem(s), plain_crc(s)) << n;
  }
}

TEST(Slot, OnlyTheFirstNonEmptyTagCounts) {
  const std::pair<std::string_view, std::string_view> rows[] = {
      {"{}a", "{}a"}, {"a{}b{c}", "a{}b{c}"}, {"{{a}}", "{a"}, {"a{b", "a{b"}, {"}{a", "}{a"}, {"{a}{b}", "a"},
      {"{", "{"}, {"}", "}"}, {"", ""}, {"x{y}z", "y"}, {"}{a}", "a"}};
  for (const auto& [key, tag] : rows) EXPECT_EQ(hash_tag(key), tag) << key;
}

TEST(Slot, SegmentsOfTwoClustersNest) {
  for (std::uint32_t small = 1; small <= slot_count; small *= 2) {
    ASSERT_TRUE(valid_segment_count(small));
    for (std::uint32_t slot = 0; slot < slot_count; slot += 97) {
      const Slot s{static_cast<std::uint16_t>(slot)};
      EXPECT_EQ(segment_of(s, slot_count).value() / (slot_count / small), segment_of(s, small).value());
      const SegmentId seg = segment_of(s, small);
      EXPECT_LE(first_slot(seg, small).value(), slot);
      EXPECT_LT(slot, first_slot(seg, small).value() + slots_per_segment(small));
    }
  }
  for (const std::uint32_t bad : {0u, 3u, 255u, 16385u, 32768u}) EXPECT_FALSE(valid_segment_count(bad)) << bad;
}

}  // namespace
}  // namespace zaris
