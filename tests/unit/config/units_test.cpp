#include "cluster/config/units.hpp"

#include <gtest/gtest.h>

namespace zaris::config {
namespace {

TEST(Units, durations) {
  struct Case { const char* text; std::optional<std::uint64_t> micros; };
  const Case cases[] = {
      {"200ms", 200'000}, {"5s", 5'000'000}, {"1m30s", 90'000'000}, {"24h", 86'400'000'000}, {"1.5s", 1'500'000}, {"0", 0},
      {"7us", 7}, {"2d", 172'800'000'000}, {"0s", 0},
      {"10", std::nullopt}, {"", std::nullopt}, {"s", std::nullopt}, {"5 s", std::nullopt}, {"-5s", std::nullopt}, {"5s1m", std::nullopt},
      {"5s5s", std::nullopt}, {"5S", std::nullopt}, {"1e3s", std::nullopt}, {"40000d", std::nullopt}, {"1.s", std::nullopt}, {".5s", std::nullopt}};
  for (const Case& c : cases) EXPECT_EQ(parse_duration(c.text), c.micros) << c.text;
}

TEST(Units, sizes) {
  struct Case { const char* text; std::optional<std::uint64_t> bytes; };
  const Case cases[] = {{"64KiB", 65536}, {"1GiB", 1ull << 30}, {"512B", 512}, {"10MB", 10'000'000}, {"0", 0}, {"1.5MiB", 1'572'864}, {"1kB", 1000},
                        {"64", std::nullopt}, {"64K", std::nullopt}, {"64kib", std::nullopt}, {"", std::nullopt}, {"-1B", std::nullopt},
                        {"9999999999TiB", std::nullopt}, {"1KiB ", std::nullopt}};
  for (const Case& c : cases) EXPECT_EQ(parse_size(c.text), c.bytes) << c.text;
}

TEST(Units, ratios) {
  EXPECT_EQ(parse_ratio("10%"), 0.1);
  EXPECT_EQ(parse_ratio("0.25"), 0.25);
  EXPECT_EQ(parse_ratio("100%"), 1.0);
  EXPECT_FALSE(parse_ratio("10"));    // of what?
  EXPECT_FALSE(parse_ratio("101%"));
  EXPECT_FALSE(parse_ratio("1.5"));
  EXPECT_FALSE(parse_ratio("ten"));
}

TEST(Units, what_is_shown_reads_back) {
  for (const std::uint64_t n : {0ull, 1ull, 999ull, 90'000'000ull, 86'400'000'000ull, 123'456'789'012ull}) EXPECT_EQ(parse_duration(show_duration(n)), n);
  for (const std::uint64_t n : {0ull, 1ull, 1000ull, 65536ull, 65537ull, 1ull << 40}) EXPECT_EQ(parse_size(show_size(n)), n);
}

TEST(Units, nearest_names_what_was_probably_meant) {
  const std::vector<std::string> known{"memory.max_bytes", "memory.eviction", "region"};
  EXPECT_EQ(nearest("memory.max_byte", known), "memory.max_bytes");
  EXPECT_EQ(nearest("regoin", known), "region");
  EXPECT_EQ(nearest("something.else.entirely", known), "");
}

}  // namespace
}  // namespace zaris::config
