#include "examples.hpp"

#include "cluster/protocol/admin_messages.hpp"
#include "cluster/protocol/data_messages.hpp"
#include "cluster/protocol/link_messages.hpp"
#include "cluster/protocol/operator_messages.hpp"
#include "cluster/record/record.hpp"
#include "cluster/record/record_table.hpp"

namespace zaris::protocol {
namespace {

constexpr ClusterId source{0xaa};
constexpr ClusterId target{0xbb};
constexpr HistoryId history{0xdef};
constexpr WallMicros noon = 1'700'000'000'000'000;

NamedPosition at(std::uint32_t generation, std::uint64_t revision) {
  return {{Generation{generation}, Revision{revision}}, 0xabc};
}

Mark example_mark() {
  Mark mark;
  mark.source_cluster = source;
  mark.history = history;
  mark.site_epoch = SiteEpoch{1};
  mark.follower_term = FollowerTerm{4};
  mark.token = {Generation{3}, SessionId{0x1122334455667788}, 42};
  mark.phase = Phase::stream;
  mark.closed_time_us = noon;
  mark.low = mark.high = at(9, 1000);
  mark.horizon = at(9, 900);
  return mark;
}

std::string record_of(std::string_view key, std::uint64_t revision) {
  EntryFields fields;
  fields.key = key;
  fields.value = "hello";
  fields.tag = 0x01020304;
  RecordHeader header;
  header.revision = Revision{revision};
  header.item_version = 3;
  header.timestamp_us = noon;
  header.generation = Generation{9};
  return make_record(fields, header);
}

}  // namespace

std::vector<Example> examples() {
  std::vector<Example> all;
  const auto add = [&all](std::string name, Side side, auto&& write) {
    Example example{std::move(name), side, {}};
    write(example.bytes);
    all.push_back(std::move(example));
  };
  const auto request = [&](std::string name, auto&& write) { add(std::move(name), Side::request, write); };
  const auto answer = [&](std::string name, auto&& write) { add(name + "-answer", Side::answer, write); };
  const ItemToken token{3, 0x01020304};

  request("hello", [](std::string& out) {
    Hello hello;
    hello.cluster_expected = target;
    hello.store = "store";
    hello.role = PeerRole::client;
    hello.generation_seen = Generation{9};
    hello.program = "zaris 0.1.0";
    encode(out, 1, hello);
  });
  answer("hello", [](std::string& out) {
    Welcome welcome;
    welcome.cluster = target;
    welcome.region = "b";
    welcome.store = "store";
    welcome.segments = 256;
    welcome.key_bytes_max = 65'536;
    welcome.value_bytes_max = 4u << 20;
    welcome.generation = Generation{9};
    welcome.node = "n1";
    welcome.program = "zarisd 0.1.0";
    encode(out, 1, welcome);
  });
  request("get", [](std::string& out) { encode_get(out, 2, "user:1"); });
  answer("get", [&](std::string& out) { encode_get_answer(out, 2, {Status::ok, token, noon, "hello"}); });
  request("put", [&](std::string& out) {
    encode(out, 3, PutRequest{"user:1", "hello", noon, Condition::must_be(token), Durability::store_default});
  });
  answer("put", [&](std::string& out) {
    encode(out, Opcode::put, 3, WriteAnswer{Status::ok, {4, 0x05060708}, SegmentId{77}, {Generation{9}, Revision{1000}}});
  });
  request("delete", [](std::string& out) { encode(out, 4, DeleteRequest{"user:1", {}, Durability::store_default}); });
  answer("delete", [](std::string& out) { encode(out, Opcode::del, 4, WriteAnswer{Status::not_found, {}, SegmentId{77}, {}}); });
  request("touch", [](std::string& out) { encode(out, 5, TouchRequest{"user:1", noon, {}, Durability::store_default}); });
  answer("touch", [](std::string& out) {
    encode(out, Opcode::touch, 5, WriteAnswer{Status::ok, {5, 0x0a0b0c0d}, SegmentId{77}, {Generation{9}, Revision{1001}}});
  });
  request("time-to-live", [](std::string& out) { encode_time_to_live(out, 6, "user:1"); });
  answer("time-to-live", [&](std::string& out) { encode_time_to_live_answer(out, 6, Status::ok, token, noon); });
  request("batch", [](std::string& out) {
    BatchRequestWriter writer(out, 7, Durability::store_default);
    writer.add({Opcode::get, "user:1", {}, 0, {}});
    writer.add({Opcode::put, "user:2", "hello", 0, Condition::must_be_absent()});
    writer.add({Opcode::del, "user:3", {}, 0, {}});
    writer.finish();
  });
  answer("batch", [&](std::string& out) {
    BatchAnswerWriter writer(out, 7);
    writer.read(Status::ok, token, 0, "hello");
    writer.write(Status::conflict, {1, 0x05060708});
    writer.write(Status::not_found, {});
    writer.finish();
  });
  request("scan", [](std::string& out) {
    ScanRequest scan;
    scan.scope_text = "5:user:";
    scan.after = SlotKey{Slot{1234}, "user:0"};
    encode(out, 8, scan);
  });
  answer("scan", [](std::string& out) {
    const std::string record = record_of("user:1", 7);
    std::string table;
    append_row(table, {static_cast<std::uint32_t>(record.size()), 0, Slot{10'778}, 0});
    ScanAnswer page;
    page.next = SlotKey{Slot{10'778}, "user:1"};
    page.table = table;
    page.records = record;
    encode(out, 8, page);
  });
  request("digest", [](std::string& out) { encode(out, 9, DigestRequest{{}, DigestBy::segment, Slot{0}, Slot{16'383}}); });
  answer("digest", [](std::string& out) {
    DigestAnswer digest;
    digest.rows.push_back({77, 1, Digest{0x0123456789abcdef, 0xfedcba9876543210}});
    encode(out, 9, digest);
  });
  request("status", [](std::string& out) { encode_status_request(out, 10); });
  answer("status", [](std::string& out) {
    StatusAnswer status;
    status.cluster = target;
    status.region = "b";
    status.store = "store";
    status.node = "n1";
    status.version = "0.1.0";
    status.role = "standby";
    status.state = "serving";
    status.segments = 256;
    status.live_keys = 1;
    status.live_bytes = 11;
    status.memory_used = 4096;
    status.memory_max = 1u << 30;
    status.generation = Generation{9};
    status.site_epoch = SiteEpoch{1};
    status.links = 1;
    status.connections = 2;
    status.uptime_us = 60'000'000;
    status.key_bytes_max = 65'536;
    status.value_bytes_max = 4u << 20;
    status.closed_time_us = noon;
    status.commits = 1001;
    status.digest = Digest{0x0123456789abcdef, 0xfedcba9876543210};
    status.feed_address = "127.0.0.1:7871";
    status.admin_address = "127.0.0.1:7881";
    status.history = history;
    encode(out, 10, status);
  });
  request("map", [](std::string& out) { encode_map_request(out, 11); });
  answer("map", [](std::string& out) {
    MapAnswer map;
    map.version = 1;
    map.topology_version = 1;
    map.segments = 256;
    map.nodes.push_back({"n1", "127.0.0.1", 7861, 7863});
    map.runs.push_back({SegmentId{0}, SegmentId{255}, 0, Generation{9}});
    encode(out, 11, map);
  });
  request("accept-empty", [](std::string& out) { encode(out, 12, AcceptEmptyRequest{true}); });
  answer("accept-empty", [](std::string& out) { encode(out, 12, AcceptEmptyAnswer{true}); });
  request("list-pins", [](std::string& out) { encode_list_pins(out, 13); });
  answer("list-pins", [](std::string& out) {
    ListPinsAnswer list;
    PinRow& pin = list.pins.emplace_back();
    pin.principal = "follower-b";
    pin.link = "a-to-b";
    pin.target = target;
    pin.attached = true;
    pin.age_us = 60'000'000;
    pin.idle_us = 100'000;
    pin.held_bytes = 65'536;
    pin.held_records = 400;
    pin.bytes_max = 1u << 30;
    pin.age_max_us = 86'400'000'000;
    pin.left_us = 86'340'000'000;
    pin.segments = 256;
    encode(out, 13, list);
  });
  request("drop-pin", [](std::string& out) { encode(out, 14, DropPinRequest{"follower-b", "a-to-b", ScopeId{0}, target}); });
  answer("drop-pin", [](std::string& out) { encode(out, 14, DropPinAnswer{true}); });
  request("region-status", [](std::string& out) { encode_region_status_request(out, 25); });
  answer("region-status", [](std::string& out) {
    RegionStatusAnswer region;
    region.map_version = 3;
    region.ownership_version = 7;
    region.leader_term = 41;
    region.node = "n2";
    region.leader = "n1";
    region.converged = region.registered = true;
    region.etcd_silence_us = 250'000;
    region.replication_factor = 2;
    region.ack = "replica";
    region.ack_max = "all";
    region.members.push_back({"n1", "10.0.0.1:7861", true, true, true, false, "alive", "0.2.0", {}, {}});
    region.members.push_back({"n2", "10.0.0.2:7861", true, true, false, true, "", "0.2.0", RegionStatusAnswer::Member::Clock{-1500, 120, false}, "feed.ship is committed there, replicated here"});
    RegionStatusAnswer::Partition& partition = region.partitions.emplace_back();
    partition.id = "0123456789abcdef0123456789abcdef";
    partition.segments = 256;
    partition.primary = partition.owner = "n2";
    partition.state = "degraded";
    partition.reason = "n1 is not in step";
    partition.replicas = {"n1"};
    partition.generation = Generation{9};
    partition.role = "serving";
    partition.serves_by = "lease";
    partition.lag_revisions = 12;
    partition.waits_for = "n1 takes it over from n2";
    encode(out, 25, region);
  });
  request("drain-node", [](std::string& out) { encode(out, 26, DrainNodeRequest{"n2", false, true}); });
  answer("drain-node", [](std::string& out) { encode(out, 26, DrainNodeAnswer{true}); });
  request("copies", [](std::string& out) { encode(out, 27, CopiesRequest{SegmentId{0}, SegmentId{1}}); });
  answer("copies", [](std::string& out) {
    CopiesAnswer copies;
    copies.rows.push_back({SegmentId{0}, CopyRow::Role::owner, {Generation{9}, Revision{4711}}, 12, Digest{1, 2}, false});
    copies.rows.push_back({SegmentId{1}, CopyRow::Role::replica, {Generation{9}, Revision{80}}, 0, Digest{}, true});
    encode(out, 27, copies);
  });
  request("open-link", [](std::string& out) {
    encode(out, 15, OpenLinkRequest{"a-to-b", source, "5:user:", SiteEpoch{1}, FollowerTerm{4}, false});
  });
  answer("open-link", [](std::string& out) {
    encode(out, 15, OpenLinkAnswer{target, 256, 65'536, 4u << 20, 1u << 30, 11, 1, Generation{9}, SiteEpoch{1}});
  });
  request("read-marks", [](std::string& out) { encode(out, 16, ReadMarksRequest{"a-to-b", ScopeId{0}, SegmentId{0}}); });
  answer("read-marks", [](std::string& out) {
    ReadMarksAnswer marks;
    marks.rows.push_back({SegmentId{77}, SegmentId{77}, example_mark(), at(9, 1000)});
    marks.served.push_back({SegmentId{77}, SegmentId{77}});
    encode(out, 16, marks);
  });
  request("mark-checksum", [](std::string& out) { encode(out, 17, MarkChecksumRequest{"a-to-b", ScopeId{0}}); });
  answer("mark-checksum", [](std::string& out) { encode(out, 17, MarkChecksumAnswer{0x2d06800538d394c2}); });
  const auto batch = [] {
    ApplyBatch apply;
    apply.link = "a-to-b";
    apply.source_cluster = source;
    apply.history = history;
    apply.source_segment = apply.target_segment = SegmentId{77};
    apply.follower_term = FollowerTerm{4};
    apply.site_epoch = SiteEpoch{1};
    apply.session = SessionId{0x1122334455667788};
    apply.expected = MarkToken{Generation{3}, SessionId{0x1122334455667788}, 42};
    apply.closed_time_us = noon;
    return apply;
  };
  request("apply-batch", [&](std::string& out) {
    ApplyBatch apply = batch();
    apply.prev = at(9, 1000);
    apply.last = at(9, 1001);
    const std::string record = record_of("user:1", 1001);
    std::string table;
    append_row(table, {static_cast<std::uint32_t>(record.size()), 0, Slot{10'778}, 1});
    apply.table = table;
    apply.records = record;
    encode_apply(out, 18, apply);
    out += table;
    out += record;
  });
  answer("apply-batch", [](std::string& out) {
    ApplyAnswer apply;
    apply.mark = example_mark();
    apply.applied = 1;
    apply.target_generation = Generation{3};
    apply.target_position = {Generation{3}, Revision{555}};
    encode(out, 18, apply);
  });
  request("apply-batch-range", [&](std::string& out) {
    ApplyBatch apply = batch();
    apply.kind = ApplyKind::range;
    apply.removals_left = 100;
    apply.source_segments = 1024;
    ApplyRange& range = apply.range.emplace();
    range.from = SlotKey{Slot{10'000}, ""};
    range.as_of = at(9, 1001);
    range.final = true;
    range.equal = ApplyRange::Equal{1, Digest{0x0123456789abcdef, 0xfedcba9876543210}};
    apply.may_lose = {"user:9"};
    encode_apply(out, 19, apply);
  });
  request("apply-batch-repair", [&](std::string& out) {
    ApplyBatch apply = batch();
    apply.kind = ApplyKind::repair;
    apply.removals_left = 100;
    apply.repair = ApplyRepair{at(9, 1000), at(11, 1001), true};
    encode_apply(out, 20, apply);
  });
  request("apply-batch-check", [&](std::string& out) {
    ApplyBatch apply = batch();
    apply.kind = ApplyKind::check;
    apply.removals_left = 100;
    apply.source_segments = 1024;
    ApplyRange& range = apply.range.emplace();
    range.from = SlotKey{Slot{10'000}, ""};
    range.to = SlotKey{Slot{10'007}, "user:1"};
    range.as_of = at(9, 1001);
    range.equal = ApplyRange::Equal{1, Digest{0x0123456789abcdef, 0xfedcba9876543210}};
    encode_apply(out, 21, apply);
  });
  answer("apply-batch-check", [](std::string& out) {
    ApplyAnswer apply;
    apply.mark = example_mark();
    apply.would_lose.push_back({"user:9", ""});
    apply.differing = 1;
    apply.memory_slots = 2;
    encode(out, 21, apply);
  });
  answer("apply-batch-would-lose", [](std::string& out) {
    ApplyAnswer apply;
    apply.status = Status::would_lose;
    apply.mark = example_mark();
    apply.refused_index = 0;
    apply.refused_status = Status::item_too_large;
    apply.removal_count = 1;
    apply.would_lose.push_back({"user:9", record_of("user:9", 12)});
    apply.reason = "1 record was written here";
    encode(out, 19, apply);
  });
  request("list-links", [](std::string& out) { encode_list_links(out, 20); });
  answer("list-links", [](std::string& out) {
    ListLinksAnswer list;
    list.links.push_back({"a-to-b", source, "5:user:", SiteEpoch{1}, FollowerTerm{4}, 256, {"4:old:"}});
    encode(out, 20, list);
  });
  request("drop-link", [](std::string& out) { encode(out, Opcode::drop_link, 21, DropRequest{"a-to-b", true}); });
  answer("drop-link", [](std::string& out) { encode(out, Opcode::drop_link, 21, DropAnswer{256}); });
  request("drop-scope", [](std::string& out) { encode(out, Opcode::drop_scope, 22, DropRequest{"a-to-b", false}); });
  answer("drop-scope", [](std::string& out) { encode(out, Opcode::drop_scope, 22, DropAnswer{12}); });
  request("follower-lease", [](std::string& out) { encode(out, 23, FollowerLeaseRequest{"a-to-b", "follower-1", 5000}); });
  answer("follower-lease", [](std::string& out) { encode(out, 23, FollowerLeaseAnswer{true, FollowerTerm{4}, "follower-1", 5000}); });
  request("list-rolled-back", [&](std::string& out) {
    ListRolledBackRequest list;
    list.link = "a-to-b";
    list.source_segment = list.target_segment = SegmentId{77};
    list.source_segments = 256;
    list.surviving = at(9, 1000);
    list.token = MarkToken{Generation{3}, SessionId{0x1122334455667788}, 42};
    encode(out, 28, list);
  });
  answer("list-rolled-back", [](std::string& out) {
    const std::string record = record_of("user:1", 12);
    std::string table;
    append_row(table, {static_cast<std::uint32_t>(record.size()), 0, Slot{10'778}, 0});
    ListRolledBackAnswer page;
    page.below = Revision{12};
    page.table = table;
    page.records = record;
    encode(out, 28, page);
  });
  add("error", Side::answer, [](std::string& out) {
    encode_error(out, Opcode::put, Status::item_too_large, 24, "the value has 5242880 bytes, at most 4194304 are taken", "limits.value");
  });
  return all;
}

}  // namespace zaris::protocol
