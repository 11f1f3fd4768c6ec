#include "cluster/etcd/endpoints.hpp"

#include <gtest/gtest.h>

namespace zaris::etcd {
namespace {

constexpr MonoMicros second = 1'000'000;

TEST(EtcdEndpoint, IsReadFromItsAddress) {
  struct Case { const char* text; bool tls; const char* host; const char* port; };
  for (const Case& c : {Case{"http://a:1", false, "a", "1"}, Case{"https://etcd-1.x:2380/", true, "etcd-1.x", "2380"}, Case{"http://10.0.0.1", false, "10.0.0.1", "2379"},
                        Case{"https://[::1]:99", true, "::1", "99"}, Case{"http://[fe80::1%eth0]", false, "fe80::1%eth0", "2379"}}) {
    const auto endpoint = parse_endpoint(c.text);
    ASSERT_TRUE(endpoint) << c.text;
    EXPECT_EQ(endpoint->tls, c.tls);
    EXPECT_EQ(endpoint->host, c.host);
    EXPECT_EQ(endpoint->port, c.port);
  }
  for (const char* bad : {"", "a:1", "ftp://a:1", "http://", "http://:1", "http://a:0", "http://a:65536", "http://a:x", "http://a:", "http://a/b", "http://a:1/b", "http://[::1", "http://a b",
                          "http://a\r\nX: y", "http://[::1]x"}) {
    const auto endpoint = parse_endpoint(bad);
    ASSERT_FALSE(endpoint) << bad;
    EXPECT_EQ(endpoint.error().code, "etcd_endpoint_invalid");
  }
}

TEST(EtcdEndpoint, IsKeptAsLongAsItAnswers) {
  EndpointChoice choice(3);
  EXPECT_EQ(choice.pick(0, 0), 0u);
  choice.failed(0, 0);
  EXPECT_EQ(choice.pick(0, 1), 1u);
  choice.answered(1);
  EXPECT_EQ(choice.pick(0, 100 * second), 1u) << "the first one being well again is no reason to move";
  EXPECT_EQ(choice.pick(0b010, 100 * second), 2u);
  EXPECT_EQ(choice.pick(0b111, 100 * second), std::nullopt);
}

TEST(EtcdEndpoint, RestsLongerWithEveryFailureAndIsAskedWhenNoOtherIsLeft) {
  EndpointChoice choice(2);
  MonoMicros rest = second;
  for (int failures = 0; failures < 8; ++failures) {
    choice.failed(0, 0);
    EXPECT_EQ(choice.pick(0, std::min(rest, 30 * second) - 1), 1u);
    EXPECT_EQ(choice.pick(0, std::min(rest, 30 * second)), 0u);
    EXPECT_EQ(choice.pick(0b10, 0), 0u) << "tired, but the only one";
    rest *= 2;
  }
  choice.failed(1, 0);
  EXPECT_EQ(choice.pick(0, 0), 1u) << "of two that rest, the one whose rest ends first";
  choice.answered(0);
  choice.failed(0, 100 * second);
  EXPECT_EQ(choice.pick(0b10, 101 * second), 0u) << "an answer makes the next rest short again";
}

}  // namespace
}  // namespace zaris::etcd
