// docs/formats/feed.md shows the bytes that this build writes.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <regex>
#include <sstream>

#include "cluster/record/record.hpp"
#include "feed/message/message.hpp"

namespace zaris::feed {
namespace {

std::string hex(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) out += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return out;
}

std::map<std::string, std::string> blocks() {
  std::ifstream in(ZARIS_FEED_PAGE);
  std::stringstream text;
  text << in.rdbuf();
  const std::string page = text.str();
  std::map<std::string, std::string> out;
  const std::regex block("```hex (\\S+)\n([^`]*)```");
  for (auto it = std::sregex_iterator(page.begin(), page.end(), block); it != std::sregex_iterator(); ++it) {
    std::string body = (*it)[2];
    std::erase_if(body, [](char c) { return c == ' ' || c == '\n'; });
    out[(*it)[1]] = body;
  }
  return out;
}

std::vector<std::pair<std::string, std::string>> examples() {
  const Generation g{7};
  const NamedPosition low{{g, Revision{300}}, 0x55};
  const Lineage lineage(Root{HistoryId{0x1122}, g, 1000, RootCause::created}, {{g, 0x55, Revision{1}, 1000}});
  std::vector<std::pair<std::string, std::string>> out;
  const auto up = [&](const char* what, const FollowerMessage& m) { out.emplace_back(what, encode(m)); };
  const auto down = [&](const char* what, const GatewayMessage& m) { out.emplace_back(what, encode(m)); };

  Hello hello{.follower = "f1", .link = "reader", .target = ClusterId{1}};
  hello.scope = *Scope::make({"t1:"});
  up("hello", hello);
  Subscribe subscribe;
  subscribe.segments.push_back({SegmentId{2}, HistoryId{0x1122}, low, low, {}});
  subscribe.segments.push_back({SegmentId{3}, {}, {}, {}, SubscribeSegment::Walk{}});
  up("subscribe", subscribe);
  up("credit", Credit{1u << 20});
  up("ack", Ack{0, {{SegmentId{2}, {g, Revision{302}}}}});
  up("fetch-keys", FetchKeys{1, SegmentId{2}, {"t1:a"}});
  up("digest-request", DigestRequest{2, SegmentId{2}, {}, {}});
  up("ping", Ping{1'000'000});
  up("unsubscribe", Unsubscribe{{SegmentId{2}}});

  Welcome welcome{1, ClusterId{0xbb}, "north/main", 4, hello.scope.id(), 65536, 4u << 20, 0, 0, std::vector<Root>(4, lineage.root()), 200, 5000, {}};
  down("welcome", welcome);
  down("subscribed", Subscribed{SegmentId{2}, low.at, {g, Revision{302}}, Revision{1}, lineage, 1});
  const std::string put = make_record({.key = "t1:a", .value = "one", .tag = 0x01020304},
                                      {.revision = Revision{302}, .item_version = 1, .timestamp_us = 1'700'000'000'000'000, .generation = g});
  std::string table, page_table;
  append_row(table, {static_cast<std::uint32_t>(put.size()), 0, Slot{11464}, 2});
  append_row(page_table, {static_cast<std::uint32_t>(put.size()), 0, Slot{11464}, 0});
  down("batch", Batch{{feed::Run{SegmentId{2}, low.at, g, Revision{302}, 1'700'000'000'000'000, true, table, put}}});
  Part part{SegmentId{2}, Revision{303}, 0, 6, "abc"};
  part.prev = {g, Revision{302}};
  part.generation = g;
  part.commit_time_us = 1000;
  part.slot = Slot{5};
  down("part", part);
  down("progress", Progress{2000, 1999, {{SegmentId{2}, {g, Revision{310}}, {g, Revision{310}}, Revision{1}, 0, Position{g, Revision{303}}}}});
  const auto record = parse_record(put);
  down("chunk", Chunk{SegmentId{2}, {}, SlotKey{Slot{11465}, ""}, {{g, Revision{302}}, 0x55}, 1, record_digest(record->entry, record->item_version), false, page_table, put});
  down("records", Records{1, SegmentId{2}, {{g, Revision{302}}, 0x55}, {0}, {}, {}});
  down("digests", Digests{2, SegmentId{2}, {{g, Revision{302}}, 0x55}, 1, record_digest(record->entry, record->item_version)});
  down("stream-end", StreamEnd{SegmentId{2}, EndReason::below_floor, "", {}, {}, Revision{9000}, 1});
  down("pong", Pong{1'000'000, {{SegmentId{2}, {g, Revision{302}}}}, {}});
  down("error", ErrorMessage{"wrong_cluster", "", false, 0});
  down("go-away", GoAway{"", 30'000});
  return out;
}

TEST(FeedPage, ShowsTheBytesOfEveryMessage) {
  const auto page = blocks();
  for (const auto& [what, bytes] : examples()) {
    const auto block = page.find(what);
    ASSERT_NE(block, page.end()) << "docs/formats/feed.md has no example " << what << ": " << hex(bytes);
    EXPECT_EQ(block->second, hex(bytes)) << what;
  }
}

TEST(FeedPage, ShowsScopeIdsAsTheyAre) {
  std::ifstream in(ZARIS_FEED_PAGE);
  std::stringstream text;
  text << in.rdbuf();
  for (const Scope& scope : {*Scope::make({"t1:"}), *Scope::make({"t1:", "b"}, {{Slot{0}, Slot{99}}, {Slot{200}, Slot{300}}})})
    EXPECT_NE(text.str().find(fmt::format("| `{}` | `{}` |", scope.text() == "3:t1:" ? scope.text() : "1:b3:t1:\\|0-99,200-300", hex16(scope.id().value()))), std::string::npos)
        << scope.text() << " " << hex16(scope.id().value());
}

}  // namespace
}  // namespace zaris::feed
