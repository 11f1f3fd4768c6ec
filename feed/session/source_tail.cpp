// The tail of the logs: batches, and records in parts.
#include <algorithm>
#include <cstring>

#include "cluster/base/assert.hpp"
#include "cluster/record/record.hpp"
#include "feed/session/source_session.hpp"

namespace zaris::feed {
namespace {

constexpr std::size_t turn_bytes_max = 64u << 10;      // of one segment, before the next one has its turn
constexpr std::uint64_t scan_bytes_max = 8u << 20;     // of log that one call may look at
constexpr std::uint32_t full_batches_max = 3;          // before a chunk has its turn, however far the tail is behind

WallMicros time_of(const store::LogStretch& stretch, std::size_t index) {
  if (index + 1 == stretch.index.size()) return stretch.newest_timestamp_us;
  if ((stretch.index[index].flags & store::log_flag_generation) != 0) {
    const auto record = parse_generation_record(stretch.record(index));
    ZARIS_ASSERT(record.has_value(), stretch.first.value() + index);
    return record->timestamp_us;
  }
  return trusted_record(stretch.record(index)).timestamp_us;
}

// Appends the records that the rows at out[rows_begin…] name, whole pieces of the log at a time.
void append_pieces(std::string& out, const store::LogStretch& stretch, std::uint64_t first, std::uint64_t revision,
                   std::size_t rows_begin, std::size_t rows) {
  std::size_t begin = 0, last = 0;
  const auto flush = [&] {
    const std::size_t from = stretch.index[begin].offset - stretch.index[0].offset;
    const std::size_t to = stretch.index[last].offset + stretch.index[last].length - stretch.index[0].offset;
    out.append(stretch.bytes + from, to - from);
  };
  for (std::size_t r = 0; r < rows; ++r) {
    std::uint64_t row;
    std::memcpy(&row, out.data() + rows_begin + r * record_row_bytes, record_row_bytes);
    revision += row >> 48;
    const std::size_t here = revision - first;
    if (r == 0) {
      begin = here;
    } else if (here != last + 1) {
      flush();
      begin = here;
    }
    last = here;
  }
  flush();
}

std::uint64_t row_of(const store::LogIndex& index, std::uint64_t delta) {
  const std::uint64_t flags = (index.flags & store::log_flag_tombstone) != 0 ? row_flag_tombstone : 0;
  return index.length | flags << 24 | std::uint64_t{index.slot.value()} << 32 | delta << 48;
}

}  // namespace

// Credit counts tables and records. What is larger than all of it passes, alone, when all of it is free.
bool Source::credit_for(std::uint64_t bytes) const {
  return static_cast<std::int64_t>(bytes) <= credit_ || (credit_ > 0 && credit_ >= window_);
}

// The order of what may be said now: parts of a large record take turns with everything else; then what was waited for
// (an answer as of a position that the tail has reached); then the tail, which chunks follow when it is not behind, and
// now and then when it is.
bool Source::next_data(std::string& out) {
  scan_left_ = scan_bytes_max;
  if (large_ && part_turn_) {
    part_turn_ = false;
    next_part(out);
    return true;
  }
  part_turn_ = true;
  while (!(pending_ && pending_reached())) {
    const bool answers_turn = tail_had_turn_ && (!batch_full_ || full_batches_ >= full_batches_max);
    if (!pending_ && answers_turn && begin_pending()) continue;
    if (!control_.empty()) return next_control(out);
    const bool waited_for = pending_.has_value();
    if (build_batch(out)) {
      full_batches_ = batch_full_ ? full_batches_ + 1 : 0;
      tail_had_turn_ |= !waited_for;
      return true;
    }
    if (!control_.empty()) return next_control(out);
    if (waited_for || !begin_pending()) return parts_only(out);
    if (!control_.empty()) return next_control(out);
  }
  if (const SegmentId id = pending_->segment; !serves(id)) {
    pending_.reset();
    moving(id);
    return next_control(out);
  }
  if (!credit_for(pending_->credit)) return parts_only(out);  // all data waits, or its turn would never come
  send_pending(out);
  full_batches_ = 0;
  tail_had_turn_ = false;
  return true;
}

bool Source::parts_only(std::string& out) {
  if (!large_) return false;
  next_part(out);
  return true;
}

bool Source::build_batch(std::string& out) {
  batch_full_ = false;
  if (credit_ <= 0) return false;
  if (pending_ && tail_.contains(pending_->segment)) tail_from_ = pending_->segment.value();
  const std::size_t start = out.size();
  BatchWriter writer(out);
  while (const auto id = tail_.next(tail_from_)) {
    tail_from_ = id->value();
    if (tail_segment(writer, out, start, *id) == Turn::message_done) break;
    tail_from_ = id->value() + 1u;
  }
  if (!writer.finish()) return false;
  ++counters_.batches;
  return true;
}

// One segment's turn: what its log holds above `scanned`, up to turn_bytes_max or the message's end.
Source::Turn Source::tail_segment(BatchWriter& writer, std::string& out, std::size_t start, SegmentId id) {
  Segment& s = at(id);
  std::size_t turn_left = turn_bytes_max;
  const std::uint32_t runs_before = writer.runs();
  if (large_ && large_->segment == id) {
    tail_.erase(id);  // its last part goes first
    return Turn::next_segment;
  }
  for (;;) {
    const bool waited_for = pending_ && pending_->segment == id;
    if (waited_for && s.scanned >= pending_->as_of.at) {
      if (s.told != s.scanned) cover(writer, id);
      tail_.erase(id);  // until the answer has left
      return Turn::message_done;
    }
    const std::size_t used = out.size() - start;
    if (used >= options_.batch_bytes || writer.runs() + 4 > BatchWriter::runs_max) {
      batch_full_ = true;
      return Turn::message_done;
    }
    if (s.told.generation != s.scanned.generation) {
      if (writer.runs() + Lineage::entries_max + 4 > BatchWriter::runs_max) {
        batch_full_ = true;
        return Turn::message_done;
      }
      cover(writer, id);
    }
    if (scan_left_ == 0) {  // looked at much and found little: say how far, and come again
      if (s.told != s.scanned) cover(writer, id);
      batch_full_ = true;
      return Turn::message_done;
    }
    if (turn_left == 0) return Turn::next_segment;

    store::LogStretch stretch;
    const std::size_t room = options_.batch_bytes - used;
    switch (store_.read_log(id, s.scanned.revision, std::min(turn_left, room), stretch)) {
      case store::LogRead::at_head:
        tail_.erase(id);
        if (writer.runs() != runs_before && s.told == s.scanned) writer.mark_reaches_head();
        return Turn::next_segment;
      case store::LogRead::fetching:
        tail_.erase(id);  // until it has come
        return Turn::next_segment;
      case store::LogRead::trimmed:
        trimmed(id);
        return Turn::message_done;
      case store::LogRead::ok:
        break;
    }
    std::size_t count = stretch.index.size();
    const auto limit = ship_limit(id);
    // What was read counts only if it was this node's to serve afterwards still.
    if (!serves(id)) {
      moving(id);
      return Turn::message_done;
    }
    if (limit && s.scanned.revision.value() + count > limit->value()) {
      held_back_.insert(id);
      count = limit->value() > s.scanned.revision.value() ? limit->value() - s.scanned.revision.value() : 0;
      if (count == 0) {
        tail_.erase(id);
        return Turn::next_segment;
      }
    }
    if (stretch.generation > s.lineage_told) {
      // Before any data of it: which generation this is, and where the one before it ended. What was passed over of that
      // one belongs to a run of its own.
      if (s.told != s.scanned) cover(writer, id);
      queue({.kind = Control::Kind::subscribed, .segment = id, .subscription = s.subscription});
      return Turn::message_done;
    }
    if (waited_for) count = std::min<std::size_t>(count, pending_->as_of.at.revision.value() - s.scanned.revision.value());
    const std::uint64_t scan_before = scan_left_;
    switch (append_stretch(writer, out, room, id, stretch, count)) {
      case Stop::none:
        break;
      case Stop::far:  // the next row's delta would not fit: a run without records goes up to it
        cover(writer, id);
        break;
      case Stop::room:
        batch_full_ = true;
        return Turn::message_done;
      case Stop::credit:
        return Turn::message_done;
      case Stop::large:
        return begin_large(writer, id, stretch);
      case Stop::withheld:
        standby(id);
        return Turn::message_done;
    }
    turn_left -= std::min<std::size_t>(turn_left, scan_before - scan_left_);
  }
}

// One run of what is wanted among the first `count` records of a stretch, written straight into the message: first the
// rows, then the records in as few pieces as there are gaps.
Source::Stop Source::append_stretch(BatchWriter& writer, std::string& out, std::size_t room, SegmentId id,
                                    const store::LogStretch& stretch, std::size_t count) {
  Segment& s = at(id);
  if (s.told.generation != stretch.generation && s.told != s.scanned) cover(writer, id);
  const LogFilter& filter = *filter_;
  const std::uint64_t first = stretch.first.value();
  const store::LogIndex* const index = stretch.index.data();
  const bool first_of_message = writer.runs() == 0;
  const bool all_credit_free = credit_ >= window_;
  const auto credit = static_cast<std::uint64_t>(std::max<std::int64_t>(credit_, 0));

  Stop stop = Stop::none;
  std::uint64_t row_at = s.told.revision.value(), charged = 0;
  std::size_t rows_begin = 0, rows = 0, i = 0;
  for (; i < count; ++i) {
    const char* const record = stretch.bytes + (index[i].offset - index[0].offset);
    if (s.reached_only && index[i].slot > s.reached) continue;
    if (!filter.wants(index[i], record)) {
      if (!filter.withholds(index[i], record)) continue;
      stop = Stop::withheld;
      break;
    }
    if (index[i].length > part_bytes) stop = Stop::large;
    else if (first + i - row_at > UINT16_MAX) stop = Stop::far;
    const std::uint64_t need = index[i].length + record_row_bytes;
    if (rows == 0 && stop == Stop::none) {
      if (need > room && !first_of_message) stop = Stop::room;
      else if (need > credit && !all_credit_free) stop = Stop::credit;
    } else if (charged + need > credit && stop == Stop::none) {
      stop = Stop::credit;
    }
    if (stop != Stop::none) break;
    if (rows == 0) {
      writer.begin_run(id, s.told, stretch.generation);
      rows_begin = out.size();
      out.resize(rows_begin + (count - i) * record_row_bytes);
    }
    const std::uint64_t row = row_of(index[i], first + i - row_at);
    std::memcpy(out.data() + rows_begin + rows * record_row_bytes, &row, record_row_bytes);
    row_at = first + i;
    charged += need;
    ++rows;
  }
  if (i == 0) return stop;

  const std::uint64_t looked_at = index[i - 1].offset + index[i - 1].length - index[0].offset;
  scan_left_ -= std::min(scan_left_, looked_at);
  s.scanned = {stretch.generation, Revision{first + i - 1}};
  progress_changed_.insert(id);
  counters_.filtered += i - rows;
  if (rows == 0) {
    covered_bytes_ += looked_at;
    return stop;
  }
  out.resize(rows_begin + rows * record_row_bytes);
  writer.begin_records();
  if (rows == i) {
    out.append(stretch.bytes, looked_at);
  } else {
    append_pieces(out, stretch, first, s.told.revision.value(), rows_begin, rows);
  }
  writer.end_run(s.scanned.revision, filter.full() ? time_of(stretch, i - 1) : closed_time_us_);
  s.told = s.scanned;
  charge(charged);
  counters_.records += rows;
  counters_.record_bytes += charged - rows * record_row_bytes;
  return stop;
}

// Runs without records from what the receiver holds to what has been looked at: one, but for a reader that comes back from
// before another generation began, since a run belongs to one.
void Source::cover(BatchWriter& writer, SegmentId id) {
  Segment& s = at(id);
  if (s.told == s.scanned) return;
  if (s.told.generation != s.scanned.generation) {
    const Lineage lineage = store_.lineage(id);
    Generation generation = s.told.generation;
    for (const LineageEntry& next : lineage.entries()) {
      if (next.generation <= generation || next.generation > s.scanned.generation) continue;
      const Position end{generation, Revision{next.first.value() - 1}};
      if (s.told.revision < end.revision) {
        writer.empty_run(id, s.told, end, closed_time_us_);
        s.told = end;
      }
      generation = next.generation;
    }
  }
  writer.empty_run(id, s.told, s.scanned, closed_time_us_);
  s.told = s.scanned;
}

// The record behind `scanned` is too large for a batch.
Source::Turn Source::begin_large(BatchWriter& writer, SegmentId id, const store::LogStretch& stretch) {
  Segment& s = at(id);
  const std::size_t index = s.scanned.revision.value() + 1 - stretch.first.value();
  const Position at{stretch.generation, s.scanned.revision.next()};
  if (s.told != s.scanned && (s.told.generation != at.generation || at.revision.value() - s.told.revision.value() > UINT16_MAX)) cover(writer, id);
  // One at a time. Whoever waits for credit here is the first to get it: all other data waits too.
  const std::uint64_t bytes = stretch.index[index].length + record_row_bytes;
  if (large_) {
    tail_.erase(id);  // until the other one's last part has left
    return Turn::next_segment;
  }
  if (!credit_for(bytes)) return Turn::message_done;
  charge(bytes);
  large_ = Large{id, s.told, at, filter_->full() ? time_of(stretch, index) : closed_time_us_, stretch, index, 0};
  tail_.erase(id);  // until its last part has left
  return Turn::next_segment;
}

void Source::next_part(std::string& out) {
  Large& large = *large_;
  Segment& s = at(large.segment);
  const std::string_view record = large.stretch.record(large.index);
  Part part{large.segment, large.at.revision, large.offset, record.size(), record.substr(large.offset, part_bytes)};
  part.prev = large.prev;
  part.generation = large.at.generation;
  part.commit_time_us = large.commit_time_us;
  part.slot = large.stretch.index[large.index].slot;
  part.row_flags = (large.stretch.index[large.index].flags & store::log_flag_tombstone) != 0 ? row_flag_tombstone : 0;
  large.offset += part.bytes.size();
  part.reaches_head = large.offset == record.size() && shown_head(large.segment) == large.at;
  encode_to(out, GatewayMessage{part});
  if (large.offset < record.size()) return;
  s.told = s.scanned = large.at;
  progress_changed_.insert(large.segment);
  subscribed_.each([&](SegmentId id) {  // this one goes on, and others may have waited with a large record of theirs
    if (at(id).positioned) tail_.insert(id);
  });
  ++counters_.records;
  counters_.record_bytes += record.size();
  large_.reset();
}

// Here begins what a link writes into this reader's scope, and the tail carries a region's own writes alone (feed rule 9): from here on
// the reader would be without it and not know.
void Source::standby(SegmentId id) {
  const auto links = store_.links();
  const auto by = std::find_if(links.begin(), links.end(), [&](const store::LinkRegistration& link) { return link.scope.overlaps(filter_->scope()); });
  end_segment(id, EndReason::source_standby,
              fmt::format("{} writes here what this reader asks for, and only this region's own writes are passed on",
                          by != links.end() ? fmt::format("link {} of cluster {}", printable(by->link), hex16(by->source_cluster.value())) : "another region's link"));
}

// The log no longer reaches what this reader needs next.
void Source::trimmed(SegmentId id) {
  const store::SegmentState state = store_.state(id);
  const std::uint64_t next = at(id).scanned.revision.value() + 1;
  if (!serves(id)) return moving(id);
  bool lost = pin_lost_;
  for (const store::PinInfo& pin : store_.pins(now_.wall_us)) lost |= pin.lost && pin.key == pin_;
  const std::string text = fmt::format("the log begins at {}, {} was to be sent next", state.floor.value(), next);
  if (!lost) return end_segment(id, EndReason::below_floor, text, {}, state.floor);
  store_.drop_pin(pin_);  // it has told its story; the next acknowledgement begins another
  pin_lost_ = true;
  end_segment(id, EndReason::too_slow, text + "; what was kept for this reader had grown past its bound", {}, state.floor);
}

}  // namespace zaris::feed
