// What the source says: runs and chunks on their way to the target, progress, echoes, ends. Per run, never per record,
// unless the two clusters' segment counts differ.
#include <algorithm>

#include "cluster/base/assert.hpp"
#include "cluster/placement/slot.hpp"
#include "cluster/record/record_table.hpp"
#include "follower/link/link_core.hpp"

namespace zaris::follower {

void FeedConnection::on_event(const feed::ReaderEvent& event) { link.on_event(*this, event); }

FeedConnection* LinkCore::find_feed(std::uint64_t id) {
  for (auto& feed : feeds_) {
    if (feed->id == id) return feed.get();
  }
  return nullptr;
}

FeedConnection* LinkCore::feed_of(const SegmentState& segment) {
  return feeds_.empty() ? nullptr : feeds_[segment.id.value() % feeds_.size()].get();
}

SegmentState* LinkCore::find_segment(SegmentId id) { return id.value() < segments_.size() ? &segments_[id.value()] : nullptr; }

NamedPosition LinkCore::named(const SegmentState& segment, Position at) const {
  const auto& entries = segment.lineage.entries();
  if (!entries.empty() && entries.back().generation == at.generation) return {at, entries.back().id};
  return {at, segment.lineage.id_of(at.generation)};
}

void LinkCore::grant(const SegmentState& segment, std::uint64_t bytes) {
  if (bytes == 0) return;
  queue_bytes_ -= bytes;
  FeedConnection* feed = feed_of(segment);
  if (feed == nullptr || !feed->reader || stage_ != Stage::active) return;
  feed->reader->grant(bytes);
  feed->may_send = true;
}

void LinkCore::on_feed_message(std::uint64_t connection, std::shared_ptr<const std::string> bytes, MonoMicros now) {
  now_ = now;
  FeedConnection* feed = find_feed(connection);
  if (feed == nullptr || !feed->reader || stage_ == Stage::stopping) return;
  feed->message = std::move(bytes);
  in_reader_ = true;
  feed->reader->on_message(*feed->message, now);
  in_reader_ = false;
  feed->message.reset();
  feed->may_send = true;
  check_reader(*feed);
}

void LinkCore::on_feed_part(std::uint64_t connection, MonoMicros now) {
  FeedConnection* feed = find_feed(connection);
  if (feed == nullptr || !feed->reader) return;
  feed->data = now;
  feed->reader->on_part(now);
}

// What an event asked for while the reader was handing it out, and what the reader itself says.
void LinkCore::check_reader(FeedConnection& feed) {
  if (deferred_) {
    Error error = std::move(*deferred_);
    const bool held = deferred_hold_;
    deferred_.reset();
    deferred_hold_ = false;
    return held ? hold(std::move(error.code), std::move(error.what)) : again_later(std::move(error.code), std::move(error.what));
  }
  if (!feed.reader) return;
  if (feed.welcome && (stage_ == Stage::probing || stage_ == Stage::connecting)) {
    on_welcome(feed);
    return;
  }
  if (const auto ended = feed.reader->ended()) {
    if (ended->code == "feed_gap") ++counted_.gap_errors;
    on_feed_error(ended->code, ended->text());
  }
}

void LinkCore::on_feed_error(const std::string& code, const std::string& text) {
  for (const auto* held : {"wrong_cluster", "scope_mismatch", "scope_revoked", "unauthorised", "version_unsupported", "source_standby"}) {
    if (code == held) return hold(code, text);
  }
  again_later(code, text);
}

void LinkCore::on_feed_closed(std::uint64_t connection, const Error& why, MonoMicros now) {
  now_ = now;
  if (find_feed(connection) == nullptr) return;
  // The code is said once, before the text.
  if (why.code.empty()) return again_later("source_unreachable", why.what);
  again_later(why.code, why.hint.empty() ? why.what : why.what + "; " + why.hint);
}

bool LinkCore::next_feed_message(std::uint64_t connection, std::string& out) {
  FeedConnection* feed = find_feed(connection);
  return feed != nullptr && feed->reader && feed->reader->next_message(out);
}

void LinkCore::on_event(FeedConnection& feed, const feed::ReaderEvent& event) {
  struct Visitor {
    LinkCore& link;
    FeedConnection& feed;
    void operator()(const feed::Welcome& m) const { feed.welcome = m; }
    void operator()(const feed::Subscribed& m) const { link.on_subscribed(feed, m); }
    void operator()(const feed::Batch& m) const { link.on_batch(feed, m); }
    void operator()(const feed::Progress& m) const { link.on_progress(feed, m); }
    void operator()(const feed::Chunk& m) const { link.on_chunk(feed, m); }
    void operator()(const feed::StreamEnd& m) const { link.on_stream_end(feed, m); }
    void operator()(const feed::Pong& m) const { link.on_pong(feed, m); }
    void operator()(const feed::GoAway& m) const { link.again_later("source_going_away", m.text.empty() ? "the gateway goes away" : m.text); }
    // The reader has ended itself with it.
    void operator()(const feed::ErrorMessage&) const {}
    void operator()(const feed::Records& m) const { link.on_records(feed, m); }
    void operator()(const feed::Digests& m) const { link.on_digests(feed, m); }
  };
  std::visit(Visitor{*this, feed}, event);
}

void LinkCore::on_subscribed(FeedConnection&, const feed::Subscribed& m) {
  SegmentState* segment = find_segment(m.segment);
  if (segment == nullptr || stage_ != Stage::active) return;
  if (segment->stage != SegmentStage::subscribing && segment->stage != SegmentStage::streaming) return;
  segment->lineage = m.lineage;
  segment->head = m.head;
  segment->floor = m.floor;
  segment->heard = true;
  if (segment->stage == SegmentStage::subscribing) {
    segment->received = m.accepted ? std::optional(named(*segment, *m.accepted)) : std::nullopt;
    segment->stage = SegmentStage::streaming;
    if (segment->stopped) {
      segment->code.clear();  // back to work; it counts as healed when something has been applied
    }
    if (!held_for_standby()) clear_hold();  // that one shows only where the other link's records begin
  }
  if (m.lineage.root().history != segment->root.history) {
    return again_later("source_reset_seen", fmt::format("segment {} has another history now", m.segment.value()));
  }
  // The source has tested the lowest low and the highest high; every mark must be on the lineage, as it will stand.
  std::string why;
  if (!on_lineage(*segment, why)) {
    segment->end_lineage = m.lineage;
    segment->end_floor = m.floor;
    log(LogLine::Level::warning, "lineage_moved", fmt::format("segment {}: {}", m.segment.value(), why));
    park(*segment, true, segment->retry.next(random_), "unknown_lineage", why);
  }
}

// ---- data ------------------------------------------------------------------------------------------------------------------

void LinkCore::on_batch(FeedConnection& feed, const feed::Batch& m) {
  for (const feed::Run& run : m.runs) {
    const std::uint64_t bytes = run.table.size() + run.records.size();
    queue_bytes_ += bytes;
    if (bytes != 0) feed.data = now_;
    SegmentState* segment = find_segment(run.segment);
    if (segment == nullptr || segment->stage != SegmentStage::streaming) {
      queue_bytes_ -= bytes;
      feed.reader->grant(bytes);
      continue;
    }
    // Parts were put together by the reader in memory of its own, which dies when this call returns.
    const bool in_message = bytes == 0 || (run.records.data() >= feed.message->data() &&
                                           run.records.data() + run.records.size() <= feed.message->data() + feed.message->size() &&
                                           run.table.data() >= feed.message->data() &&
                                           run.table.data() + run.table.size() <= feed.message->data() + feed.message->size());
    if (in_message) {
      on_run(feed, *segment, run, feed.message);
    } else {
      auto copy = std::make_shared<std::string>(run.records);
      copy->append(run.table);
      feed::Run copied = run;
      copied.records = std::string_view(*copy).substr(0, run.records.size());
      copied.table = std::string_view(*copy).substr(run.records.size());
      on_run(feed, *segment, copied, copy);
    }
  }
}

void LinkCore::on_run(FeedConnection& feed, SegmentState& segment, const feed::Run& run, const Bytes& message) {
  const NamedPosition prev = segment.received && segment.received->at == run.prev ? *segment.received : named(segment, run.prev);
  const NamedPosition last = named(segment, Position{run.generation, run.last});
  segment.received = last;
  segment.heard = true;
  if (!segment.head || *segment.head < last.at) segment.head = last.at;
  if (run.reaches_head) segment.bytes_behind = 0;
  const std::uint64_t bytes = run.table.size() + run.records.size();
  if (bytes == 0) return;  // its marks follow once per commit interval, or with the next records
  const WallMicros closed = *segment.head <= last.at ? feed.closed_time_us : 0;
  if (segment.lane_count == 1) {
    Lane& lane = lanes_[segment.first_lane];
    // Nothing is covered yet (the walk will bring it), or an earlier session brought it already.
    if (!lane.covers() || last.at <= lane.low()->at) return grant(segment, bytes);
    whole_run(run, prev, last, *lane.low(), message, [&](Piece piece) {
      piece.closed_time_us = closed;
      queue(segment.first_lane, std::move(piece));
    });
    return;
  }
  std::vector<LaneView> views;
  for (const Lane& lane : lanes_of(segment)) views.push_back({lane.target(), lane.low()});
  const std::uint64_t unused = split_run(run, prev, last, views, target_segments_, [&](std::size_t lane, Piece piece) {
    piece.closed_time_us = closed;
    queue(segment.first_lane + lane, std::move(piece));
  });
  grant(segment, unused);
}

void LinkCore::on_chunk(FeedConnection& feed, const feed::Chunk& m) {
  feed.data = now_;
  const std::uint64_t bytes = m.bytes();
  queue_bytes_ += bytes;
  SegmentState* segment = find_segment(m.segment);
  if (segment == nullptr || segment->stage != SegmentStage::streaming) {
    queue_bytes_ -= bytes;
    feed.reader->grant(bytes);
    return;
  }
  segment->heard = true;
  segment->received = m.as_of;
  if (!segment->head || *segment->head < m.as_of.at) segment->head = m.as_of.at;
  progress_.records(m.count + (m.others ? m.others->count : 0));
  const auto lanes = lanes_of(*segment);
  const auto make = [&](const Lane& lane) {
    Piece piece;
    piece.kind = ApplyKind::range;
    piece.prev = lane.low();
    piece.last = m.as_of;
    piece.range.emplace();
    // A lane that had no part in the chunks before: nothing of it lies between its last key and this chunk's begin.
    piece.range->from = !lane.last_key() || (m.from && *lane.last_key() < *m.from) ? lane.last_key() : m.from;
    piece.range->to = m.last ? std::nullopt : m.to;
    piece.range->as_of = m.as_of;
    piece.range->final = m.last;
    return piece;
  };
  // Does this lane's mark need this chunk? In bootstrap, not covered so far, and its slots are among the chunk's; the last
  // one goes to every mark in bootstrap.
  const auto wants = [&](std::size_t i) {
    const Lane& lane = lanes[i];
    if (lane.phase() != Phase::bootstrap || !lane.marked()) return false;
    if (m.last) return true;
    if (!m.to) return false;
    if (lane.last_key() && *m.to <= *lane.last_key()) return false;
    if (m.to->slot < lane.first_slot()) return false;
    const bool behind = i + 1 < lanes.size() && m.from && lanes[i + 1].first_slot() <= m.from->slot;
    return !behind;
  };
  if (lanes.size() == 1) {
    if (!wants(0)) return grant(*segment, bytes);
    if (m.others && m.table.size() + m.records.size() > target_->request_bytes_max) {  // it cannot be cut: nobody knows the digest of a part
      grant(*segment, bytes);
      segment->delta = SegmentState::Delta::named;
      return delta_differs(*segment, "a chunk is larger than the target takes at once");
    }
    Piece piece = make(lanes[0]);
    if (m.others) {
      piece.kind = ApplyKind::delta;
      piece.range->equal = ApplyRange::Equal{m.others->count, m.others->digest, m.others->names};
    }
    piece.table = m.table;
    piece.records = m.records;
    piece.message = feed.message;
    piece.credit = bytes;
    return queue(segment->first_lane, std::move(piece));
  }
  std::vector<LaneView> views;
  for (const Lane& lane : lanes) views.push_back({lane.target(), lane.low()});
  auto cuts = split_records(m.table, m.records, views, target_segments_);
  std::uint64_t used = 0;
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    if (!wants(i)) continue;
    Piece piece = make(lanes[i]);
    auto own = std::make_shared<std::string>(std::move(cuts[i].bytes));
    piece.records = std::string_view(*own).substr(0, cuts[i].records);
    piece.table = std::string_view(*own).substr(cuts[i].records);
    piece.credit = own->size();
    piece.own = own;
    used += piece.credit;
    queue(segment->first_lane + i, std::move(piece));
  }
  grant(*segment, bytes - used);
}

void LinkCore::on_progress(FeedConnection& feed, const feed::Progress& m) {
  feed.closed_time_us = std::max(feed.closed_time_us, m.closed_time_us);
  for (const auto& row : m.rows) {
    SegmentState* segment = find_segment(row.segment);
    if (segment == nullptr || segment->stage != SegmentStage::streaming) continue;
    if (!segment->head || *segment->head < row.head) segment->head = row.head;
    segment->floor = row.floor;
    segment->bytes_behind = row.bytes_behind;
    if (segment->received && segment->received->at < row.position) {
      segment->received = named(*segment, row.position);
      segment->heard = true;
    }
  }
  // The closed time was read before these heads: once they are all durable, everything up to it is applied.
  if (!feed.closing) {
    feed.closing = FeedConnection::Closing{};
    feed.closing->closed_time_us = feed.closed_time_us;
    for (std::size_t s = feed.index; s < segments_.size(); s += feeds_.size()) {
      if (!segments_[s].head) {
        feed.closing.reset();
        break;
      }
      feed.closing->heads.emplace_back(s, *segments_[s].head);
    }
  }
}

void LinkCore::on_pong(FeedConnection& feed, const feed::Pong& m) {
  if (stage_ != Stage::active) return;
  for (const auto& row : m.rows) {
    SegmentState* segment = find_segment(row.segment);
    if (segment != nullptr && (!segment->head || *segment->head < row.head)) segment->head = row.head;
  }
  feed.last_pong = std::max(feed.last_pong.value_or(m.echoed_us), m.echoed_us);
  for (std::size_t s = feed.index; s < segments_.size(); s += feeds_.size()) {
    SegmentState& segment = segments_[s];
    if (segment.stage != SegmentStage::streaming || !segment.head) continue;
    if (!m.unavailable.empty() && std::find(m.unavailable.begin(), m.unavailable.end(), segment.id) != m.unavailable.end()) continue;
    segment.echoes.echoed(m.echoed_us, *segment.head);
    segment.echoed = std::max(segment.echoed.value_or(m.echoed_us), m.echoed_us);
  }
}

void LinkCore::on_stream_end(FeedConnection&, const feed::StreamEnd& m) {
  ++counted_.stream_ends[std::string(feed::name(m.reason))];
  SegmentState* segment = find_segment(m.segment);
  if (segment == nullptr || stage_ != Stage::active) return;
  if (segment->stage != SegmentStage::subscribing && segment->stage != SegmentStage::streaming) return;
  segment->heard = true;
  const std::string code{feed::name(m.reason)};
  const std::string text = fmt::format("segment {}: the stream ended: {}{}{}", m.segment.value(), code, m.text.empty() ? "" : ": ", m.text);
  using feed::EndReason;
  switch (m.reason) {
    case EndReason::source_reset: return again_later("source_reset_seen", text);
    case EndReason::ahead_of_source:
      if (!accept_ahead_) return hold(code, text);
      segment->reopen = BootstrapReason::accepted;
      break;
    case EndReason::source_standby:
      if (!accept_standby_ || segment->standby_copied) {
        accept_standby_ = false;
        return hold(code, text);
      }
      segment->standby_copied = true;
      segment->reopen = BootstrapReason::accepted;
      break;
    case EndReason::wrong_cluster:
    case EndReason::scope_mismatch:
    case EndReason::scope_revoked:
    case EndReason::unauthorised:
    case EndReason::version_unsupported: return hold(code, text);
    case EndReason::protocol_error:
    case EndReason::shutting_down: return again_later(code, text);
    case EndReason::below_floor:
      segment->end_floor = m.floor;
      if (m.floor == Revision{}) segment->reopen = BootstrapReason::below_floor;
      break;
    case EndReason::diverged:
    case EndReason::unknown_lineage:
      // Which marks are meant, and whether what was lost can be named, is in the lineage.
      if (m.lineage && !m.lineage->entries().empty()) {
        segment->end_lineage = m.lineage;
      } else {
        segment->reopen = BootstrapReason::unknown_lineage;
      }
      break;
    case EndReason::ownership_moving:
    case EndReason::too_slow:
    case EndReason::dropped: break;
  }
  log(LogLine::Level::warning, "stream_end_" + code, text);
  // What was received is finished first: it was in order. A first end is taken up at once, a repeated one later and later.
  const bool at_once = segment->retry.attempts() == 0 && m.reason != EndReason::ownership_moving && m.reason != EndReason::dropped;
  const MonoMicros delay = segment->retry.next(random_);
  park(*segment, false, at_once ? 0 : delay, code, text);
}

// Marks are moved over revisions that brought them nothing: once per commit interval while the source moves.
void LinkCore::advance_lagging() {
  if (stage_ != Stage::active || now_ - last_advance_ < config_.commit_interval_us) return;
  last_advance_ = now_;
  for (auto& segment : segments_) {
    if (segment.stage != SegmentStage::streaming || !segment.received) continue;
    for (std::size_t i = 0; i < segment.lane_count; ++i) {
      Lane& lane = lanes_[segment.first_lane + i];
      if (!lane.covers() || segment.received->at <= lane.low()->at || lane.has_unsent()) continue;
      Piece piece;
      piece.prev = lane.low();
      piece.last = segment.received;
      if (FeedConnection* feed = feed_of(segment); feed != nullptr && segment.head && *segment.head <= segment.received->at) {
        piece.closed_time_us = feed->closed_time_us;
      }
      queue(segment.first_lane + i, std::move(piece));
    }
  }
}

}  // namespace zaris::follower
