#include "feed/transport/websocket.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

namespace zaris::feed::websocket {
namespace {

using Kind = Reader::Event::Kind;

std::string bytes(std::initializer_list<int> list) {
  std::string out;
  for (const int b : list) out.push_back(static_cast<char>(b));
  return out;
}

// Everything that comes of `input`, given in pieces of `step`: "message:abc", or the error's code.
std::vector<std::string> read_all(Reader& reader, std::string_view input, std::size_t step = SIZE_MAX) {
  std::vector<std::string> out;
  while (!input.empty()) {
    std::string_view piece = input.substr(0, step);
    input.remove_prefix(piece.size());
    while (!piece.empty()) {
      auto event = reader.take(piece);
      if (!event) {
        out.push_back(event.error().code);
        return out;
      }
      if (!*event) continue;
      const char* names[] = {"message:", "ping:", "pong:", "close:"};
      out.push_back(names[static_cast<int>((*event)->kind)] + *(*event)->bytes);
    }
  }
  return out;
}

TEST(WebSocket, AcceptKeyOfTheStandard) { EXPECT_EQ(accept_key("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="); }  // RFC 6455 section 1.3

TEST(WebSocket, FramesOfTheStandard) {  // RFC 6455 section 5.7
  Reader server(Side::server, 1000, false), client(Side::client, 1000, true);
  EXPECT_EQ(read_all(server, bytes({0x89, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58})), std::vector<std::string>{"ping:Hello"});
  EXPECT_EQ(read_all(client, bytes({0x89, 0x05, 0x48, 0x65, 0x6c, 0x6c, 0x6f})), std::vector<std::string>{"ping:Hello"});
  EXPECT_EQ(masked_frame(Opcode::ping, "Hello", 0x37fa213d), bytes({0x89, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58}));
  EXPECT_EQ(frame(Opcode::binary, std::string(256, 'x')).substr(0, 4), bytes({0x82, 0x7e, 0x01, 0x00}));
  EXPECT_EQ(frame(Opcode::binary, std::string(65536, 'x')).substr(0, 10), bytes({0x82, 0x7f, 0, 0, 0, 0, 0, 1, 0, 0}));
}

TEST(WebSocket, MessagesOfEveryLengthInPiecesOfEverySize) {
  for (const std::size_t length : {0u, 1u, 7u, 125u, 126u, 127u, 5000u, 65535u, 65536u, 70000u}) {
    std::string payload(length, '\0');
    for (std::size_t i = 0; i < length; ++i) payload[i] = static_cast<char>(i * 131 >> 3);
    for (const std::size_t step : {1u, 3u, 4096u, 1u << 20}) {
      Reader server(Side::server, 1 << 20, false), client(Side::client, 1 << 20, true);
      const auto expected = std::vector<std::string>{"message:" + payload, "message:" + payload};
      const auto masked = masked_frame(Opcode::binary, payload, 0xdeadbe01), plain = frame(Opcode::binary, payload);
      EXPECT_EQ(read_all(server, masked + masked, step), expected) << length << " in " << step;
      EXPECT_EQ(read_all(client, plain + plain, step), expected) << length << " in " << step;
    }
  }
}

TEST(WebSocket, HeaderGoesRightInFrontOfThePayload) {
  std::string message(header_room, 'h');
  message += "payload";
  const auto at = put_header(message);
  EXPECT_EQ(at, header_room - 2);
  Reader client(Side::client, 100, true);
  EXPECT_EQ(read_all(client, std::string_view(message).substr(at)), std::vector<std::string>{"message:payload"});
}

TEST(WebSocket, FragmentsAreOneMessageAndControlFramesGoBetween) {
  Reader client(Side::client, 10, true);
  const auto first = bytes({0x02, 3}) + "abc", ping = bytes({0x89, 1}) + "p", middle = bytes({0x00, 0}), last = bytes({0x80, 2}) + "de";
  for (const std::size_t step : {1u, 100u}) {
    EXPECT_EQ(read_all(client, first + ping + middle + last, step), (std::vector<std::string>{"ping:p", "message:abcde"}));
  }
}

TEST(WebSocket, DirectReadsLandInTheMessage) {
  const std::string payload(100'000, 'd');
  const std::string whole = frame(Opcode::binary, payload) + frame(Opcode::ping, "x");
  Reader client(Side::client, 1 << 20, true);
  std::string_view in = std::string_view(whole).substr(0, 50);
  ASSERT_FALSE(client.take(in).value());
  std::size_t at = 50;
  std::optional<Reader::Event> event;
  while (!event) {
    const auto room = client.direct();
    if (room.size == 0) {
      in = std::string_view(whole).substr(at);
      event = client.take(in).value();
      at = whole.size() - in.size();
      continue;
    }
    const std::size_t n = std::min<std::size_t>(room.size, 7'000);
    std::memcpy(room.at, whole.data() + at, n);
    at += n;
    event = client.committed(n);
  }
  EXPECT_EQ(*event->bytes, payload);
  in = std::string_view(whole).substr(at);
  EXPECT_EQ(read_all(client, in), std::vector<std::string>{"ping:x"});
}

TEST(WebSocket, WhatIsRefused) {
  const auto masked = [](int b0, int b1) { return bytes({b0, b1, 1, 2, 3, 4}); };
  const struct { const char* name; std::string input; Side side; const char* code; } cases[] = {
      {"reserved bit", masked(0xc2, 0x81) + "x", Side::server, "websocket_protocol_error"},
      {"unmasked to a server", bytes({0x82, 1}) + "x", Side::server, "websocket_protocol_error"},
      {"masked to a client", masked(0x82, 0x81) + "x", Side::client, "websocket_protocol_error"},
      {"text", masked(0x81, 0x81) + "x", Side::server, "websocket_unsupported"},
      {"unknown data opcode", masked(0x83, 0x81) + "x", Side::server, "websocket_protocol_error"},
      {"unknown control opcode", masked(0x8b, 0x81) + "x", Side::server, "websocket_protocol_error"},
      {"continuation of nothing", masked(0x80, 0x81) + "x", Side::server, "websocket_protocol_error"},
      {"message within a message", bytes({0x02, 1}) + "a" + bytes({0x82, 1}) + "b", Side::client, "websocket_protocol_error"},
      {"fragmented ping", bytes({0x09, 0}), Side::client, "websocket_protocol_error"},
      {"long ping", bytes({0x89, 126, 0, 126}), Side::client, "websocket_protocol_error"},
      {"16-bit length that fits in 7", bytes({0x82, 126, 0, 125}), Side::client, "websocket_protocol_error"},
      {"64-bit length that fits in 16", bytes({0x82, 127, 0, 0, 0, 0, 0, 0, 0xff, 0xff}), Side::client, "websocket_protocol_error"},
      {"length with its top bit", bytes({0x82, 127, 0x80, 0, 0, 0, 0, 1, 0, 0}), Side::client, "websocket_protocol_error"},
      {"huge length", bytes({0x82, 127, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}), Side::client, "websocket_message_too_big"},
      {"one over the bound", bytes({0x82, 126, 0x03, 0xe9}), Side::client, "websocket_message_too_big"},
      {"fragments over the bound", bytes({0x02, 126, 0x03, 0xe8}) + std::string(1000, 'x') + bytes({0x80, 1}), Side::client, "websocket_message_too_big"},
  };
  for (const auto& c : cases) {
    for (const std::size_t step : {1u, 10'000u}) {
      Reader reader(c.side, 1000, true);
      EXPECT_EQ(read_all(reader, c.input, step), std::vector<std::string>{c.code}) << c.name;
    }
  }
}

TEST(WebSocket, AClaimedLengthTakesNoMemoryAtAServer) {
  Reader server(Side::server, 1u << 30, false);
  std::string header = masked_frame(Opcode::binary, std::string(70'000, 'x'), 1).substr(0, 14);
  header[2] = 0, header[3] = 0, header[4] = 0, header[5] = 0, header[6] = 0x3f;
  std::string_view in = header;
  ASSERT_TRUE(server.take(in));
  EXPECT_LT(server.held_bytes(), 1000u);
}

TEST(WebSocket, RandomBytesNeverTakeMoreThanTheBound) {
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round) {
    const bool server = round % 2 == 0;
    Reader reader(server ? Side::server : Side::client, 4096, !server);
    std::string input(200, '\0');
    for (auto& c : input) c = static_cast<char>(random());
    if (round % 3 != 0) input[0] = static_cast<char>(0x82), input[1] = static_cast<char>((server ? 0x80 : 0) | (random() % 128));
    for (const auto& e : read_all(reader, input, 1 + random() % 50)) ASSERT_LE(e.size(), 4096u + 10);
    ASSERT_LE(reader.held_bytes(), 8192u);
  }
}

}  // namespace
}  // namespace zaris::feed::websocket
