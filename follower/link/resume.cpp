#include "follower/link/resume.hpp"

#include <algorithm>

namespace zaris::follower {

HistoryVerdict compare_histories(ClusterId source, const Root& root, std::span<const std::optional<Mark>> marks,
                                 std::optional<HistoryId> cursor, bool accepted) {
  bool alien = cursor && *cursor != root.history;
  for (const auto& mark : marks) {
    if (mark && (mark->source_cluster != source || mark->history != root.history)) alien = true;
  }
  if (!alien) return HistoryVerdict::same;
  return accepted ? HistoryVerdict::accepted : HistoryVerdict::source_reset;
}

namespace {

MarkDecision open(BootstrapReason reason, std::string why) { return {MarkPlan::open, reason, std::move(why), {}, {}}; }

// Can the target's log name all that came after `surviving`, and the source's go on from there?
bool can_be_listed(const Mark& mark, const NamedPosition& surviving, const MarkQuestion& question) {
  if (question.list_gone || mark.phase != Phase::stream || mark.low != mark.high) return false;
  if (mark.horizon && surviving.at < mark.horizon->at) return false;  // up to there an absence has left nothing in the log
  return !question.view->floor || !below_floor(surviving.at, *question.view->floor);
}

// Low and high of one mark against the lineage.
std::optional<MarkDecision> test_lineage(const Mark& mark, const MarkQuestion& question) {
  const Lineage& lineage = *question.view->lineage;
  std::optional<NamedPosition> surviving;
  std::string why;
  for (const auto* position : {&mark.low, &mark.high}) {
    if (!*position) continue;
    const LineageVerdict verdict = lineage.test(mark.history, **position, question.view->head);
    switch (verdict.verdict) {
      case OnLineage::on: break;
      case OnLineage::diverged:
        if (!surviving || verdict.surviving < surviving->at) surviving = NamedPosition{verdict.surviving, lineage.id_of(verdict.surviving.generation)};
        why = verdict.reason;
        break;
      case OnLineage::unknown_lineage: return open(BootstrapReason::unknown_lineage, verdict.reason);
      case OnLineage::ahead_of_source:
        if (question.accept_ahead) return open(BootstrapReason::accepted, verdict.reason);
        return MarkDecision{MarkPlan::hold, BootstrapReason::accepted, verdict.reason, {}, {}};
      case OnLineage::source_reset: return MarkDecision{MarkPlan::start_over, BootstrapReason::accepted, verdict.reason, {}, {}};
    }
  }
  if (!surviving) return std::nullopt;
  if (!can_be_listed(mark, *surviving, question)) {
    MarkDecision by_ranges = open(BootstrapReason::unknown_lineage, why);
    by_ranges.since = mark.low && mark.low->at < surviving->at ? mark.low : surviving;
    return by_ranges;
  }
  return MarkDecision{MarkPlan::repair, BootstrapReason::unknown_lineage, why, *surviving, {}};
}

}  // namespace

MarkDecision decide(const std::optional<Mark>& mark, const MarkQuestion& question) {
  if (!mark) {
    if (question.cursor_known) return open(BootstrapReason::target_lost, "the target holds no mark where the cursor knew one");
    return open(question.accepted ? BootstrapReason::accepted : BootstrapReason::new_segment, "the target holds no mark");
  }
  if (mark->source_cluster != question.source || mark->history != question.history) {
    return open(BootstrapReason::accepted, "the mark names history " + hex16(mark->history.value()) + ", an operator accepted " +
                                               hex16(question.history.value()));
  }
  // A mark counts only in the site epoch that it was written in.
  if (mark->site_epoch != question.site_epoch) return open(BootstrapReason::new_segment, "the mark was written in another site epoch");
  if (question.rewind) return open(BootstrapReason::rewind, "an operator's rewind");
  if (mark->phase == Phase::bootstrap && !mark->covers_something()) return {MarkPlan::walk};
  if (!mark->low || !mark->high) return open(BootstrapReason::unknown_lineage, "the mark has no position");
  if (question.view && question.view->lineage != nullptr) {
    if (auto verdict = test_lineage(*mark, question)) return *verdict;
  }
  // A repair that was interrupted goes on by ranges.
  if (mark->phase == Phase::repair) return open(BootstrapReason::unknown_lineage, "a repair of this segment was interrupted");
  if (question.view && question.view->floor && below_floor(mark->low->at, *question.view->floor)) {
    MarkDecision what_changed = open(BootstrapReason::below_floor, "position " + to_string(mark->low->at) + " is below the log's floor " + std::to_string(question.view->floor->value()));
    if (mark->phase == Phase::stream) what_changed.since = mark->low;
    return what_changed;
  }
  return {mark->phase == Phase::bootstrap ? MarkPlan::walk : MarkPlan::stream};
}

feed::SubscribeSegment subscribe_request(SegmentId segment, HistoryId history, Slot source_first_slot,
                                         std::span<const LanePlace> lanes) {
  feed::SubscribeSegment request;
  request.segment = segment;
  request.history = history;
  for (const auto& lane : lanes) {
    const Mark& mark = *lane.mark;
    if (mark.low && (!request.low || mark.low->at < request.low->at)) request.low = mark.low;
    if (mark.high && (!request.high || request.high->at < mark.high->at)) request.high = mark.high;
    if (mark.phase != Phase::bootstrap) continue;
    std::optional<SlotKey> from = mark.last_key;
    // Everything below the target segment's own first slot is not its business. A place "before slot n" cannot be
    // written as one that is excluded, so a key late in slot n − 1 stands for it: walking on from there is right, and
    // brings at worst a few keys that nobody asked for.
    if (source_first_slot < lane.first_slot && (!from || from->slot < lane.first_slot)) {
      from = SlotKey{Slot{static_cast<std::uint16_t>(lane.first_slot.value() - 1)}, std::string(8, '\xff')};
    }
    if (!request.walk) {
      request.walk.emplace();
      request.walk->from = std::move(from);
    } else if (request.walk->from && (!from || *from < *request.walk->from)) {
      request.walk->from = std::move(from);
    }
  }
  return request;
}

bool was_taken_back(const Mark& mark, Position cursor) {
  return mark.low && mark.horizon && mark.low->at < mark.horizon->at && mark.low->at < cursor && cursor.generation < mark.horizon->at.generation;
}

CursorVerdict compare_cursor(const std::optional<Position>& cursor, const std::optional<Position>& mark_low, bool any_mark, bool repaired, bool copying) {
  if (!cursor) return CursorVerdict::none;
  if (!any_mark) return CursorVerdict::mark_gone;
  // A bootstrap that was begun after the cursor was written: nothing was lost, and nothing is covered yet.
  if (!mark_low) return CursorVerdict::agrees;
  if (*mark_low < *cursor) return repaired ? CursorVerdict::taken_back : copying ? CursorVerdict::copying : CursorVerdict::above;
  return *cursor < *mark_low ? CursorVerdict::below : CursorVerdict::agrees;
}

std::optional<std::string> too_small(const feed::Welcome& source, const TargetInfo& target) {
  if (target.key_bytes_max != 0 && source.key_bytes_max > target.key_bytes_max) {
    return fmt::format("the source takes keys of {} bytes, the target of {} at most", source.key_bytes_max, target.key_bytes_max);
  }
  if (target.value_bytes_max != 0 && source.value_bytes_max > target.value_bytes_max) {
    return fmt::format("the source takes values of {} bytes, the target of {} at most", source.value_bytes_max, target.value_bytes_max);
  }
  // A record from another region carries its origin: 24 bytes at most.
  const std::uint64_t needed = source.live_bytes + source.live_keys * 24;
  if (target.memory_max_bytes != 0 && needed > target.memory_max_bytes) {
    return fmt::format("the source holds {} bytes in {} keys, the target takes {} bytes in all", source.live_bytes, source.live_keys,
                       target.memory_max_bytes);
  }
  return std::nullopt;
}

std::uint64_t removal_budget(std::uint64_t target_live_keys, std::uint64_t parts, double ratio, std::uint64_t floor) {
  if (ratio <= 0) return 0;  // an operator who writes 0 means it
  if (ratio >= 1) return ~std::uint64_t{0};  // likewise 100 %: a segment may hold more than its share of the keys
  const double keys = static_cast<double>(target_live_keys) / static_cast<double>(std::max<std::uint64_t>(parts, 1));
  return std::max(floor, static_cast<std::uint64_t>(keys * ratio));
}

}  // namespace zaris::follower
