// From nothing to running: identities first, data after. OpenLink → ReadMarks → Welcome → histories → cursors → marks.
#include <algorithm>
#include <utility>

#include "cluster/base/assert.hpp"
#include "cluster/placement/slot.hpp"
#include "follower/link/link_core.hpp"

namespace zaris::follower {
namespace {

constexpr MonoMicros hold_recheck_us = 5'000'000;     // what may heal by itself is looked at again
constexpr MonoMicros drain_us = 10'000'000;           // how long answers of a session that is over are waited for
constexpr std::size_t own_sessions_max = 256;
constexpr MonoMicros good_while_us = 60'000'000;      // after it a reconnect starts over with the short waits

}  // namespace

std::unique_ptr<Link> Link::create(LinkConfig config, std::optional<cursor::LinkRow> row,
                                   std::vector<std::pair<cursor::CursorKey, cursor::CursorRow>> cursors) {
  return std::make_unique<LinkCore>(std::move(config), std::move(row), std::move(cursors));
}

LinkCore::LinkCore(LinkConfig config, std::optional<cursor::LinkRow> row,
                   std::vector<std::pair<cursor::CursorKey, cursor::CursorRow>> cursors)
    : config_(std::move(config)), name_(std::make_shared<const std::string>(config_.name)), random_(config_.seed), verification_(config_.verify) {
  if (row) {
    row_ = std::move(*row);
    row_known_ = true;
    paused_ = row_.paused;
  }
  row_.follower = config_.follower;
  row_.scope = config_.scope.id();
  row_.scope_text = config_.scope.text();
  if (!row_known_ && config_.source_expected) row_.source_cluster = *config_.source_expected;
  for (auto& [key, cursor] : cursors) {
    if (key.link != config_.name) continue;
    if (key.scope != row_.scope) {
      other_scopes_.push_back(key);
      continue;
    }
    // Of clusters that an operator has left behind: never looked at again.
    if (key.source_cluster != row_.source_cluster || key.target_cluster != row_.target_cluster) continue;
    loaded_.emplace(key.segment, cursor);
  }
}

void LinkCore::start(MonoMicros now) {
  now_ = started_ = oldest_cursor_ = last_commit_ = persisted_at_ = last_advance_ = now;
  next_watch_ = now + config_.watchdog_us;
  if (paused_) {
    stage_ = Stage::waiting;
    log(LogLine::Level::info, "link_paused", "paused: " + row_.paused_reason);
    return;
  }
  begin();
}

// ---- one attempt -----------------------------------------------------------------------------------------------------

void LinkCore::begin() {
  for (auto& lane : lanes_) queue_bytes_ -= lane.clear();  // late answers of an earlier session are ignored
  keeping_.clear();
  kept_keys_.clear();
  verify_id_ = checksum_id_ = 0;
  verify_wanted_ = false;
  const bool source_unknown = source() == ClusterId{};
  // The target follows another source than we: an operator can only speak about one that has said who it is.
  const bool ask = hold_ && (hold_->code == "wrong_cluster" || (hold_->code == "source_changed" && !welcome_));
  if (source_unknown || ask) return probe();
  open_target();
}

// Which source is there? Asked on a connection of its own before the target hears of the link, at first contact and while
// another one than expected answers.
void LinkCore::probe() {
  stage_ = Stage::probing;
  feeds_.clear();
  feeds_.push_back(std::make_unique<FeedConnection>(*this, control_id(), 0));
  act(ConnectFeed{feeds_.back()->id});
}

void LinkCore::on_probe_welcome(FeedConnection& feed) {
  welcome_ = feed.welcome;
  if (!source_agrees(*feed.welcome)) return;
  if (source() == ClusterId{}) {
    row_.source_cluster = feed.welcome->cluster;
    log(LogLine::Level::info, "source_learnt", "first contact: the source is cluster " + hex16(source().value()) + " (" + feed.welcome->cluster_name + ")");
  }
  disconnect();
  open_target();
}

// Another source under this name, and nobody accepted it: held.
bool LinkCore::source_agrees(const feed::Welcome& welcome) {
  const ClusterId expected = config_.source_expected.value_or(source());
  if (expected == ClusterId{} || welcome.cluster == expected) return true;
  hold("wrong_cluster", fmt::format("the source that answers is cluster {}, this link replicates cluster {}", hex16(welcome.cluster.value()),
                                    hex16(expected.value())));
  return false;
}

void LinkCore::open_target() {
  // The configuration names another source than the row: the row's must be given up by an operator's word.
  if (config_.source_expected && row_known_ && source() != *config_.source_expected) {
    return hold("wrong_cluster", fmt::format("the configuration names source cluster {}, this link has replicated cluster {}",
                                             hex16(config_.source_expected->value()), hex16(source().value())));
  }
  stage_ = Stage::opening;
  session_ = SessionId{random_.next()};
  own_sessions_.push_back(session_);
  if (own_sessions_.size() > own_sessions_max) own_sessions_.pop_front();
  request_ = control_id();
  act(OpenLinkRequest{request_, config_.name, source(), config_.scope, config_.site_epoch, config_.term, config_.adopt_scope_with_data, opened_here_, replace_source_});
}

void LinkCore::on_open_link(std::uint64_t id, Result<TargetInfo> answer, Status status, MonoMicros now) {
  now_ = now;
  if (stage_ != Stage::opening || id != request_) return;
  const std::string why = answer ? std::string(name(status)) : answer.error().what;
  switch (status) {
    case Status::ok: break;
    case Status::scope_mismatch: return hold("scope_mismatch", why);
    case Status::conflict: return hold("scope_holds_data", why);
    case Status::term_superseded: return hold("term_superseded", why);
    case Status::epoch_superseded: return hold("epoch_superseded", why);
    case Status::source_changed: return hold("source_changed", why);
    case Status::unauthorized: return hold("unauthorised", why);
    case Status::target_changed: return hold("target_changed", why);
    default: return again_later("target_unavailable", std::string(name(status)) + ": " + why);
  }
  if (!answer) return again_later("target_unreachable", answer.error().text());
  if (!valid_segment_count(answer->segments)) return again_later("target_malformed", fmt::format("the target says that it has {} segments", answer->segments));
  opened_here_ = true;
  replace_source_ = false;  // that was consent to one change
  target_ = std::move(*answer);
  // Their marks are gone from the target; should this link have such a scope again, that is a first copy and no loss.
  removed_.insert(removed_.end(), other_scopes_.begin(), other_scopes_.end());
  other_scopes_.clear();
  if (row_.target_cluster == ClusterId{}) {
    row_.target_cluster = target_->cluster;
  } else if (row_.target_cluster != target_->cluster) {
    return hold("target_changed", fmt::format("the target that answers is cluster {}, this link has written to cluster {}",
                                              hex16(target_->cluster.value()), hex16(row_.target_cluster.value())));
  }
  stage_ = Stage::reading;
  request_ = control_id();
  act(ReadMarksRequest{request_, config_.name, config_.scope.id(), config_.durability});
}

void LinkCore::on_marks(std::uint64_t id, Result<MarksAnswer> answer, MonoMicros now) {
  now_ = now;
  if (verify_id_ != 0 && id == verify_id_) {
    verify_id_ = 0;
    if (answer) return verify_marks(*answer);
    if (stage_ != Stage::active) return;
    if (answer.error().code == "scope_mismatch") return again_later("scope_mismatch", answer.error().what);
    // Whoever waits for its durability goes on asking.
    if (std::any_of(lanes_.begin(), lanes_.end(), [](const Lane& lane) { return lane.waits_for_durability(); })) want_marks(verify_again_us);
    return;
  }
  if (id != request_) return;
  if (answer) note_losses(*answer);  // also when the attempt is over meanwhile: it is true all the same
  if (stage_ != Stage::reading) return;
  if (!answer) return again_later("target_unreachable", answer.error().text());
  marks_ = std::move(*answer);
  connect_feeds();
}

// Known before the source is: what the target lost is not in it any more, however long the source stays away.
void LinkCore::note_losses(const MarksAnswer& answer) {
  struct Seen {
    std::optional<Position> low;
    bool in_stream = true;
    std::size_t marks = 0;
  };
  std::vector<Seen> seen(segments_.size());
  for (const auto& [target, row] : answer.marks) {
    SegmentState* segment = find_segment(row.first.source_segment);
    if (segment == nullptr) continue;
    Seen& here = seen[static_cast<std::size_t>(segment - segments_.data())];
    ++here.marks;
    here.in_stream &= row.second.phase == Phase::stream;
    if (row.second.low && (!here.low || row.second.low->at < *here.low)) here.low = row.second.low->at;
    for (const Lane& lane : lanes_of(*segment)) {
      if (lane.target() != target || !lane.mark() || !lane.mark()->low) continue;
      segment->marks_doubted |= !row.second.low || row.second.low->at < lane.mark()->low->at;
    }
  }
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    SegmentState& segment = segments_[i];
    if (seen[i].marks < segment.lane_count) {  // a part of it is gone, mark and all
      segment.echoes.went_back(std::nullopt);
      segment.marks_doubted = true;
    }
    found_back(segment, seen[i].low, seen[i].in_stream);
  }
}

// The target was found to hold a segment up to `low` only, or in the middle of a copy that had been finished. What it lost
// is neither counted as held nor persisted; the cursor on the disk is corrected, and that logged, when the marks are taken.
void LinkCore::found_back(SegmentState& segment, const std::optional<Position>& low, bool in_stream) {
  // Between open and first range nothing is durable, yet the data are those that had been confirmed before.
  const auto confirmed = segment.echoes.confirmed_head();
  const bool back = (segment.durable && (!low || *low < segment.durable->at)) || (low && confirmed && *low < *confirmed);
  const bool unfinished = segment.durable && segment.in_stream && !in_stream;
  if (!back && !unfinished) return;
  segment.echoes.went_back(in_stream ? low : std::nullopt);
  if (back) segment.marks_doubted = true;
}

// This mark stands at the target now, as the attempt ends (null: none does). Where it says less than was claimed, nothing is claimed until the next attempt has read all of
// them, whatever session it is of: the target has gone back, and a copy that had been begun may have gone with what it lost.
void LinkCore::doubt(const Lane& lane, const Mark* found) {
  SegmentState& segment = segments_[lane_segment_[static_cast<std::size_t>(&lane - lanes_.data())]];
  const auto says_less = [found](const NamedPosition& than) { return found == nullptr || !found->low || found->low->at < than.at; };
  // What is on its way may have been applied before this was said, and be gone; its answer, when it comes, tells nothing of that.
  if (lane.mark() && lane.mark()->low && says_less(*lane.mark()->low)) segment.marks_doubted = true;
  if (lane.in_flight() > 0 && lane.low() && says_less(*lane.low())) segment.marks_doubted = true;
  const auto confirmed = segment.echoes.confirmed_head();
  if (found == nullptr || !found->low || !confirmed || *confirmed <= found->low->at) return;
  segment.echoes.went_back(found->phase == Phase::stream ? std::optional(found->low->at) : std::nullopt);
}

void LinkCore::connect_feeds() {
  stage_ = Stage::connecting;
  feeds_.clear();
  for (std::size_t i = 0; i < std::max<std::uint32_t>(config_.connections, 1); ++i) {
    feeds_.push_back(std::make_unique<FeedConnection>(*this, control_id(), i));
    act(ConnectFeed{feeds_.back()->id});
  }
}

void LinkCore::on_feed_connected(std::uint64_t connection, MonoMicros now) {
  now_ = now;
  FeedConnection* feed = find_feed(connection);
  if (feed == nullptr || feed->reader) return;
  feed::Hello hello;
  hello.follower = config_.follower;
  hello.link = config_.name;
  // While another source than the expected one answers, it is asked who it is.
  if (stage_ != Stage::probing && source() != ClusterId{}) hello.source_expected = source();
  hello.target = row_.target_cluster;
  hello.scope = config_.scope;
  hello.site_epoch = config_.site_epoch;
  if (target_) hello.generation_seen = target_->generation_seen;
  feed::ReaderOptions options;
  options.credit_bytes = std::min(config_.credit_bytes, config_.queue_bytes) / std::max<std::size_t>(feeds_.size(), 1);
  feed->reader = feed::ReaderSession::create(std::move(hello), options, *feed);
  feed->reader->start(now);
  feed->may_send = true;
}

void LinkCore::on_welcome(FeedConnection& feed) {
  if (stage_ == Stage::probing) return on_probe_welcome(feed);
  if (stage_ != Stage::connecting) return;
  welcome_ = feed.welcome;
  if (!source_agrees(*feed.welcome)) return;
  for (const auto& other : feeds_) {
    if (!other->welcome) return;
    if (other->welcome->roots != feed.welcome->roots) return again_later("source_changing", "two connections see different histories of the source");
  }
  activate();
}

void LinkCore::activate() {
  const feed::Welcome& welcome = *welcome_;
  build_segments(welcome.segments, target_->segments);
  for (auto& segment : segments_) segment.root = welcome.roots[segment.id.value()];
  if (!row_known_ || row_.source_segments != welcome.segments) {
    row_.source_segments = welcome.segments;
    row_known_ = row_dirty_ = true;
  }
  take_marks();
  if (!histories_agree()) return;
  compare_cursors();

  // Everything that can be said before anything is changed.
  bool bootstrap = false;
  for (const auto& segment : segments_) {
    for (const auto& decision : decisions(segment)) bootstrap |= decision.plan == MarkPlan::open || decision.plan == MarkPlan::walk;
  }
  if (bootstrap) {
    if (const auto why = too_small(welcome, *target_)) return hold("target_too_small", *why);
  }
  stage_ = Stage::active;
  active_since_ = last_mark_proof_ = now_;
  marks_asked_ = 0;
  next_mark_check_ = now_ + config_.mark_check_us;
  next_watch_ = now_ + config_.watchdog_us;
  if (std::any_of(lanes_.begin(), lanes_.end(), [](const Lane& lane) { return lane.waits_for_durability(); })) want_marks(verify_again_us);
  for (auto& segment : segments_) {
    segment.strikes = 0;
    segment.heard = false;
    if (segment.held_removal && !segment.removal_accepted) {
      segment.stage = SegmentStage::parked;
      continue;
    }
    if (!resume_segment(segment)) return;
  }
  flush_subscribes();
}

void LinkCore::build_segments(std::uint32_t source_segments, std::uint32_t target_segments) {
  if (source_segments_ == source_segments && target_segments_ == target_segments && !segments_.empty()) return;
  source_segments_ = source_segments;
  target_segments_ = target_segments;
  segments_.clear();
  lanes_.clear();
  lane_segment_.clear();
  for (std::uint32_t s = 0; s < source_segments; ++s) {
    SegmentState segment{SegmentId{static_cast<std::uint16_t>(s)}};
    segment.first_lane = lanes_.size();
    const Slot first = first_slot(segment.id, source_segments);
    const std::uint16_t last = static_cast<std::uint16_t>(first.value() + slots_per_segment(source_segments) - 1);
    const std::uint16_t low = segment_of(first, target_segments).value(), high = segment_of(Slot{last}, target_segments).value();
    for (std::uint32_t t = low; t <= high; ++t) {
      const SegmentId target{static_cast<std::uint16_t>(t)};
      lanes_.emplace_back(segment.id, target, std::max(first, first_slot(target, target_segments)));
      lane_segment_.push_back(s);
    }
    segment.lane_count = lanes_.size() - segment.first_lane;
    const auto& only = row_.rewind_segments;  // empty: every segment
    segment.rewind = row_.rewind && (only.empty() || std::find(only.begin(), only.end(), segment.id) != only.end());
    segment.echoes.set_since(started_);
    if (const auto at = loaded_.find(segment.id); at != loaded_.end()) {
      segment.cursor = at->second;
      segment.records_applied = at->second.records_applied;
      segment.bytes_applied = at->second.bytes_applied;
      segment.bootstraps = at->second.bootstraps;
      segment.source_time_us = at->second.source_time_us;
    }
    segments_.push_back(std::move(segment));
  }
  age_segments();
}

// Nothing has been confirmed in this process' life yet: the data are as old as their cursors say, which no restart makes
// younger. The wall clock serves here only, until the first Ping comes back; where it cannot be right, the start counts.
void LinkCore::age_segments() {
  if (wall_ == 0) return;
  const auto since = [this](const cursor::CursorRow& row) {
    WallMicros then = row.persisted_us;
    if (row.source_time_us != 0) then = std::min(then, row.source_time_us);
    if (then == 0 || then >= wall_) return started_;
    return std::min(started_, wall_mono_ - static_cast<MonoMicros>(wall_ - then));
  };
  oldest_cursor_ = started_;
  for (const auto& [segment, row] : loaded_) oldest_cursor_ = std::min(oldest_cursor_, since(row));
  for (auto& segment : segments_) {
    if (const auto at = loaded_.find(segment.id); at != loaded_.end()) segment.echoes.set_since(since(at->second));
  }
}

void LinkCore::take_marks() {
  for (auto& lane : lanes_) lane.read_mark(std::nullopt);
  for (auto& [target, row] : marks_->marks) {
    auto& [key, mark] = row;
    if (key.source_segment.value() >= segments_.size()) continue;
    for (Lane& lane : lanes_of(segments_[key.source_segment.value()])) {
      if (lane.target() == target) lane.read_mark(mark, !is_undurable(*marks_, lane));
    }
  }
  for (auto& segment : segments_) {
    if (std::exchange(segment.marks_doubted, false)) segment.dirty = false;  // the comparison with the marks decides what to persist
    const auto before = segment.durable;
    refresh_durable(segment);
    std::optional<Position> low;
    if (segment.durable) low = segment.durable->at;
    if (before && (!low || *low < before->at)) segment.echoes.went_back(low);
    segment.echoes.durable(low, segment.in_stream);
  }
}

bool LinkCore::histories_agree() {
  std::size_t reset = 0;
  std::string example;
  std::vector<std::optional<Mark>> marks;
  for (auto& segment : segments_) {
    marks.clear();
    for (const auto& lane : lanes_of(segment)) marks.push_back(lane.mark());
    // Marks of target segments that this segment does not touch (another segment count before) speak of its history too.
    for (const auto& [target, row] : marks_->marks) {
      if (row.first.source_segment == segment.id && marks_->marks.size() > lanes_.size()) marks.push_back(row.second);
    }
    const auto accepted = segment.id.value() < row_.accepted_histories.size() && row_.accepted && row_.accepted->first == source() &&
                          row_.accepted_histories[segment.id.value()] == segment.root.history;
    std::optional<HistoryId> cursor;
    if (segment.cursor && segment.cursor->history != HistoryId{}) cursor = segment.cursor->history;
    if (compare_histories(source(), segment.root, marks, cursor, accepted) != HistoryVerdict::source_reset) continue;
    if (++reset == 1) {
      HistoryId ours = cursor.value_or(HistoryId{});
      for (const auto& mark : marks) {
        if (mark && mark->history != segment.root.history) ours = mark->history;
      }
      example = fmt::format("segment {} was of history {}, the source's is {} now (generation {})", segment.id.value(), hex16(ours.value()),
                            hex16(segment.root.history.value()), segment.root.generation.value());
    }
  }
  if (reset == 0) return true;
  const std::string text = fmt::format("the source lost its data: {} of {} segments have another history ({})", reset, segments_.size(), example);
  hold("source_reset", text);
  if (config_.accept_source_reset && std::find(words_.begin(), words_.end(), Word::accept_source) == words_.end()) {
    log(LogLine::Level::warning, "source_reset_accepted", "on_source_reset is accept: the target becomes what the source is");
    accept_roots();
    say(Word::accept_source);
  }
  return false;
}

void LinkCore::compare_cursors() {
  for (auto& segment : segments_) {
    bool any_mark = false;
    for (const auto& lane : lanes_of(segment)) any_mark |= lane.mark().has_value();
    if (segment.cursor && segment.cursor->history != segment.root.history) {
      // Of a history that an operator gave up (another one would have been held).
      segment.cursor.reset();
      note_dirty(segment);
    }
    std::optional<Position> cursor, low;
    if (segment.cursor && segment.cursor->position.at != Position{}) cursor = segment.cursor->position.at;
    if (segment.durable) low = segment.durable->at;
    const std::string low_text = low ? to_string(*low) : "nothing";
    const auto lanes = lanes_of(segment);
    const bool repaired = std::any_of(lanes.begin(), lanes.end(), [&](const Lane& lane) { return lane.mark() && cursor && was_taken_back(*lane.mark(), *cursor); });
    const bool copying = segment.cursor && segment.cursor->phase == Phase::bootstrap && !segment.in_stream;
    switch (compare_cursor(cursor, low, any_mark, repaired, copying)) {
      case CursorVerdict::none:
        if (low) note_dirty(segment);
        break;
      case CursorVerdict::agrees: break;
      case CursorVerdict::copying: note_dirty(segment); break;
      case CursorVerdict::taken_back:
        log(LogLine::Level::warning, "rollback", fmt::format("segment {}: the target holds {}, the cursor says {}: a repair has taken back what the source had lost; the mark counts",
                                                             segment.id.value(), low_text, to_string(*cursor)));
        note_dirty(segment);
        break;
      case CursorVerdict::above:
      case CursorVerdict::mark_gone:
        ++counted_.target_rollbacks;
        ++counted_.mark_behind_cursor;
        log(LogLine::Level::warning, "target_rollback", fmt::format("segment {}: the target holds {}, the cursor says {}: the target lost what came between; the mark counts",
                                                                    segment.id.value(), low_text, to_string(*cursor)));
        segment.echoes.went_back(low);
        note_dirty(segment);
        break;
      case CursorVerdict::below:
        ++counted_.mark_ahead_of_cursor;
        log(LogLine::Level::info, "cursor_behind_mark", fmt::format("segment {}: the target holds {}, the cursor says {}: the mark counts",
                                                                    segment.id.value(), low_text, to_string(*cursor)));
        note_dirty(segment);
        break;
    }
  }
}

// ---- taking down -------------------------------------------------------------------------------------------------------

void LinkCore::disconnect() {
  for (auto& feed : feeds_) {
    if (feed->may_send && feed->reader && !feed->reader->ended()) act(SendFeed{feed->id});
    act(CloseFeed{feed->id});
  }
  feeds_.clear();
}

void LinkCore::again_later(std::string code, std::string text) {
  if (in_reader_) {
    if (!deferred_) deferred_ = Error{std::move(code), std::move(text), {}};
    return;
  }
  if (stage_ == Stage::stopping || stage_ == Stage::stopped) return;
  if (active_since_ && now_ - *active_since_ >= good_while_us) backoff_.reset();
  active_since_.reset();
  disconnect();
  for (auto& lane : lanes_) queue_bytes_ -= lane.halt();
  for (auto& segment : segments_) {
    drop_repair(segment);
    segment.stage = SegmentStage::detached;
    segment.reopen.reset();
    segment.end_lineage.reset();
    segment.end_floor.reset();
  }
  any_parked_ = false;
  stage_ = Stage::waiting;
  ++counted_.reconnects;
  waiting_code_ = std::move(code);
  waiting_text_ = std::move(text);
  begin_at_ = now_ + (hold_ ? hold_recheck_us : backoff_.next(random_));
  give_up_at_ = now_ + drain_us;
  if (paused_) {
    log(LogLine::Level::info, "link_paused", "paused: " + row_.paused_reason);
  } else {
    log(LogLine::Level::warning, waiting_code_, fmt::format("{}; tried again in {} ms", waiting_text_, (begin_at_ - now_) / 1000));
  }
}

void LinkCore::hold(std::string code, std::string text) {
  if (in_reader_) {
    deferred_ = Error{std::move(code), std::move(text), {}};
    deferred_hold_ = true;
    return;
  }
  if (!hold_ || hold_->code != code) log(LogLine::Level::error, code, "held: " + text + "; " + next_step(code, config_.name, config_.scope));
  const bool first = !hold_ || hold_->code != code;
  hold_ = Hold{code, text};
  // The source refused us before it said who it is: what we know of it is nothing, or the old one's, and no word may be about that.
  const bool unknown = hold_->code == "wrong_cluster" && (!welcome_ || welcome_->cluster == source());
  if (unknown) welcome_.reset();
  again_later(std::move(code), std::move(text));
  if (unknown && first) begin_at_ = now_;
}

void LinkCore::clear_hold() {
  if (!hold_) return;
  log(LogLine::Level::info, "link_released", "no longer held: " + hold_->code);
  hold_.reset();
}

}  // namespace zaris::follower
