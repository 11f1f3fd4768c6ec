#include <gtest/gtest.h>

#include "examples.hpp"
#include "feed/message/batch_writer.hpp"
#include "feed/message/decoder.hpp"

namespace zaris::feed {
namespace {

std::string hex(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) out += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return out;
}

// Every field is in the encoding, so equal encodings mean that nothing was lost on the way.
TEST(FeedMessage, EveryFollowerMessageComesBackAsItWas) {
  for (const auto& [what, message] : follower_examples()) {
    const std::string bytes = encode(message);
    const auto back = decode_from_follower(bytes);
    ASSERT_TRUE(back && *back) << what << ": " << (back ? "not known" : back.error().what);
    EXPECT_EQ((*back)->index(), message.index()) << what;
    EXPECT_EQ(hex(encode(**back)), hex(bytes)) << what;
  }
}
TEST(FeedMessage, EveryGatewayMessageComesBackAsItWas) {
  for (const auto& [what, message] : gateway_examples()) {
    const std::string bytes = encode(message);
    const auto back = decode_from_gateway(bytes);
    ASSERT_TRUE(back && *back) << what << ": " << (back ? "not known" : back.error().what);
    EXPECT_EQ((*back)->index(), message.index()) << what;
    EXPECT_EQ(hex(encode(**back)), hex(bytes)) << what;
  }
}

TEST(FeedMessage, FieldsArriveInTheirPlaces) {
  const auto examples = follower_examples();
  const std::string bytes = encode(examples[0].second);
  const auto decoded = decode_from_follower(bytes);
  const Hello& hello = std::get<Hello>(**decoded);
  EXPECT_EQ(hello.version_max, 2u);
  EXPECT_EQ(hello.link, "a-to-b");
  EXPECT_EQ(hello.source_expected, ClusterId{0xfedcba9876543210});
  EXPECT_EQ(hello.target, ClusterId{42});
  EXPECT_EQ(hello.scope.prefixes(), (std::vector<std::string>{std::string("b\0x", 3), "t1:"}));
  EXPECT_EQ(hello.generation_seen, Generation{1790000500});
}

TEST(FeedMessage, ABatchIsHandedOutAsViews) {
  for (const auto& [what, message] : gateway_examples()) {
    if (what != "batch") continue;
    const std::string bytes = encode(message);
    const auto decoded = decode_from_gateway(bytes);
    const Batch& batch = std::get<Batch>(**decoded);
    ASSERT_EQ(batch.runs.size(), 2u);
    EXPECT_EQ(batch.runs[0].table.size(), 0u);
    const feed::Run& run = batch.runs[1];
    EXPECT_TRUE(run.reaches_head);
    EXPECT_EQ(run.last, Revision{9004});
    EXPECT_EQ(row_count(run.table), 2u);
    EXPECT_TRUE(run.records.data() > bytes.data() && run.records.data() + run.records.size() <= bytes.data() + bytes.size());
  }
}

// The examples of docs/formats/feed.md.
TEST(FeedMessage, BytesAreThoseOfTheFormatPage) {
  EXPECT_EQ(hex(encode(FollowerMessage{Credit{1048576}})), "9203ce00100000");
  EXPECT_EQ(hex(encode(FollowerMessage{Ping{1000000}})), "9207ce000f4240");
  EXPECT_EQ(hex(encode(FollowerMessage{Ack{0, {{SegmentId{3}, {Generation{7}, Revision{300}}}}}})), "9304009192039207cd012c");
  Batch batch;
  std::string table;
  append_row(table, {3, row_flag_tombstone, Slot{5}, 2});
  batch.runs.push_back({SegmentId{3}, {Generation{7}, Revision{300}}, Generation{7}, Revision{302}, 1000, true, table, "abc"});
  EXPECT_EQ(hex(encode(GatewayMessage{batch})),
            "9222dc000198039207cd012c07cf000000000000012ecf00000000000003e801c6000000080300000105000200c600000003616263");
  EXPECT_EQ(hex(encode(GatewayMessage{Pong{1000000, {{SegmentId{3}, {Generation{7}, Revision{302}}}}, {}}})), "9429ce000f42409192039207cd012e90");
}

TEST(FeedMessage, UnknownTypesAreSkippedNotRefused) {
  const auto decoded = decode_from_gateway(std::string_view("\x93\x63\x01\x92\x02\x81\xa1k\xc0", 9));
  ASSERT_TRUE(decoded) << decoded.error().what;
  EXPECT_FALSE(*decoded);
}

TEST(FeedMessage, TrailingPlacesOfALaterVersionAreSkipped) {
  std::string bytes = encode(FollowerMessage{Ping{7}});
  bytes[0] = '\x94';
  bytes += std::string("\x81\xa1k\x93\x01\x02\xc0\xc4\x02zz", 11);
  const auto decoded = decode_from_follower(bytes);
  ASSERT_TRUE(decoded) << decoded.error().what;
  EXPECT_EQ(std::get<Ping>(**decoded).sent_us, 7);
}

TEST(FeedMessage, MissingTrailingPlacesHaveTheirDefaults) {
  const auto decoded = decode_from_follower(std::string_view("\x91\x01", 2));
  ASSERT_TRUE(decoded) << decoded.error().what;
  EXPECT_EQ(std::get<Hello>(**decoded).version_max, protocol_version_max);
  EXPECT_TRUE(std::get<Hello>(**decoded).scope.full());
}

struct Bad {
  const char* what;
  std::string bytes;
};
std::string bytes(std::initializer_list<int> list) {
  std::string out;
  for (const int b : list) out += static_cast<char>(b);
  return out;
}

TEST(FeedMessage, WhatCannotBeReadIsRefusedWithAReason) {
  const std::vector<Bad> table = {
      {"nothing", ""},
      {"not an array", bytes({0xc0})},
      {"an empty array", bytes({0x90})},
      {"an array of four thousand million", bytes({0xdd, 0xff, 0xff, 0xff, 0xff})},
      {"more places than bytes", bytes({0x9f, 0x22})},
      {"bytes behind it", bytes({0x92, 0x22, 0x90, 0x00})},
      {"a batch whose run is too short", bytes({0x92, 0x22, 0x91, 0x91, 0x03})},
      {"a batch of 65,535 runs in no bytes", bytes({0x92, 0x22, 0xdc, 0xff, 0xff})},
      {"a table of 4 GiB", bytes({0x92, 0x22, 0x91, 0x98, 3, 0x92, 1, 1, 1, 2, 0, 0, 0xc6, 0xff, 0xff, 0xff, 0xff})},
      {"a segment past the last possible", bytes({0x98, 0x28, 0xcd, 0x40, 0x00, 1, 0xa0, 0xc0, 0xc0, 0, 0})},
      {"a run that goes backward", bytes({0x92, 0x22, 0x91, 0x98, 3, 0x92, 1, 5, 1, 5, 0, 0, 0xc4, 0, 0xc4, 0})},
      {"a run of an older generation", bytes({0x92, 0x22, 0x91, 0x98, 3, 0x92, 2, 5, 1, 6, 0, 0, 0xc4, 0, 0xc4, 0})},
      {"a table that is not rows", bytes({0x92, 0x22, 0x91, 0x98, 3, 0x92, 1, 5, 1, 6, 0, 0, 0xc4, 1, 0, 0xc4, 0})},
      {"a row longer than the records", bytes({0x92, 0x22, 0x91, 0x98, 3, 0x92, 1, 5, 1, 6, 0, 0, 0xc4, 8, 9, 0, 0, 0, 0, 0, 1, 0, 0xc4, 1, 'x'})},
      {"a row past the run's last", bytes({0x92, 0x22, 0x91, 0x98, 3, 0x92, 1, 5, 1, 6, 0, 0, 0xc4, 8, 1, 0, 0, 0, 0, 0, 2, 0, 0xc4, 1, 'x'})},
      {"two records of one revision", bytes({0x92, 0x22, 0x91, 0x98, 3, 0x92, 1, 5, 1, 6, 0, 0, 0xc4, 8, 1, 0, 0, 0, 0, 0, 0, 0, 0xc4, 1, 'x'})},
      {"a chunk whose count lies", bytes({0x9a, 0x25, 3, 0xc0, 0xc0, 0x93, 1, 5, 9, 2, 0xc4, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xc4, 8, 1, 0, 0, 0, 0, 0, 0, 0, 0xc4, 1, 'x'})},
      {"a digest of 15 bytes", bytes({0x96, 0x27, 1, 3, 0x93, 1, 5, 9, 2, 0xc4, 15, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})},
      {"a part past its total", bytes({0x9c, 0x23, 3, 6, 4, 5, 0xc4, 2, 'a', 'b', 0x92, 1, 5, 1, 0, 0, 0, 0})},
      {"a negative number", bytes({0x92, 0x22, 0x91, 0x98, 0xff})},
  };
  for (const Bad& bad : table) {
    const auto decoded = decode_from_gateway(bad.bytes);
    ASSERT_FALSE(decoded) << bad.what;
    EXPECT_EQ(decoded.error().code, "feed_message_malformed") << bad.what;
    EXPECT_FALSE(decoded.error().what.empty());
  }
  EXPECT_FALSE(decode_from_follower(bytes({0x98, 0x01, 1, 1, 0xa0, 0xa0, 0xc0, 0, 0xc4, 3, '9', ':', 'x'}))) << "a scope that is not one";
  EXPECT_FALSE(decode_from_follower(bytes({0x92, 0x02, 0x91, 0x90}))) << "a subscription of no segment";
}

TEST(FeedMessage, DeepNestingIsSkippedWithoutAStack) {
  std::string deep = bytes({0x93, 0x63, 0x01});
  deep += std::string(1'000'000, '\x91');
  deep += '\xc0';
  EXPECT_TRUE(decode_from_gateway(deep));
  deep.pop_back();
  EXPECT_FALSE(decode_from_gateway(deep));
}

TEST(FeedMessage, EveryPrefixOfEveryMessageIsRefused) {
  for (const auto& [what, message] : gateway_examples()) {
    const std::string whole = encode(message);
    for (std::size_t n = 0; n < whole.size(); ++n)
      EXPECT_FALSE(decode_from_gateway(std::string_view(whole).substr(0, n))) << what << " cut at " << n;
  }
  for (const auto& [what, message] : follower_examples()) {
    const std::string whole = encode(message);
    for (std::size_t n = 0; n < whole.size(); ++n)
      EXPECT_FALSE(decode_from_follower(std::string_view(whole).substr(0, n))) << what << " cut at " << n;
  }
}

TEST(FeedMessage, EndReasonsHaveNames) {
  for (int i = 1; i <= 16; ++i) EXPECT_NE(name(static_cast<EndReason>(i)), "unknown") << i;
  EXPECT_EQ(name(static_cast<EndReason>(200)), "unknown");
}

TEST(FeedBatchWriter, ABatchOfNothingTakesItsHeadBack) {
  std::string out = "room";
  BatchWriter writer(out);
  EXPECT_FALSE(writer.finish());
  EXPECT_EQ(out, "room");
}

}  // namespace
}  // namespace zaris::feed
