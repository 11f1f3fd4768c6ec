#include "follower/link/piece.hpp"

#include <algorithm>

#include "cluster/base/assert.hpp"
#include "cluster/placement/slot.hpp"
#include "cluster/record/record.hpp"
#include "cluster/record/record_table.hpp"

namespace zaris::follower {
namespace {

constexpr std::uint64_t delta_max = 65'535;

void set_first_delta(std::string& table, std::uint64_t delta) {
  table[6] = static_cast<char>(delta & 0xff);
  table[7] = static_cast<char>(delta >> 8);
}

Revision newest_record(const Piece& piece) {
  std::uint64_t revision = piece.prev->at.revision.value();
  for (std::size_t i = 0, n = row_count(piece.table); i < n; ++i) revision += read_row(piece.table, i).revision_delta;
  return Revision{revision};
}

// Moves the piece's bytes into a string of its own, so that more can be appended.
std::shared_ptr<std::string> own_bytes(std::string_view records, std::string_view table) {
  auto own = std::make_shared<std::string>();
  own->reserve(records.size() + table.size());
  own->append(records).append(table);
  return own;
}

void point_to(Piece& piece, const std::shared_ptr<std::string>& own, std::size_t records) {
  piece.records = std::string_view(*own).substr(0, records);
  piece.table = std::string_view(*own).substr(records);
  piece.own = own;
  piece.message.reset();
}

}  // namespace

void whole_run(const feed::Run& run, const NamedPosition& prev, const NamedPosition& last, const NamedPosition& low,
               const Bytes& message, const std::function<void(Piece)>& out) {
  Piece piece;
  piece.prev = prev;
  piece.last = last;
  piece.commit_time_us = run.commit_time_us;
  piece.table = run.table;
  piece.records = run.records;
  piece.message = message;
  piece.credit = run.table.size() + run.records.size();
  if (low.at < prev.at) {
    const std::uint64_t delta = read_row(run.table, 0).revision_delta + (prev.at.revision.value() - low.at.revision.value());
    if (delta > delta_max) {
      Piece step;
      step.prev = low;
      step.last = prev;
      out(std::move(step));
    } else {
      auto table = std::make_shared<std::string>(run.table);
      set_first_delta(*table, delta);
      piece.prev = low;
      piece.table = *table;
      piece.own = table;
    }
  }
  out(std::move(piece));
}

std::uint64_t split_run(const feed::Run& run, const NamedPosition& prev, const NamedPosition& last, std::span<const LaneView> lanes,
                        std::uint32_t target_segments, const PieceSink& out) {
  struct Part {
    std::string records, table;
    NamedPosition prev;
    std::uint64_t newest = 0;             // revision that the next delta counts from
    bool wanted = false;
  };
  std::vector<Part> parts(lanes.size());
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    if (!lanes[i].low || last.at <= lanes[i].low->at) continue;
    parts[i].wanted = true;
    parts[i].prev = lanes[i].low->at < prev.at ? *lanes[i].low : prev;
    parts[i].newest = parts[i].prev.at.revision.value();
  }
  const auto finish = [&](std::size_t lane, const NamedPosition& end) {
    Part& part = parts[lane];
    Piece piece;
    piece.prev = part.prev;
    piece.last = end;
    piece.commit_time_us = run.commit_time_us;
    piece.credit = part.records.size() + part.table.size();
    auto own = own_bytes(part.records, part.table);
    point_to(piece, own, part.records.size());
    part.prev = end;
    part.newest = end.at.revision.value();
    part.records.clear();
    part.table.clear();
    out(lane, std::move(piece));
  };
  const std::uint16_t first_target = lanes.front().target.value();
  std::uint64_t revision = prev.at.revision.value(), given_back = 0;
  std::size_t offset = 0;
  for (std::size_t i = 0, n = row_count(run.table); i < n; ++i) {
    RecordRow row = read_row(run.table, i);
    revision += row.revision_delta;
    const std::string_view record = run.records.substr(offset, row.length);
    offset += row.length;
    const std::size_t lane = static_cast<std::size_t>(segment_of(row.slot, target_segments).value()) - first_target;
    if (lane >= parts.size() || !parts[lane].wanted) {
      given_back += row.length + record_row_bytes;
      continue;
    }
    Part& part = parts[lane];
    // The record's distance to the one before it in this lane does not fit: the piece ends just before the record. All
    // revisions of a run are of one generation, so that place has a name; below the run's begin only `prev` has one.
    if (revision - part.newest > delta_max) {
      NamedPosition end = last;
      end.at.revision = Revision{revision - 1};
      if (end.at.revision <= prev.at.revision) end = prev;
      finish(lane, end);
    }
    row.revision_delta = static_cast<std::uint16_t>(revision - part.newest);
    part.newest = revision;
    part.records.append(record);
    append_row(part.table, row);
  }
  for (std::size_t lane = 0; lane < parts.size(); ++lane) {
    if (!parts[lane].table.empty()) finish(lane, last);
  }
  return given_back;
}

std::vector<Cut> split_records(std::string_view table, std::string_view records, std::span<const LaneView> lanes,
                               std::uint32_t target_segments) {
  std::vector<Cut> cuts(lanes.size());
  std::vector<std::string> tables(lanes.size());
  const std::uint16_t first_target = lanes.front().target.value();
  std::size_t offset = 0;
  for (std::size_t i = 0, n = row_count(table); i < n; ++i) {
    const RecordRow row = read_row(table, i);
    const std::size_t lane = static_cast<std::size_t>(segment_of(row.slot, target_segments).value()) - first_target;
    if (lane < cuts.size()) {
      cuts[lane].bytes.append(records.substr(offset, row.length));
      append_row(tables[lane], row);
    }
    offset += row.length;
  }
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    cuts[i].records = cuts[i].bytes.size();
    cuts[i].bytes.append(tables[i]);
  }
  return cuts;
}

void cut(Piece piece, std::size_t bytes_max, const std::function<void(Piece)>& out) {
  std::size_t begin = 0, offset = 0, from = 0;  // rows and record bytes of the parts before; bytes of this one so far
  std::uint64_t revision = piece.prev ? piece.prev->at.revision.value() : 0;
  const std::size_t rows = piece.bytes() > bytes_max ? piece.rows() : 0;
  std::size_t length = 0;
  std::string_view last_record;
  for (std::size_t i = 0; i < rows; ++i) {
    const RecordRow row = read_row(piece.table, i);
    if (i > begin && length + row.length + (i - begin + 1) * record_row_bytes > bytes_max) {
      Piece part = piece;
      part.credit = 0;
      part.closed_time_us = 0;
      bool possible = true;
      if (part.range) {
        const auto record = parse_record(last_record);  // what cannot be read is the target's to refuse
        possible = record.has_value();
        if (possible) part.range->to = SlotKey{read_row(piece.table, i - 1).slot, std::string(record->key)};
        part.range->final = false;
      } else if (part.repair) {
        part.repair->final = false;
      } else {
        part.last = piece.last;
        part.last->at.revision = Revision{revision};
      }
      if (possible) {
        part.table = piece.table.substr(begin * record_row_bytes, (i - begin) * record_row_bytes);
        part.records = piece.records.substr(from, length);
        if (!part.repair) piece.prev = part.last;
        if (part.range) piece.range->from = part.range->to;
        out(std::move(part));
        begin = i;
        from = offset;
        length = 0;
      }
    }
    revision += row.revision_delta;
    last_record = piece.records.substr(offset, row.length);
    offset += row.length;
    length += row.length;
  }
  piece.table = piece.table.substr(begin * record_row_bytes);
  piece.records = piece.records.substr(from);
  out(std::move(piece));
}

bool join(Piece& piece, const Piece& next) {
  if (piece.kind != ApplyKind::stream || next.kind != ApplyKind::stream) return false;
  if (piece.last != next.prev || piece.last->at.generation != next.last->at.generation) return false;
  if (piece.bytes() + next.bytes() > joined_bytes_max) return false;
  if (!next.table.empty()) {
    const std::uint64_t gap = piece.last->at.revision.value() - (piece.joined ? piece.joined->newest : newest_record(piece)).value();
    const std::uint64_t delta = read_row(next.table, 0).revision_delta + gap;
    if (delta > delta_max) return false;
    if (!piece.joined) {
      piece.joined = std::make_shared<JoinedBytes>();
      piece.joined->records.reserve(4 * piece.records.size() + next.records.size());
      piece.joined->table.reserve(4 * piece.table.size() + next.table.size());
      piece.joined->records.append(piece.records);
      piece.joined->table.append(piece.table);
      piece.own = Bytes(piece.joined, &piece.joined->records);
      piece.message.reset();
    }
    JoinedBytes& joined = *piece.joined;
    const std::size_t at = joined.table.size();
    joined.table.append(next.table);
    joined.table[at + 6] = static_cast<char>(delta & 0xff);
    joined.table[at + 7] = static_cast<char>(delta >> 8);
    joined.records.append(next.records);
    joined.newest = newest_record(next);
    piece.records = joined.records;
    piece.table = joined.table;
    piece.commit_time_us = std::max(piece.commit_time_us, next.commit_time_us);
  }
  piece.last = next.last;
  piece.closed_time_us = std::max(piece.closed_time_us, next.closed_time_us);
  piece.credit += next.credit;
  return true;
}

}  // namespace zaris::follower
