// Do both ends hold the same? The source reads a page of its records and says their digest as of a position; the message comes in its place among the
// runs, and so the target compares when it stands at just that position, whatever follows behind. What differs is named key by key, and mended where
// that is configured. Design page follower, "Verify"; decision 0018.
#include <algorithm>
#include <unordered_set>

#include "cluster/base/assert.hpp"
#include "cluster/placement/slot.hpp"
#include "cluster/record/record.hpp"
#include "cluster/record/record_table.hpp"
#include "follower/link/link_core.hpp"

namespace zaris::follower {
namespace {

constexpr MonoMicros answer_us = 30'000'000;     // a question that a segment's move has swallowed is asked again
constexpr MonoMicros soon_us = 100'000;
constexpr std::size_t lines_per_page = 10;

}  // namespace

std::string_view name(DivergentKey::How how) {
  switch (how) {
    case DivergentKey::How::missing: return "missing";
    case DivergentKey::How::different: return "different";
    case DivergentKey::How::unknown_at_source: return "unknown_at_source";
  }
  return "unknown";
}

Result<void> LinkCore::verify(MonoMicros now) {
  now_ = now;
  if (row_.paused) return paused_says_nothing();
  if (stage_ != Stage::active) return failure("link_not_running", fmt::format("link {} does not run: {}", config_.name, waiting_code_), "zaris link show " + config_.name);
  if (verify_refused_) return failure("verify_refused", "the target does not know how to compare", "bring the target's nodes up to date: `zaris version`");
  verification_.start_now(now);  // after the one that runs, if one does
  return {};
}

// In stream, with nothing of a repair left: low is what it holds, and all that it holds.
bool LinkCore::in_step(const SegmentState& segment, const Lane& lane) const {
  return segment.stage == SegmentStage::streaming && segment.received && !segment.stopped && lane.phase() == Phase::stream && lane.covers() &&
         lane.low()->at == lane.high()->at;
}

// No key of the lane lies at or before (first slot, empty key), but the empty key itself, and that one is in slot 0.
std::optional<SlotKey> LinkCore::lane_begin(const Lane& lane) const {
  if (lane.first_slot().value() == 0) return std::nullopt;
  return SlotKey{lane.first_slot(), {}};
}

std::optional<SlotKey> LinkCore::lane_end(std::size_t lane) const {
  const SegmentState& segment = segments_[lane_segment_[lane]];
  if (lane + 1 == segment.first_lane + segment.lane_count) return std::nullopt;
  return SlotKey{lanes_[lane + 1].first_slot(), {}};
}

void LinkCore::verify_in_turn() {
  if (verify_refused_) return;
  verification_.active(now_);
  if (verification_.round_due(now_)) {
    // A copy is not looked at while it is being made. A segment that stands still is left out; the others are looked at all the same.
    const bool copying = std::ranges::any_of(segments_, [](const SegmentState& s) { return s.bootstrapping && !s.stopped && !s.held_removal; });
    if (copying || lanes_.empty()) return;
    verification_.begin(now_, wall_now(), lanes_.size());
  }
  if (verification_.state() != Verification::State::resting && verification_.lanes() != lanes_.size()) verification_.begin(now_, wall_now(), lanes_.size());
  switch (verification_.state()) {
    case Verification::State::resting: return;
    case Verification::State::asked:
      if (now_ - verification_.asked_us() > answer_us) verification_.again(now_);
      break;
    case Verification::State::comparing:
      if (lanes_[verification_.page().lane].idle()) verification_.again(now_ + soon_us);  // the session in which it was sent is over
      break;
    case Verification::State::due: break;
  }
  if (verification_.page_due(now_)) ask_page();
}

void LinkCore::ask_page() {
  const Verification::Page& page = verification_.page();
  const Lane& lane = lanes_[page.lane];
  const SegmentState& segment = segments_[lane_segment_[page.lane]];
  FeedConnection* feed = feed_of(segment);
  if (feed == nullptr || !feed->reader) return;
  if (!in_step(segment, lane)) {
    const std::size_t left = page.lane;
    if (verification_.left_out(now_)) {
      log(LogLine::Level::warning, "verify_left_out", fmt::format("segment {} into {} is not in step: it is left out of this round", segment.id.value(), lanes_[left].target().value()));
      report_round();
    }
    return;
  }
  if (!page.from && page.step == Verification::Step::compare) mends_left_ = removals_allowed(segment);
  const std::uint64_t request = control_id();
  feed::DigestRequest question;
  question.request = request;
  question.segment = segment.id;
  question.from = page.from ? page.from : lane_begin(lane);
  question.to = page.to ? page.to : lane_end(page.lane);
  question.page = true;
  question.records = page.step != Verification::Step::compare;
  feed->reader->request_digest(std::move(question));
  feed->may_send = true;
  verification_.asked(request, now_);
}

void LinkCore::on_digests(FeedConnection& feed, const feed::Digests& m) {
  const std::uint64_t bytes = m.table.size() + m.records.size();
  queue_bytes_ += bytes;
  const auto give_back = [&] {
    queue_bytes_ -= bytes;
    feed.reader->grant(bytes);
  };
  if (verification_.state() != Verification::State::asked || m.request != verification_.request() || stage_ != Stage::active) return give_back();
  const Verification::Page& page = verification_.page();
  Lane& lane = lanes_[page.lane];
  SegmentState& segment = segments_[lane_segment_[page.lane]];
  // It says something only of the place at which it came.
  if (segment.id != m.segment || !in_step(segment, lane) || segment.received->at != m.as_of.at) {
    give_back();
    return verification_.again(now_ + soon_us);
  }
  if (!table_fits(m.table, m.records.size()) || (m.to && page.from && *m.to <= *page.from)) {
    give_back();
    return again_later("feed_protocol", fmt::format("segment {}: an answer to DigestRequest that does not follow its question", segment.id.value()));
  }
  if (lane.low()->at < m.as_of.at) {  // over revisions that brought it nothing
    Piece piece;
    piece.prev = lane.low();
    piece.last = segment.received;
    queue(page.lane, std::move(piece));
  }
  if (page.step != Verification::Step::compare) verification_.note_memory(m.memory_slots, 0);
  if (m.memory_slots != 0) {
    log(LogLine::Level::error, "memory_changed", fmt::format("segment {}: {} slots of the source hold other bytes than were written to them; nothing of this page is repaired", segment.id.value(), m.memory_slots));
  }
  Piece piece;
  piece.kind = ApplyKind::check;
  piece.prev = lane.low();
  piece.last = segment.received;
  piece.credit = bytes;
  ApplyRange range;
  range.from = page.from ? page.from : lane_begin(lane);
  range.to = m.to ? m.to : page.to ? page.to : lane_end(page.lane);
  range.as_of = *segment.received;
  range.mend = page.step == Verification::Step::mend && m.memory_slots == 0;
  if (page.step == Verification::Step::compare) {
    ApplyRange::Equal equal{};
    equal.count = m.count;
    equal.digest = m.digest;
    range.equal = equal;
  } else {
    auto own = std::make_shared<std::string>(m.records);
    own->append(m.table);
    piece.records = std::string_view(*own).substr(0, m.records.size());
    piece.table = std::string_view(*own).substr(m.records.size());
    piece.own = std::move(own);
  }
  piece.range = std::move(range);
  verification_.comparing(m.to ? m.to : page.to, m.count, m.bytes);
  queue(page.lane, std::move(piece));
}

void LinkCore::checked(std::size_t index, const Flight& flight) {
  if (verification_.state() != Verification::State::comparing || verification_.page().lane != index) return;
  if (!flight.checked) return verification_.again(now_ + soon_us);  // what was answered nobody has heard
  const Flight::Checked& found = *flight.checked;
  SegmentState& segment = segments_[lane_segment_[index]];
  verification_.note_memory(0, flight.piece.range->equal ? 0 : found.memory_slots);
  if (found.memory_slots != 0) {
    log(LogLine::Level::error, "memory_changed", fmt::format("segment {} into {}: {} slots of the target hold other bytes than were written to them", segment.id.value(),
                                                             lanes_[index].target().value(), found.memory_slots));
  }
  switch (verification_.page().step) {
    case Verification::Step::compare:
      if (found.differing == 0) verification_.equal(now_);
      else verification_.differs(now_);
      break;
    case Verification::Step::list: name_differing(segment, flight); break;
    case Verification::Step::mend:
      if (!flight.piece.range->mend || found.too_many != 0) {
        log(LogLine::Level::error, "repair_refused", found.too_many == 0 ? fmt::format("segment {}: not repaired: the source's own memory is in doubt", segment.id.value())
                                                                        : fmt::format("segment {}: {} keys would be replaced or removed, {} may be; nothing is repaired", segment.id.value(), found.too_many, mends_left_));
        verification_.not_mended(now_);
        break;
      }
      mends_left_ -= std::min(mends_left_, flight.replaced + flight.removed);
      if (found.differing != 0) log(LogLine::Level::warning, "divergence_repaired", fmt::format("segment {}: {} keys are what the source has again", segment.id.value(), found.differing));
      note_dirty(segment);
      verification_.mended(now_, found.differing);
      break;
  }
  report_round();
  if (stage_ == Stage::active && verification_.page_due(now_)) ask_page();
}

void LinkCore::name_differing(SegmentState& segment, const Flight& flight) {
  const Flight::Checked& found = *flight.checked;
  std::unordered_set<std::string_view> theirs;
  std::size_t offset = 0;
  for (std::size_t i = 0; i < row_count(flight.piece.table); ++i) {
    const std::string_view bytes = flight.piece.records.substr(offset, read_row(flight.piece.table, i).length);
    offset += bytes.size();
    if (const auto record = parse_record(bytes)) theirs.insert(record->key);
  }
  std::vector<DivergentKey> keys;
  for (const LostRecord& differs : found.differ) {
    const auto how = differs.record.empty() ? DivergentKey::How::missing : theirs.contains(differs.key) ? DivergentKey::How::different : DivergentKey::How::unknown_at_source;
    if (keys.size() < lines_per_page) {
      log(LogLine::Level::warning, "divergent", fmt::format("segment {}: key {} {}, as of {}", segment.id.value(), printable(differs.key, 64),
                                                            how == DivergentKey::How::missing     ? "is missing at the target"
                                                            : how == DivergentKey::How::different ? "has another value or version at the target"
                                                                                                  : "is at the target and not at the source",
                                                            to_string(flight.piece.range->as_of.at)));
    }
    keys.push_back({segment.id, differs.key, how, flight.piece.range->as_of.at});
  }
  if (found.differing > lines_per_page) log(LogLine::Level::warning, "divergent", fmt::format("segment {}: {} keys of one page differ", segment.id.value(), found.differing));
  verification_.named(now_, std::move(keys), found.differing, verification_.mends());
}

// A page that the target cannot even look at is left out of the round: memory that has changed at the source can make its records so. A target of an
// earlier build knows no checks at all.
void LinkCore::check_refused(SegmentState& segment, Status status, const std::string& why) {
  if (status != Status::unsupported) {
    log(LogLine::Level::error, "verify_page_refused", fmt::format("segment {}: a page of the source's records cannot be compared, and is left out: {}", segment.id.value(), why));
    verification_.cannot_compare(now_);
    report_round();
    return park(segment, true, 0, "verify_page_refused", why);
  }
  verify_refused_ = true;
  verification_.again(now_);
  again_later("verify_refused", "the target does not compare, and is not asked to any more: " + why);
}

void LinkCore::report_round() {
  if (!verification_.take_ended()) return;
  const VerifyStatus s = verification_.status(now_);
  const std::string text = fmt::format("{} records compared in {:.1f} s", s.last_records, s.last_seconds);
  if (s.divergent != 0) log(LogLine::Level::error, "verify_different", fmt::format("{}; {} keys differ", text, s.divergent));
  else if (s.last_result == "repaired") log(LogLine::Level::warning, "verify_repaired", fmt::format("{}; {} keys differed, and are what the source has now", text, s.last_repaired));
  else if (s.left_out != 0) log(LogLine::Level::warning, "verify_incomplete", fmt::format("{}, all equal; {} segments could not be looked at", text, s.left_out));
  else log(LogLine::Level::info, "verify_equal", fmt::format("{}, all equal", text));
}

}  // namespace zaris::follower
