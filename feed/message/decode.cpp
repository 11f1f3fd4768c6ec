#include <algorithm>

#include "feed/message/decoder.hpp"
#include "feed/message/message.hpp"

namespace zaris::feed {
namespace {

constexpr std::uint32_t places_max = 64;  // of one array; more than any message has, for those to come
constexpr std::size_t any = SIZE_MAX;

// The places of one array: those that are missing keep their defaults, those that are not known are skipped.
class Places {
 public:
  Places(Decoder& d, std::uint32_t required) : d_(d), left_(d.array(places_max)) {
    if (left_ < required) d.fail("an array has too few places");
  }
  Places(const Places&) = delete;
  Places& operator=(const Places&) = delete;
  ~Places() {
    while (next()) d_.skip();
  }
  // Places without which the message says nothing.
  Places& require(std::uint32_t places) {
    if (left_ < places) d_.fail("an array has too few places");
    return *this;
  }
  bool next() {
    if (left_ == 0 || d_.failed()) return false;
    --left_;
    return true;
  }

 private:
  Decoder& d_;
  std::uint32_t left_;
};

SegmentId segment(Decoder& d) { return SegmentId{static_cast<std::uint16_t>(d.number(segments_max - 1))}; }
Generation generation(Decoder& d) { return Generation{static_cast<std::uint32_t>(d.number(UINT32_MAX))}; }
Revision revision(Decoder& d) { return Revision{d.number()}; }
std::uint32_t number32(Decoder& d) { return static_cast<std::uint32_t>(d.number(UINT32_MAX)); }
std::string text(Decoder& d, std::size_t max) { return std::string(d.bytes(max)); }

Position position(Decoder& d) {
  Places p(d, 2);
  Position out;
  if (p.next()) out.generation = generation(d);
  if (p.next()) out.revision = revision(d);
  return out;
}
std::optional<Position> optional_position(Decoder& d) {
  if (d.nil()) return std::nullopt;
  return position(d);
}
NamedPosition named(Decoder& d) {
  Places p(d, 3);
  NamedPosition out;
  if (p.next()) out.at.generation = generation(d);
  if (p.next()) out.at.revision = revision(d);
  if (p.next()) out.generation_id = d.number();
  return out;
}
std::optional<NamedPosition> optional_named(Decoder& d) {
  if (d.nil()) return std::nullopt;
  return named(d);
}
std::optional<SlotKey> optional_slot_key(Decoder& d) {
  if (d.nil()) return std::nullopt;
  Places p(d, 2);
  SlotKey out;
  if (p.next()) out.slot = Slot{static_cast<std::uint16_t>(d.number(16383))};
  if (p.next()) out.key = text(d, any);
  return out;
}
Digest digest(Decoder& d) {
  const std::string_view raw = d.bytes(16);
  if (raw.size() != 16) {
    d.fail("a digest has 16 bytes");
    return {};
  }
  return Digest::from_bytes(raw.data());
}
Root root(Decoder& d) {
  Places p(d, 4);
  Root out;
  if (p.next()) out.history = HistoryId{d.number()};
  if (p.next()) out.generation = generation(d);
  if (p.next()) out.timestamp_us = d.number();
  if (p.next()) out.cause = static_cast<RootCause>(d.number(255));
  return out;
}
Lineage lineage(Decoder& d) {
  Places p(d, 2);
  Root begin;
  std::vector<LineageEntry> entries;
  if (p.next()) begin = root(d);
  if (p.next()) {
    const std::uint32_t count = d.array(Lineage::entries_max);
    entries.reserve(std::min<std::size_t>(count, d.remaining() / 5));
    for (std::uint32_t i = 0; i < count && !d.failed(); ++i) {
      Places q(d, 4);
      LineageEntry e;
      if (q.next()) e.generation = generation(d);
      if (q.next()) e.id = d.number();
      if (q.next()) e.first = revision(d);
      if (q.next()) e.timestamp_us = d.number();
      if (!entries.empty() && (e.generation <= entries.back().generation || e.first <= entries.back().first))
        d.fail("a lineage does not ascend");
      entries.push_back(e);
    }
  }
  if (!d.failed() && entries.empty()) d.fail("a lineage has no entry");
  if (d.failed()) return {};
  return Lineage(begin, std::move(entries));
}
std::vector<std::string> features(Decoder& d) {
  const std::uint32_t count = d.array(256);
  std::vector<std::string> out;
  for (std::uint32_t i = 0; i < count && !d.failed(); ++i) out.push_back(text(d, name_bytes_max));
  return out;
}
std::vector<SegmentId> segments(Decoder& d) {
  const std::uint32_t count = d.array(segments_max);
  std::vector<SegmentId> out;
  out.reserve(count);
  for (std::uint32_t i = 0; i < count && !d.failed(); ++i) out.push_back(segment(d));
  return out;
}
// Table and records that follow each other in every message that has them.
void stretch(Decoder& d, Places& p, std::string_view& table, std::string_view& records) {
  if (p.next()) table = d.bytes(any);
  if (p.next()) records = d.bytes(any);
  if (!d.failed() && !table_fits(table, records.size())) d.fail("a table does not fit its records");
}

// ---- follower → gateway
Hello hello(Decoder& d, Places& p) {
  Hello m;
  if (p.next()) m.version_min = number32(d);
  if (p.next()) m.version_max = number32(d);
  if (p.next()) m.follower = text(d, name_bytes_max);
  if (p.next()) m.link = text(d, name_bytes_max);
  if (p.next() && !d.nil()) m.source_expected = ClusterId{d.number()};
  if (p.next()) m.target = ClusterId{d.number()};
  if (p.next()) {
    auto scope = Scope::parse(d.bytes(scope_text_bytes_max));
    if (scope) m.scope = std::move(*scope);
    else d.fail("the text of the scope is not one");
  }
  if (p.next()) m.site_epoch = SiteEpoch{d.number()};
  if (p.next()) m.features = features(d);
  if (p.next()) m.generation_seen = generation(d);
  if (p.next()) m.on_behalf_of = text(d, name_bytes_max);
  return m;
}
Subscribe subscribe(Decoder& d, Places& p) {
  Subscribe m;
  if (!p.next()) return m;
  const std::uint32_t count = d.array(segments_max);
  m.segments.reserve(std::min<std::size_t>(count, d.remaining() / 2));
  for (std::uint32_t i = 0; i < count && !d.failed(); ++i) {
    Places q(d, 1);
    SubscribeSegment s;
    if (q.next()) s.segment = segment(d);
    if (q.next() && !d.nil()) s.history = HistoryId{d.number()};
    if (q.next()) s.low = optional_named(d);
    if (q.next()) s.high = optional_named(d);
    if (q.next() && !d.nil()) {
      Places w(d, 0);
      s.walk.emplace();
      if (w.next()) s.walk->from = optional_slot_key(d);
      if (w.next()) s.walk->since = optional_named(d);
      if (w.next()) s.walk->names = (d.number() & 1) != 0;
    }
    m.segments.push_back(std::move(s));
  }
  return m;
}
Ack ack(Decoder& d, Places& p) {
  Ack m;
  if (p.next()) m.closed_time_us = d.number();
  if (p.next()) {
    const std::uint32_t count = d.array(segments_max);
    m.segments.reserve(std::min<std::size_t>(count, d.remaining() / 5));
    for (std::uint32_t i = 0; i < count && !d.failed(); ++i) {
      Places q(d, 2);
      AckSegment s;
      if (q.next()) s.segment = segment(d);
      if (q.next()) s.position = position(d);
      m.segments.push_back(s);
    }
  }
  return m;
}
FetchKeys fetch_keys(Decoder& d, Places& p) {
  FetchKeys m;
  if (p.next()) m.request = d.number();
  if (p.next()) m.segment = segment(d);
  if (p.next()) {
    const std::uint32_t count = d.array(fetch_keys_max);
    for (std::uint32_t i = 0; i < count && !d.failed(); ++i) m.keys.push_back(text(d, any));
  }
  return m;
}
DigestRequest digest_request(Decoder& d, Places& p) {
  DigestRequest m;
  if (p.next()) m.request = d.number();
  if (p.next()) m.segment = segment(d);
  if (p.next()) m.from = optional_slot_key(d);
  if (p.next()) m.to = optional_slot_key(d);
  if (p.next()) {
    const std::uint64_t kind = d.number(2);
    m.page = kind != 0;
    m.records = kind == 2;
  }
  return m;
}

std::optional<FollowerMessage> follower_message(Decoder& d, Places& p, std::uint64_t type) {
  switch (static_cast<MessageType>(type)) {
    case MessageType::hello: return hello(d, p);
    case MessageType::subscribe: return subscribe(d, p.require(1));
    case MessageType::credit: return Credit{p.require(1).next() ? d.number() : 0};
    case MessageType::ack: return ack(d, p.require(2));
    case MessageType::fetch_keys: return fetch_keys(d, p.require(3));
    case MessageType::digest_request: return digest_request(d, p.require(2));
    case MessageType::ping: return Ping{p.require(1).next() ? d.integer() : 0};
    case MessageType::unsubscribe: return p.require(1).next() ? Unsubscribe{segments(d)} : Unsubscribe{};
    default: return std::nullopt;
  }
}

// ---- gateway → follower
Welcome welcome(Decoder& d, Places& p) {
  Welcome m;
  if (p.next()) m.version = number32(d);
  if (p.next()) m.cluster = ClusterId{d.number()};
  if (p.next()) m.cluster_name = text(d, name_bytes_max);
  if (p.next()) m.segments = static_cast<std::uint32_t>(d.number(segments_max));
  if (p.next()) m.scope = ScopeId{d.number()};
  if (p.next()) m.key_bytes_max = d.number();
  if (p.next()) m.value_bytes_max = d.number();
  if (p.next()) m.live_keys = d.number();
  if (p.next()) m.live_bytes = d.number();
  if (p.next()) {
    const std::uint32_t count = d.array(segments_max);
    m.roots.reserve(std::min<std::size_t>(count, d.remaining() / 5));
    for (std::uint32_t i = 0; i < count && !d.failed(); ++i) m.roots.push_back(root(d));
  }
  if (p.next()) m.fresh_interval_ms = number32(d);
  if (p.next()) m.heartbeat_ms = number32(d);
  if (p.next()) m.features = features(d);
  return m;
}
Subscribed subscribed(Decoder& d, Places& p) {
  Subscribed m;
  if (p.next()) m.segment = segment(d);
  if (p.next()) m.accepted = optional_position(d);
  if (p.next()) m.head = position(d);
  if (p.next()) m.floor = revision(d);
  if (p.next()) m.lineage = lineage(d);
  if (p.next()) m.subscription = number32(d);
  return m;
}
Run run(Decoder& d) {
  Places p(d, 8);
  Run r;
  if (p.next()) r.segment = segment(d);
  if (p.next()) r.prev = position(d);
  if (p.next()) r.generation = generation(d);
  if (p.next()) r.last = revision(d);
  if (p.next()) r.commit_time_us = d.number();
  if (p.next()) r.reaches_head = (d.number() & 1) != 0;
  stretch(d, p, r.table, r.records);
  if (d.failed()) return r;
  if (r.last <= r.prev.revision || r.generation < r.prev.generation) d.fail("a run goes backward");
  std::uint64_t covered = 0;
  bool stands = false;
  for (std::size_t i = 0; i < row_count(r.table); ++i) {
    const std::uint16_t delta = read_row(r.table, i).revision_delta;
    covered += delta;
    stands |= delta == 0;
  }
  if (stands || covered > r.last.value() - r.prev.revision.value()) d.fail("the rows of a run leave its range");
  return r;
}
Batch batch(Decoder& d, Places& p) {
  Batch m;
  if (!p.next()) return m;
  const std::uint32_t count = d.array(65'535);
  m.runs.reserve(std::min<std::size_t>(count, d.remaining() / 13));
  for (std::uint32_t i = 0; i < count && !d.failed(); ++i) m.runs.push_back(run(d));
  return m;
}
Part part(Decoder& d, Places& p) {
  Part m;
  if (p.next()) m.segment = segment(d);
  if (p.next()) m.revision = revision(d);
  if (p.next()) m.offset = d.number();
  if (p.next()) m.total = d.number(record_length_max);
  if (p.next()) m.bytes = d.bytes(any);
  if (p.next()) m.prev = position(d);
  if (p.next()) m.generation = generation(d);
  if (p.next()) m.commit_time_us = d.number();
  if (p.next()) m.slot = Slot{static_cast<std::uint16_t>(d.number(16383))};
  if (p.next()) m.row_flags = static_cast<std::uint8_t>(d.number(255));
  if (p.next()) m.reaches_head = (d.number() & 1) != 0;
  if (!d.failed() && (m.offset > m.total || m.bytes.size() > m.total - m.offset)) d.fail("a part goes past its record");
  if (!d.failed() && (m.revision <= m.prev.revision || m.generation < m.prev.generation)) d.fail("a part goes backward");
  return m;
}
Progress progress(Decoder& d, Places& p) {
  Progress m;
  if (p.next()) m.source_clock_us = d.number();
  if (p.next()) m.closed_time_us = d.number();
  if (p.next()) {
    const std::uint32_t count = d.array(segments_max);
    m.rows.reserve(std::min<std::size_t>(count, d.remaining() / 10));
    for (std::uint32_t i = 0; i < count && !d.failed(); ++i) {
      Places q(d, 5);
      ProgressRow row;
      if (q.next()) row.segment = segment(d);
      if (q.next()) row.position = position(d);
      if (q.next()) row.head = position(d);
      if (q.next()) row.floor = revision(d);
      if (q.next()) row.bytes_behind = d.number();
      if (q.next()) row.prev = optional_position(d);
      m.rows.push_back(row);
    }
  }
  return m;
}
Chunk chunk(Decoder& d, Places& p) {
  Chunk m;
  if (p.next()) m.segment = segment(d);
  if (p.next()) m.from = optional_slot_key(d);
  if (p.next()) m.to = optional_slot_key(d);
  if (p.next()) m.as_of = named(d);
  if (p.next()) m.count = d.number();
  if (p.next()) m.digest = digest(d);
  if (p.next()) m.last = (d.number() & 1) != 0;
  stretch(d, p, m.table, m.records);
  if (p.next()) {
    Chunk::Others others;
    others.count = d.number();
    if (p.next()) others.digest = digest(d);
    if (p.next()) others.names = d.bytes(any);
    if (!d.failed() && others.names.size() % sizeof(std::uint32_t) != 0) d.fail("a chunk's names are not of four bytes each");
    m.others = others;
  }
  if (!d.failed() && !m.table.empty() && row_count(m.table) != m.count) d.fail("a chunk's count is not its table's");
  if (!d.failed() && m.last == m.to.has_value()) d.fail("the last chunk, and no other, ends at the end");
  return m;
}
Records records(Decoder& d, Places& p) {
  Records m;
  if (p.next()) m.request = d.number();
  if (p.next()) m.segment = segment(d);
  if (p.next()) m.as_of = named(d);
  if (p.next()) {
    const std::uint32_t count = d.array(fetch_keys_max);
    m.missing.reserve(count);
    for (std::uint32_t i = 0; i < count && !d.failed(); ++i) m.missing.push_back(number32(d));
  }
  stretch(d, p, m.table, m.records);
  if (p.next()) m.begin = number32(d);
  if (p.next()) m.more = (d.number() & 1) != 0;
  return m;
}
Digests digests(Decoder& d, Places& p) {
  Digests m;
  if (p.next()) m.request = d.number();
  if (p.next()) m.segment = segment(d);
  if (p.next()) m.as_of = named(d);
  if (p.next()) m.count = d.number();
  if (p.next()) m.digest = digest(d);
  if (p.next()) m.to = optional_slot_key(d);
  if (p.next()) m.bytes = d.number();
  if (p.next()) m.memory_slots = d.number();
  stretch(d, p, m.table, m.records);
  if (!d.failed() && !m.table.empty() && row_count(m.table) != m.count) d.fail("a digest's count is not its table's");
  return m;
}
StreamEnd stream_end(Decoder& d, Places& p) {
  StreamEnd m;
  if (p.next()) m.segment = segment(d);
  if (p.next()) m.reason = static_cast<EndReason>(d.number(255));
  if (p.next()) m.text = text(d, text_bytes_max);
  if (p.next()) m.surviving = optional_position(d);
  if (p.next() && !d.nil()) m.lineage = lineage(d);
  if (p.next()) m.floor = revision(d);
  if (p.next()) m.subscription = number32(d);
  return m;
}
Pong pong(Decoder& d, Places& p) {
  Pong m;
  if (p.next()) m.echoed_us = d.integer();
  if (p.next()) {
    const std::uint32_t count = d.array(segments_max);
    m.rows.reserve(std::min<std::size_t>(count, d.remaining() / 5));
    for (std::uint32_t i = 0; i < count && !d.failed(); ++i) {
      Places q(d, 2);
      PongRow row;
      if (q.next()) row.segment = segment(d);
      if (q.next()) row.head = position(d);
      m.rows.push_back(row);
    }
  }
  if (p.next()) m.unavailable = segments(d);
  return m;
}
ErrorMessage error_message(Decoder& d, Places& p) {
  ErrorMessage m;
  if (p.next()) m.code = text(d, name_bytes_max);
  if (p.next()) m.text = text(d, text_bytes_max);
  if (p.next()) m.retry = d.boolean();
  if (p.next()) m.retry_after_ms = number32(d);
  return m;
}
GoAway go_away(Decoder& d, Places& p) {
  GoAway m;
  if (p.next()) m.text = text(d, text_bytes_max);
  if (p.next()) m.within_ms = number32(d);
  return m;
}

std::optional<GatewayMessage> gateway_message(Decoder& d, Places& p, std::uint64_t type) {
  switch (static_cast<MessageType>(type)) {
    case MessageType::welcome: return welcome(d, p.require(10));
    case MessageType::subscribed: return subscribed(d, p.require(5));
    case MessageType::batch: return batch(d, p.require(1));
    case MessageType::part: return part(d, p.require(10));
    case MessageType::progress: return progress(d, p.require(3));
    case MessageType::chunk: return chunk(d, p.require(9));
    case MessageType::records: return records(d, p.require(6));
    case MessageType::digests: return digests(d, p.require(5));
    case MessageType::stream_end: return stream_end(d, p.require(2));
    case MessageType::pong: return pong(d, p.require(1));
    case MessageType::error: return error_message(d, p.require(1));
    case MessageType::go_away: return go_away(d, p);
    default: return std::nullopt;
  }
}

// A type that is not known is not an error, but its message is walked through all the same: bytes that are not one
// MessagePack array are never taken for a newer version.
template <class Message, class Read>
Result<std::optional<Message>> decode(std::string_view bytes, Read read) {
  Decoder d(bytes);
  std::optional<Message> out;
  {
    Places p(d, 1);
    if (p.next()) {
      const std::uint64_t type = d.number(255);
      if (!d.failed()) out = read(d, p, type);
    }
  }
  if (!d.failed() && d.remaining() != 0) d.fail("bytes follow the message");
  if (d.failed())
    return failure("feed_message_malformed", std::string("a feed message of ") + std::to_string(bytes.size()) +
                                                 " bytes cannot be read: " + d.failure());
  return out;
}

}  // namespace

Result<std::optional<FollowerMessage>> decode_from_follower(std::string_view bytes) {
  return decode<FollowerMessage>(bytes, follower_message);
}
Result<std::optional<GatewayMessage>> decode_from_gateway(std::string_view bytes) {
  return decode<GatewayMessage>(bytes, gateway_message);
}

}  // namespace zaris::feed
