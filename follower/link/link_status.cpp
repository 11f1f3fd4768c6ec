// What an operator sees.
#include <algorithm>

#include "follower/link/hearing.hpp"
#include "follower/link/link_core.hpp"

namespace zaris::follower {
namespace {

constexpr MonoMicros marks_open_us = 1'500'000;     // a question a second, and half of one for the answer
constexpr MonoMicros silent_target_us = 2'000'000;  // without an answer to a batch

}  // namespace

std::string_view name(LinkState state) {
  switch (state) {
    case LinkState::running: return "running";
    case LinkState::bootstrap: return "bootstrap";
    case LinkState::repair: return "repair";
    case LinkState::held: return "held";
    case LinkState::paused: return "paused";
    case LinkState::backoff: return "backoff";
    case LinkState::failed: return "failed";
    case LinkState::stuck: return "stuck";
  }
  return "unknown";
}

std::string_view name(BootstrapReason reason) {
  switch (reason) {
    case BootstrapReason::new_segment: return "new";
    case BootstrapReason::below_floor: return "below_floor";
    case BootstrapReason::unknown_lineage: return "unknown_lineage";
    case BootstrapReason::horizon: return "horizon";
    case BootstrapReason::target_lost: return "target_lost";
    case BootstrapReason::rewind: return "rewind";
    case BootstrapReason::accepted: return "accepted";
    case BootstrapReason::scope: return "scope";
  }
  return "unknown";
}

LinkStatus LinkCore::status(MonoMicros now, bool with_segments) const {
  LinkStatus out = counted_;
  out.name = config_.name;
  if (row_.source_cluster != ClusterId{}) out.source = row_.source_cluster;
  if (row_.target_cluster != ClusterId{}) out.target = row_.target_cluster;
  out.scope = row_.scope;
  out.queue_bytes = queue_bytes_;
  out.verify = verification_.status(now);
  if (!with_segments) out.verify.keys.clear();
  out.closed_time_us = closed_applied_us_;
  out.cursor_commits = commits_;
  out.cursor_commit_failures = commit_failures_;
  if (any_dirty_ || committing_ || !commit_failure_.empty()) out.cursor_age_seconds = static_cast<double>(std::max<MonoMicros>(now - persisted_at_, 0)) / 1e6;
  if (welcome_ && (welcome_->live_keys != 0 || config_.scope.full())) out.source_live_keys = welcome_->live_keys;
  if (target_) out.target_live_keys = target_->live_keys;

  MonoMicros oldest = segments_.empty() ? oldest_cursor_ : now;
  bool caught_up = stage_ == Stage::active && !segments_.empty();
  Hearing hearing(now, static_cast<MonoMicros>(welcome_ ? welcome_->fresh_interval_ms : 0) * 1000);
  std::string stopped_code, stopped_why;
  for (const auto& segment : segments_) {
    oldest = std::min(oldest, segment.echoes.confirmed_sent());
    SegmentPhase phase = segment.in_stream ? SegmentPhase::stream : SegmentPhase::bootstrap;
    if (segment.stage == SegmentStage::repairing) phase = SegmentPhase::repair;
    if (segment.stopped || segment.held_removal) phase = SegmentPhase::stopped;
    switch (phase) {
      case SegmentPhase::bootstrap: ++out.segments_bootstrap; break;
      case SegmentPhase::stream: ++out.segments_stream; break;
      case SegmentPhase::repair: ++out.segments_repair; break;
      case SegmentPhase::stopped: ++out.segments_stopped; break;
    }
    if (segment.stopped && stopped_code.empty()) {
      stopped_code = segment.code.empty() ? "retrying" : segment.code;
      stopped_why = fmt::format("segment {}: {}", segment.id.value(), segment.why);
    }
    std::uint64_t backlog = 0;
    if (segment.head) {
      const std::uint64_t held = segment.durable ? segment.durable->at.revision.value() : 0;
      if (segment.head->revision.value() > held) backlog = segment.head->revision.value() - held;
    }
    out.backlog_revisions += backlog;
    out.backlog_revisions_worst = std::max(out.backlog_revisions_worst, backlog);
    // Of one that stands still the source has not said how much is behind: so much as its changes were so far, on the average.
    const std::uint64_t usual = counted_.applied_records == 0 ? 0 : counted_.applied_bytes / counted_.applied_records;
    out.backlog_bytes += phase == SegmentPhase::stopped ? std::max(segment.bytes_behind, backlog * usual) : segment.bytes_behind;
    const FeedConnection* feed = feeds_.empty() ? nullptr : feeds_[segment.id.value() % feeds_.size()].get();
    if (phase != SegmentPhase::stopped) {  // nobody listens for those that stand still
      Hearing::Heard heard{segment.echoed, segment.stage == SegmentStage::opening || segment.stage == SegmentStage::repairing ? now : segment.asked, {}, {}};
      if (feed != nullptr) {
        heard.connection_data = feed->data;
        heard.connection_echoed = feed->last_pong;
      }
      hearing.segment(heard);
    }
    if (caught_up) {
      caught_up = phase == SegmentPhase::stream && feed != nullptr && feed->last_pong && segment.stage == SegmentStage::streaming && segment.in_stream && segment.durable &&
                  segment.durable == segment.high && segment.echoes.holds_all() && segment.echoes.newest_echo() >= *feed->last_pong;
    }
    if (!with_segments) continue;
    SegmentStatus row;
    row.id = segment.id;
    row.phase = phase;
    if (segment.received) row.received = segment.received->at;
    if (segment.durable) row.position = segment.durable->at;
    if (segment.high) row.high = segment.high->at;
    row.head = segment.head;
    row.floor = segment.floor;
    if (segment.cursor && segment.cursor->position.at != Position{}) row.cursor = segment.cursor->position.at;
    if (phase == SegmentPhase::stopped) row.stopped_reason = fmt::format("{}: {}", segment.held_removal ? "large_removal" : segment.code.empty() ? "retrying" : segment.code, segment.why);
    out.segments.push_back(std::move(row));
  }
  out.backlog_bytes += queue_bytes_;
  out.backlog_known = stage_ == Stage::active && hearing.backlog_stands(out.backlog_revisions + out.backlog_bytes > 0);
  out.heads_age_seconds = hearing.heads_age_seconds();
  out.segments_total = segments_.size();
  // A target that does not say what it holds may have lost it.
  const MonoMicros marks_open = marks_asked_ == 0 || stage_ != Stage::active ? 0 : now - marks_asked_;
  out.caught_up = caught_up && hearing.fresh() && marks_open <= marks_open_us;
  out.staleness_seconds = static_cast<double>(std::max<MonoMicros>(now - oldest, 0)) / 1e6;
  out.bootstrap_segments_done = progress_.segments_done();
  out.bootstrap_segments_total = progress_.segments_total();
  out.bootstrap_records = progress_.records_done();
  out.bootstrap_eta_seconds = progress_.eta_seconds(now, welcome_ ? welcome_->live_keys : 0, source_segments_);

  const auto say = [this, &out](LinkState state, std::string_view code, const std::string& text) {
    out.state = state;
    out.reason = text.empty() ? std::string(code) : fmt::format("{}: {}", code, text);
    out.next_step = next_step(code, config_.name, config_.scope);
  };
  const Lane* failing = nullptr;
  MonoMicros unanswered = 0;  // how long the target has not answered a batch
  for (const auto& lane : lanes_) {
    if (lane.failing_since() && now - *lane.failing_since() > 1'000'000) failing = &lane;
    if (const auto since = lane.unanswered_since()) unanswered = std::max(unanswered, now - *since);
  }
  if (paused_) {
    say(LinkState::paused, "paused", row_.paused_reason);
  } else if (hold_) {
    say(LinkState::held, hold_->code, hold_->text);
  } else if (removal_held_) {
    say(LinkState::held, "large_removal", fmt::format("{} segments wait for a word", out.segments_stopped));
  } else if (stuck_) {
    say(LinkState::stuck, "stuck", waiting_text_);
  } else if (stage_ != Stage::active) {
    say(LinkState::backoff, waiting_code_, waiting_text_);
  } else if (failing != nullptr) {
    say(LinkState::backoff, "target_unavailable", failing->last_failure());
  } else if (unanswered > silent_target_us) {
    say(LinkState::backoff, "target_unavailable", fmt::format("the target has not answered for {:.1f} s", static_cast<double>(unanswered) / 1e6));
  } else if (marks_open > marks_open_us) {
    say(LinkState::backoff, "target_unavailable", fmt::format("the target has not said for {:.1f} s what it holds", static_cast<double>(marks_open) / 1e6));
  } else if (hearing.silent_segments() > 0) {
    say(LinkState::backoff, "source_silent", fmt::format("{} of {} segments have not been heard of for {:.1f} s", hearing.silent_segments(), segments_.size(), hearing.silent_seconds()));
  } else if (!stopped_code.empty()) {
    say(LinkState::failed, stopped_code, stopped_why);
  } else if (out.segments_bootstrap > 0) {
    out.state = LinkState::bootstrap;
  } else if (out.segments_repair > 0) {
    out.state = LinkState::repair;
  } else {
    out.state = LinkState::running;
  }
  if (!commit_failure_.empty() && out.reason.empty()) {
    out.reason = commit_failure_;
    out.next_step = next_step(commit_failure_, config_.name, config_.scope);
  }
  return out;
}

}  // namespace zaris::follower
