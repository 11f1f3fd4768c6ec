#include "feed/session/changes.hpp"

#include <algorithm>
#include <charconv>

#include "cluster/record/record.hpp"
#include "feed/session/change_line.hpp"
#include "feed/session/log_filter.hpp"
#include "feed/session/resume_token.hpp"
#include "feed/session/segment_set.hpp"

namespace zaris::feed {
namespace {

constexpr std::size_t lines_bytes_max = 64u << 10;        // of one call
constexpr std::uint64_t scan_bytes_max = 8u << 20;
constexpr std::size_t turn_bytes_max = 32u << 10;         // of one segment, before the next one has its turn
constexpr MonoMicros token_interval_us = 1'000'000;
constexpr std::uint64_t token_every_bytes = 1u << 20;
constexpr std::size_t prefix_bytes_max = 64u << 10;

tl::unexpected<Error> invalid(std::string what) {
  return failure("changes_invalid", std::move(what), "GET /v1/changes?prefix=&segments=&since=&heartbeat=; see docs/formats/feed.md");
}
tl::unexpected<Error> gone(std::string what) {
  return failure("position_gone", std::move(what), "read what is there now (zaris kv export), then go on from here without since=");
}

template <class Number>
bool whole_number(std::string_view text, Number& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc{} && end == text.data() + text.size() && !text.empty();
}

// "3,7,16-31"
Result<std::vector<SegmentId>> parse_segments_list(std::string_view text) {
  std::vector<SegmentId> out;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), item.size() + 1));
    const std::size_t dash = item.find('-');
    std::uint16_t first = 0, last = 0;
    if (!whole_number(item.substr(0, dash), first) || !whole_number(dash == item.npos ? item : item.substr(dash + 1), last) || first > last ||
        last >= segments_max)
      return invalid(fmt::format("segments={} is not a list of segments and ranges, as in 3,7,16-31", printable(item)));
    for (std::uint32_t s = first; s <= last; ++s) out.emplace_back(static_cast<std::uint16_t>(s));
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

// "5s", "500ms", "2m"
Result<MonoMicros> parse_interval(std::string_view text) {
  std::uint64_t number = 0;
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const std::string_view unit = text.substr(digits);
  const std::uint64_t scale = unit == "ms" ? 1'000 : unit == "s" ? 1'000'000 : unit == "m" ? 60'000'000 : 0;
  if (scale == 0 || !whole_number(text.substr(0, digits), number) || number == 0 || number > 3'600'000 || number * scale > 3'600'000'000u)
    return invalid(fmt::format("heartbeat={} is not a time from 1ms to 60m, as in 5s", printable(text)));
  return static_cast<MonoMicros>(number * scale);
}

class Changes final : public ChangesStream {
 public:
  Changes(store::Store& store, const Scope& scope, MonoMicros heartbeat_us, Now now)
      : store_(store), filter_(scope), heartbeat_us_(heartbeat_us), last_line_(now.mono_us), last_token_(now.mono_us - token_interval_us) {
    tail_.resize(store.options().segments);
    at_.resize(store.options().segments);
  }

  void begin(SegmentId id, Position at) {
    at_[id.value()] = at;
    subscribed_.push_back(id);
    tail_.insert(id);
  }

  void on_dirty(std::span<const SegmentId> segments) override {
    for (const SegmentId id : segments) {
      if (at_[id.value()]) tail_.insert(id);
    }
  }

  bool next(std::string& out, Now now) override {
    if (ended_) return false;
    const std::size_t start = out.size();
    std::uint64_t scan_left = scan_bytes_max;
    while (out.size() - start < lines_bytes_max && scan_left > 0 && !ended_) {
      const auto id = tail_.next(from_);
      if (!id) break;
      from_ = id->value() + 1u;
      read(*id, out, start, scan_left);
    }
    const std::uint64_t bytes = out.size() - start;
    since_token_ += bytes;
    const bool moved = since_token_ != 0 || first_;
    const bool token_due = moved && (since_token_ >= token_every_bytes || now.mono_us - last_token_ >= token_interval_us);
    const bool heartbeat_due = bytes == 0 && now.mono_us - last_line_ >= heartbeat_us_;
    const bool passed_over_much = bytes == 0 && scan_left == 0;
    if (ended_ || token_due || heartbeat_due || passed_over_much) {
      append_token(out);
      last_token_ = now.mono_us;
    }
    if (ended_) {
      out += fmt::format("{{\"error\":{{\"code\":\"{}\",\"text\":", ended_->code);
      (void)append_json_text(out, ended_->what);
      out += "}}\n";
    }
    if (out.size() != start) last_line_ = now.mono_us;
    return out.size() != start;
  }

  void finish(std::string& out) override {
    if (!ended_) append_token(out);
  }

  std::optional<Error> ended() const override { return ended_; }
  const Scope& scope() const override { return filter_.scope(); }
  SourceCounters counters() const override { return counters_; }

  std::string resume_token() const override {
    ResumeToken token{store_.options().cluster, filter_.scope().id(), 0, {}};
    for (const SegmentId id : subscribed_) token.positions.emplace_back(id, *at_[id.value()]);
    token.lineage_sum = token.sum([this](SegmentId id) { return store_.lineage(id); });
    return token.encode();
  }

 private:
  void append_token(std::string& out) {
    out += "{\"resume\":\"" + resume_token() + "\"}\n";
    since_token_ = 0;
    first_ = false;
  }

  void read(SegmentId id, std::string& out, std::size_t start, std::uint64_t& scan_left) {
    std::size_t turn_left = turn_bytes_max;
    Position& at = *at_[id.value()];
    while (turn_left > 0 && scan_left > 0) {
      store::LogStretch stretch;
      switch (store_.read_log(id, at.revision, std::min<std::size_t>(turn_left, scan_left), stretch)) {
        case store::LogRead::at_head:
        case store::LogRead::fetching:  // until it has come
          tail_.erase(id);
          return;
        case store::LogRead::trimmed:
          ended_ = gone(fmt::format("the log of segment {} was trimmed before this reader had read it", id.value())).value();
          return;
        case store::LogRead::ok:
          break;
      }
      for (std::size_t i = 0; i < stretch.index.size(); ++i) {
        if (out.size() - start >= lines_bytes_max) return;
        const store::LogIndex& index = stretch.index[i];
        scan_left -= std::min<std::uint64_t>(scan_left, index.length);
        turn_left -= std::min<std::size_t>(turn_left, index.length);
        at = {stretch.generation, Revision{stretch.first.value() + i}};
        const std::string_view record = stretch.record(i);
        if (!filter_.wants(index, record.data())) {
          ++counters_.filtered;
          continue;
        }
        append_change_line(out, id, trusted_record(record));
        ++counters_.records;
        counters_.record_bytes += index.length;
      }
    }
  }

  store::Store& store_;
  const LogFilter filter_;
  const MonoMicros heartbeat_us_;
  SegmentSet tail_;
  std::uint32_t from_ = 0;
  std::vector<SegmentId> subscribed_;                 // ascending
  std::vector<std::optional<Position>> at_;           // everything up to it has been given out
  MonoMicros last_line_, last_token_;
  std::uint64_t since_token_ = 0;
  bool first_ = true;
  std::optional<Error> ended_;
  SourceCounters counters_;
};

// Where to start: "now", "oldest" or the token's positions, each tested against the lineage and the log.
Result<std::vector<std::pair<SegmentId, Position>>> starts(store::Store& store, const Scope& scope, const ChangesRequest& request) {
  std::vector<SegmentId> segments = request.segments;
  for (const SegmentId id : segments) {
    if (id.value() >= store.options().segments) return invalid(fmt::format("there is no segment {}, the last is {}", id.value(), store.options().segments - 1));
  }
  std::vector<std::pair<SegmentId, Position>> out;
  if (request.since.empty() || request.since == "oldest") {
    if (segments.empty()) {
      for (std::uint32_t s = 0; s < store.options().segments; ++s) segments.emplace_back(static_cast<std::uint16_t>(s));
    }
    for (const SegmentId id : segments) {
      const store::SegmentState state = store.state(id);
      if (request.since.empty()) {
        out.emplace_back(id, state.head);
        continue;
      }
      // The position before the oldest record: of its generation, or of the one before.
      out.emplace_back(id, position_of(store.lineage(id), Revision{state.floor.value() - 1}));
    }
    return out;
  }
  const auto token = ResumeToken::decode(request.since);
  if (!token) return invalid("since= is not a resume token of this service");
  if (token->scope != scope.id()) return invalid("since= is a resume token of another prefix");
  if (!segments.empty() && !std::equal(segments.begin(), segments.end(), token->positions.begin(), token->positions.end(),
                                       [](SegmentId a, const auto& b) { return a == b.first; }))
    return invalid("since= is a resume token of other segments; leave segments= out to go on with its own");
  if (token->cluster != store.options().cluster)
    return gone(fmt::format("the token is of cluster {}, this is {}", hex16(token->cluster.value()), hex16(store.options().cluster.value())));
  for (const auto& [id, at] : token->positions) {
    if (id.value() >= store.options().segments) return gone("the token is of a cluster with more segments");
    const store::SegmentState state = store.state(id);
    if (at.revision.value() + 1 < state.floor.value())
      return gone(fmt::format("segment {}: the log begins at {}, {} is asked for", id.value(), state.floor.value(), at.revision.value() + 1));
    const Lineage lineage = store.lineage(id);
    if (at.revision.value() == 0) continue;  // before everything
    const LineageVerdict verdict = lineage.test(lineage.root().history, {at, lineage.id_of(at.generation)}, state.head);
    if (verdict.verdict != OnLineage::on) return gone(fmt::format("segment {}: {}", id.value(), verdict.reason));
  }
  if (token->sum([&](SegmentId id) { return store.lineage(id); }) != token->lineage_sum) return gone("the token is of another history of this cluster");
  return token->positions;
}

}  // namespace

Result<ChangesRequest> parse_changes_request(const std::vector<std::pair<std::string, std::string>>& query) {
  ChangesRequest out;
  std::vector<std::string> seen;
  for (const auto& [name, value] : query) {
    if (std::find(seen.begin(), seen.end(), name) != seen.end()) return invalid(fmt::format("{} is given twice", printable(name)));
    seen.push_back(name);
    if (name == "prefix") {
      if (value.size() > prefix_bytes_max) return invalid("prefix= is longer than any key");
      out.prefix = value;
    } else if (name == "segments") {
      auto segments = parse_segments_list(value);
      if (!segments) return tl::unexpected(segments.error());
      out.segments = std::move(*segments);
    } else if (name == "since") {
      out.since = value;
    } else if (name == "heartbeat") {
      if (value.empty()) continue;
      auto interval = parse_interval(value);
      if (!interval) return tl::unexpected(interval.error());
      out.heartbeat_us = *interval;
    } else {
      return invalid(fmt::format("{} is not known here", printable(name)));
    }
  }
  return out;
}

unsigned changes_http_status(std::string_view error_code) {
  if (error_code == "changes_invalid") return 400;
  if (error_code == "unauthorised") return 403;
  if (error_code == "feed_of_one_node") return 404;
  if (error_code == "position_gone") return 410;
  if (error_code == "source_unavailable") return 503;
  return 500;
}

Result<std::unique_ptr<ChangesStream>> ChangesStream::open(store::Store& store, const Principal& principal, const ChangesRequest& request, Now now) {
  const Scope scope = request.prefix.empty() ? Scope{} : *Scope::make({request.prefix});
  if (std::none_of(principal.granted.begin(), principal.granted.end(), [&](const Scope& g) { return g.contains(scope); }))
    return failure("unauthorised", fmt::format("{} may not read {}", printable(principal.name), request.prefix.empty() ? "every key" : printable(request.prefix)),
                   "name a prefix that is granted in prefix=");
  auto positions = starts(store, scope, request);
  if (!positions) return tl::unexpected(positions.error());
  auto stream = std::make_unique<Changes>(store, scope, request.heartbeat_us, now);
  for (const auto& [id, at] : *positions) stream->begin(id, at);
  return std::unique_ptr<ChangesStream>(std::move(stream));
}

}  // namespace zaris::feed
