#include "examples.hpp"

#include "cluster/protocol/region_messages.hpp"
#include "cluster/record/record.hpp"
#include "cluster/record/record_table.hpp"
#include "cluster/replication/message.hpp"

namespace zaris::replication {
namespace {

constexpr WallMicros noon = 1'700'000'000'000'000;
constexpr HistoryId history{0xdef};
constexpr SegmentId segment{77};

Position at(std::uint32_t generation, std::uint64_t revision) { return {Generation{generation}, Revision{revision}}; }

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

template <class T>
bool plain(std::string& out, std::string_view body) {
  T message;
  if (!decode(body, message)) return false;
  encode(out, message);
  return true;
}

}  // namespace

std::vector<Example> examples() {
  std::vector<Example> all;
  const auto add = [&all](std::string name, const auto& message) {
    Example example{std::move(name), {}};
    encode(example.bytes, message);
    all.push_back(std::move(example));
  };

  add("peer-hello", protocol::PeerHello{ClusterId{0xbb}, "main", "n1", 0x1122334455667788, 256, "zarisd 0.2.0"});
  add("heartbeat", protocol::Heartbeat{0x0123456789abcdef, 3, 7, {{0xa1, Generation{9}, true, {"n2", "n3"}}}, protocol::Heartbeat::Clock{60'000'000, 1'700'000'000'000'000, 59'500'000, 250'000}});
  const protocol::Grant grant{60'000'000, {{0xa1, Generation{9}}}, 1'000'000};
  for (const auto opcode : {protocol::Opcode::grant, protocol::Opcode::granted}) {
    Example example{opcode == protocol::Opcode::grant ? "grant" : "granted", {}};
    encode(example.bytes, opcode, grant);
    all.push_back(std::move(example));
  }
  add("fence", protocol::Fence{0xa1, Generation{10}, 60'000'000});
  protocol::Fenced fenced;
  fenced.partition = 0xa1;
  fenced.generation = fenced.highest = Generation{10};
  fenced.echo = 60'000'000;
  fenced.incarnation = 0x1122334455667788;
  fenced.certified = true;
  fenced.rows.push_back({segment, history, {at(9, 1001), 0xa9}, true, true});
  fenced.rows.push_back({SegmentId{78}, HistoryId{0}, {}, false, false});
  add("fenced", fenced);
  add("hand-over", protocol::HandOver{0xa1, Generation{9}, "n2"});
  add("handed-over", protocol::HandedOver{0xa1, Generation{9}, "n2", false, "n2 is not in step"});

  Follow follow;
  follow.number = 3;
  FollowRow row;
  row.segment = segment;
  row.generation = Generation{9};
  row.history = history;
  row.head = {at(8, 990), 0xabc};
  row.count = 1;
  row.digest = Digest{0x0123456789abcdef, 0xfedcba9876543210};
  follow.rows.push_back(row);
  FollowRow blank;
  blank.segment = SegmentId{78};
  follow.rows.push_back(blank);
  follow.stop.push_back(SegmentId{79});
  add("follow", follow);

  Following following;
  following.number = 3;
  FollowingRow log;
  log.segment = segment;
  log.how = FollowHow::log;
  log.generation = Generation{9};
  log.head = at(9, 1001);
  log.floor = Revision{900};
  following.rows.push_back(log);
  FollowingRow copy = log;
  copy.segment = SegmentId{78};
  copy.how = FollowHow::copy;
  copy.lineage = Lineage(Root{history, Generation{7}, noon, RootCause::created},
                         {{Generation{7}, 0xa7, Revision{1}, noon}, {Generation{9}, 0xa9, Revision{995}, noon}});
  copy.as_of = at(9, 1001);
  copy.newest_timestamp_us = noon;
  copy.reason = "the replica holds nothing, and the log begins at 900";
  following.rows.push_back(copy);
  FollowingRow refused;
  refused.segment = SegmentId{79};
  refused.generation = Generation{9};
  refused.head = at(8, 12);
  refused.floor = Revision{13};
  refused.refusal = Refusal::not_owner;
  refused.reason = "this node does not own the segment";
  following.rows.push_back(refused);
  add("following", following);

  const std::string record = record_of("user:1", 1001);
  std::string table;
  append_row(table, {static_cast<std::uint32_t>(record.size()), 0, Slot{10'778}, 1});
  add("run", RunMessage{segment, {at(9, 1000), Generation{9}, Revision{1001}, table, record}});

  MarksMessage marks;
  marks.segment = segment;
  marks.marks.head = at(9, 1001);
  marks.marks.version = 42;
  marks.marks.everything = true;
  Mark mark;
  mark.source_cluster = ClusterId{0xaa};
  mark.history = history;
  mark.site_epoch = SiteEpoch{1};
  mark.follower_term = FollowerTerm{4};
  mark.token = {Generation{9}, SessionId{0x1122334455667788}, 42};
  mark.phase = Phase::stream;
  mark.closed_time_us = noon;
  mark.low = mark.high = NamedPosition{at(5, 2000), 0xabc};
  marks.marks.changes.push_back({{"a-to-b", ScopeId{0}, segment}, mark});
  marks.marks.changes.push_back({{"old", ScopeId{0}, SegmentId{3}}, std::nullopt});
  add("marks", marks);

  PageMessage page;
  page.segment = segment;
  page.page.from = SlotKey{Slot{10'000}, ""};
  page.page.as_of = at(9, 1001);
  std::string page_table;
  append_row(page_table, {static_cast<std::uint32_t>(record.size()), 0, Slot{10'778}, 0});
  page.page.table = page_table;
  page.page.records = record;
  add("page", page);

  add("floors", Floors{{{segment, Revision{900}}}});

  Pins pins;
  PinMessage pin;
  pin.scope = *Scope::make({"user:"});
  pin.key = {"follower-b", "a-to-b", pin.scope.id(), ClusterId{0xbb}};
  pin.rows.push_back({segment, store::PinPlace{at(9, 950), at(9, 960)}});
  pin.rows.push_back({SegmentId{78}, std::nullopt});
  pins.pins.push_back(pin);
  pins.settled.push_back(segment);
  add("pins", pins);

  add("closed-time", ClosedTimeMessage{noon});
  add("received", Received{{{segment, at(9, 1001), 42}}, noon});
  add("credit", Credit{1u << 20});
  return all;
}

std::optional<std::string> trip(std::string_view bytes) {
  protocol::Frame frame;
  if (protocol::FrameParser(16u << 20).parse(bytes, frame).step != protocol::FrameStep::frame) return std::nullopt;
  std::string out;
  bool good = false;
  switch (static_cast<protocol::Opcode>(frame.header.opcode)) {
    case protocol::Opcode::peer_hello: good = plain<protocol::PeerHello>(out, frame.body); break;
    case protocol::Opcode::heartbeat: good = plain<protocol::Heartbeat>(out, frame.body); break;
    case protocol::Opcode::grant:
    case protocol::Opcode::granted: {
      protocol::Grant message;
      good = decode(frame.body, message);
      if (good) encode(out, static_cast<protocol::Opcode>(frame.header.opcode), message);
      break;
    }
    case protocol::Opcode::fence: good = plain<protocol::Fence>(out, frame.body); break;
    case protocol::Opcode::fenced: good = plain<protocol::Fenced>(out, frame.body); break;
    case protocol::Opcode::hand_over: good = plain<protocol::HandOver>(out, frame.body); break;
    case protocol::Opcode::handed_over: good = plain<protocol::HandedOver>(out, frame.body); break;
    case protocol::Opcode::follow: good = plain<Follow>(out, frame.body); break;
    case protocol::Opcode::following: good = plain<Following>(out, frame.body); break;
    case protocol::Opcode::replica_run: good = plain<RunMessage>(out, frame.body); break;
    case protocol::Opcode::replica_marks: good = plain<MarksMessage>(out, frame.body); break;
    case protocol::Opcode::replica_page: good = plain<PageMessage>(out, frame.body); break;
    case protocol::Opcode::replica_floors: good = plain<Floors>(out, frame.body); break;
    case protocol::Opcode::replica_pins: good = plain<Pins>(out, frame.body); break;
    case protocol::Opcode::replica_closed_time: good = plain<ClosedTimeMessage>(out, frame.body); break;
    case protocol::Opcode::replica_received: good = plain<Received>(out, frame.body); break;
    case protocol::Opcode::replica_credit: good = plain<Credit>(out, frame.body); break;
    default: break;
  }
  if (!good) return std::nullopt;
  return out;
}

}  // namespace zaris::replication
