#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fixture.hpp"

namespace zaris::tls {
namespace {

TEST(Channel, EachEndLearnsWhoTheOtherIs) {
  Directory d;
  make_set(d.path, {}, {{"follower", "region-b"}});
  const auto server = server_of(d), client = client_of(d);
  Pair pair(server.get(), client.get());
  pair.shake_hands();
  ASSERT_EQ(pair.client_io, Io::ok) << pair.client->error().text();
  ASSERT_EQ(pair.server_io, Io::ok) << pair.server->error().text();
  EXPECT_EQ(pair.server->peer().common_name, "region-b");
  EXPECT_EQ(pair.server->peer().subject, "CN=region-b");
  EXPECT_EQ(pair.client->peer().common_name, "server");
  EXPECT_EQ(pair.client->version(), "TLSv1.3 TLS_AES_128_GCM_SHA256");
}

TEST(Channel, VerifiesNamesAndAddresses) {
  Directory d;
  make_set(d.path, {"db.example", "10.1.2.3", "fd00::7"});
  const auto server = server_of(d), client = client_of(d);
  const struct { const char* host; bool good; } cases[] = {
      {"localhost", true}, {"db.example", true},  {"DB.example", true}, {"127.0.0.1", true},  {"::1", true},       {"10.1.2.3", true},
      {"fd00::7", true},   {"fd00:0::7", true},   {"server", true},     {"other.example", false}, {"10.1.2.4", false}, {"fd00::8", false},
      {"example", false},  {"a.localhost", false},
  };
  for (const auto& c : cases) {
    Pair pair(server.get(), client.get(), c.host);
    pair.shake_hands();
    if (c.good) {
      EXPECT_EQ(pair.client_io, Io::ok) << c.host << ": " << pair.client->error().text();
    } else {
      EXPECT_EQ(pair.client_io, Io::failed) << c.host;
      EXPECT_EQ(pair.client->error().code, "tls_name_mismatch") << c.host;
    }
  }
}

TEST(Channel, TellsTheRefusalsApart) {
  Directory ours, theirs;
  make_set(ours.path);
  make_set(theirs.path);
  const auto server = server_of(ours);
  const auto good = client_of(ours), foreign = client_of(theirs), bare = client_of(ours, "");
  // A client that trusts us and shows a certificate of somebody else's authority.
  const auto mixed = Context::client({ours.file("ca.crt"), theirs.file("follower.crt"), theirs.file("follower.key"), MinVersion::tls13, false});
  ASSERT_TRUE(mixed);
  const struct { const char* name; const Context* client; const char* client_code; const char* server_code; } cases[] = {
      {"good", good.get(), "", ""},
      {"another authority", foreign.get(), "tls_unknown_ca", "tls_unknown_ca"},
      {"no client certificate", bare.get(), "tls_no_client_cert", "tls_no_client_cert"},
      {"client certificate of another authority", mixed->get(), "tls_client_cert_refused", "tls_unknown_ca"},
  };
  for (const auto& c : cases) {
    Pair pair(server.get(), c.client);
    pair.shake_hands();
    EXPECT_EQ(pair.client->error().code, c.client_code) << c.name << ": " << pair.client->error().text();
    EXPECT_EQ(pair.server->error().code, c.server_code) << c.name << ": " << pair.server->error().text();
  }
}

TEST(Channel, AnExpiredClientIsRefused) {
  Directory d, old;
  make_set(d.path);
  // Same authority, certificate of the past: only the test of the date can refuse it.
  DevCaRequest request;
  request.directory = d.path;
  request.servers.clear();
  request.clients = {{"late", ""}};
  request.days = 0;
  ASSERT_TRUE(make_dev_ca(request));
  EXPECT_EQ(Context::client({d.file("ca.crt"), d.file("late.crt"), d.file("late.key"), MinVersion::tls13, false}).error().code, "tls_cert_expired");
}

TEST(Channel, PlainTextToATlsPort) {
  Directory d;
  make_set(d.path);
  const auto server = server_of(d);
  for (const std::string& text : {std::string("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), std::string(64, 'x'), std::string("\x16\x03\x01\xff\xff", 5) + std::string(70000, 'y'), std::string(300, '\0')}) {
    Pair pair(server.get(), nullptr);
    ASSERT_EQ(::send(pair.sockets[1], text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
    Io io = Io::want_read;
    for (int i = 0; i < 10 && (io == Io::want_read || io == Io::want_write); ++i) io = pair.server->handshake();
    EXPECT_EQ(io, Io::failed);
    EXPECT_EQ(pair.server->error().code, "tls_not_tls") << printable(text.substr(0, 8)) << ": " << pair.server->error().text();
  }
}

TEST(Channel, CarriesBytesWhateverTheKernelTakes) {
  Directory d;
  make_set(d.path);
  const auto server = server_of(d), client = client_of(d);
  for (const bool plain : {false, true}) {
    Pair pair(plain ? nullptr : server.get(), plain ? nullptr : client.get());
    const int small = 8192;
    for (const int s : pair.sockets) ::setsockopt(s, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    pair.shake_hands();
    ASSERT_EQ(pair.client_io, Io::ok);
    std::string sent(3'000'000, '\0'), received;
    for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<char>(i * 2654435761u >> 11);
    std::size_t at = 0;
    bool was_full = false;
    std::string part(50'000, '\0');
    while (received.size() < sent.size()) {
      if (pair.server->flush() == Io::ok && at < sent.size()) {
        std::size_t taken = 0;
        const Io io = pair.server->write(std::string_view(sent).substr(at, 700'000), taken);
        at += taken;
        ASSERT_TRUE(io == Io::ok || io == Io::want_write);
        was_full = was_full || io == Io::want_write;
        EXPECT_LE(pair.server->waiting_bytes(), 128u << 10) << "what the kernel does not take is not piled up";
      }
      std::size_t got = 0;
      const Io io = pair.client->read(part.data(), part.size(), got);
      ASSERT_TRUE(io == Io::ok || io == Io::want_read);
      received.append(part, 0, got);
    }
    EXPECT_TRUE(was_full);
    EXPECT_EQ(received, sent);
    EXPECT_TRUE(pair.server->flushed());
  }
}

TEST(Channel, GoodbyeAndSuddenDeathAreBothAnEnd) {
  Directory d;
  make_set(d.path);
  const auto server = server_of(d), client = client_of(d);
  for (const bool politely : {true, false}) {
    Pair pair(server.get(), client.get());
    pair.shake_hands();
    std::size_t taken = 0, got = 0;
    ASSERT_EQ(pair.client->write("last words", taken), Io::ok);
    if (politely) pair.client->shutdown();
    ::shutdown(pair.sockets[1], SHUT_WR);
    char text[64];
    ASSERT_EQ(pair.server->read(text, sizeof text, got), Io::ok);
    EXPECT_EQ(std::string(text, got), "last words");
    EXPECT_EQ(pair.server->read(text, sizeof text, got), Io::closed);
    EXPECT_EQ(pair.server->error().code, "peer_closed");
  }
}

TEST(Channel, ATls12ClientIsToldThatVersionsDoNotMeet) {
  Directory d;
  make_set(d.path);
  const auto server = server_of(d), client = client_of(d);
  auto* ctx = static_cast<SSL_CTX*>(client->native_handle());
  SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
  SSL_CTX_set_max_proto_version(ctx, TLS1_2_VERSION);
  SSL_CTX_free(ctx);
  Pair pair(server.get(), client.get());
  pair.shake_hands();
  EXPECT_EQ(pair.client->error().code, "tls_version") << pair.client->error().text();
  EXPECT_EQ(pair.server->error().code, "tls_version") << pair.server->error().text();
}

}  // namespace
}  // namespace zaris::tls
