// What goes to the target, and what its answers mean for segment and link.
#include <algorithm>
#include <unordered_map>

#include "cluster/base/assert.hpp"
#include "cluster/record/record.hpp"
#include "cluster/record/record_table.hpp"
#include "follower/link/link_core.hpp"

namespace zaris::follower {
namespace {

constexpr MonoMicros another_follower_us = 60'000'000;

}  // namespace

bool LinkCore::anything_in_flight() const {
  return std::any_of(lanes_.begin(), lanes_.end(), [](const Lane& lane) { return lane.in_flight() > 0; });
}

void LinkCore::queue(std::size_t lane, Piece piece) {
  // The source's messages may be larger than what the target takes at once.
  cut(std::move(piece), target_->request_bytes_max, [&](Piece part) { lanes_[lane].push(std::move(part)); });
  pump(lane);
}

void LinkCore::pump(std::size_t index) {
  if (stage_ != Stage::active) return;
  Lane& lane = lanes_[index];
  Lane::Limits limits;
  // What a range would remove is known from its answer only: with something to lose, one at a time, so that the budget
  // is exact.
  limits.one_range_at_a_time = target_->live_keys > 0;
  for (;;) {
    const Flight* flight = lane.next_to_send(limits, flight_id(index), session_, now_);
    if (flight == nullptr) return;
    send(index, *flight);
  }
}

void LinkCore::send(std::size_t index, const Flight& flight) {
  Lane& lane = lanes_[index];
  const SegmentState& segment = segments_[lane_segment_[index]];
  const Piece& piece = flight.piece;
  lane.note_sent(++applies_sent_);
  ApplyRequest request;
  request.id = flight.id;
  request.link_name = name_;
  if (piece.message) request.hold.push_back(piece.message);
  if (piece.own) request.hold.push_back(piece.own);
  ApplyBatch& batch = request.batch;
  batch.link = *name_;
  batch.source_cluster = source();
  batch.history = segment.root.history;
  batch.scope = row_.scope;
  batch.source_segment = segment.id;
  batch.target_segment = lane.target();
  batch.source_segments = source_segments_;
  batch.follower_term = config_.term;
  batch.site_epoch = config_.site_epoch;
  batch.session = flight.session;
  batch.expected = flight.expected;
  batch.prev = piece.prev;
  batch.last = piece.last;
  batch.closed_time_us = piece.closed_time_us;
  batch.kind = piece.kind;
  batch.durability = config_.durability;
  if (piece.may_remove()) batch.removals_left = lane.removals_left;
  if (piece.kind == ApplyKind::check) batch.removals_left = mends_left_;
  batch.range = piece.range;
  batch.repair = piece.repair;
  batch.may_lose = flight.may_lose;
  batch.may_lose_names = flight.may_lose_names;
  batch.table = piece.table;
  batch.records = piece.records;
  actions_.emplace_back(std::move(request));
}

void LinkCore::on_applied(std::uint64_t id, Result<ApplyAnswer> answer, MonoMicros now) {
  now_ = now;
  const std::size_t index = id & 0xffffu;
  if (index >= lanes_.size()) return;
  Lane& lane = lanes_[index];
  // The attempt is over: nobody acts on this answer. What the target holds is true all the same.
  if (stage_ != Stage::active && answer && answer->status == Status::mark_gap) doubt(lane, answer->mark ? &*answer->mark : nullptr);
  // What was written there so fast that no name of it was ever the newest has gone by now: it is kept all the same.
  if (answer && (answer->status == Status::ok || answer->status == Status::durability_not_met) && !answer->would_lose.empty()) {
    const Flight* flight = lane.find_flight(id);
    if (flight != nullptr && !flight->may_lose_names.empty()) act(conflicts_of(segments_[lane_segment_[index]], flight->piece, answer->would_lose));
  }
  const auto verdict = lane.answer(id, answer, now, random_);
  if (verdict == Lane::Verdict::progress) {
    settle_lane(index);
    return pump(index);
  }
  // Of a session that is over: what was applied counts, what was not is found at the next ReadMarks.
  if (stage_ != Stage::active || verdict == Lane::Verdict::unknown) return;
  SegmentState& segment = segments_[lane_segment_[index]];
  const std::string why = answer && !answer->reason.empty() ? answer->reason : lane.last_failure();
  switch (verdict) {
    case Lane::Verdict::unknown:
    case Lane::Verdict::progress: return;
    case Lane::Verdict::retry:
      any_retry_ = true;
      ++counted_.apply_retries;
      log(LogLine::Level::warning, "apply_retried", fmt::format("segment {} into {}: {}; the same bytes are sent again", segment.id.value(),
                                                                lane.target().value(), lane.last_failure()));
      return;
    case Lane::Verdict::undurable:
      if (!verify_wanted_) verify_at_ = now + 50'000;
      verify_wanted_ = true;
      return pump(index);
    case Lane::Verdict::gap: return on_gap(index, *answer);
    case Lane::Verdict::refused: {
      const Status status = answer->refused_status != Status::ok ? answer->refused_status : answer->status;
      const std::string code = status == Status::item_too_large ? "item_too_large" : "capacity_exceeded";
      std::string text = fmt::format("{}{}", why, answer->refused_index ? fmt::format(" (record {} of the batch", *answer->refused_index) : "");
      if (answer->refused_index) {
        const Flight* flight = lane.find_flight(id);
        std::size_t offset = 0;
        for (std::size_t i = 0; flight != nullptr && i < row_count(flight->piece.table); ++i) {
          const RecordRow row = read_row(flight->piece.table, i);
          if (i == *answer->refused_index) {
            const auto record = parse_record(flight->piece.records.substr(offset, row.length));
            text += fmt::format(", {} bytes{}", row.length, record ? ", key " + printable(record->key, 64) : "");
            break;
          }
          offset += row.length;
        }
        text += ")";
      }
      return stop_segment(segment, code, text);
    }
    case Lane::Verdict::would_lose: return on_would_lose(index, id, *answer);
    case Lane::Verdict::differs: return delta_differs(segment, why);
    case Lane::Verdict::removal_limit:
      log(LogLine::Level::error, "large_removal",
          fmt::format("segment {}: {} more live keys would be removed, {} are left of what may go unasked; {}", segment.id.value(),
                      answer->removal_count, lane.removals_left, next_step("large_removal", config_.name, config_.scope)));
      segment.held_removal = true;
      removal_held_ = true;
      return park(segment, true, 0, "large_removal", fmt::format("{} live keys would be removed", answer->removal_count));
    case Lane::Verdict::superseded: {
      const bool term = answer->status == Status::term_superseded;
      return hold(term ? "term_superseded" : "epoch_superseded", why);
    }
    case Lane::Verdict::opened_anew: return again_later(answer->status == Status::source_changed ? "source_changed" : "scope_mismatch", why);
    case Lane::Verdict::failed:
      if (const Flight* flight = lane.find_flight(id); flight != nullptr && flight->piece.kind == ApplyKind::check) return check_refused(segment, answer->status, why);
      return stop_segment(segment, "apply_refused", why);
  }
}

// Another mark stands there than the one named: the target lost its tail, or somebody else wrote. Nothing was applied. The
// session is over; marks are read anew and decide.
void LinkCore::on_gap(std::size_t index, const ApplyAnswer& answer) {
  const Lane& lane = lanes_[index];
  ++counted_.mark_gaps;
  segments_[lane_segment_[index]].marks_doubted = true;
  const auto low_of = [](const std::optional<Mark>& mark) { return mark && mark->low ? to_string(mark->low->at) : std::string("nothing"); };
  const auto& held = lane.mark();
  const bool back = held && (!answer.mark || (held->low && (!answer.mark->low || answer.mark->low->at < held->low->at)));
  const std::string text = fmt::format("segment {} into {}: the target holds {}, {} was acknowledged", lane.source().value(), lane.target().value(),
                                       low_of(answer.mark), low_of(held));
  if (back) {
    std::optional<Position> low;
    if (answer.mark && answer.mark->low) low = answer.mark->low->at;
    if (!answer.mark) segments_[lane_segment_[index]].echoes.went_back(std::nullopt);
    found_back(segments_[lane_segment_[index]], low, answer.mark && answer.mark->phase == Phase::stream);
    ++counted_.target_rollbacks;
    log(LogLine::Level::warning, "target_rollback", text);
  }
  // Marks of a session that was never ours: once it may be the last word of an earlier run of this follower, twice it is not.
  if (answer.mark && std::find(own_sessions_.begin(), own_sessions_.end(), answer.mark->token.session) == own_sessions_.end()) {
    const bool again = foreign_gap_at_ && now_ - *foreign_gap_at_ < another_follower_us;
    foreign_gap_at_ = now_;
    if (again) return again_later("another_follower", text + ", by a session that is not this follower's; " + next_step("another_follower", config_.name, config_.scope));
  }
  again_later("mark_gap", text);
}

// What the conflict log is to have of them: with what the source has for these keys, as far as the batch itself says.
KeepConflicts LinkCore::conflicts_of(const SegmentState& segment, const Piece& piece, const std::vector<LostRecord>& lost) {
  std::unordered_map<std::string_view, std::string_view> theirs;
  std::size_t offset = 0;
  for (std::size_t i = 0; i < row_count(piece.table); ++i) {
    const std::string_view bytes = piece.records.substr(offset, read_row(piece.table, i).length);
    offset += bytes.size();
    if (const auto record = parse_record(bytes)) theirs[record->key] = bytes;
  }
  KeepConflicts keep;
  keep.id = control_id();
  for (const auto& one : lost) {
    ConflictRecord record;
    record.segment = segment.id;
    record.key = one.key;
    record.target_record = one.record;
    if (const auto at = theirs.find(one.key); at != theirs.end()) record.source_record = std::string(at->second);
    record.as_of = piece.range ? piece.range->as_of : piece.last.value_or(NamedPosition{});
    keep.records.push_back(std::move(record));
  }
  return keep;
}

void LinkCore::on_would_lose(std::size_t index, std::uint64_t id, const ApplyAnswer& answer) {
  Lane& lane = lanes_[index];
  SegmentState& segment = segments_[lane_segment_[index]];
  const Flight* flight = lane.find_flight(id);
  if (flight == nullptr || answer.would_lose.empty()) return stop_segment(segment, "apply_refused", "the target names no record that would be lost");
  KeepConflicts keep = conflicts_of(segment, flight->piece, answer.would_lose);
  std::vector<Lane::Kept> kept;
  for (const ConflictRecord& record : keep.records) kept.push_back({record.key, record_name(record.target_record)});
  if (flight->piece.kind != ApplyKind::check && flight->named_anew == 0) {
    log(LogLine::Level::warning, "conflict", fmt::format("segment {}: {} records that the target wrote itself stand in the way; the source wins, they are kept in the conflict log",
                                                         segment.id.value(), kept.size()));
  }
  keeping_[keep.id] = index;
  kept_keys_[keep.id] = std::move(kept);
  act(std::move(keep));
}

void LinkCore::on_conflicts_kept(std::uint64_t id, Result<void> answer, MonoMicros now) {
  now_ = now;
  if (SegmentState* segment = repairing(id)) return on_repair_kept(*segment, answer);
  const auto at = keeping_.find(id);
  if (at == keeping_.end()) {
    if (!answer) log(LogLine::Level::error, "conflict_not_kept", fmt::format("records that the target had written were replaced, and could not be kept: {}", answer.error().text()));
    return;
  }
  const std::size_t index = at->second;
  const auto kept = std::move(kept_keys_[id]);
  keeping_.erase(at);
  kept_keys_.erase(id);
  if (stage_ != Stage::active) return;
  if (!answer) return stop_segment(segments_[lane_segment_[index]], answer.error().code, answer.error().what);
  lanes_[index].keep_and_retry(kept);
  any_retry_ = true;
  pump(index);
}

// ---- what has been applied ---------------------------------------------------------------------------------------------------

void LinkCore::count_done(SegmentState& segment, const Flight& flight) {
  const Piece& piece = flight.piece;
  counted_.applied_records += flight.applied;
  counted_.skipped_records += flight.skipped;
  counted_.removed_records += flight.removed;
  counted_.conflicts += flight.conflicts;
  counted_.applied_bytes += piece.records.size();
  if (piece.kind == ApplyKind::delta) counted_.kept_records += piece.range->equal->count;
  segment.records_applied += flight.applied;
  segment.bytes_applied += piece.records.size();
  bytes_since_commit_ += piece.records.size();
  records_since_commit_ += piece.rows();
  // At the head a position is as new as the closed time that came with it, however old its last change.
  segment.source_time_us = std::max(segment.source_time_us, piece.closed_time_us);
  if (piece.kind != ApplyKind::stream || piece.commit_time_us == 0) return;
  segment.source_time_us = std::max(segment.source_time_us, piece.commit_time_us);
  if (piece.rows() == 0) return;
  if (!config_.scope.full()) return;  // a partial scope's runs carry the closed time, not a change's own
  const WallMicros wall = wall_now();
  const double delay = wall > piece.commit_time_us ? static_cast<double>(wall - piece.commit_time_us) / 1e6 : 0;
  std::size_t bucket = 0;
  while (bucket + 1 < apply_delay_buckets && delay > apply_delay_bounds_seconds[bucket]) ++bucket;
  counted_.apply_delay_counts[bucket] += piece.rows();
  counted_.apply_delay_sum_seconds += delay * static_cast<double>(piece.rows());
}

void LinkCore::settle_lane(std::size_t index) {
  Lane& lane = lanes_[index];
  SegmentState& segment = segments_[lane_segment_[index]];
  lane.take_done(done_);
  if (done_.empty()) return;
  for (const Flight& flight : done_) {
    if (flight.piece.kind == ApplyKind::check) {
      grant(segment, flight.piece.credit);
      checked(index, flight);
      continue;
    }
    count_done(segment, flight);
    if (lane.removals_left != ~std::uint64_t{0}) {
      const std::uint64_t taken = flight.piece.kind == ApplyKind::range || flight.piece.kind == ApplyKind::delta ? flight.removed : flight.piece.kind == ApplyKind::repair ? flight.removed + flight.replaced : 0;
      lane.removals_left -= std::min(lane.removals_left, taken);
    }
    grant(segment, flight.piece.credit);
  }
  done_.clear();
  note_durable(segment);
  if (stage_ != Stage::active) return;
  if (segment.stage == SegmentStage::opening) {
    for (const Lane& other : lanes_of(segment)) {
      if (!other.idle()) return;
    }
    subscribe(segment);
    return flush_subscribes();
  }
  if (segment.stage == SegmentStage::repairing) {
    if (lanes_[segment.repair->parts.front().lane].idle()) part_repaired(segment);
    return;
  }
  if (segment.stage == SegmentStage::streaming) {
    if (segment.stopped) {
      segment.stopped = false;
      segment.why.clear();
      segment.stopped_retry.reset();
      log(LogLine::Level::info, "segment_resumed", fmt::format("segment {} goes on", segment.id.value()));
    }
    segment.retry.reset();
  }
  if (segment.bootstrapping && segment.in_stream) bootstrap_done(segment);
}

void LinkCore::note_durable(SegmentState& segment) {
  const auto before = segment.durable;
  const bool streamed = segment.in_stream;
  refresh_durable(segment);
  segment.heard = true;
  if (segment.marks_doubted || (before == segment.durable && streamed == segment.in_stream)) return;
  note_dirty(segment);
  std::optional<Position> low;
  if (segment.durable) low = segment.durable->at;
  segment.echoes.durable(low, segment.in_stream);
  stuck_ = stuck_reconnected_ = false;
}

// Lanes whose moment has come to send again.
void LinkCore::retry_lanes() {
  if (!any_retry_ || stage_ != Stage::active) return;
  any_retry_ = false;
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    if (!lanes_[i].retrying()) continue;
    any_retry_ = true;
    pump(i);
  }
}

}  // namespace zaris::follower
