#include "feed/session/reader.hpp"

#include <algorithm>
#include <deque>

#include "cluster/base/assert.hpp"
#include "cluster/placement/slot.hpp"

namespace zaris::feed {
namespace {

constexpr std::size_t message_bytes_before_welcome = 4u << 20;
constexpr std::size_t message_bytes_least = 8u << 20;
constexpr std::size_t message_bytes_most = 64u << 20;
constexpr int heartbeats_of_silence = 3;
constexpr MonoMicros silence_least_us = 4'000'000;
constexpr int intervals_of_silence = 20;
constexpr MonoMicros between_ticks_us = 1'000'000;  // more than that between two ticks is our own standing still

struct Segment {
  std::uint32_t subscriptions = 0;   // asked for so far; the newest one counts
  bool awaiting = false;             // its answer has not come
  bool live = false;                 // between Subscribed and StreamEnd
  std::optional<Position> position;
  bool walking = false;
  std::optional<SlotKey> walk_at;    // from of the next chunk
};

class Reader final : public ReaderSession {
 public:
  Reader(Hello hello, ReaderOptions options, ReaderSink& sink)
      : hello_(std::move(hello)), options_(options), sink_(sink), message_max_(message_bytes_before_welcome) {
    if (options_.message_bytes_max != 0) message_max_ = options_.message_bytes_max;
  }

  void start(MonoMicros now) override {
    last_heard_ = last_tick_ = now;
    send(hello_);
  }

  void on_message(std::string_view bytes, MonoMicros now) override {
    if (ended_) return;
    last_heard_ = now;
    bytes_received_ += bytes.size();
    if (bytes.size() > message_max_)
      return end("feed_message_too_large", fmt::format("a feed message of {} bytes; the limit is {}", bytes.size(), message_max_));
    auto decoded = decode_from_gateway(bytes);
    if (!decoded) return end(decoded.error().code, decoded.error().what);
    if (!*decoded) return;  // a type of a later version
    if (!welcomed_ && !std::holds_alternative<Welcome>(**decoded) && !std::holds_alternative<ErrorMessage>(**decoded) &&
        !std::holds_alternative<GoAway>(**decoded))
      return end("feed_protocol", "a feed message came before Welcome");
    now_ = now;
    std::visit([this](auto& message) { handle(message); }, **decoded);
  }

  void on_part(MonoMicros now) override { last_heard_ = now; }

  void on_tick(MonoMicros now) override {
    if (ended_) return;
    now_ = now;
    last_heard_ = std::min(now, last_heard_ + std::max<MonoMicros>(now - last_tick_ - between_ticks_us, 0));
    last_tick_ = now;
    if (now - last_heard_ > silence_us_)
      return end("feed_silent", fmt::format("nothing came from the gateway for {} ms", (now - last_heard_) / 1000));
    if (!welcomed_) return;
    if (!last_ping_ || now - *last_ping_ >= fresh_interval_us_) {
      last_ping_ = now;
      ping_due_ = true;
      flush_credit_ = true;
    }
  }

  void subscribe(Subscribe request) override {
    for (const SubscribeSegment& s : request.segments) {
      Segment& segment = at(s.segment);
      ++segment.subscriptions;
      segment.awaiting = true;
      forget(segment, s.segment);
      segment.walking = s.walk.has_value();
      if (s.walk) segment.walk_at = s.walk->from;
    }
    send(std::move(request));
  }

  void unsubscribe(SegmentId id) override {
    Segment& segment = at(id);
    segment.awaiting = false;
    forget(segment, id);
    send(Unsubscribe{{id}});
  }

  void ack(Ack ack) override { send(std::move(ack)); }
  void fetch(FetchKeys request) override { send(std::move(request)); }
  void request_digest(DigestRequest request) override { send(std::move(request)); }

  void grant(std::uint64_t bytes) override {
    ZARIS_ASSERT(bytes <= outstanding_ - ungranted_, bytes, outstanding_, ungranted_);
    ungranted_ += bytes;
  }

  bool next_message(std::string& out) override {
    if (!queue_.empty()) {
      encode_to(out, queue_.front());
      queue_.pop_front();
      return true;
    }
    if (ended_) return false;
    if (ungranted_ != 0 && (flush_credit_ || ungranted_ == outstanding_ || ungranted_ >= options_.credit_bytes / 8)) {
      encode_to(out, FollowerMessage{Credit{ungranted_}});
      outstanding_ -= ungranted_;
      ungranted_ = 0;
      return true;
    }
    flush_credit_ = false;
    if (ping_due_) {
      ping_due_ = false;
      encode_to(out, FollowerMessage{Ping{*last_ping_}});
      return true;
    }
    return false;
  }

  std::optional<Position> position(SegmentId id) const override {
    return id.value() < segments_.size() ? segments_[id.value()].position : std::nullopt;
  }
  std::optional<Error> ended() const override { return ended_; }
  std::uint64_t bytes_received() const override { return bytes_received_; }
  std::uint64_t bytes_outstanding() const override { return outstanding_; }

 private:
  struct Assembly {
    SegmentId segment;
    Position at;             // of the record
    std::uint64_t total = 0;
    bool wanted = false;     // false: of an earlier subscription, thrown away; its credit is given back already
    std::uint64_t received = 0;
    std::string bytes;
  };

  void send(FollowerMessage message) { queue_.push_back(std::move(message)); }
  void end(std::string code, std::string what, std::string hint = {}) {
    ended_ = Error{std::move(code), std::move(what), std::move(hint)};
    queue_.clear();
    assembly_.reset();
  }
  void gap(SegmentId id, std::string_view what, const Position& came, const Segment& segment) {
    end("feed_gap",
        fmt::format("segment {}: {} continues from {}, but {} is held", id.value(), what, to_string(came),
                    segment.position ? to_string(*segment.position) : std::string("nothing")),
        "connect again; if it comes back, the source has lost its place");
  }
  Segment& at(SegmentId id) {
    ZARIS_ASSERT(id.value() < segments_max, id.value());
    if (id.value() >= segments_.size()) segments_.resize(id.value() + 1u);
    return segments_[id.value()];
  }
  // Null: nothing of it is wanted any more, or yet.
  Segment* wanted(SegmentId id) {
    if (id.value() >= segments_.size()) return nullptr;
    Segment& segment = segments_[id.value()];
    return segment.live ? &segment : nullptr;
  }
  void forget(Segment& segment, SegmentId id) {
    segment.live = false;
    segment.position.reset();
    segment.walking = false;
    segment.walk_at.reset();
    if (assembly_ && assembly_->segment == id && assembly_->wanted) {
      assembly_->wanted = false;
      assembly_->bytes = {};
      ungranted_ += assembly_->total + record_row_bytes;
    }
  }
  bool current(Segment& segment, std::uint32_t subscription) {
    return subscription == 0 || subscription == segment.subscriptions;
  }

  // What arrives counts against the credit given; one record may pass it when all of it was free.
  bool charge(std::uint64_t bytes) {
    if (bytes > options_.credit_bytes - std::min(options_.credit_bytes, outstanding_) && outstanding_ != 0) {
      end("feed_credit_exceeded", fmt::format("the gateway sent {} bytes with {} of {} bytes of credit used", bytes, outstanding_,
                                              options_.credit_bytes));
      return false;
    }
    outstanding_ += bytes;
    return true;
  }

  void handle(Welcome& m) {
    if (welcomed_) return end("feed_protocol", "a second Welcome");
    if (m.version < hello_.version_min || m.version > hello_.version_max)
      return end("version_unsupported", fmt::format("the gateway speaks version {} of the feed", m.version));
    if (hello_.source_expected && *hello_.source_expected != m.cluster)
      return end("wrong_cluster", fmt::format("the source is cluster {}, expected was {}", hex16(m.cluster.value()),
                                              hex16(hello_.source_expected->value())));
    if (m.scope != hello_.scope.id())
      return end("scope_mismatch", fmt::format("scope {} was granted, asked for was {}", hex16(m.scope.value()), hex16(hello_.scope.id().value())));
    if (!valid_segment_count(m.segments) || m.roots.size() != m.segments)
      return end("feed_message_malformed", fmt::format("Welcome with {} segments and {} roots", m.segments, m.roots.size()));
    welcomed_ = true;
    segments_.resize(std::max<std::size_t>(segments_.size(), m.segments));
    fresh_interval_us_ = std::clamp<MonoMicros>(m.fresh_interval_ms, 1, 3'600'000) * 1000;
    const MonoMicros heartbeat_us = std::clamp<MonoMicros>(m.heartbeat_ms, 1, 3'600'000) * 1000;
    silence_us_ = std::min(heartbeats_of_silence * heartbeat_us, std::max(silence_least_us, intervals_of_silence * fresh_interval_us_));
    record_max_ = std::min<std::uint64_t>(record_length_max, std::min<std::uint64_t>(m.key_bytes_max, record_length_max) +
                                                                 std::min<std::uint64_t>(m.value_bytes_max, record_length_max) + (64u << 10));
    if (options_.message_bytes_max == 0)
      message_max_ = std::clamp<std::size_t>(record_max_ + (1u << 20), message_bytes_least, message_bytes_most);
    send(Credit{options_.credit_bytes});
    sink_.on_event(m);
  }

  void handle(Subscribed& m) {
    Segment& segment = at(m.segment);
    if (!current(segment, m.subscription) || (!segment.awaiting && !segment.live)) return;
    if (segment.live) {
      if (m.accepted != segment.position) return gap(m.segment, "a grown lineage", m.accepted.value_or(Position{}), segment);
    } else {
      segment.awaiting = false;
      segment.live = true;
      segment.position = m.accepted;
    }
    sink_.on_event(m);
  }

  void handle(Batch& m) {
    std::uint64_t bytes = 0, unwanted = 0;
    for (const Run& run : m.runs) bytes += run.table.size() + run.records.size();
    if (!charge(bytes)) return;
    auto keep = m.runs.begin();
    for (Run& run : m.runs) {
      Segment* segment = wanted(run.segment);
      if (segment == nullptr) {
        unwanted += run.table.size() + run.records.size();
        continue;
      }
      if (segment->position != run.prev) return gap(run.segment, "a run", run.prev, *segment);
      segment->position = Position{run.generation, run.last};
      *keep++ = run;
    }
    m.runs.erase(keep, m.runs.end());
    ungranted_ += unwanted;
    if (!m.runs.empty()) sink_.on_event(m);
  }

  void handle(Part& m) {
    if (m.offset == 0) {
      if (assembly_ && assembly_->wanted) return end("feed_protocol", "a record in parts begins within another");
      if (m.total == 0 || m.total > record_max_)
        return end("feed_message_too_large", fmt::format("a record of {} bytes in parts; the limit is {}", m.total, record_max_));
      if (m.revision.value() - m.prev.revision.value() > UINT16_MAX) return end("feed_protocol", "a record in parts is too far from its run's begin");
      if (!charge(m.total + record_row_bytes)) return;
      const Segment* segment = wanted(m.segment);
      if (segment != nullptr && segment->position != m.prev) return gap(m.segment, "a record in parts", m.prev, *segment);
      assembly_ = Assembly{m.segment, {m.generation, m.revision}, m.total, segment != nullptr, 0, {}};
      if (segment != nullptr) assembly_->bytes.reserve(m.total);
      else ungranted_ += m.total + record_row_bytes;
    }
    if (!assembly_ || assembly_->segment != m.segment || assembly_->at != Position{m.generation, m.revision} ||
        assembly_->total != m.total || assembly_->received != m.offset || m.bytes.empty())
      return end("feed_protocol", "a part that does not follow the one before it");
    assembly_->received += m.bytes.size();
    if (assembly_->wanted) assembly_->bytes.append(m.bytes);
    if (assembly_->received < assembly_->total) return;

    const Assembly whole = std::move(*assembly_);
    assembly_.reset();
    if (!whole.wanted) return;
    Segment* segment = wanted(m.segment);
    ZARIS_ASSERT(segment != nullptr, m.segment.value());
    if (segment->position != m.prev) return gap(m.segment, "a record in parts", m.prev, *segment);
    segment->position = whole.at;
    std::string table;
    append_row(table, {static_cast<std::uint32_t>(whole.total), m.row_flags, m.slot,
                       static_cast<std::uint16_t>(m.revision.value() - m.prev.revision.value())});
    sink_.on_event(Batch{{Run{m.segment, m.prev, m.generation, m.revision, m.commit_time_us, m.reaches_head, table, whole.bytes}}});
  }

  void handle(Progress& m) {
    Batch moved;
    auto keep = m.rows.begin();
    for (const ProgressRow& row : m.rows) {
      Segment* segment = wanted(row.segment);
      if (segment == nullptr || !segment->position) continue;
      if (*segment->position != row.prev.value_or(row.position))
        return gap(row.segment, "a Progress", row.prev.value_or(row.position), *segment);
      if (row.prev) {
        if (row.position <= *row.prev) return gap(row.segment, "a Progress to an earlier place", row.position, *segment);
        moved.runs.push_back({row.segment, *row.prev, row.position.generation, row.position.revision, m.closed_time_us,
                              row.position == row.head, {}, {}});
        segment->position = row.position;
      }
      *keep++ = row;
    }
    m.rows.erase(keep, m.rows.end());
    if (!moved.runs.empty()) sink_.on_event(moved);
    sink_.on_event(m);
  }

  void handle(Chunk& m) {
    const std::uint64_t bytes = m.bytes();
    if (!charge(bytes)) return;
    Segment* segment = wanted(m.segment);
    if (segment == nullptr) {
      ungranted_ += bytes;
      return;
    }
    if (segment->position && *segment->position != m.as_of.at) return gap(m.segment, "a chunk", m.as_of.at, *segment);
    if (!segment->walking || segment->walk_at != m.from) return end("feed_gap", fmt::format("segment {}: a chunk does not follow the one before it", m.segment.value()));
    segment->position = m.as_of.at;
    segment->walk_at = m.to;
    segment->walking = !m.last;
    sink_.on_event(m);
  }

  void handle(Records& m) {
    if (charge(m.table.size() + m.records.size())) sink_.on_event(m);
  }
  void handle(Digests& m) {
    if (charge(m.table.size() + m.records.size())) sink_.on_event(m);
  }

  void handle(StreamEnd& m) {
    Segment& segment = at(m.segment);
    if (!current(segment, m.subscription) || (!segment.awaiting && !segment.live)) return;
    segment.awaiting = false;
    forget(segment, m.segment);
    sink_.on_event(m);
  }
  void handle(Pong& m) { sink_.on_event(m); }
  void handle(ErrorMessage& m) {
    end(is_code(m.code) ? m.code : "feed_refused", printable(m.text, 512));
    sink_.on_event(m);
  }
  void handle(GoAway& m) { sink_.on_event(m); }

  const Hello hello_;
  const ReaderOptions options_;
  ReaderSink& sink_;
  std::size_t message_max_;
  std::uint64_t record_max_ = 0;
  bool welcomed_ = false;
  MonoMicros fresh_interval_us_ = 200'000, silence_us_ = 15'000'000;
  MonoMicros now_ = 0, last_heard_ = 0, last_tick_ = 0;
  std::optional<MonoMicros> last_ping_;
  bool ping_due_ = false, flush_credit_ = false;
  std::deque<FollowerMessage> queue_;
  std::vector<Segment> segments_;
  std::optional<Assembly> assembly_;
  std::uint64_t outstanding_ = 0;  // received and not yet granted anew on the wire; `ungranted_` is the part that may be
  std::uint64_t ungranted_ = 0;
  std::uint64_t bytes_received_ = 0;
  std::optional<Error> ended_;
};

}  // namespace

std::unique_ptr<ReaderSession> ReaderSession::create(Hello hello, ReaderOptions options, ReaderSink& sink) {
  return std::make_unique<Reader>(std::move(hello), options, sink);
}

}  // namespace zaris::feed
