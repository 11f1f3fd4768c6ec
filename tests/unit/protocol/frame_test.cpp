#include <gtest/gtest.h>

#include "cluster/protocol/admin_messages.hpp"
#include "cluster/protocol/data_messages.hpp"
#include "cluster/protocol/pack.hpp"

namespace zaris::protocol {
namespace {

TEST(Frame, ComesOutOfAStreamHoweverItIsCut) {
  std::string stream;
  encode_get(stream, 7, "a");
  encode_get(stream, 8, std::string(300, 'b'));
  const FrameParser parser(1024);
  for (std::size_t step = 1; step < stream.size(); ++step) {
    std::string buffer;
    std::vector<std::uint32_t> seen;
    for (std::size_t at = 0; at < stream.size(); at += step) {
      buffer += stream.substr(at, step);
      Frame frame;
      while (true) {
        const auto got = parser.parse(buffer, frame);
        if (got.step == FrameStep::need_more) {
          ASSERT_GT(got.wanted, buffer.size());
          break;
        }
        ASSERT_EQ(got.step, FrameStep::frame);
        seen.push_back(frame.header.correlation);
        EXPECT_EQ(frame.header.opcode, static_cast<std::uint8_t>(Opcode::get));
        buffer.erase(0, got.consumed);
      }
    }
    EXPECT_EQ(seen, (std::vector<std::uint32_t>{7, 8})) << "cut every " << step;
    EXPECT_TRUE(buffer.empty());
  }
}

TEST(Frame, ALengthOverTheLimitIsRefusedBeforeItsBytesCome) {
  std::string stream;
  encode_get(stream, 7, std::string(2000, 'b'));
  Frame frame;
  const FrameParser parser(1024);
  EXPECT_EQ(parser.parse(stream.substr(0, 4), frame).step, FrameStep::need_more);  // waits for the header, to name the request
  const auto step = parser.parse(stream.substr(0, frame_header_bytes), frame);
  EXPECT_EQ(step.step, FrameStep::too_large);
  EXPECT_EQ(frame.header.correlation, 7u);
}

TEST(Frame, ShorterThanItsHeaderOrOfVersion0IsMalformed) {
  Frame frame;
  const FrameParser parser(1024);
  for (std::uint8_t length = 0; length < 8; ++length) {
    const std::string bytes = std::string(1, static_cast<char>(length)) + std::string(20, '\0');
    EXPECT_EQ(parser.parse(bytes, frame).step, FrameStep::malformed) << int(length);
  }
  std::string version_0;
  encode_get(version_0, 7, "a");
  version_0[4] = 0;
  EXPECT_EQ(parser.parse(version_0, frame).step, FrameStep::malformed);
}

TEST(Frame, AnErrorIsToldFromEveryOtherAnswer) {
  std::string out;
  encode_error(out, Opcode::put, Status::item_too_large, 9, "too large", "limits.value");
  Frame frame;
  ASSERT_EQ(FrameParser(1024).parse(out, frame).step, FrameStep::frame);
  EXPECT_EQ(static_cast<Status>(frame.header.status), Status::item_too_large);
  ErrorAnswer error;
  ASSERT_TRUE(decode_error(frame.body, error));
  EXPECT_EQ(error.reason, "too large");
  EXPECT_EQ(error.hint, "limits.value");

  out.clear();
  encode(out, Opcode::put, 9, WriteAnswer{Status::conflict, {1, 2}, SegmentId{3}, {}});
  ASSERT_EQ(FrameParser(1024).parse(out, frame).step, FrameStep::frame);
  EXPECT_FALSE(decode_error(frame.body, error));
}

TEST(GetAnswer, IsReadFromTheStoreIntoPlace) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{255}, std::size_t{70'000}}) {
    std::string out = "before";
    const std::size_t at = out.size();
    out.append(get_answer_prefix_bytes, '\0');
    out.append(size, 'v');
    finish_get_answer(out, at, 5, Status::ok, {3, 0xfffffffe}, 99);
    Frame frame;
    ASSERT_EQ(FrameParser(1u << 20).parse(std::string_view(out).substr(at), frame).step, FrameStep::frame);
    ReadAnswer answer;
    ASSERT_TRUE(decode(frame.body, answer));
    EXPECT_EQ(answer.value, std::string(size, 'v'));
    EXPECT_EQ(answer.token, (ItemToken{3, 0xfffffffe}));
    EXPECT_EQ(answer.expires_us, 99u);
  }
  std::string out(get_answer_prefix_bytes, '\0');
  finish_get_answer(out, 0, 5, Status::not_found, {}, 0);
  Frame frame;
  const auto step = FrameParser(1024).parse(out, frame);
  ASSERT_EQ(step.step, FrameStep::frame);
  EXPECT_EQ(step.consumed, out.size());
  EXPECT_EQ(static_cast<Status>(frame.header.status), Status::not_found);
}

// Places that a newer peer appended are skipped; places that an older one did not know are their default.
TEST(Messages, GrowAtTheirEnd) {
  std::string body;
  Packer pack(body);
  pack.array(8);
  pack.bin("k");
  pack.bin("v");
  pack.uint(5);
  pack.nil();
  pack.uint(1);
  pack.array(2);
  pack.str("new");
  pack.array(0);
  body += "\xcb";
  body.append(8, '\x40');
  pack.boolean(true);
  PutRequest put;
  ASSERT_TRUE(decode(body, put));
  EXPECT_EQ(put.durability, Durability::owner);

  body.clear();
  pack.array(2);
  pack.bin("k");
  pack.bin("v");
  ASSERT_TRUE(decode(body, put));
  EXPECT_EQ(put.expires_us, 0u);
  EXPECT_EQ(put.condition, Condition{});
  EXPECT_EQ(put.durability, Durability::store_default);
}

TEST(Messages, RefuseWhatTheyCannotMean) {
  const auto body_of = [](auto&& write) {
    std::string body;
    Packer pack(body);
    write(pack);
    return body;
  };
  PutRequest put;
  EXPECT_FALSE(decode(std::string_view{}, put));
  EXPECT_FALSE(decode(body_of([](Packer& p) { p.array(1); p.bin("k"); }), put)) << "no value";
  EXPECT_FALSE(decode(body_of([](Packer& p) { p.array(2); p.nil(); p.bin("v"); }), put)) << "no key";
  EXPECT_FALSE(decode(body_of([](Packer& p) { p.array(2); p.bin("k"); p.bin("v"); p.nil(); }), put)) << "bytes behind the array";
  EXPECT_FALSE(decode(body_of([](Packer& p) { p.array(5); p.bin("k"); p.bin("v"); p.uint(0); p.nil(); p.uint(9); }), put)) << "unknown durability";
  EXPECT_FALSE(decode(body_of([](Packer& p) { p.array(4); p.bin("k"); p.bin("v"); p.uint(0); p.uint(1); }), put)) << "unknown condition";
  DeleteRequest del;
  EXPECT_FALSE(decode(body_of([](Packer& p) { p.array(2); p.bin("k"); p.uint(0); }), del)) << "delete if absent";
  ScanRequest scan;
  EXPECT_FALSE(decode(body_of([](Packer& p) { p.array(2); p.bin(""); p.array(2); p.uint(16'384); p.bin(""); }), scan)) << "slot";
  DigestRequest digest;
  EXPECT_FALSE(decode(body_of([](Packer& p) { p.array(4); p.bin(""); p.uint(0); p.uint(5); p.uint(4); }), digest)) << "ends before it starts";
  // Deep nesting in a place that is skipped takes no stack.
  std::string deep = body_of([](Packer& p) { p.array(6); p.bin("k"); p.bin("v"); p.uint(0); p.nil(); p.uint(0); });
  deep += std::string(1'000'000, '\x91');
  deep += '\xc0';
  EXPECT_TRUE(decode(deep, put));
  deep.pop_back();
  EXPECT_FALSE(decode(deep, put));
}

TEST(Batch, TellsWhereItBreaks) {
  std::string out;
  BatchRequestWriter writer(out, 7, Durability::owner);
  writer.add({Opcode::put, "a", "1", 0, {}});
  writer.add({Opcode::get, "b", {}, 0, {}});
  writer.finish();
  Frame frame;
  ASSERT_EQ(FrameParser(1024).parse(out, frame).step, FrameStep::frame);
  BatchRequest request;
  ASSERT_TRUE(BatchRequest::decode(frame.body.substr(0, frame.body.size() - 1), request));
  EXPECT_EQ(request.durability(), Durability::owner);
  BatchItem item;
  ASSERT_TRUE(request.next(item));
  EXPECT_EQ(item.value, "1");
  EXPECT_FALSE(request.next(item));
  EXPECT_FALSE(request.ok());
}

}  // namespace
}  // namespace zaris::protocol
