// The bytes of the cursor store: what is written is read back, and what is not such a row is refused.
#include "cursor/cursor_rows.hpp"

#include <gtest/gtest.h>

#include <random>

#include "cursor_fixture.hpp"

namespace zaris::cursor {
namespace {

std::string hex(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) out += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return out;
}

TEST(CursorRows, ARowComesBackAsItWasWritten) {
  const auto row = row_at(12345);
  EXPECT_EQ(decode_cursor(encode(row)).value(), row);
}

TEST(CursorRows, ALinkWithEverythingSetComesBackAsItWasWritten) {
  auto row = link_row(16384);
  row.scope = ScopeId{~0ull};
  row.scope_text = std::string("p:t1:\0\xff", 7);
  row.accepted = {ClusterId{5}, HistoryId{6}};
  for (std::uint64_t i = 0; i < 16384; ++i) row.accepted_histories.emplace_back(i * 0x9e3779b97f4a7c15);
  row.rewind = true;
  row.rewind_to = Position{Generation{3}, Revision{4}};
  row.rewind_segments = {SegmentId{0}, SegmentId{16383}};
  row.paused = true;
  row.paused_reason = "maintenance";
  row.rows_version = 9;
  EXPECT_EQ(decode_link(encode(row)).value(), row);
}

// The worked example of docs/formats/cursor.md.
TEST(CursorRows, TheBytesAreThoseOfThePage) {
  EXPECT_EQ(hex(cursor_key(key_of(3))), "4306612d746f2d6200000000000000a100000000000000b200000000000000000003");
  EXPECT_EQ(hex(encode(row_at(100))), "9b01cd11110764ce00abcdef01cf00060a24181e4064cf00060a24181e406964cd2d5001");
}

TEST(CursorRows, KeysSortByLinkThenSegmentAndComeBack) {
  EXPECT_LT(cursor_key(key_of(255)), cursor_key(key_of(256)));
  for (const std::uint16_t segment : {0, 1, 255, 256, 16383}) {
    CursorKey key;
    ASSERT_TRUE(parse_cursor_key(cursor_key(key_of(segment)), key));
    EXPECT_EQ(key, key_of(segment));
  }
}

// A link's name that begins another's must not bring the other's rows.
TEST(CursorRows, ThePrefixOfALinkIsNoPrefixOfAnother) {
  EXPECT_FALSE(cursor_key(key_of(0, "a-to-b2")).starts_with(cursor_prefix("a-to-b")));
}

TEST(CursorRows, ANewerRowIsRefusedAsNewer) {
  auto bytes = encode(row_at(1));
  bytes[1] = 2;
  EXPECT_EQ(decode_cursor(bytes).error().code, "cursor_format_newer");
  auto link = encode(link_row());
  ASSERT_EQ(static_cast<unsigned char>(link[0]), 0xdc);  // array 16
  link[3] = 9;
  EXPECT_EQ(decode_link(link).error().code, "cursor_format_newer");
}

TEST(CursorRows, AdditionalPlacesArePassedOver) {
  auto bytes = encode(row_at(1));
  bytes[0] = static_cast<char>(bytes[0] + 1);
  bytes += '\xc0';
  EXPECT_EQ(decode_cursor(bytes).value(), row_at(1));
}

TEST(CursorRows, WhatIsNoRowIsRefused) {
  const std::vector<std::string> table = {
      "", "\xc0", "\x90", "\x91\x01", std::string("\xdd\xff\0\0\0", 5), std::string("\xdd\xff\xff\xff\xff", 5),
      std::string("\xc6\xff\xff\xff\xff", 5), std::string(100000, '\x91'), "\x9b\x01\xa1x"};
  for (const auto& bytes : table) {
    EXPECT_FALSE(decode_cursor(bytes)) << printable(bytes, 20);
    EXPECT_FALSE(decode_link(bytes)) << printable(bytes, 20);
  }
}

TEST(CursorRows, RandomChangesNeverDoMoreThanFail) {
  std::mt19937_64 random(20261130);
  auto row = link_row();
  row.accepted_histories.resize(20);
  const std::string link = encode(row), cursor = encode(row_at(77));
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = round % 2 ? link : cursor;
    for (unsigned n = 1 + random() % 4; n-- > 0;) bytes[random() % bytes.size()] = static_cast<char>(random());
    if (random() % 4 == 0) bytes.resize(random() % (bytes.size() + 1));
    (void)decode_link(bytes);
    (void)decode_cursor(bytes);
  }
}

}  // namespace
}  // namespace zaris::cursor
