#include "feed/client/endpoint.hpp"

#include <gtest/gtest.h>

namespace zaris::feed {
namespace {

TEST(FeedUrl, WhatIsUnderstood) {
  const struct { const char* url; const char* host; int port; bool tls; } cases[] = {
      {"zariss://db.example:9000", "db.example", 9000, true}, {"zariss://db.example", "db.example", 7871, true}, {"zaris://10.0.0.1:1/", "10.0.0.1", 1, false},
      {"zariss://[::1]:7871", "::1", 7871, true},             {"zariss://[fd00::7]", "fd00::7", 7871, true},
  };
  for (const auto& c : cases) {
    const auto url = parse_feed_url(c.url);
    ASSERT_TRUE(url) << c.url;
    EXPECT_EQ(url->host, c.host);
    EXPECT_EQ(url->port, c.port);
    EXPECT_EQ(url->tls, c.tls);
  }
}

TEST(FeedUrl, WhatIsNot) {
  for (const char* url : {"", "db:7871", "https://db", "zariss://", "zariss://:1", "zariss://db:", "zariss://db:0", "zariss://db:70000", "zariss://db:1x", "zariss://[::1", "zariss://[::1]x", "zariss://a/b", "zariss://u@db"}) {
    const auto parsed = parse_feed_url(url);
    ASSERT_FALSE(parsed) << url;
    EXPECT_EQ(parsed.error().code, "feed_url_invalid");
  }
}

}  // namespace
}  // namespace zaris::feed
