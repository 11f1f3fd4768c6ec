#include "feed/transport/http.hpp"

#include <gtest/gtest.h>

#include "feed/transport/segments.hpp"

namespace zaris::feed {
namespace {

TEST(Http, AnUpgradeIsUnderstoodWhereverItIsCut) {
  const std::string whole = http::upgrade_request("::1", 7871, "/feed/v1", "dGhlIHNhbXBsZSBub25jZQ==");
  EXPECT_NE(whole.find("Host: [::1]:7871\r\n"), std::string::npos);
  for (std::size_t cut = 0; cut <= whole.size(); ++cut) {
    std::string bytes = whole.substr(0, cut);
    auto request = http::take_request(bytes);
    ASSERT_TRUE(request) << cut << request.error().text();
    ASSERT_EQ(request->has_value(), cut == whole.size()) << cut;
    if (*request) {
      EXPECT_EQ((*request)->path, "/feed/v1");
      EXPECT_EQ((*request)->websocket_key, "dGhlIHNhbXBsZSBub25jZQ==");
      EXPECT_TRUE(bytes.empty());
    }
  }
}

TEST(Http, QueriesAreDecoded) {
  std::string bytes = "GET /v1/changes?prefix=a%3Ab+c&prefix=%00%ff&&since= HTTP/1.1\r\nHost: x\r\n\r\nrest";
  const auto request = http::take_request(bytes);
  ASSERT_TRUE(request && *request);
  const std::vector<std::pair<std::string, std::string>> expected{{"prefix", "a:b c"}, {"prefix", std::string("\0\xff", 2)}, {"since", ""}};
  EXPECT_EQ((*request)->query, expected);
  EXPECT_EQ((*request)->path, "/v1/changes");
  EXPECT_TRUE((*request)->keep_alive);
  EXPECT_FALSE((*request)->websocket_key);
  EXPECT_EQ(bytes, "rest");
}

TEST(Http, WhatIsRefused) {
  const struct { std::string bytes; const char* code; } cases[] = {
      {"\x16\x03\x01", "http_malformed"},
      {"hello", "http_malformed"},
      {"GET\r\n\r\n", "http_malformed"},
      {"GET /%zz HTTP/1.1\r\n\r\n", "http_malformed"},
      {"GET /a?b=%1 HTTP/1.1\r\n\r\n", "http_malformed"},
      {"GET / HTTP/9.9\r\n\r\n", "http_malformed"},
      {"GET / HTTP/1.1\r\nContent-Length: 5\r\n\r\nabcde", "http_malformed"},
      {"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", "http_malformed"},
      {"GET /" + std::string(20'000, 'a'), "http_head_too_large"},
      {"GET / HTTP/1.1\r\nX: " + std::string(20'000, 'a') + "\r\n\r\n", "http_head_too_large"},
  };
  for (auto c : cases) {
    const auto request = http::take_request(c.bytes);
    ASSERT_FALSE(request) << c.bytes.substr(0, 40);
    EXPECT_EQ(request.error().code, c.code) << c.bytes.substr(0, 40);
  }
}

TEST(Http, UpgradesThatAreNotOnes) {
  const std::string good = http::upgrade_request("h", 1, "/feed/v1", "dGhlIHNhbXBsZSBub25jZQ==");
  const auto without = [&](const std::string& from, const std::string& to) {
    std::string bytes = good;
    bytes.replace(bytes.find(from), from.size(), to);
    return http::take_request(bytes).value().value();
  };
  EXPECT_FALSE(without("Version: 13", "Version: 8").websocket_key);
  EXPECT_FALSE(without("Connection: Upgrade", "Connection: close").websocket_key);
  EXPECT_FALSE(without("dGhlIHNhbXBsZSBub25jZQ==", "short").websocket_key);
  EXPECT_FALSE(without("HTTP/1.1", "HTTP/1.0").websocket_key);
  EXPECT_TRUE(without("Version: 13", "Version: 8").wants_upgrade);
  EXPECT_FALSE(without("Upgrade: websocket", "X: websocket").wants_upgrade);
}

TEST(Http, ResponsesByLengthByChunksAndTheSwitch) {
  std::string bytes = http::respond(404, "text/plain", "gone", true) + http::switch_to_websocket("dGhlIHNhbXBsZSBub25jZQ==") + "\x82\x00";
  auto response = http::take_response(bytes, 100);
  ASSERT_TRUE(response && *response);
  EXPECT_EQ((*response)->status, 404);
  EXPECT_EQ((*response)->body, "gone");
  response = http::take_response(bytes, 100);
  ASSERT_TRUE(response && *response);
  EXPECT_EQ((*response)->status, 101);
  EXPECT_EQ((*response)->websocket_accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
  EXPECT_EQ(bytes, std::string_view("\x82\x00", 2).substr(0, bytes.size()));

  bytes = http::respond_chunked("application/x-ndjson") + http::chunk("ab") + http::chunk("cde") + std::string(http::last_chunk);
  response = http::take_response(bytes, 100);
  ASSERT_TRUE(response && *response) << response.error().text();
  EXPECT_EQ((*response)->body, "abcde");
}

TEST(Http, ABodyLargerThanExpectedIsRefused) {
  std::string bytes = http::respond(200, "text/plain", std::string(101, 'x'), true);
  const auto response = http::take_response(bytes, 100);
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, "http_body_too_large");
}

TEST(Segments, RoundTripAndNonsense) {
  const SegmentsPage page{ClusterId{0xabc}, 4, 77, {{SegmentId{0}, {Generation{3}, Revision{9}}, Revision{2}}, {SegmentId{3}, {Generation{4}, Revision{1}}, Revision{1}}}};
  const auto back = parse_segments(format_segments(page));
  ASSERT_TRUE(back) << back.error().text();
  EXPECT_EQ(back->cluster, page.cluster);
  EXPECT_EQ(back->segments_total, 4u);
  ASSERT_EQ(back->rows.size(), 2u);
  EXPECT_EQ(back->rows[1].head, page.rows[1].head);
  EXPECT_TRUE(back->unavailable.empty());
  EXPECT_EQ(format_segments(page).find("unavailable"), std::string::npos) << "a node does not speak for others";
  SegmentsPage whole = page;
  whole.unavailable = {SegmentId{1}, SegmentId{2}};
  const auto said = parse_segments(format_segments(whole));
  ASSERT_TRUE(said) << said.error().text();
  EXPECT_EQ(said->unavailable, whole.unavailable);
  for (const char* text : {"", "[]", "{}", R"({"cluster":"xyz","segments_total":1,"closed_time_us":1,"segments":[]})", R"({"cluster":"0000000000000abc","segments_total":1,"closed_time_us":1,"segments":[{}]})",
                           R"({"cluster":"0000000000000abc","segments_total":1,"closed_time_us":1,"segments":[{"segment":65536,"generation":1,"head":1,"floor":1}]})",
                           R"({"cluster":"0000000000000abc","segments_total":1,"closed_time_us":1,"segments":[],"unavailable":[-1]})",
                           R"({"cluster":"0000000000000abc","segments_total":1,"closed_time_us":1,"segments":[],"unavailable":"0"})"}) {
    ASSERT_FALSE(parse_segments(text)) << text;
    EXPECT_EQ(parse_segments(text).error().code, "feed_segments_malformed");
  }
}

}  // namespace
}  // namespace zaris::feed
