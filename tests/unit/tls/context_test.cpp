#include <sys/stat.h>
#include <unistd.h>

#include "fixture.hpp"

namespace zaris::tls {
namespace {

struct LoadCase {
  const char* name;
  std::function<void(const Directory&, ServerOptions&)> spoil;
  const char* code;
};

TEST(Context, SaysWhichFileIsWrongAndHow) {
  const LoadCase cases[] = {
      {"no CA file", [](const Directory& d, ServerOptions& o) { o.ca_file = d.file("none.crt"); }, "tls_ca_unreadable"},
      {"CA is text", [](const Directory& d, ServerOptions&) { write_file(d.file("ca.crt"), "hello\n"); }, "tls_ca_invalid"},
      {"CA is empty", [](const Directory& d, ServerOptions&) { write_file(d.file("ca.crt"), ""); }, "tls_ca_invalid"},
      {"CA is cut", [](const Directory& d, ServerOptions&) { write_file(d.file("ca.crt"), read_file(d.file("ca.crt")).substr(0, 200)); }, "tls_ca_invalid"},
      {"second certificate of the CA file is cut",
       [](const Directory& d, ServerOptions&) { write_file(d.file("ca.crt"), read_file(d.file("ca.crt")) + read_file(d.file("ca.crt")).substr(0, 200)); }, "tls_ca_invalid"},
      {"no certificate", [](const Directory& d, ServerOptions& o) { o.cert_file = d.file("none.crt"); }, "tls_cert_unreadable"},
      {"certificate is cut", [](const Directory& d, ServerOptions&) { write_file(d.file("server.crt"), read_file(d.file("server.crt")).substr(0, 300)); }, "tls_cert_invalid"},
      {"no key", [](const Directory& d, ServerOptions& o) { o.key_file = d.file("none.key"); }, "tls_key_unreadable"},
      {"key is cut", [](const Directory& d, ServerOptions&) { write_file(d.file("server.key"), read_file(d.file("server.key")).substr(0, 100)); }, "tls_key_invalid"},
      {"key of another", [](const Directory& d, ServerOptions& o) { o.key_file = d.file("follower.key"); }, "tls_key_mismatch"},
      {"certificate without key", [](const Directory&, ServerOptions& o) { o.key_file.clear(); }, "tls_options_invalid"},
      {"neither", [](const Directory&, ServerOptions& o) { o.key_file.clear(), o.cert_file.clear(); }, "tls_options_invalid"},
      {"clients demanded without CA", [](const Directory&, ServerOptions& o) { o.ca_file.clear(); }, "tls_options_invalid"},
      {"a directory", [](const Directory& d, ServerOptions& o) { o.cert_file = d.path; }, "tls_cert_unreadable"},
  };
  for (const auto& c : cases) {
    Directory d;
    make_set(d.path);
    ServerOptions options{d.file("server.crt"), d.file("server.key"), d.file("ca.crt"), ClientAuth::required, MinVersion::tls13};
    c.spoil(d, options);
    const auto context = Context::server(options);
    ASSERT_FALSE(context) << c.name;
    EXPECT_EQ(context.error().code, c.code) << c.name;
    EXPECT_FALSE(context.error().what.empty()) << c.name;
  }
}

TEST(Context, RefusesACertificatePastItsEnd) {
  Directory d;
  make_set(d.path, {}, {}, 0);
  const auto context = Context::server({d.file("server.crt"), d.file("server.key"), "", ClientAuth::off, MinVersion::tls13});
  ASSERT_FALSE(context);
  EXPECT_EQ(context.error().code, "tls_cert_expired");
}

TEST(Context, ReloadUsesNewFilesAndOnlyWhenTheyChanged) {
  Directory d;
  make_set(d.path);
  const auto context = server_of(d);
  const auto first = context->chain().front().serial;
  auto again = context->reload();
  ASSERT_TRUE(again);
  EXPECT_FALSE(*again) << "nothing has changed";
  make_set(d.path);  // the CA stays, the certificates are new
  again = context->reload();
  ASSERT_TRUE(again) << again.error().text();
  EXPECT_TRUE(*again);
  EXPECT_NE(context->chain().front().serial, first);
}

TEST(Context, ABadPairKeepsTheOldOne) {
  const struct {
    const char* name;
    std::function<void(const Directory&)> spoil;
    const char* code;
  } cases[] = {
      {"half-written certificate", [](const Directory& d) { write_file(d.file("server.crt"), read_file(d.file("server.crt")).substr(0, 250)); }, "tls_cert_invalid"},
      {"half-written key", [](const Directory& d) { write_file(d.file("server.key"), read_file(d.file("server.key")).substr(0, 50)); }, "tls_key_invalid"},
      {"only the certificate is new yet", [](const Directory& d) { write_file(d.file("server.crt"), read_file(d.file("follower.crt"))); }, "tls_key_mismatch"},
      {"gone", [](const Directory& d) { ::unlink(d.file("server.crt").c_str()); }, "tls_cert_unreadable"},
      {"expired",
       [](const Directory& d) {
         Directory old;
         make_set(old.path, {}, {}, 0);
         write_file(d.file("server.crt"), read_file(old.file("server.crt")));
         write_file(d.file("server.key"), read_file(old.file("server.key")));
       },
       "tls_cert_expired"},
  };
  for (const auto& c : cases) {
    Directory d;
    make_set(d.path);
    const auto context = server_of(d);
    const auto serial = context->chain().front().serial;
    c.spoil(d);
    const auto reloaded = context->reload();
    ASSERT_FALSE(reloaded) << c.name;
    EXPECT_EQ(reloaded.error().code, c.code) << c.name;
    EXPECT_EQ(context->chain().front().serial, serial) << c.name;
    // And it still works.
    const auto client = client_of(d);
    Pair pair(context.get(), client.get());
    pair.shake_hands();
    EXPECT_EQ(pair.client_io, Io::ok) << c.name;
    EXPECT_EQ(pair.server_io, Io::ok) << c.name;
  }
}

TEST(Context, FollowsASymlinkSwappedAsKubernetesDoes) {
  Directory d;
  make_set(d.path + "/one");
  make_set(d.path + "/two");
  ASSERT_EQ(::symlink("one", d.file("data").c_str()), 0);
  auto context = Context::server({d.file("data/server.crt"), d.file("data/server.key"), d.file("data/ca.crt"), ClientAuth::required, MinVersion::tls13});
  ASSERT_TRUE(context);
  ASSERT_EQ(::symlink("two", d.file("data.new").c_str()), 0);
  ASSERT_EQ(::rename(d.file("data.new").c_str(), d.file("data").c_str()), 0);
  const auto reloaded = (*context)->reload();
  ASSERT_TRUE(reloaded);
  EXPECT_TRUE(*reloaded);
}

TEST(Context, SaysWhenCertificatesEnd) {
  Directory d;
  make_set(d.path, {}, {}, 10);
  const auto context = server_of(d, ClientAuth::off);
  const auto validity = context->validity();
  EXPECT_EQ(validity.leaf_not_after_s - validity.leaf_not_before_s, 10 * 86400 + 3600);
  EXPECT_GT(validity.ca_not_after_s, validity.leaf_not_after_s);
  EXPECT_EQ(context->chain().front().common_name, "server");
  EXPECT_EQ(context->chain().front().subject, "CN=server");
}

TEST(Context, OpenSessionsOutliveAReload) {
  Directory d;
  make_set(d.path);
  const auto server = server_of(d);
  const auto client = client_of(d);
  Pair pair(server.get(), client.get());
  pair.shake_hands();
  ASSERT_EQ(pair.client_io, Io::ok);
  make_set(d.path);
  ASSERT_TRUE(server->reload().value());
  std::size_t taken = 0, got = 0;
  ASSERT_EQ(pair.client->write("still here", taken), Io::ok);
  char text[32];
  ASSERT_EQ(pair.server->read(text, sizeof text, got), Io::ok);
  EXPECT_EQ(std::string(text, got), "still here");
}

}  // namespace
}  // namespace zaris::tls
