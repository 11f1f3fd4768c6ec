#include "examples.hpp"

#include "cluster/record/record.hpp"

namespace zaris::feed {
namespace {

Lineage lineage() {
  const Root root{HistoryId{0x1122334455667788}, Generation{1790000000}, 1790000000000000, RootCause::created};
  return Lineage(root, {{Generation{1790000000}, 0xa1a2a3a4a5a6a7a8, Revision{1}, 1790000000000000},
                        {Generation{1790000500}, 0xb1b2b3b4b5b6b7b8, Revision{9001}, 1790000500000000}});
}

struct Stretch {
  std::string table, records;
};
const Stretch& stretch() {
  static const Stretch s = [] {
    Stretch out;
    const std::string put = make_record({.key = "t1:a", .value = "one", .tag = 7}, {.revision = Revision{9002}, .item_version = 1, .timestamp_us = 1790000501000000, .generation = Generation{1790000500}});
    const std::string del = make_record({.key = "t1:b", .tag = 8, .tombstone = true}, {.revision = Revision{9004}, .item_version = 4, .timestamp_us = 1790000501000001, .deleted = Deleted::by_delete, .generation = Generation{1790000500}});
    append_row(out.table, {static_cast<std::uint32_t>(put.size()), 0, Slot{12}, 1});
    append_row(out.table, {static_cast<std::uint32_t>(del.size()), row_flag_tombstone, Slot{13}, 2});
    out.records = put + del;
    return out;
  }();
  return s;
}
const Stretch& page() {
  static const Stretch s = [] {
    Stretch out;
    out.records = make_record({.key = "t1:a", .value = "one", .tag = 7}, {.revision = Revision{9002}, .item_version = 1, .timestamp_us = 1790000501000000, .generation = Generation{1790000500}});
    append_row(out.table, {static_cast<std::uint32_t>(out.records.size()), 0, Slot{12}, 0});
    return out;
  }();
  return s;
}

constexpr NamedPosition named{{Generation{1790000500}, Revision{9004}}, 0xb1b2b3b4b5b6b7b8};

}  // namespace

std::vector<std::pair<std::string, FollowerMessage>> follower_examples() {
  const Scope scope = *Scope::make({std::string("t1:"), std::string("b\0x", 3)}, {{Slot{0}, Slot{99}}, {Slot{200}, Slot{300}}});
  Subscribe subscribe;
  subscribe.segments.push_back({SegmentId{3}, HistoryId{0x1122334455667788}, named, named, {}});
  subscribe.segments.push_back({SegmentId{4}, {}, {}, {}, SubscribeSegment::Walk{}});
  subscribe.segments.push_back({SegmentId{5}, HistoryId{9}, named, named, SubscribeSegment::Walk{SlotKey{Slot{320}, std::string("k\xff\0", 3)}, named}});
  return {
      {"hello", Hello{1, 2, "follower-1", "a-to-b", ClusterId{0xfedcba9876543210}, ClusterId{42}, scope, SiteEpoch{3}, {"x", "y"}, Generation{1790000500}}},
      {"hello-first", Hello{.follower = "f", .link = "l"}},
      {"subscribe", subscribe},
      {"credit", Credit{32u << 20}},
      {"ack", Ack{1790000501000000, {{SegmentId{3}, named.at}, {SegmentId{255}, {Generation{1}, Revision{1}}}}}},
      {"fetch_keys", FetchKeys{17, SegmentId{3}, {"", "t1:a", std::string("\0\xff", 2)}}},
      {"digest_request", DigestRequest{18, SegmentId{3}, SlotKey{Slot{192}, ""}, SlotKey{Slot{200}, "z"}}},
      {"digest_request_page", DigestRequest{19, SegmentId{3}, SlotKey{Slot{192}, ""}, {}, true, false}},
      {"digest_request_page_with_records", DigestRequest{20, SegmentId{3}, {}, SlotKey{Slot{200}, "z"}, true, true}},
      {"ping", Ping{-5}},
      {"unsubscribe", Unsubscribe{{SegmentId{3}, SegmentId{16383}}}},
  };
}

std::vector<std::pair<std::string, GatewayMessage>> gateway_examples() {
  const Position at{Generation{1790000500}, Revision{9001}};
  Welcome welcome{1, ClusterId{0xfedcba9876543210}, "north/main", 2, ScopeId{77}, 65536, 4u << 20, 1000, 123456, {}, 200, 5000, {"f"}};
  welcome.roots = {lineage().root(), Root{HistoryId{2}, Generation{7}, 8, RootCause::restarted_empty}};
  Batch batch;
  batch.runs.push_back({SegmentId{3}, {Generation{1790000000}, Revision{9000}}, Generation{1790000500}, Revision{9001}, 1790000500000000, false, {}, {}});
  batch.runs.push_back({SegmentId{3}, at, Generation{1790000500}, Revision{9004}, 1790000501000001, true, stretch().table, stretch().records});
  return {
      {"welcome", welcome},
      {"subscribed", Subscribed{SegmentId{3}, at, named.at, Revision{1}, lineage(), 2}},
      {"subscribed-walk", Subscribed{SegmentId{3}, {}, named.at, Revision{9005}, lineage(), 1}},
      {"batch", batch},
      {"part", Part{SegmentId{3}, Revision{9002}, 262144, 262150, "abcdef", at, Generation{1790000500}, 1790000501000000, Slot{12}, 0, true}},
      {"progress", Progress{1790000502000000, 1790000501999999, {{SegmentId{3}, named.at, named.at, Revision{1}, 0, {}}, {SegmentId{4}, named.at, named.at, Revision{1}, 512, at}}}},
      {"progress-idle", Progress{1790000502000000, 1790000501999999, {}}},
      {"chunk", Chunk{SegmentId{3}, {}, SlotKey{Slot{12}, "t1:a"}, named, 1, Digest{1, 2}, false, page().table, page().records}},
      {"chunk-last", Chunk{SegmentId{3}, SlotKey{Slot{12}, "t1:a"}, {}, named, 0, Digest{}, true, {}, {}}},
      {"records", Records{17, SegmentId{3}, named, {0, 2}, page().table, page().records}},
      {"digests", Digests{18, SegmentId{3}, named, 9, Digest{0x0102030405060708, 0x090a0b0c0d0e0f10}, {}, 0, 0, {}, {}}},
      {"digests_page", Digests{19, SegmentId{3}, named, 9, Digest{0x0102030405060708, 0x090a0b0c0d0e0f10}, SlotKey{Slot{198}, "y"}, 70'000, 0, {}, {}}},
      {"digests_in_doubt", Digests{20, SegmentId{3}, named, 0, Digest{}, {}, 0, 3, {}, {}}},
      {"stream_end-floor", StreamEnd{SegmentId{3}, EndReason::below_floor, "the log begins at 9000", {}, {}, Revision{9000}, 1}},
      {"stream_end-diverged", StreamEnd{SegmentId{3}, EndReason::diverged, "", at, lineage(), Revision{}, 4}},
      {"pong", Pong{123456789, {{SegmentId{3}, named.at}}, {SegmentId{9}}}},
      {"error", ErrorMessage{"wrong_cluster", "another one", false, 0}},
      {"go_away", GoAway{"this gateway stops", 30'000}},
  };
}

}  // namespace zaris::feed
