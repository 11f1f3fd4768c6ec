#include "cluster/base/assert.hpp"
#include "feed/message/batch_writer.hpp"
#include "feed/message/message.hpp"
#include "feed/message/packer.hpp"

namespace zaris::feed {

std::string_view name(EndReason reason) {
  switch (reason) {
    case EndReason::below_floor: return "below_floor";
    case EndReason::diverged: return "diverged";
    case EndReason::unknown_lineage: return "unknown_lineage";
    case EndReason::source_reset: return "source_reset";
    case EndReason::source_standby: return "source_standby";
    case EndReason::ahead_of_source: return "ahead_of_source";
    case EndReason::wrong_cluster: return "wrong_cluster";
    case EndReason::scope_mismatch: return "scope_mismatch";
    case EndReason::scope_revoked: return "scope_revoked";
    case EndReason::unauthorised: return "unauthorised";
    case EndReason::ownership_moving: return "ownership_moving";
    case EndReason::too_slow: return "too_slow";
    case EndReason::dropped: return "dropped";
    case EndReason::shutting_down: return "shutting_down";
    case EndReason::protocol_error: return "protocol_error";
    case EndReason::version_unsupported: return "version_unsupported";
  }
  return "unknown";
}

namespace {

class Encoder {
 public:
  explicit Encoder(std::string& out) : out_(out), p_(out) {}

  // ---- follower → gateway
  void operator()(const Hello& m) {
    head(MessageType::hello, m.on_behalf_of.empty() ? 10 : 11);
    p_.number(m.version_min);
    p_.number(m.version_max);
    p_.text(m.follower);
    p_.text(m.link);
    if (m.source_expected) p_.number(m.source_expected->value());
    else p_.nil();
    p_.number(m.target.value());
    p_.bytes(m.scope.text());
    p_.number(m.site_epoch.value());
    texts(m.features);
    p_.number(m.generation_seen.value());
    if (!m.on_behalf_of.empty()) p_.text(m.on_behalf_of);
  }
  void operator()(const Subscribe& m) {
    head(MessageType::subscribe, 1);
    p_.array(m.segments.size());
    for (const SubscribeSegment& s : m.segments) {
      p_.array(5);
      p_.number(s.segment.value());
      if (s.history) p_.number(s.history->value());
      else p_.nil();
      named(s.low);
      named(s.high);
      if (s.walk) {
        p_.array(s.walk->names ? 3 : 2);
        slot_key(s.walk->from);
        named(s.walk->since);
        if (s.walk->names) p_.number(1);
      } else {
        p_.nil();
      }
    }
  }
  void operator()(const Credit& m) {
    head(MessageType::credit, 1);
    p_.number(m.bytes);
  }
  void operator()(const Ack& m) {
    head(MessageType::ack, 2);
    p_.number(m.closed_time_us);
    p_.array(m.segments.size());
    for (const AckSegment& s : m.segments) {
      p_.array(2);
      p_.number(s.segment.value());
      position(s.position);
    }
  }
  void operator()(const FetchKeys& m) {
    head(MessageType::fetch_keys, 3);
    p_.number(m.request);
    p_.number(m.segment.value());
    p_.array(m.keys.size());
    for (const std::string& key : m.keys) p_.bytes(key);
  }
  void operator()(const DigestRequest& m) {
    head(MessageType::digest_request, m.page ? 5 : 4);
    p_.number(m.request);
    p_.number(m.segment.value());
    slot_key(m.from);
    slot_key(m.to);
    if (m.page) p_.number(m.records ? 2 : 1);
  }
  void operator()(const Ping& m) {
    head(MessageType::ping, 1);
    p_.integer(m.sent_us);
  }
  void operator()(const Unsubscribe& m) {
    head(MessageType::unsubscribe, 1);
    segments(m.segments);
  }

  // ---- gateway → follower
  void operator()(const Welcome& m) {
    head(MessageType::welcome, 13);
    p_.number(m.version);
    p_.number(m.cluster.value());
    p_.text(m.cluster_name);
    p_.number(m.segments);
    p_.number(m.scope.value());
    p_.number(m.key_bytes_max);
    p_.number(m.value_bytes_max);
    p_.number(m.live_keys);
    p_.number(m.live_bytes);
    p_.array(m.roots.size());
    for (const Root& r : m.roots) root(r);
    p_.number(m.fresh_interval_ms);
    p_.number(m.heartbeat_ms);
    texts(m.features);
  }
  void operator()(const Subscribed& m) {
    head(MessageType::subscribed, 6);
    p_.number(m.segment.value());
    if (m.accepted) position(*m.accepted);
    else p_.nil();
    position(m.head);
    p_.number(m.floor.value());
    lineage(m.lineage);
    p_.number(m.subscription);
  }
  void operator()(const Batch& m) {
    BatchWriter writer(out_);
    for (const Run& run : m.runs) {
      writer.begin_run(run.segment, run.prev, run.generation);
      out_.append(run.table);
      writer.begin_records();
      out_.append(run.records);
      writer.end_run(run.last, run.commit_time_us);
      if (run.reaches_head) writer.mark_reaches_head();
    }
    if (!writer.finish()) {  // a Batch of nothing: nobody sends one, but it has a form
      head(MessageType::batch, 1);
      p_.array(0);
    }
  }
  void operator()(const Part& m) {
    head(MessageType::part, 11);
    p_.number(m.segment.value());
    p_.number(m.revision.value());
    p_.number(m.offset);
    p_.number(m.total);
    p_.bytes(m.bytes);
    position(m.prev);
    p_.number(m.generation.value());
    p_.number(m.commit_time_us);
    p_.number(m.slot.value());
    p_.number(m.row_flags);
    p_.number(m.reaches_head ? 1 : 0);
  }
  void operator()(const Progress& m) {
    head(MessageType::progress, 3);
    p_.number(m.source_clock_us);
    p_.number(m.closed_time_us);
    p_.array(m.rows.size());
    for (const ProgressRow& row : m.rows) {
      p_.array(row.prev ? 6 : 5);
      p_.number(row.segment.value());
      position(row.position);
      position(row.head);
      p_.number(row.floor.value());
      p_.number(row.bytes_behind);
      if (row.prev) position(*row.prev);
    }
  }
  void operator()(const Chunk& m) {
    head(MessageType::chunk, m.others ? 12 : 9);
    p_.number(m.segment.value());
    slot_key(m.from);
    slot_key(m.to);
    named(m.as_of);
    p_.number(m.count);
    digest(m.digest);
    p_.number(m.last ? 1 : 0);
    p_.bytes(m.table);
    p_.bytes(m.records);
    if (!m.others) return;
    p_.number(m.others->count);
    digest(m.others->digest);
    p_.bytes(m.others->names);
  }
  void operator()(const Records& m) {
    head(MessageType::records, 8);
    p_.number(m.request);
    p_.number(m.segment.value());
    named(m.as_of);
    p_.array(m.missing.size());
    for (const std::uint32_t index : m.missing) p_.number(index);
    p_.bytes(m.table);
    p_.bytes(m.records);
    p_.number(m.begin);
    p_.number(m.more ? 1 : 0);
  }
  void operator()(const Digests& m) {
    const bool records = !m.table.empty() || m.memory_slots != 0;
    const bool page = records || m.to || m.bytes != 0;
    head(MessageType::digests, records ? 10 : page ? 7 : 5);
    p_.number(m.request);
    p_.number(m.segment.value());
    named(m.as_of);
    p_.number(m.count);
    digest(m.digest);
    if (!page) return;
    slot_key(m.to);
    p_.number(m.bytes);
    if (!records) return;
    p_.number(m.memory_slots);
    p_.bytes(m.table);
    p_.bytes(m.records);
  }
  void operator()(const StreamEnd& m) {
    head(MessageType::stream_end, 7);
    p_.number(m.segment.value());
    p_.number(static_cast<std::uint64_t>(m.reason));
    p_.text(m.text);
    if (m.surviving) position(*m.surviving);
    else p_.nil();
    if (m.lineage) lineage(*m.lineage);
    else p_.nil();
    p_.number(m.floor.value());
    p_.number(m.subscription);
  }
  void operator()(const Pong& m) {
    head(MessageType::pong, 3);
    p_.integer(m.echoed_us);
    p_.array(m.rows.size());
    for (const PongRow& row : m.rows) {
      p_.array(2);
      p_.number(row.segment.value());
      position(row.head);
    }
    segments(m.unavailable);
  }
  void operator()(const ErrorMessage& m) {
    head(MessageType::error, 4);
    p_.text(m.code);
    p_.text(m.text);
    p_.boolean(m.retry);
    p_.number(m.retry_after_ms);
  }
  void operator()(const GoAway& m) {
    head(MessageType::go_away, 2);
    p_.text(m.text);
    p_.number(m.within_ms);
  }

 private:
  void head(MessageType type, std::size_t places) {
    p_.array(places + 1);
    p_.number(static_cast<std::uint64_t>(type));
  }
  void position(const Position& at) {
    p_.array(2);
    p_.number(at.generation.value());
    p_.number(at.revision.value());
  }
  void named(const NamedPosition& n) {
    p_.array(3);
    p_.number(n.at.generation.value());
    p_.number(n.at.revision.value());
    p_.number(n.generation_id);
  }
  void named(const std::optional<NamedPosition>& n) {
    if (n) named(*n);
    else p_.nil();
  }
  void slot_key(const std::optional<SlotKey>& k) {
    if (!k) return p_.nil();
    p_.array(2);
    p_.number(k->slot.value());
    p_.bytes(k->key);
  }
  void digest(const Digest& d) {
    char raw[16];
    d.to_bytes(raw);
    p_.bytes({raw, sizeof raw});
  }
  void root(const Root& r) {
    p_.array(4);
    p_.number(r.history.value());
    p_.number(r.generation.value());
    p_.number(r.timestamp_us);
    p_.number(static_cast<std::uint64_t>(r.cause));
  }
  void lineage(const Lineage& l) {
    p_.array(2);
    root(l.root());
    p_.array(l.entries().size());
    for (const LineageEntry& e : l.entries()) {
      p_.array(4);
      p_.number(e.generation.value());
      p_.number(e.id);
      p_.number(e.first.value());
      p_.number(e.timestamp_us);
    }
  }
  void texts(const std::vector<std::string>& list) {
    p_.array(list.size());
    for (const std::string& text : list) p_.text(text);
  }
  void segments(const std::vector<SegmentId>& list) {
    p_.array(list.size());
    for (const SegmentId segment : list) p_.number(segment.value());
  }

  std::string& out_;
  Packer p_;
};

}  // namespace

void encode_to(std::string& out, const FollowerMessage& message) { std::visit(Encoder(out), message); }
void encode_to(std::string& out, const GatewayMessage& message) { std::visit(Encoder(out), message); }

std::string encode(const FollowerMessage& message) {
  std::string out;
  encode_to(out, message);
  return out;
}
std::string encode(const GatewayMessage& message) {
  std::string out;
  encode_to(out, message);
  return out;
}

}  // namespace zaris::feed
