// What bad peers get: an answer if they can be told, the door, a count; and nobody else notices.
#include <sys/socket.h>
#include <unistd.h>

#include <random>

#include "feed/transport/websocket.hpp"
#include "fixture.hpp"

namespace zaris::feed {
namespace {

std::uint64_t failures(const Region& region, HandshakeFailure which) { return region.snapshot().handshakes_failed_total[static_cast<std::size_t>(which)]; }
std::uint64_t disconnects(const Region& region, DisconnectReason which) { return region.snapshot().transports[0].disconnects_total[static_cast<std::size_t>(which)]; }

TEST(BadPeer, DialsWithTheWrongPapers) {
  Region region;
  FeedEndpoint foreign = region.endpoint(), bare = region.endpoint(""), mixed = region.endpoint();
  foreign.tls = region.client_context("foreign/follower", "foreign/ca.crt");
  mixed.tls = region.client_context("foreign/follower", "ca.crt");
  FeedEndpoint nobody = region.endpoint(), nameless = region.endpoint(), plain = region.endpoint();
  nobody.port = 1;
  nameless.host = "no-such-host.invalid";
  plain.tls = nullptr;

  const struct { const char* name; FeedEndpoint endpoint; const char* code; } cases[] = {
      {"authority unknown to us", foreign, "tls_unknown_ca"},
      {"no client certificate", bare, "tls_no_client_cert"},
      {"client certificate of another authority", mixed, "tls_client_cert_refused"},
      {"nobody listens", nobody, "feed_connect_failed"},
      {"no such name", nameless, "feed_dns_failed"},
  };
  for (const auto& c : cases) {
    Follower follower(c.endpoint);
    const auto error = follower.wait_closed();
    EXPECT_EQ(error.code, c.code) << c.name << ": " << error.text();
    EXPECT_FALSE(error.what.empty());
  }
  {
    Follower follower(plain);
    const auto error = follower.wait_closed();
    EXPECT_FALSE(error.code.empty()) << "plain text to the TLS port ends";
  }
  EXPECT_TRUE(region.serves());
  EXPECT_EQ(failures(region, HandshakeFailure::no_client_cert), 1u);
  EXPECT_GE(failures(region, HandshakeFailure::not_tls), 1u);
}

TEST(BadPeer, AServerOfAnotherNameIsNotTalkedTo) {
  Region region;
  FeedEndpoint endpoint = region.endpoint();
  GatewayOptions options;
  options.address = "127.0.0.2:0";                  // loopback is a /8; no certificate names this one
  auto elsewhere = Gateway::start(options, *region.store, region.context, {});
  ASSERT_TRUE(elsewhere);
  const struct { const char* host; std::uint16_t port; const char* code; } cases[] = {
      {"127.0.0.1", region.gateway->port(), ""},
      {"localhost", region.gateway->port(), ""},
      {"127.0.0.2", (*elsewhere)->port(), "tls_name_mismatch"},
  };
  for (const auto& c : cases) {
    endpoint.host = c.host;
    endpoint.port = c.port;
    Follower follower(endpoint);
    if (*c.code == '\0') {
      EXPECT_TRUE(follower.wait_for<Welcome>()) << c.host;
    } else {
      EXPECT_EQ(follower.wait_closed().code, c.code) << c.host;
    }
  }
}

TEST(BadPeer, SendsBytesThatAreNoTls) {
  Region region;
  std::mt19937 random(11);
  std::vector<std::string> inputs{"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "\x16\x03\x01", std::string("\x16\x03\x01\xff\xff", 5), std::string(100'000, '\0'), "*1\r\n$4\r\nPING\r\n"};
  for (int i = 0; i < 40; ++i) {
    std::string noise(1 + random() % 3000, '\0');
    for (auto& c : noise) c = static_cast<char>(random());
    inputs.push_back(std::move(noise));
  }
  for (const auto& input : inputs) {
    RawPeer peer(region.gateway->port(), nullptr);
    peer.write(input);
    ::shutdown(peer.socket(), SHUT_WR);
    EXPECT_LT(peer.read_to_end().size(), 200u);
  }
  EXPECT_TRUE(region.serves());
  EXPECT_TRUE(eventually([&] { return region.snapshot().connections_open <= 1; }));
}

TEST(BadPeer, SendsHttpThatIsNone) {
  Region region;
  const struct { std::string input; const char* answer; } cases[] = {
      {"hello there\r\n\r\n", "HTTP/1.1 400 "},
      {"GET /" + std::string(40'000, 'x') + " HTTP/1.1\r\n\r\n", "HTTP/1.1 431 "},
      {"POST /feed/v1 HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 405 "},
      {"GET /feed/v1 HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 8\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", "HTTP/1.1 400 "},
  };
  for (const auto& c : cases) {
    RawPeer peer(region.gateway->port(), region.client_context("follower"));
    ASSERT_TRUE(peer.handshake());
    peer.write(c.input);
    EXPECT_TRUE(peer.read_to_end().starts_with(c.answer)) << c.input.substr(0, 40);
  }
  EXPECT_TRUE(region.serves());
}

std::string client_frame(std::string_view payload) { return websocket::masked_frame(websocket::Opcode::binary, payload, 0x12345678); }

// The close code in the last frame of what came, 0 without one.
unsigned close_code(std::string_view stream) {
  websocket::Reader reader(websocket::Side::client, 1u << 20, false);
  while (!stream.empty()) {
    auto event = reader.take(stream);
    if (!event || !*event) return 0;
    if ((*event)->kind != websocket::Reader::Event::Kind::close) continue;
    const auto& p = *(*event)->bytes;
    return p.size() < 2 ? 0u : static_cast<unsigned>(static_cast<unsigned char>(p[0])) << 8 | static_cast<unsigned char>(p[1]);
  }
  return 0;
}

TEST(BadPeer, BreaksTheWebSocketOrTheFeed) {
  Region region;
  std::string huge = client_frame(std::string(70'000, 'x')).substr(0, 14);
  for (int i = 2; i < 10; ++i) huge[static_cast<std::size_t>(i)] = static_cast<char>(i == 2 ? 0x7f : 0xff);
  std::string deep(100'000, '\x91');                  // an array in an array in an array …
  const Hello hello = hello_of();
  const std::string greeting = client_frame(encode(FollowerMessage(hello)));
  const struct { const char* name; std::string input; unsigned code; } cases[] = {
      {"unmasked frame", websocket::frame(websocket::Opcode::binary, "abc"), 1002},
      {"reserved bits", "\xf2\x80" + std::string(4, '\0'), 1002},
      {"text", websocket::masked_frame(websocket::Opcode::text, "hello", 1), 1003},
      {"a length of 2^63", huge, 1009},
      {"a message over the bound", client_frame(std::string((4u << 20) + 1, 'x')), 1009},
      {"no MessagePack", client_frame("\xc1\xc1\xc1"), 1002},
      {"deep nesting", client_frame(deep), 1002},
      {"an array that claims 2^32 entries", client_frame(std::string("\xdd\xff\xff\xff\xff\x01", 6)), 1002},
      {"the first message is not Hello", client_frame(encode(FollowerMessage(Credit{5}))), 1002},
      {"Hello twice", greeting + greeting, 1002},
      {"a segment that is not there", greeting + client_frame(encode(FollowerMessage(Subscribe{{{SegmentId{999}, {}, {}, {}, {}}}}))), 1002},
  };
  Follower bystander(region.endpoint());
  ASSERT_TRUE(bystander.wait_for<Welcome>());
  for (const auto& c : cases) {
    const auto before = disconnects(region, DisconnectReason::protocol_error);
    RawPeer peer(region.gateway->port(), region.client_context("follower"));
    ASSERT_TRUE(peer.upgrade()) << c.name;
    peer.write(c.input);
    EXPECT_EQ(close_code(peer.read_to_end()), c.code) << c.name;
    EXPECT_TRUE(eventually([&] { return disconnects(region, DisconnectReason::protocol_error) == before + 1; })) << c.name;
  }
  bystander.send(Ping{3});
  EXPECT_TRUE(bystander.wait_for<Pong>());
}

TEST(BadPeer, StopsInTheMiddleOfAFrame) {
  Region region;
  const std::string whole = client_frame(encode(FollowerMessage(hello_of())));
  for (std::size_t cut = 1; cut < whole.size(); cut += 7) {
    RawPeer peer(region.gateway->port(), region.client_context("follower"));
    ASSERT_TRUE(peer.upgrade());
    peer.write(std::string_view(whole).substr(0, cut));
  }
  EXPECT_TRUE(eventually([&] { return region.snapshot().transports[0].open == 0; }));
  EXPECT_TRUE(region.serves());
}

TEST(BadPeer, FiveHundredStalledHandshakesDelayNobody) {
  GatewayOptions options;
  options.handshake_timeout = std::chrono::minutes(10);   // whoever is served was not served because the others timed out
  Region region(options);
  std::vector<std::unique_ptr<RawPeer>> stalled;
  for (int i = 0; i < 500; ++i) {
    stalled.push_back(std::make_unique<RawPeer>(region.gateway->port(), nullptr));
    if (i % 2 == 0) stalled.back()->write("\x16");
  }
  ASSERT_TRUE(eventually([&] { return region.snapshot().handshakes_open == 500; }));
  EXPECT_TRUE(region.serves());
  EXPECT_GE(region.snapshot().handshakes_open, 500u);
}

TEST(BadPeer, StalledHandshakesAreEndedAndCounted) {
  GatewayOptions options;
  options.handshake_timeout = std::chrono::milliseconds(50);
  Region region(options);
  RawPeer silent(region.gateway->port(), nullptr), shy(region.gateway->port(), region.client_context("follower"));
  ASSERT_TRUE(shy.handshake());                           // and asks for nothing
  EXPECT_EQ(silent.read_to_end(), "");
  EXPECT_EQ(shy.read_to_end(), "");
  RawPeer mute(region.gateway->port(), region.client_context("follower"));
  ASSERT_TRUE(mute.upgrade());                            // and says no Hello
  EXPECT_EQ(close_code(mute.read_to_end()), 1001u);
  EXPECT_TRUE(eventually([&] { return region.snapshot().handshakes_open == 0; }));
  EXPECT_GE(failures(region, HandshakeFailure::timeout), 1u);
}

TEST(BadPeer, TheOldestStalledHandshakeMakesRoom) {
  GatewayOptions options;
  options.handshake_timeout = std::chrono::minutes(10);
  options.handshakes_max = 32;
  options.threads = 1;
  Region region(options);
  std::vector<std::unique_ptr<RawPeer>> stalled;
  for (int i = 0; i < 200; ++i) stalled.push_back(std::make_unique<RawPeer>(region.gateway->port(), nullptr));
  ASSERT_TRUE(eventually([&] { return failures(region, HandshakeFailure::crowded_out) >= 200 - 33; }));
  EXPECT_LE(region.snapshot().handshakes_open, 33u);
  EXPECT_TRUE(region.serves());
}

TEST(BadPeer, AFollowerThatTakesNothingIsLetGoAndHoldsLittle) {
  GatewayOptions options;
  options.write_timeout = std::chrono::milliseconds(300);
  Region region(options);
  RawPeer peer(region.gateway->port(), region.client_context("follower"));
  ASSERT_TRUE(peer.upgrade());
  Subscribe all;
  for (std::uint16_t i = 0; i < 4; ++i) all.segments.push_back({SegmentId{i}, {}, {}, {}, {}});
  ASSERT_TRUE(peer.write(client_frame(encode(FollowerMessage(hello_of()))) + client_frame(encode(FollowerMessage(Credit{1u << 30}))) + client_frame(encode(FollowerMessage(all)))));
  ASSERT_TRUE(eventually([&] {
    const auto sessions = region.gateway->sessions();
    return !sessions.empty() && !sessions[0].link.empty();
  }));
  const std::string value(10'000, 'v');
  std::uint64_t most = 0;
  int n = 0;
  EXPECT_TRUE(eventually([&] {
    for (int i = 0; i < 200; ++i) region.put("key" + std::to_string(n++), value);
    most = std::max(most, region.snapshot().buffered_bytes);
    return disconnects(region, DisconnectReason::slow_consumer) == 1;
  }));
  EXPECT_LE(most, 1u << 20) << "what a peer does not take is not piled up";
}

TEST(BadPeer, AFloodOfPingsIsAnsweredWithinBounds) {
  Region region;
  RawPeer peer(region.gateway->port(), region.client_context("follower"));
  ASSERT_TRUE(peer.upgrade());
  std::string flood = client_frame(encode(FollowerMessage(hello_of())));
  for (int i = 0; i < 20'000; ++i) flood += websocket::masked_frame(websocket::Opcode::ping, "0123456789", 7);
  EXPECT_TRUE(peer.write(flood));
  EXPECT_LE(region.snapshot().buffered_bytes, 4u << 20);
  EXPECT_TRUE(region.serves());
}

}  // namespace
}  // namespace zaris::feed
