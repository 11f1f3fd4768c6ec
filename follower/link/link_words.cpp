// An operator's words: pause and resume, and what is accepted once. A word counts when it is persisted, not before.
#include <algorithm>

#include "follower/link/link_core.hpp"

namespace zaris::follower {

void LinkCore::say(Word word) {
  words_.push_back(word);
  row_dirty_ = true;
  maybe_commit(true);
}

Result<void> LinkCore::pause(std::string reason, MonoMicros now) {
  now_ = now;
  if (stage_ == Stage::stopping || stage_ == Stage::stopped) return failure("link_stopping", "the follower is going away");
  row_.paused = true;
  row_.paused_reason = std::move(reason);
  log(LogLine::Level::info, "link_pause", "pause asked for: " + row_.paused_reason);
  say(Word::pause);
  return {};
}

Result<void> LinkCore::resume(MonoMicros now) {
  now_ = now;
  if (stage_ == Stage::stopping || stage_ == Stage::stopped) return failure("link_stopping", "the follower is going away");
  if (!row_.paused && !paused_) return failure("link_not_paused", "link " + config_.name + " is not paused");
  row_.paused = false;
  row_.paused_reason.clear();
  log(LogLine::Level::info, "link_resume", "resume asked for");
  say(Word::resume);
  return {};
}

// Positions of clusters that an operator has left behind.
void LinkCore::forget_cursors() {
  for (const auto& [segment, cursor] : loaded_) {
    if (segment.value() >= segments_.size()) removed_.push_back(cursor_key(segment));
  }
  loaded_.clear();
  for (auto& segment : segments_) {
    if (segment.cursor) removed_.push_back(cursor_key(segment.id));
    segment.cursor.reset();
    segment.dirty = false;
    segment.echoes.went_back(std::nullopt);
  }
}

void LinkCore::forget_held_removals() {
  removal_held_ = false;
  for (auto& segment : segments_) segment.held_removal = false;
}

// The roots that the source showed last are taken for the history to follow.
void LinkCore::accept_roots() {
  if (welcome_->cluster != source()) {
    forget_cursors();
    row_.source_cluster = welcome_->cluster;
  }
  row_.accepted = {welcome_->cluster, welcome_->roots.empty() ? HistoryId{} : welcome_->roots.front().history};
  row_.accepted_histories.clear();
  for (const auto& root : welcome_->roots) row_.accepted_histories.push_back(root.history);
}

// What it was held for when it was paused may be something else by now, and what would be removed something more.
Result<void> LinkCore::paused_says_nothing() const {
  return failure("nothing_to_accept", "link " + config_.name + " is paused: what it is held for is known when it goes on", "zaris link resume " + config_.name);
}

Result<void> LinkCore::accept_source(MonoMicros now) {
  now_ = now;
  const bool fits = hold_ && (hold_->code == "source_reset" || hold_->code == "wrong_cluster" || hold_->code == "ahead_of_source" ||
                              hold_->code == "source_changed" || held_for_standby());
  if (row_.paused) return paused_says_nothing();
  if (!fits) return failure("nothing_to_accept", "link " + config_.name + " is not held because of its source", "zaris link show " + config_.name);
  if (hold_->code == "ahead_of_source") {
    accept_ahead_ = true;
  } else if (held_for_standby()) {
    accept_standby_ = true;
    for (auto& segment : segments_) segment.standby_copied = false;
  } else {
    if (!welcome_) return failure("source_unknown", "the source has not been reached yet", "try again when it can be reached");
    if (config_.source_expected && welcome_->cluster != *config_.source_expected) {
      return failure("wrong_cluster", fmt::format("the configuration names source cluster {}, cluster {} answers", hex16(config_.source_expected->value()),
                                                  hex16(welcome_->cluster.value())),
                     "change links[].source.cluster_id first");
    }
    accept_roots();
    replace_source_ = true;
  }
  forget_held_removals();
  for (auto& segment : segments_) segment.removal_accepted = false;  // that was said of another history
  log(LogLine::Level::warning, "accept_source", fmt::format("an operator accepted the source ({}): {}", hold_->code, hold_->text));
  say(Word::accept_source);
  return {};
}

Result<void> LinkCore::accept_target(MonoMicros now) {
  now_ = now;
  if (row_.paused) return paused_says_nothing();
  if (!hold_ || hold_->code != "target_changed" || !target_)
    return failure("nothing_to_accept", "link " + config_.name + " is not held because of its target", "zaris link show " + config_.name);
  log(LogLine::Level::warning, "accept_target", fmt::format("an operator accepted target cluster {} in place of {}", hex16(target_->cluster.value()),
                                                            hex16(row_.target_cluster.value())));
  forget_cursors();
  row_.target_cluster = target_->cluster;
  opened_here_ = false;
  say(Word::accept_target);
  return {};
}

Result<void> LinkCore::accept_removal(MonoMicros now) {
  now_ = now;
  if (row_.paused) return paused_says_nothing();
  if (hold_) return failure("nothing_to_accept", "link " + config_.name + " is held because of " + hold_->code + ": that comes first", "zaris link show " + config_.name);
  if (!removal_held_) return failure("nothing_to_accept", "link " + config_.name + " is not held because of a large removal", "zaris link show " + config_.name);
  log(LogLine::Level::warning, "accept_removal", "an operator accepted the large removal, this once");
  removal_held_ = false;
  for (auto& segment : segments_) {
    if (!segment.held_removal) continue;
    segment.held_removal = false;
    segment.removal_accepted = true;
    segment.retry_at = now;
    any_parked_ = true;
  }
  return {};
}

// Persisted: now it counts.
void LinkCore::carry_out(Word word) {
  if (stage_ == Stage::stopping || stage_ == Stage::stopped) return;
  switch (word) {
    case Word::pause:
      if (paused_ || !row_.paused) return;
      paused_ = true;
      again_later("paused", row_.paused_reason);
      return;
    case Word::resume:
      if (!paused_ || row_.paused) return;
      paused_ = false;
      forget_held_removals();  // the source may have been put right meanwhile: it is looked at again, and no more goes unasked than at first
      backoff_.reset();
      begin_at_ = now_;
      stage_ = Stage::waiting;
      return;
    case Word::accept_source:
      for (auto& segment : segments_) segment.echoes.went_back(std::nullopt);
      clear_hold();
      again_later("source_accepted", "an operator accepted the source");
      begin_at_ = now_;
      return;
    case Word::accept_target:
      clear_hold();
      again_later("target_accepted", "an operator accepted the target");
      begin_at_ = now_;
      return;
  }
}

}  // namespace zaris::follower
