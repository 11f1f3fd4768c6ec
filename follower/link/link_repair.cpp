// Putting right what the source has lost: the target names the keys (ListRolledBack), the source says what it has of them (FetchKeys), what goes is
// kept in the conflict log, and just these keys are replaced. Where that cannot be had: by ranges. Design page follower, "Repair".
#include <algorithm>

#include "cluster/base/assert.hpp"
#include "cluster/placement/slot.hpp"
#include "cluster/record/record.hpp"
#include "cluster/record/record_table.hpp"
#include "follower/link/link_core.hpp"

namespace zaris::follower {
namespace {

constexpr MonoMicros answer_us = 10'000'000;  // a question that a segment's move has swallowed is asked again

// A key that the source has not, as it travels in a repair.
std::string missing_record(const SlotKey& at, const NamedPosition& as_of) {
  return make_record(EntryFields{.key = at.key, .value = {}, .expires_us = 0, .tag = 0, .tombstone = true},
                     RecordHeader{as_of.at.revision, 0, 0, Deleted::by_repair, as_of.at.generation, std::nullopt});
}

// Does the target hold just what the source has?
bool same_content(std::string_view target, std::string_view source) {
  const auto theirs = parse_record(source);
  const auto ours = parse_record(target);
  if (!theirs || !ours) return false;
  if (!theirs->live()) return !ours->live();
  return ours->live() && ours->entry == theirs->entry && ours->item_version == theirs->item_version;
}

}  // namespace

void LinkCore::begin_repair(SegmentState& segment, const std::vector<MarkDecision>& plan) {
  auto repair = std::make_unique<SegmentRepair>();
  for (std::size_t i = 0; i < plan.size(); ++i) {
    if (plan[i].plan == MarkPlan::repair) repair->parts.push_back({segment.first_lane + i, plan[i].surviving});
  }
  repair->lineage = *segment.end_lineage;
  segment.stage = SegmentStage::repairing;
  segment.repair = std::move(repair);
  ++counted_.repairs;
  begin_part(segment);
}

void LinkCore::begin_part(SegmentState& segment) {
  SegmentRepair& repair = *segment.repair;
  repair.named.clear();
  repair.keys.clear();
  repair.named_bytes = repair.fetched = repair.asked_to = 0;
  repair.last_sent = false;
  Lane& lane = lanes_[repair.parts.front().lane];
  ZARIS_ASSERT(lane.mark().has_value() && lane.idle(), segment.id.value());
  repair.token = lane.mark()->token;
  ask_rolled_back(segment, std::nullopt);
}

void LinkCore::ask_rolled_back(SegmentState& segment, std::optional<Revision> below) {
  SegmentRepair& repair = *segment.repair;
  const SegmentRepair::Part& part = repair.parts.front();
  repair.request = control_id();
  repair.asked = now_;
  act(ListRolledBackRequest{repair.request, config_.name, row_.scope, segment.id, lanes_[part.lane].target(), source_segments_, part.surviving, repair.token, below});
}

SegmentState* LinkCore::repairing(std::uint64_t request) {
  if (stage_ != Stage::active || request == 0) return nullptr;
  const auto at = std::find_if(segments_.begin(), segments_.end(), [&](const SegmentState& s) { return s.repair && (s.repair->request == request || s.repair->keep_id == request); });
  return at == segments_.end() ? nullptr : &*at;
}

void LinkCore::on_rolled_back(std::uint64_t id, Result<RolledBackAnswer> answer, MonoMicros now) {
  now_ = now;
  SegmentState* segment = repairing(id);
  if (segment == nullptr) return;
  SegmentRepair& repair = *segment->repair;
  repair.request = 0;
  if (!answer) return repair_again(*segment, "target_unavailable", answer.error().text());
  switch (answer->status) {
    case Status::ok: break;
    case Status::list_gone: return repair_by_ranges(*segment, answer->reason);
    case Status::mark_gap: return again_later("mark_gap", answer->reason);
    case Status::scope_mismatch: return again_later("scope_mismatch", answer->reason);
    case Status::invalid_argument:
    case Status::unsupported: return repair_by_ranges(*segment, fmt::format("{}: {}", name(answer->status), answer->reason));  // an older node
    default: return repair_again(*segment, "target_unavailable", fmt::format("{}: {}", name(answer->status), answer->reason));
  }
  std::size_t offset = 0;
  for (std::size_t i = 0; i < row_count(answer->table); ++i) {
    const RecordRow row = read_row(answer->table, i);
    const std::string_view bytes = std::string_view(answer->records).substr(offset, row.length);
    offset += row.length;
    const auto record = parse_record(bytes);
    if (!record) return repair_by_ranges(*segment, "the target names a record that cannot be read");
    const auto [at, fresh] = repair.named.try_emplace(SlotKey{row.slot, std::string(record->key)}, bytes);  // the newest comes first
    if (fresh) repair.named_bytes += bytes.size() + record->key.size();
  }
  if (repair.named.size() > SegmentRepair::keys_most || repair.named_bytes > SegmentRepair::list_bytes_most) {
    return repair_by_ranges(*segment, fmt::format("more than {} keys are to be put right", repair.named.size()));
  }
  if (answer->below) return ask_rolled_back(*segment, answer->below);
  for (const auto& [at, record] : repair.named) repair.keys.push_back(at);
  log(LogLine::Level::warning, "rollback", fmt::format("segment {} into {}: the source has lost what came after {}; {} keys are put right", segment->id.value(),
                                                       lanes_[repair.parts.front().lane].target().value(), to_string(repair.parts.front().surviving.at), repair.keys.size()));
  if (!repair.keys.empty()) return fetch_keys(*segment);
  // Nothing of it was in the scope. What the mark says of its positions is put right all the same.
  Piece piece;
  const LineageEntry& newest = repair.lineage.entries().back();
  piece.kind = ApplyKind::repair;
  piece.repair = ApplyRepair{repair.parts.front().surviving, NamedPosition{{newest.generation, newest.first}, newest.id}, true};
  repair.last_sent = true;
  queue(repair.parts.front().lane, std::move(piece));
}

void LinkCore::fetch_keys(SegmentState& segment) {
  SegmentRepair& repair = *segment.repair;
  FeedConnection* feed = feed_of(segment);
  if (feed == nullptr || !feed->reader) return;  // the session is over
  feed::FetchKeys request;
  request.request = repair.request = control_id();
  repair.asked = now_;
  request.segment = segment.id;
  std::size_t bytes = 0;
  repair.question = repair.fetched;
  for (repair.asked_to = repair.fetched; repair.asked_to < repair.keys.size() && request.keys.size() < SegmentRepair::fetch_keys_most; ++repair.asked_to) {
    const std::string& key = repair.keys[repair.asked_to].key;
    bytes += key.size();
    if (bytes > SegmentRepair::fetch_bytes_most && !request.keys.empty()) break;
    request.keys.push_back(key);
    counted_.repair_bytes += key.size();
  }
  feed->reader->fetch(std::move(request));
  feed->may_send = true;
}

// Keys in order, found and missing, become one batch as of the answer's position.
void LinkCore::on_records(FeedConnection& feed, const feed::Records& m) {
  const std::uint64_t bytes = m.table.size() + m.records.size();
  queue_bytes_ += bytes;
  feed.data = now_;
  SegmentState* segment = repairing(m.request);
  const auto refuse = [&](std::string why) {
    grant(*segment, bytes);
    again_later("feed_protocol", fmt::format("segment {}: {}", segment->id.value(), why));
  };
  if (segment == nullptr || segment->repair->request != m.request || segment->id != m.segment) {
    queue_bytes_ -= bytes;
    return feed.reader->grant(bytes);
  }
  counted_.repair_bytes += bytes;
  SegmentRepair& repair = *segment->repair;
  const std::size_t rows = row_count(m.table), count = rows + m.missing.size(), group = repair.asked_to - repair.fetched;
  if (!table_fits(m.table, m.records.size()) || m.begin != repair.fetched - repair.question || count == 0 || count > group || m.more != (count < group)) {
    return refuse("an answer to FetchKeys that does not follow the one before it");
  }
  if (m.as_of.at.generation <= repair.parts.front().surviving.at.generation) return refuse(fmt::format("records as of {}, of a generation that is over", to_string(m.as_of.at)));
  auto own = std::make_shared<std::string>();
  std::string table;
  std::size_t row = 0, offset = 0, missing = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const SlotKey& key = repair.keys[repair.fetched + i];
    const std::string& held = repair.named.at(key);
    std::string record;
    if (missing < m.missing.size() && m.missing[missing] == m.begin + i) {
      ++missing;
      record = missing_record(key, m.as_of);
    } else {
      if (row == rows) return refuse("an answer to FetchKeys that leaves keys out");
      const RecordRow r = read_row(m.table, row++);
      record = m.records.substr(offset, r.length);
      offset += r.length;
      const auto view = parse_record(record);
      if (!view || view->key != key.key) return refuse("a record that was not asked for");
      if (!view->live()) record = missing_record(key, m.as_of);
    }
    append_row(table, RecordRow{static_cast<std::uint32_t>(record.size()), 0, key.slot, 0});
    if (!same_content(held, record)) {
      repair.answered.conflicts.push_back({segment->id, key.key, held, record, m.as_of});
    }
    own->append(record);
  }
  const std::size_t records = own->size();
  own->append(table);
  Piece piece;
  piece.kind = ApplyKind::repair;
  piece.own = own;
  piece.records = std::string_view(*own).substr(0, records);
  piece.table = std::string_view(*own).substr(records);
  piece.credit = bytes;
  repair.fetched += count;
  piece.repair = ApplyRepair{repair.parts.front().surviving, m.as_of, repair.fetched == repair.keys.size()};
  repair.answered.bytes += own->size();
  repair.answered.pieces.push_back(std::move(piece));
  if (!m.more) repair.request = 0;
  else repair.asked = now_;
  keep_and_apply(*segment);
}

void LinkCore::keep_and_apply(SegmentState& segment) {
  SegmentRepair& repair = *segment.repair;
  if (repair.keep_id != 0 || repair.answered.pieces.empty()) return;
  if (repair.request != 0 && repair.answered.bytes < SegmentRepair::keep_bytes) return;  // more is on its way
  repair.keeping = std::exchange(repair.answered, {});
  KeepConflicts keep;
  keep.id = repair.keep_id = control_id();
  keep.records = repair.keeping.conflicts;
  if (keep.records.empty()) return apply_kept(segment);
  act(std::move(keep));
}

void LinkCore::on_repair_kept(SegmentState& segment, const Result<void>& answer) {
  if (!answer) return stop_segment(segment, answer.error().code, answer.error().what);
  counted_.rolled_back_records += segment.repair->keeping.conflicts.size();
  apply_kept(segment);
}

void LinkCore::apply_kept(SegmentState& segment) {
  SegmentRepair& repair = *segment.repair;
  repair.keep_id = 0;
  const std::size_t lane = repair.parts.front().lane;
  for (Piece& piece : repair.keeping.pieces) {
    repair.last_sent |= piece.repair->final;
    queue(lane, std::move(piece));
  }
  repair.keeping = {};
  if (repair.request == 0 && repair.fetched < repair.keys.size()) fetch_keys(segment);
  keep_and_apply(segment);
}

// Its lane has nothing more on its way.
void LinkCore::part_repaired(SegmentState& segment) {
  SegmentRepair& repair = *segment.repair;
  if (!repair.last_sent) return;
  // What stood there before was answered for, and is not lost: it was taken back.
  const std::size_t lane = repair.parts.front().lane;
  if (lane < verify_lows_.size()) verify_lows_[lane].reset();
  repair.parts.erase(repair.parts.begin());
  if (!repair.parts.empty()) return begin_part(segment);
  log(LogLine::Level::info, "rollback_done", fmt::format("segment {}: put right; the stream goes on", segment.id.value()));
  segment.repair.reset();
  segment.end_lineage.reset();
  segment.removal_accepted = false;
  if (resume_segment(segment)) flush_subscribes();
}

// Once more, from the list: its marks may have moved.
void LinkCore::repair_again(SegmentState& segment, std::string code, std::string why) {
  log(LogLine::Level::warning, "repair_retried", fmt::format("segment {}: {}", segment.id.value(), why));
  park(segment, true, segment.retry.next(random_), std::move(code), std::move(why));
}

void LinkCore::repair_by_ranges(SegmentState& segment, std::string why) {
  log(LogLine::Level::warning, "repair_by_ranges", fmt::format("segment {}: {}; put right by ranges", segment.id.value(), why));
  segment.list_gone = true;
  park(segment, true, 0, "unknown_lineage", std::move(why));
}

// It ends here: what it was decided by stands again, for the next decision.
void LinkCore::drop_repair(SegmentState& segment) {
  if (!segment.repair) return;
  SegmentRepair& repair = *segment.repair;
  for (const auto* answered : {&repair.answered, &repair.keeping}) {
    for (const Piece& piece : answered->pieces) grant(segment, piece.credit);
  }
  segment.end_lineage = std::move(repair.lineage);
  segment.repair.reset();
}

void LinkCore::watch_repairs() {
  for (auto& segment : segments_) {
    if (segment.repair && segment.repair->request != 0 && now_ - segment.repair->asked > answer_us) repair_again(segment, "repair_unanswered", "nobody answers what is asked for the repair");
  }
}

}  // namespace zaris::follower
