#include "feed/relay/relayed_changes.hpp"

#include <algorithm>
#include <map>

#include "cluster/record/record.hpp"
#include "feed/session/change_line.hpp"
#include "feed/session/reader.hpp"
#include "feed/session/resume_token.hpp"

namespace zaris::feed {
namespace {

constexpr std::uint64_t credit_bytes = 512u << 10;
constexpr MonoMicros token_interval_us = 1'000'000;
constexpr std::uint64_t token_every_bytes = 1u << 20;
constexpr MonoMicros patience_us = 10'000'000;            // before it has begun

class Changes final : public RelayedChanges, public ReaderSink {
 public:
  Changes(Relay& relay, ChangesRequest request, Now now)
      : relay_(relay), request_(std::move(request)), began_(now.mono_us), last_line_(now.mono_us), last_token_(now.mono_us - token_interval_us) {
    Hello hello;
    hello.follower = hello.link = "changes";
    hello.features = {std::string(feature_no_pin)};
    if (!request_.prefix.empty()) hello.scope = *Scope::make({request_.prefix});
    scope_ = hello.scope;
    ReaderOptions options;
    options.credit_bytes = credit_bytes;
    reader_ = ReaderSession::create(std::move(hello), options, *this);
    reader_->start(now.mono_us);
  }

  void on_tick(Now now) override {
    reader_->on_tick(now.mono_us);
    if (stage_ != Stage::reading && now.mono_us - began_ > patience_us) refuse("source_unavailable", "not every segment that is asked for has an owner that answers");
    pump(now);
  }

  void pump(Now now) override {
    std::string message;
    for (bool more = true; more && !refused_ && !ended_;) {
      more = false;
      for (message.clear(); reader_->next_message(message); message.clear(), more = true) relay_.on_message(message, now);
      // What was read and not taken away bounds what is asked for: credit is given back by next().
      for (message.clear(); relay_.next_message(message, now); message.clear(), more = true) reader_->on_message(message, now.mono_us);
      if (const auto over = reader_->ended()) end(over->code == "scope_mismatch" ? "unauthorised" : over->code, over->what);
    }
  }

  bool begun() const override { return stage_ == Stage::reading; }
  std::optional<Error> refused() const override { return refused_; }
  std::optional<Error> ended() const override { return said_end_ ? ended_ : std::nullopt; }
  const Scope& scope() const override { return scope_; }
  SourceCounters counters() const override { return counters_; }

  bool next(std::string& out, Now now) override {
    if (stage_ != Stage::reading || said_end_) return false;
    const std::size_t bytes = lines_.size();
    out += lines_;
    lines_.clear();
    if (taken_ > 0) reader_->grant(std::exchange(taken_, 0));
    since_token_ += bytes;
    const bool moved = since_token_ != 0 || first_;
    const bool token_due = moved && (since_token_ >= token_every_bytes || now.mono_us - last_token_ >= token_interval_us);
    const bool heartbeat_due = bytes == 0 && now.mono_us - last_line_ >= request_.heartbeat_us;
    const bool said = bytes > 0 || token_due || heartbeat_due || ended_;
    if (ended_ || token_due || heartbeat_due) {
      append_token(out);
      last_token_ = now.mono_us;
    }
    if (ended_) {
      out += fmt::format("{{\"error\":{{\"code\":\"{}\",\"text\":", ended_->code);
      (void)append_json_text(out, ended_->what);
      out += "}}\n";
      said_end_ = true;
    }
    if (said) last_line_ = now.mono_us;
    pump(now);
    return said;
  }

  void finish(std::string& out) override {
    if (stage_ == Stage::reading && !said_end_) append_token(out);
  }

  void on_event(const ReaderEvent& event) override {
    if (const auto* welcome = std::get_if<Welcome>(&event)) return on(*welcome);
    if (const auto* subscribed = std::get_if<Subscribed>(&event)) return on(*subscribed);
    if (const auto* batch = std::get_if<Batch>(&event)) return on(*batch);
    if (const auto* stream_end = std::get_if<StreamEnd>(&event)) return on(*stream_end);
  }

 private:
  // looking: where the segments stand now; resuming: the same from where the request says.
  enum class Stage : std::uint8_t { greeting, looking, resuming, reading };

  void refuse(std::string code, std::string text) { refused_ = Error{std::move(code), std::move(text), {}}; }
  void end(std::string code, std::string text) {
    if (stage_ != Stage::reading) return refuse(std::move(code), std::move(text));
    if (!ended_) ended_ = Error{std::move(code), std::move(text), {}};
  }

  void on(const Welcome& m) {
    cluster_ = m.cluster;
    segments_ = request_.segments;
    if (!request_.since.empty() && request_.since != "oldest") {
      token_ = ResumeToken::decode(request_.since);
      if (!token_) return refuse("changes_invalid", "since= is not a resume token of this service");
      if (token_->scope != scope_.id()) return refuse("changes_invalid", "since= is a resume token of another prefix");
      if (token_->cluster != cluster_)
        return refuse("position_gone", fmt::format("the token is of cluster {}, this is {}", hex16(token_->cluster.value()), hex16(cluster_.value())));
      std::vector<SegmentId> named;
      for (const auto& [id, at] : token_->positions) named.push_back(id);
      if (!segments_.empty() && segments_ != named)
        return refuse("changes_invalid", "since= is a resume token of other segments; leave segments= out to go on with its own");
      segments_ = named;
    } else if (segments_.empty()) {
      for (std::uint32_t s = 0; s < m.segments; ++s) segments_.emplace_back(static_cast<std::uint16_t>(s));
    }
    for (const SegmentId id : segments_) {
      if (id.value() < m.segments) continue;
      if (token_) return refuse("position_gone", "the token is of a cluster with more segments");
      return refuse("changes_invalid", fmt::format("there is no segment {}, the last is {}", id.value(), m.segments - 1));
    }
    if (segments_.empty()) return begin_reading();
    stage_ = Stage::looking;
    ask([](SegmentId) { return std::optional<Position>(); });
  }

  template <class Low>
  void ask(Low low) {
    Subscribe subscribe;
    waiting_ = segments_.size();
    for (const SegmentId id : segments_) {
      SubscribeSegment row;
      row.segment = id;
      if (const std::optional<Position> at = low(id)) {
        const Lineage& lineage = seen_.at(id).lineage;
        row.history = lineage.root().history;
        row.low = row.high = NamedPosition{*at, lineage.id_of(at->generation)};
      }
      subscribe.segments.push_back(std::move(row));
    }
    reader_->subscribe(std::move(subscribe));
  }

  void on(const Subscribed& m) {
    const bool first = !seen_.contains(m.segment) || seen_.at(m.segment).subscription != m.subscription;
    seen_[m.segment] = {m.lineage, m.floor, m.subscription};
    if (!first) return;
    if (m.accepted) at_[m.segment] = *m.accepted;
    if (waiting_ == 0 || --waiting_ > 0) return;
    if (stage_ == Stage::resuming || request_.since.empty()) return begin_reading();
    if (token_ && token_->sum([&](SegmentId id) { return seen_.at(id).lineage; }) != token_->lineage_sum)
      return refuse("position_gone", "the token is of another history of this cluster");
    stage_ = Stage::resuming;
    std::map<SegmentId, Position> lows;
    if (token_) lows.insert(token_->positions.begin(), token_->positions.end());
    ask([&](SegmentId id) {
      const Seen& seen = seen_.at(id);
      return std::optional(token_ ? lows.at(id) : position_of(seen.lineage, Revision{seen.floor.value() - 1}));
    });
  }

  void begin_reading() { stage_ = Stage::reading; }

  void on(const Batch& m) {
    for (const Run& run : m.runs) {
      taken_ += run.table.size() + run.records.size();
      at_[run.segment] = {run.generation, run.last};
      std::size_t offset = 0;
      for (std::size_t i = 0; i < row_count(run.table); ++i) {
        const RecordRow row = read_row(run.table, i);
        const auto record = parse_record(run.records.substr(offset, row.length));
        offset += row.length;
        if (!record) return end("feed_message_malformed", record.error().what);
        append_change_line(lines_, run.segment, *record);
        ++counters_.records;
        counters_.record_bytes += row.length;
      }
    }
    // Before it has begun nothing is for the reader: of a subscription that only looked.
    if (stage_ == Stage::looking && !request_.since.empty()) {
      lines_.clear();
      reader_->grant(std::exchange(taken_, 0));
    }
  }

  void on(const StreamEnd& m) {
    const std::string where = fmt::format("segment {}: {}", m.segment.value(), m.text);
    if (m.reason == EndReason::shutting_down || m.reason == EndReason::dropped) return end(std::string(name(m.reason)), where);
    end("position_gone", where);
  }

  void append_token(std::string& out) {
    ResumeToken token{cluster_, scope_.id(), 0, {}};
    for (const SegmentId id : segments_) {
      if (at_.contains(id)) token.positions.emplace_back(id, at_.at(id));
    }
    token.lineage_sum = token.sum([&](SegmentId id) { return seen_.at(id).lineage; });
    out += "{\"resume\":\"" + token.encode() + "\"}\n";
    since_token_ = 0;
    first_ = false;
  }

  struct Seen {
    Lineage lineage;
    Revision floor;
    std::uint32_t subscription = 0;
  };
  Relay& relay_;
  const ChangesRequest request_;
  Scope scope_;
  std::unique_ptr<ReaderSession> reader_;
  Stage stage_ = Stage::greeting;
  ClusterId cluster_;
  std::optional<ResumeToken> token_;
  std::vector<SegmentId> segments_;                       // ascending
  std::size_t waiting_ = 0;                               // Subscribeds that have not come
  std::map<SegmentId, Seen> seen_;
  std::map<SegmentId, Position> at_;                      // everything up to it is in `lines_`, or was
  std::string lines_;
  std::uint64_t taken_ = 0;                               // credit that `lines_` holds
  SourceCounters counters_;
  MonoMicros began_, last_line_, last_token_;
  std::uint64_t since_token_ = 0;
  bool first_ = true, said_end_ = false;
  std::optional<Error> refused_, ended_;
};

}  // namespace

std::unique_ptr<RelayedChanges> RelayedChanges::create(Relay& relay, ChangesRequest request, Now now) { return std::make_unique<Changes>(relay, std::move(request), now); }

}  // namespace zaris::feed
