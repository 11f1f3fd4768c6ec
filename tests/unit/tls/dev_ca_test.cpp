#include <sys/stat.h>

#include "fixture.hpp"

namespace zaris::tls {
namespace {

mode_t mode_of(const std::string& path) {
  struct stat s {};
  return ::stat(path.c_str(), &s) == 0 ? s.st_mode & 07777 : 0;
}

TEST(DevCa, WritesCertificatesAndKeysThatOthersCannotRead) {
  Directory d;
  make_set(d.path, {"db.example", "10.1.2.3", "fd00::7"}, {{"follower", "region-b"}});
  for (const char* name : {"ca.key", "server.key", "follower.key"}) EXPECT_EQ(mode_of(d.file(name)), 0600u) << name;
  for (const char* name : {"ca.crt", "server.crt", "follower.crt"}) EXPECT_EQ(mode_of(d.file(name)), 0644u) << name;
  EXPECT_EQ(client_of(d)->chain().front().common_name, "region-b");
}

TEST(DevCa, ASecondCallAddsToTheSameAuthority) {
  Directory d;
  make_set(d.path);
  const auto ca = read_file(d.file("ca.crt"));
  make_set(d.path, {}, {{"another", ""}});
  EXPECT_EQ(read_file(d.file("ca.crt")), ca);
  EXPECT_EQ(client_of(d, "another")->chain().front().common_name, "another");
}

TEST(DevCa, SaysWhyItCannot) {
  Directory d;
  const std::vector<DevCaRequest> wrong{
      {d.file("a"), {{"../evil", {}}}, {}, 1}, {d.file("b"), {{"", {}}}, {}, 1}, {d.file("c"), {{"ca", {}}}, {}, 1}, {"/proc/nowhere", {}, {}, 1}};
  for (const auto& request : wrong) {
    const auto made = make_dev_ca(request);
    ASSERT_FALSE(made) << request.directory;
    EXPECT_EQ(made.error().code, "tls_dev_ca_failed");
  }
}

TEST(DevCa, DoesNotTouchAnAuthorityItDidNotMake) {
  Directory d;
  write_file(d.file("ca.crt"), "mine");
  write_file(d.file("ca.key"), "mine too");
  DevCaRequest request;
  request.directory = d.path;
  ASSERT_FALSE(make_dev_ca(request));
  EXPECT_EQ(read_file(d.file("ca.key")), "mine too");
}

}  // namespace
}  // namespace zaris::tls
