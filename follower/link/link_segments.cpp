// What becomes of one segment: where its marks go on, what is asked of the source, when it is put aside and taken up again.
#include <algorithm>

#include "cluster/base/assert.hpp"
#include "cluster/placement/slot.hpp"
#include "follower/link/link_core.hpp"

namespace zaris::follower {

std::vector<MarkDecision> LinkCore::decisions(const SegmentState& segment) const {
  MarkQuestion question;
  question.source = source();
  question.history = segment.root.history;
  question.site_epoch = config_.site_epoch;
  question.accepted = row_.accepted.has_value();
  question.accept_ahead = accept_ahead_;
  question.rewind = segment.rewind && !segment.rewind_begun;
  question.list_gone = segment.list_gone;
  question.cursor_known = segment.cursor && segment.cursor->position.at != Position{};
  if (segment.end_lineage || segment.end_floor) {
    SourceView view;
    // Known from the end of a stream: the head is not in it, so nobody is taken for being ahead of it.
    view.head = Position{Generation{~std::uint32_t{0}}, Revision{~std::uint64_t{0}}};
    if (segment.end_lineage) view.lineage = &*segment.end_lineage;
    view.floor = segment.end_floor;
    question.view = view;
  }
  std::vector<MarkDecision> out;
  for (const auto& lane : lanes_of(segment)) {
    MarkDecision decision = decide(lane.mark(), question);
    if (segment.reopen && lane.mark() && lane.mark()->covers_something() && decision.plan != MarkPlan::open) {
      decision = {MarkPlan::open, *segment.reopen, segment.why, {}, {}};
    }
    out.push_back(std::move(decision));
  }
  return out;
}

std::uint64_t LinkCore::removals_allowed(const SegmentState& segment) const {
  if (segment.removal_accepted) return ~std::uint64_t{0};
  return removal_budget(target_->live_keys, std::max(source_segments_, target_segments_), config_.max_removal_ratio, config_.max_removal_floor);
}

bool LinkCore::resume_segment(SegmentState& segment) {
  const auto plan = decisions(segment);
  for (const auto& decision : plan) {
    if (decision.plan == MarkPlan::hold) {
      hold("ahead_of_source", fmt::format("segment {}: {}", segment.id.value(), decision.why));
      return false;
    }
    if (decision.plan == MarkPlan::start_over) {
      again_later("source_reset_seen", decision.why);
      return false;
    }
  }
  const bool open = std::any_of(plan.begin(), plan.end(), [](const auto& d) { return d.plan == MarkPlan::open; });
  // Once the source's log begins behind what was withheld, a copy would have it, and miss what follows: copied again and again.
  if (open && held_for_standby()) {
    hold(std::string(hold_->code), std::string(hold_->text));
    return false;
  }
  segment.halted = false;
  if (std::any_of(plan.begin(), plan.end(), [](const auto& d) { return d.plan == MarkPlan::repair; })) {
    for (std::size_t i = 0; i < plan.size(); ++i) {
      if (plan[i].plan == MarkPlan::repair) lanes_[segment.first_lane + i].removals_left = removals_allowed(segment);
    }
    begin_repair(segment, plan);
    return true;
  }
  segment.end_lineage.reset();
  segment.end_floor.reset();
  segment.reopen.reset();
  segment.list_gone = false;
  const bool walk = std::any_of(plan.begin(), plan.end(), [](const auto& d) { return d.plan == MarkPlan::walk; });
  for (std::size_t i = 0; i < plan.size(); ++i) {
    Lane& lane = lanes_[segment.first_lane + i];
    // A bootstrap that goes on has what is left of its own: what may go unasked is counted over all of it, however often it is interrupted.
    const bool goes_on = plan[i].plan == MarkPlan::walk && segment.bootstrapping && lane.removals_left != ~std::uint64_t{0};
    if (plan[i].plan == MarkPlan::stream) {
      lane.removals_left = 0;
    } else if (segment.removal_accepted || !goes_on) {
      lane.removals_left = removals_allowed(segment);
    }
  }
  if (walk && !open && !segment.bootstrapping) {
    segment.bootstrapping = true;
    progress_.begin(segment.id, now_);
    ++copying_.resumed;
    log(LogLine::Level::debug, "segment_bootstrap_resumed", fmt::format("segment {}: the bootstrap goes on where its marks are", segment.id.value()));
  }
  if (open) {
    open_marks(segment, plan);
  } else {
    subscribe(segment);
  }
  return true;
}

void LinkCore::open_marks(SegmentState& segment, const std::vector<MarkDecision>& plan) {
  const auto first = std::find_if(plan.begin(), plan.end(), [](const auto& d) { return d.plan == MarkPlan::open; });
  segment.stage = SegmentStage::opening;
  segment.bootstrapping = true;
  segment.delta = SegmentState::Delta::summed;
  if (segment.rewind) segment.rewind_begun = true;
  ++segment.bootstraps;
  ++counted_.bootstraps_by_reason[static_cast<std::size_t>(first->reason)];
  progress_.begin(segment.id, now_);
  ++copying_.begun[static_cast<std::size_t>(first->reason)];
  if (copying_.example.empty()) copying_.example = fmt::format("segment {}: {}", segment.id.value(), first->why);
  log(LogLine::Level::debug, "segment_bootstrap_begun", fmt::format("segment {}: bootstrap, reason {}: {}", segment.id.value(), name(first->reason), first->why));
  for (std::size_t i = 0; i < plan.size(); ++i) {
    if (plan[i].plan != MarkPlan::open) continue;
    Piece piece;
    piece.kind = ApplyKind::open;
    piece.prev = plan[i].since;
    queue(segment.first_lane + i, std::move(piece));
  }
  refresh_durable(segment);
  segment.echoes.durable(segment.durable ? std::optional(segment.durable->at) : std::nullopt, false);
  note_dirty(segment);
}

void LinkCore::subscribe(SegmentState& segment) {
  std::vector<LanePlace> places;
  for (const auto& lane : lanes_of(segment)) {
    ZARIS_ASSERT(lane.mark().has_value(), segment.id.value());
    places.push_back({&*lane.mark(), lane.first_slot()});
  }
  auto request = subscribe_request(segment.id, segment.root.history, first_slot(segment.id, source_segments_), places);
  // A chunk speaks of all its range: of several target segments none could tell whether its part is the same.
  if (request.walk && places.size() == 1 && segment.delta != SegmentState::Delta::none) {
    request.walk->since = places.front().mark->since;
    request.walk->names = request.walk->since && segment.delta == SegmentState::Delta::named;
  }
  segment.received = request.low;
  segment.stage = SegmentStage::subscribing;
  segment.asked = now_;
  FeedConnection* feed = feed_of(segment);
  if (feed == nullptr) return;
  feed->subscribes.push_back(std::move(request));
}

void LinkCore::flush_subscribes() {
  for (auto& feed : feeds_) {
    if (feed->subscribes.empty() || !feed->reader) continue;
    feed::Subscribe request;
    request.segments = std::move(feed->subscribes);
    feed->subscribes.clear();
    feed->reader->subscribe(std::move(request));
    feed->may_send = true;
  }
}

void LinkCore::park(SegmentState& segment, bool halt, MonoMicros delay, std::string code, std::string why) {
  drop_repair(segment);
  if (halt) {
    if (segment.stage == SegmentStage::streaming || segment.stage == SegmentStage::subscribing) {
      if (FeedConnection* feed = feed_of(segment); feed != nullptr && feed->reader) {
        feed->reader->unsubscribe(segment.id);
        feed->may_send = true;
      }
    }
    for (Lane& lane : lanes_of(segment)) grant(segment, lane.halt());
  }
  segment.stage = SegmentStage::parked;
  segment.halted |= halt;
  segment.retry_at = now_ + delay;
  segment.code = std::move(code);
  segment.why = std::move(why);
  any_parked_ = true;
}

// What the source says has not changed is not what is here: keys are gone there, which names tell; or it never was, and then all is copied.
void LinkCore::delta_differs(SegmentState& segment, const std::string& why) {
  using Delta = SegmentState::Delta;
  segment.delta = segment.delta == Delta::summed ? Delta::named : Delta::none;
  log(LogLine::Level::debug, "delta_differs", fmt::format("segment {}: {}; {}", segment.id.value(), why,
                                                          segment.delta == Delta::named ? "its unchanged keys are asked for by name" : "the rest is copied whole"));
  park(segment, true, 0, "range_differs", why);
}

// The target will not take a record, or the operator's files are full: this segment waits, loudly; the others go on.
void LinkCore::stop_segment(SegmentState& segment, std::string code, std::string why) {
  const MonoMicros delay = segment.stopped_retry.next(random_);
  log(LogLine::Level::error, "segment_stopped", fmt::format("segment {} stopped: {}: {}; {}; tried again in {} s", segment.id.value(), code, why,
                                                            next_step(code, config_.name, config_.scope), delay / 1'000'000));
  segment.stopped = true;
  park(segment, true, delay, std::move(code), std::move(why));
}

void LinkCore::resume_parked() {
  if (!any_parked_ || stage_ != Stage::active) return;
  any_parked_ = false;
  for (auto& segment : segments_) {
    if (segment.stage != SegmentStage::parked) continue;
    bool quiet = true, idle = true;
    for (const Lane& lane : lanes_of(segment)) {
      quiet &= lane.quiet();
      idle &= lane.idle();
    }
    // What it cannot send any more gives its room back at once: the other segments live on it.
    if (segment.halted && quiet && !idle) {
      for (Lane& lane : lanes_of(segment)) grant(segment, lane.clear());
      idle = true;
    }
    any_parked_ |= !segment.held_removal || !idle;
    if (segment.held_removal || !idle || now_ < segment.retry_at) continue;
    for (Lane& lane : lanes_of(segment)) grant(segment, lane.clear());
    if (!resume_segment(segment)) return;
  }
  flush_subscribes();
}

// What of the segment the target holds for certain, from the marks as last answered. A mark that is being opened anew counts
// until its answer comes, and what had been confirmed counts until its first range is there: nothing above it may be claimed on the strength of
// the others alone.
void LinkCore::refresh_durable(SegmentState& segment) {
  std::optional<NamedPosition> low, high, first;
  bool in_stream = true, unknown = false, uncovered = false;
  const auto before = segment.durable;
  for (const Lane& lane : lanes_of(segment)) {
    const auto& mark = lane.mark();
    in_stream &= mark && mark->phase == Phase::stream && lane.phase() == Phase::stream;
    if (mark && !mark->low) {
      // Its first range may have been applied, its answer not heard: a cursor above that would look like a rollback.
      const auto range = lane.first_range();
      if (range && (!first || range->at < first->at)) first = range;
    }
    if (!mark || !mark->low) {
      uncovered = true;
      continue;
    }
    // Not known to be as durable as was asked for: what had been persisted of it counts, since it once was.
    auto durable = lane.durable_low();
    if (!durable && segment.cursor && segment.cursor->history == segment.root.history && segment.cursor->position.at != Position{})
      durable = segment.cursor->position.at < mark->low->at ? segment.cursor->position : *mark->low;
    if (!durable) unknown = true;
    else if (!low || durable->at < low->at) low = durable;
    if (mark->high && (!high || high->at < mark->high->at)) high = mark->high;
  }
  segment.durable = low && first && first->at < low->at ? first : low;
  if (uncovered && before && segment.durable && before->at < segment.durable->at) segment.durable = before;
  if (unknown) segment.durable.reset();
  segment.high = high;
  segment.in_stream = in_stream;
}

void LinkCore::bootstrap_done(SegmentState& segment) {
  segment.bootstrapping = false;
  segment.removal_accepted = false;
  for (Lane& lane : lanes_of(segment)) lane.removals_left = 0;
  progress_.done(segment.id);
  log(LogLine::Level::debug, "segment_bootstrap_done", fmt::format("segment {}: bootstrap done at {}", segment.id.value(),
                                                                   segment.durable ? to_string(segment.durable->at) : "nothing"));
  if (segment.rewind && segment.rewind_begun) {
    segment.rewind = false;
    // What is left of it, so that a restart does not begin with the segments that are done.
    std::vector<SegmentId> left;
    for (const auto& s : segments_) {
      if (s.rewind) left.push_back(s.id);
    }
    if (row_.rewind) row_dirty_ = true;
    row_.rewind_segments = left;
    if (left.empty() && row_.rewind) {
      row_.rewind = false;
      row_.rewind_to.reset();
      log(LogLine::Level::info, "rewind_done", "the operator's rewind is done: its segments were copied by ranges");
    }
  }
}

// One line for all segments that begin together, one when the round is over, one now and then between; each segment's own at debug.
void LinkCore::report_bootstraps() {
  std::string reasons;
  std::uint64_t begun = 0;
  for (std::size_t i = 0; i < bootstrap_reason_count; ++i) {
    if (copying_.begun[i] == 0) continue;
    begun += copying_.begun[i];
    reasons += fmt::format("{}{} {}", reasons.empty() ? "" : ", ", copying_.begun[i], name(static_cast<BootstrapReason>(i)));
  }
  if (begun + copying_.resumed > 0 && !copying_.round) {
    copying_.round = true;
    copying_.since = copying_.said = now_;
  }
  if (begun > 0) {
    const bool usual = begun == copying_.begun[static_cast<std::size_t>(BootstrapReason::new_segment)];
    log(usual ? LogLine::Level::info : LogLine::Level::warning, "bootstrap_begun",
        fmt::format("{} of {} segments are copied from the beginning, by reason: {}; {}", begun, segments_.size(), reasons, copying_.example));
  }
  if (copying_.resumed > 0)
    log(LogLine::Level::info, "bootstrap_resumed", fmt::format("the bootstrap of {} segments goes on where their marks are", copying_.resumed));
  std::fill(std::begin(copying_.begun), std::end(copying_.begun), 0);
  copying_.resumed = 0;
  copying_.example.clear();
  if (!copying_.round) return;
  const auto stands = fmt::format("{} of {} segments, {} records", progress_.segments_done(), progress_.segments_total(), progress_.records_done());
  if (!progress_.running()) {
    copying_.round = false;
    log(LogLine::Level::info, "bootstrap_done", fmt::format("copied: {}, in {:.1f} s", stands, static_cast<double>(now_ - copying_.since) / 1e6));
  } else if (now_ - copying_.said >= report_every_us) {
    copying_.said = now_;
    const auto left = progress_.eta_seconds(now_, welcome_ ? welcome_->live_keys : 0, source_segments_);
    log(LogLine::Level::info, "bootstrap_progress", fmt::format("copying: {}{}", stands, left ? fmt::format(", about {:.0f} s left", *left) : ""));
  }
}

bool LinkCore::on_lineage(const SegmentState& segment, std::string& why) const {
  for (const Lane& lane : lanes_of(segment)) {
    for (const auto* position : {&lane.low(), &lane.high()}) {
      if (!*position) continue;
      auto verdict = segment.lineage.test(segment.root.history, **position, segment.head.value_or((*position)->at));
      if (verdict.verdict == OnLineage::on) continue;
      why = std::move(verdict.reason);
      return false;
    }
  }
  return true;
}

}  // namespace zaris::follower
