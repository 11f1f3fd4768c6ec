// Time passes: what is due is done. And the checks that do not depend on the stream: mark tokens once a second, the
// watchdog's own look at the source's heads.
#include <algorithm>

#include "follower/link/link_core.hpp"

namespace zaris::follower {
namespace {

constexpr MonoMicros proof_us = 5'000'000;       // without a quiet moment for a checksum: the marks themselves are read
constexpr int strikes_max = 3;

}  // namespace

void LinkCore::on_tick(MonoMicros now, WallMicros wall) {
  now_ = now;
  const bool first = wall_ == 0;
  wall_ = wall;
  wall_mono_ = now;
  if (first) age_segments();
  switch (stage_) {
    case Stage::idle:
    case Stage::stopped: return;
    case Stage::waiting: {
      maybe_commit(!words_.empty());
      // An operator's word counts once it is persisted: nothing is begun while one is on its way.
      const bool word_pending = !words_.empty() || (committing_ && !committing_->words.empty());
      if (paused_ || word_pending || now < begin_at_) return;
      if (anything_in_flight() && now < give_up_at_) return;
      return begin();
    }
    case Stage::stopping: return finish_stop();
    default: break;
  }
  for (std::size_t i = 0; i < feeds_.size(); ++i) {
    FeedConnection& feed = *feeds_[i];
    if (!feed.reader) continue;
    feed.reader->on_tick(now);
    feed.may_send = true;
    const Stage before = stage_;
    check_reader(feed);
    if (stage_ != before || i >= feeds_.size()) break;  // it is over; the others are gone as well
  }
  if (stage_ == Stage::active) {
    retry_lanes();
    resume_parked();
  }
  if (stage_ == Stage::active) {
    report_bootstraps();
    advance_lagging();
    update_closed_time();
    check_marks();
    watch();
    watch_repairs();
    verify_in_turn();
    if ((held_for_standby() || accept_standby_) && status(now, false).caught_up) {
      clear_hold();  // the source went back to before what it withheld
      accept_standby_ = false;
    }
    if (accept_ahead_ && active_since_ && now - *active_since_ > 60'000'000) accept_ahead_ = false;
  }
  maybe_commit(!words_.empty());
}

// ---- mark tokens -----------------------------------------------------------------------------------------------------------------

void LinkCore::want_marks(MonoMicros in) {
  if (!verify_wanted_) verify_at_ = now_ + in;
  verify_wanted_ = true;
}

bool LinkCore::is_undurable(const MarksAnswer& answer, const Lane& lane) {
  return std::find(answer.undurable.begin(), answer.undurable.end(), std::pair(lane.source(), lane.target())) != answer.undurable.end();
}

// A failover keeps marks; whether it kept all of them is asked at once, not at the next full second.
void LinkCore::on_owners_changed(MonoMicros now) {
  now_ = now;
  for (Lane& lane : lanes_) lane.owner_changed();
  if (stage_ == Stage::active) next_mark_check_ = now;
}

void LinkCore::check_marks() {
  if (stage_ != Stage::active) return;
  if (verify_wanted_ && verify_id_ == 0 && now_ >= verify_at_) {
    verify_wanted_ = false;
    verify_id_ = control_id();
    verify_sent_mark_ = applies_sent_;
    verify_lows_.clear();
    verify_quiet_.clear();
    for (const auto& lane : lanes_) {
      verify_lows_.push_back(lane.mark() ? lane.mark()->low : std::nullopt);
      verify_quiet_.push_back(lane.in_flight() == 0);
    }
    act(ReadMarksRequest{verify_id_, config_.name, config_.scope.id(), config_.durability});
    return;
  }
  if (now_ < next_mark_check_ || checksum_id_ != 0 || verify_id_ != 0) return;
  next_mark_check_ = now_ + config_.mark_check_us;
  if (anything_in_flight()) {
    // A busy link: MarkGap finds what happens to the segments that move; the others are looked at now and then.
    if (now_ - last_mark_proof_ >= proof_us && !verify_wanted_) {
      verify_wanted_ = true;
      verify_at_ = now_;
    }
    return;
  }
  std::vector<MarkChecksumRow> rows;
  rows.reserve(lanes_.size());
  for (const auto& lane : lanes_) {
    if (lane.mark()) rows.push_back({lane.source(), lane.target(), lane.mark()->token});
  }
  checksum_sent_mark_ = applies_sent_;
  checksum_id_ = control_id();
  if (marks_asked_ == 0) marks_asked_ = now_;
  act(MarkChecksumRequest{checksum_id_, config_.name, config_.scope.id(), std::move(rows)});
}

void LinkCore::on_mark_checksum(std::uint64_t id, Result<bool> same, MonoMicros now) {
  now_ = now;
  if (id != checksum_id_ || checksum_id_ == 0) return;
  checksum_id_ = 0;
  if (stage_ != Stage::active) return;
  if (!same) {
    if (!anything_in_flight()) again_later("target_unreachable", same.error().text());
    return;
  }
  if (checksum_sent_mark_ != applies_sent_) {  // marks have been moved meanwhile: it says nothing
    marks_asked_ = 0;
    return;
  }
  if (*same) {
    last_mark_proof_ = now;
    marks_asked_ = 0;
    return;
  }
  // Which of them? The marks themselves say it, and decide.
  verify_wanted_ = true;
  verify_at_ = now;
}

// A mark differs from what its owner last answered although nothing was sent: the target lost its tail while it was idle.
void LinkCore::verify_marks(const MarksAnswer& answer) {
  std::vector<const Mark*> found(lanes_.size(), nullptr);
  for (const auto& [target, row] : answer.marks) {
    const SegmentState* segment = find_segment(row.first.source_segment);
    if (segment == nullptr) continue;
    for (std::size_t i = segment->first_lane; i < segment->first_lane + segment->lane_count; ++i) {
      if (lanes_[i].target() == target) found[i] = &row.second;
    }
  }
  std::string lost, gap;  // every lane is looked at: what is known of one is claimed of none
  const bool active = stage_ == Stage::active;  // else the attempt is over; that the target holds less is true all the same
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    Lane& lane = lanes_[i];
    // Batches go over other connections than the question: one that was on its way then may have been applied behind the answer.
    const bool stood_still = verify_quiet_[i] && lane.sent_at() <= verify_sent_mark_;
    if (active && lane.waits_for_durability()) {
      // What stands there in its place was written by nobody of us: the tail that was never durable is gone with its owner.
      const bool gone = lane.in_flight() == 0 && !lane.retrying() && stood_still && (found[i] == nullptr || found[i]->token != lane.newest_token());
      if (gone) {
        segments_[lane_segment_[i]].marks_doubted = true;
        found_back(segments_[lane_segment_[i]], found[i] != nullptr && found[i]->low ? std::optional(found[i]->low->at) : std::nullopt, found[i] != nullptr && found[i]->phase == Phase::stream);
        gap = fmt::format("segment {} into {}: what had been applied without its durability is not there any more", lane.source().value(), lane.target().value());
        continue;
      }
      if (found[i] != nullptr && !is_undurable(answer, lane)) {
        lane.durable_mark(*found[i]);
        settle_lane(i);
        if (stage_ != Stage::active) return;
        note_durable(segments_[lane_segment_[i]]);
        pump(i);
      }
      if (lane.waits_for_durability()) want_marks(verify_again_us);
      continue;
    }
    if (!lane.mark()) continue;
    // Lower than what had been acknowledged before the question: lost. One that stands still and shows another token was
    // written by somebody else, or lost something that moved no position. One that moves is looked after by MarkGap.
    std::optional<Position> low;
    if (found[i] != nullptr && found[i]->low) low = found[i]->low->at;
    const auto& before = verify_lows_[i];
    const bool taken_back = segments_[lane_segment_[i]].stage == SegmentStage::repairing;  // by this follower: what the source has lost
    bool differs = (found[i] == nullptr && (before || stood_still)) || (before && !taken_back && lane.phase() != Phase::bootstrap && (!low || *low < before->at));
    if (active && lane.idle() && stood_still) differs |= found[i] == nullptr || found[i]->token != lane.mark()->token;
    if (!differs) continue;
    if (found[i] == nullptr) segments_[lane_segment_[i]].echoes.went_back(std::nullopt);  // what is held of that part is not known any more
    segments_[lane_segment_[i]].marks_doubted = true;
    found_back(segments_[lane_segment_[i]], low, found[i] != nullptr && found[i]->phase == Phase::stream);
    if (!active) continue;  // counted when the marks are read for the next one
    ++counted_.target_rollbacks;
    lost = fmt::format("segment {} into {}: the target holds {}, {} was acknowledged", lane.source().value(), lane.target().value(),
                       low ? to_string(*low) : "nothing", lane.mark()->low ? to_string(lane.mark()->low->at) : "nothing");
    log(LogLine::Level::warning, "target_rollback", lost);
  }
  // The attempt is over, and the marks are read again for the next one: until then nothing is claimed that they do not say now.
  if (!active || !lost.empty() || !gap.empty()) {
    for (std::size_t i = 0; i < lanes_.size(); ++i) doubt(lanes_[i], found[i]);
  }
  if (!lost.empty()) return again_later("target_rollback", lost);
  if (!gap.empty()) return again_later("mark_gap", gap);
  if (!active) return;
  last_mark_proof_ = now_;
  marks_asked_ = 0;
}

// ---- the watchdog ------------------------------------------------------------------------------------------------------------------

void LinkCore::watch() {
  if (now_ < next_watch_ || poll_id_ != 0) return;
  next_watch_ = now_ + config_.watchdog_us;
  poll_id_ = control_id();
  act(PollSegments{poll_id_});
}

// The source has more than we hold, and the stream says nothing of it: three rounds of that and the connection is not
// believed any more.
void LinkCore::on_segments_polled(std::uint64_t id, Result<std::vector<SegmentsPollRow>> answer, MonoMicros now) {
  now_ = now;
  if (id != poll_id_) return;
  poll_id_ = 0;
  if (!answer || stage_ != Stage::active) return;  // unreachable: the stream's own liveness says so
  std::size_t silent = 0;
  std::string example;
  for (const auto& row : *answer) {
    SegmentState* segment = find_segment(row.segment);
    if (segment == nullptr) continue;
    bool busy = false;
    for (const Lane& lane : lanes_of(*segment)) busy |= !lane.idle();
    const bool behind = segment->stage == SegmentStage::streaming && !busy && (!segment->durable || segment->durable->at < row.head);
    if (!behind || segment->heard) {
      segment->strikes = 0;
    } else if (++segment->strikes >= strikes_max) {
      ++silent;
      example = fmt::format("segment {}: the source's head is {}, applied is {}, and the stream says nothing", segment->id.value(), to_string(row.head),
                            segment->durable ? to_string(segment->durable->at) : "nothing");
    }
    segment->heard = false;
  }
  if (silent == 0) return;
  ++counted_.watchdog_strikes;
  stuck_ = true;
  const std::string text = fmt::format("{} segments stand still: {}", silent, example);
  if (!stuck_reconnected_) {
    stuck_reconnected_ = true;
    log(LogLine::Level::warning, "stuck", text + "; connecting again");
    again_later("stuck", text);
  } else {
    log(LogLine::Level::error, "stuck", text + "; connecting again did not help; " + next_step("stuck", config_.name, config_.scope));
  }
}

}  // namespace zaris::follower
