// Cursors: what is persisted, when, and what may be acknowledged to the source then. Rules: design page follower, "Cursor
// rules". And the way out: finish, persist, acknowledge, stop.
#include <algorithm>

#include "cluster/base/assert.hpp"
#include "follower/link/link_core.hpp"

namespace zaris::follower {
namespace {

constexpr MonoMicros idle_commit_us = 1'000'000;
constexpr MonoMicros stop_bound_us = 10'000'000;

}  // namespace

WallMicros LinkCore::wall_now() const {
  return wall_ == 0 ? 0 : wall_ + static_cast<WallMicros>(std::max<MonoMicros>(now_ - wall_mono_, 0));
}

void LinkCore::log(LogLine::Level level, std::string_view event, std::string text) {
  if (level == LogLine::Level::debug) return act(LogLine{level, std::string(event), std::move(text)});
  if (auto line = events_.line(level, event, std::move(text), now_)) act(std::move(*line));
}

cursor::CursorKey LinkCore::cursor_key(SegmentId segment) const {
  return {config_.name, row_.source_cluster, row_.target_cluster, row_.scope, segment};
}

void LinkCore::note_dirty(SegmentState& segment) {
  if (!any_dirty_ && !committing_) persisted_at_ = now_;  // until now everything was on the disk
  segment.dirty = any_dirty_ = true;
}

void LinkCore::maybe_commit(bool now_please) {
  if (committing_ || (!any_dirty_ && !row_dirty_ && removed_.empty())) return;
  // Nothing is known of source and target yet, except where an operator has spoken.
  if (!row_known_ && words_.empty()) return;
  MonoMicros interval = config_.commit_interval_us;
  if (records_since_commit_ == 0) interval = std::max(interval, idle_commit_us);
  if (!commit_failure_.empty()) interval = std::max(interval, idle_commit_us);
  const bool due = now_ - last_commit_ >= interval || (bytes_since_commit_ >= config_.commit_bytes && commit_failure_.empty());
  if (!due && !now_please) return;
  Commit commit;
  commit.id = control_id();
  if (row_dirty_) {
    ++row_.rows_version;
    commit.commit.links.emplace_back(config_.name, row_);
  }
  commit.commit.removed = std::move(removed_);
  removed_.clear();
  commit.words = std::move(words_);
  words_.clear();
  if (any_dirty_) {
    for (auto& segment : segments_) {
      if (!segment.dirty || segment.marks_doubted) continue;
      segment.dirty = false;
      cursor::CursorRow row;
      row.history = segment.root.history;
      if (segment.durable) row.position = *segment.durable;
      row.phase = segment.in_stream ? Phase::stream : Phase::bootstrap;
      row.source_time_us = segment.source_time_us;
      row.persisted_us = wall_now();
      row.records_applied = segment.records_applied;
      row.bytes_applied = segment.bytes_applied;
      row.bootstraps = segment.bootstraps;
      commit.commit.cursors.emplace_back(cursor_key(segment.id), row);
    }
  }
  row_dirty_ = any_dirty_ = false;
  bytes_since_commit_ = records_since_commit_ = 0;
  last_commit_ = now_;
  act(PersistCursors{commit.id, commit.commit});
  committing_ = std::move(commit);
}

void LinkCore::on_persisted(std::uint64_t id, Result<void> answer, MonoMicros now) {
  now_ = now;
  if (!committing_ || committing_->id != id) return;
  Commit commit = std::move(*committing_);
  committing_.reset();
  if (!answer) {
    // The copy in memory goes on; nothing is acknowledged until there is room again.
    ++commit_failures_;
    if (commit_failure_.empty()) {
      log(LogLine::Level::error, answer.error().code, answer.error().text() + "; applying goes on, nothing is acknowledged to the source until it can be persisted");
    }
    commit_failure_ = answer.error().code;
    row_dirty_ |= !commit.commit.links.empty();
    words_.insert(words_.begin(), commit.words.begin(), commit.words.end());
    removed_.insert(removed_.end(), commit.commit.removed.begin(), commit.commit.removed.end());
    for (const auto& [key, row] : commit.commit.cursors) {
      if (SegmentState* segment = find_segment(key.segment)) segment->dirty = any_dirty_ = true;
    }
    return;
  }
  ++commits_;
  if (!commit_failure_.empty()) {
    log(LogLine::Level::info, "cursor_recovered", "cursors are persisted again");
    commit_failure_.clear();
  }
  if (!any_dirty_) persisted_at_ = now;
  acknowledge(commit.commit);
  for (const Word word : commit.words) carry_out(word);
}

// Only what is on the disk is acknowledged, in phase bootstrap too: it is where the stream would go on.
void LinkCore::acknowledge(const cursor::CursorCommit& commit) {
  std::vector<feed::Ack> acks(feeds_.size());
  for (const auto& [key, row] : commit.cursors) {
    SegmentState* segment = find_segment(key.segment);
    if (segment == nullptr || key != cursor_key(key.segment)) continue;
    segment->cursor = row;
    if (row.position.at == Position{} || feeds_.empty() || row.history != segment->root.history) continue;
    if (segment->stage != SegmentStage::streaming) continue;
    // Marks that have gone back since decide; a position above them is not acknowledged any more.
    if (!segment->durable || segment->durable->at < row.position.at) continue;
    acks[segment->id.value() % feeds_.size()].segments.push_back({segment->id, row.position.at});
  }
  for (std::size_t i = 0; i < acks.size(); ++i) {
    if (acks[i].segments.empty() || !feeds_[i]->reader) continue;
    acks[i].closed_time_us = feeds_[i]->closed_applied_us;
    feeds_[i]->reader->ack(std::move(acks[i]));
    feeds_[i]->may_send = true;
  }
}

void LinkCore::update_closed_time() {
  if (stage_ != Stage::active || feeds_.empty()) return;
  for (auto& feed : feeds_) {
    if (!feed->closing) continue;
    auto& heads = feed->closing->heads;
    while (!heads.empty()) {
      const auto& [index, head] = heads.back();
      const SegmentState& segment = segments_[index];
      if (!segment.in_stream || !segment.durable || segment.durable->at < head) break;
      heads.pop_back();
    }
    if (!heads.empty()) continue;
    feed->closed_applied_us = std::max(feed->closed_applied_us, feed->closing->closed_time_us);
    feed->closing.reset();
  }
  WallMicros closed = ~WallMicros{0};
  for (const auto& feed : feeds_) closed = std::min(closed, feed->closed_applied_us);
  closed_applied_us_ = std::max(closed_applied_us_, closed);
}

// ---- the end --------------------------------------------------------------------------------------------------------------------

void LinkCore::stop(MonoMicros now) {
  now_ = now;
  if (stage_ == Stage::stopping || stage_ == Stage::stopped) return;
  stage_ = Stage::stopping;
  give_up_at_ = now + stop_bound_us;
  for (auto& lane : lanes_) queue_bytes_ -= lane.halt();
  log(LogLine::Level::info, "link_stopping", "no more is taken from the source; what is on its way is finished");
  finish_stop();
}

void LinkCore::finish_stop() {
  if (stage_ != Stage::stopping) return;
  const bool late = now_ >= give_up_at_;
  if (anything_in_flight() && !late) return;
  if (!late && (committing_ || any_dirty_ || row_dirty_ || !removed_.empty()) && (row_known_ || !words_.empty())) {
    if (!committing_ && commit_failure_.empty()) maybe_commit(true);
    if (committing_ || commit_failure_.empty()) return;
  }
  disconnect();
  stage_ = Stage::stopped;
  log(LogLine::Level::info, "link_stopped", late ? "stopped without having finished everything; what is missing is redelivered" : "stopped");
}

std::vector<Action> LinkCore::take_actions() {
  for (auto& feed : feeds_) {
    if (!feed->may_send || !feed->reader) continue;
    feed->may_send = false;
    act(SendFeed{feed->id});
  }
  std::vector<Action> out;
  out.swap(actions_);
  actions_.reserve(std::min<std::size_t>(out.size(), 512));  // the next ones are about as many
  return out;
}

}  // namespace zaris::follower
