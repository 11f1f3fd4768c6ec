#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "cluster/client/url.hpp"

namespace zaris::client {
namespace {

TEST(Url, SaysWhereAndHow) {
  const auto one = parse_url("zaris://host/store");
  ASSERT_TRUE(one) << one.error().text();
  EXPECT_EQ(one->seeds, (std::vector<Seed>{{"host", 7861}}));
  EXPECT_EQ(one->store, "store");
  EXPECT_FALSE(one->tls.on);

  const auto many = parse_url("zariss://a,b:99,[::1]:7,10.0.0.1/my%20store?ca=/x/ca.pem&cert=c&key=k&server_name=n&timeout=500ms&connect_timeout=2&cluster_id=00000000000000aa&retry_unknown=1");
  ASSERT_TRUE(many) << many.error().text();
  EXPECT_EQ(many->seeds, (std::vector<Seed>{{"a", 7863}, {"b", 99}, {"::1", 7}, {"10.0.0.1", 7863}}));
  EXPECT_TRUE(many->tls.on);
  EXPECT_EQ(many->store, "my store");
  EXPECT_EQ(many->tls.ca_file, "/x/ca.pem");
  EXPECT_EQ(many->timeout.count(), 500);
  EXPECT_EQ(many->connect_timeout.count(), 2000);
  EXPECT_EQ(many->cluster_expected, ClusterId{0xaa});
  EXPECT_TRUE(many->retry_unknown);

  EXPECT_TRUE(parse_url("zaris://127.0.0.1:1")) << "a store is not demanded";
}

TEST(Url, RefusesWithAHint) {
  for (const char* text : {"", "host:7861", "http://host", "zaris://", "zaris:///store", "zaris://host:0/s", "zaris://host:70000/s", "zaris://host:x/s",
                           "zaris://a,,b/s", "zaris://[::1/s", "zaris://user:pw@host/s", "zaris://a|b/s", "zaris://h/s/t", "zaris://h/s?nope=1",
                           "zaris://h/s?timeout=fast", "zaris://h/s?timeout=0", "zaris://h/s?cluster_id=12", "zaris://h/s?ca=%zz", "zaris://h/s?retry_unknown=2"}) {
    const auto got = parse_url(text);
    ASSERT_FALSE(got) << text;
    EXPECT_EQ(got.error().code, "url_invalid") << text;
    EXPECT_FALSE(got.error().what.empty()) << text;
    EXPECT_FALSE(got.error().hint.empty()) << text;
  }
}

TEST(Url, ReadsATokenFromAFileOnly) {
  const std::string path = ::testing::TempDir() + "/zaris_url_token." + std::to_string(::getpid());
  std::ofstream(path) << "s3cret\nrest\n";
  EXPECT_EQ(parse_url("zaris://h/s?token_file=" + path)->token, "s3cret");
  EXPECT_EQ(parse_url("zaris://h/s?token_file=" + path + ".no").error().code, "file_unreadable");
}

TEST(Duration, HasAUnit) {
  const std::pair<const char*, std::int64_t> good[] = {{"500ms", 500}, {"10s", 10'000}, {"2m", 120'000}, {"1h", 3'600'000}, {"3d", 259'200'000}, {"1.5s", 1500}, {"7", 7000}};
  for (const auto& [text, ms] : good) EXPECT_EQ(parse_duration(text)->count(), ms) << text;
  for (const char* text : {"", "s", "-1s", "10 s", "10y", "1e99s", "nan", "inf"}) EXPECT_FALSE(parse_duration(text)) << text;
}

}  // namespace
}  // namespace zaris::client
