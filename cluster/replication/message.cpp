#include "cluster/replication/message.hpp"

#include "cluster/protocol/link_messages.hpp"
#include "cluster/protocol/places.hpp"
#include "cluster/record/record_table.hpp"

namespace zaris::replication {
namespace {

using protocol::begin_frame;
using protocol::end_frame;
using protocol::Opcode;
using protocol::Packer;

std::uint32_t size32(std::size_t n) { return static_cast<std::uint32_t>(n); }

void pack_position(Packer& pack, Position at) {
  pack.array(2);
  pack.uint(at.generation.value());
  pack.uint(at.revision.value());
}

void pack_segments(Packer& pack, const std::vector<SegmentId>& segments) {
  pack.array(size32(segments.size()));
  for (const SegmentId segment : segments) pack.uint(segment.value());
}

void pack_lineage(Packer& pack, const Lineage& lineage) {
  const Root& root = lineage.root();
  pack.array(5);
  pack.u64(root.history.value());
  pack.uint(root.generation.value());
  pack.uint(root.timestamp_us);
  pack.uint(static_cast<std::uint64_t>(root.cause));
  pack.array(size32(lineage.entries().size()));
  for (const LineageEntry& entry : lineage.entries()) {
    pack.array(4);
    pack.uint(entry.generation.value());
    pack.u64(entry.id);
    pack.uint(entry.first.value());
    pack.uint(entry.timestamp_us);
  }
}

void pack_row(Packer& pack, const FollowRow& row) {
  pack.array(row.floor == Revision{0} ? 7 : 8);
  pack.uint(row.segment.value());
  pack.uint(row.generation.value());
  row.history ? pack.u64(row.history->value()) : pack.nil();
  protocol::pack_named(pack, row.head.at == Position{} ? std::nullopt : std::optional(row.head));
  pack.boolean(row.copying);
  pack.uint(row.count);
  char digest[16];
  row.digest.to_bytes(digest);
  pack.bin({digest, sizeof digest});
  if (row.floor != Revision{0}) pack.uint(row.floor.value());
}

void pack_row(Packer& pack, const FollowingRow& row) {
  const bool whole = row.how == FollowHow::copy || row.how == FollowHow::equal;
  pack.array(whole ? 10 : 9);
  pack.uint(row.segment.value());
  pack.uint(static_cast<std::uint64_t>(row.how));
  pack.uint(row.generation.value());
  pack_position(pack, row.head);
  pack.uint(row.floor.value());
  if (whole) {
    pack_lineage(pack, row.lineage);
    pack_position(pack, row.as_of);
  } else {
    pack.nil();
    pack.nil();
  }
  pack.str(row.reason);
  pack.uint(static_cast<std::uint64_t>(row.refusal));
  if (whole) pack.uint(row.newest_timestamp_us);
}

}  // namespace

std::string_view name(FollowHow how) {
  switch (how) {
    case FollowHow::log: return "log";
    case FollowHow::copy: return "copy";
    case FollowHow::equal: return "equal";
    case FollowHow::refused: return "refused";
  }
  return "unknown";
}

std::string_view name(Refusal refusal) {
  switch (refusal) {
    case Refusal::none: return "none";
    case Refusal::not_owner: return "not_owner";
    case Refusal::older_generation: return "older_generation";
    case Refusal::nothing_to_pull: return "nothing_to_pull";
    case Refusal::ended: return "ended";
    case Refusal::trimmed: return "trimmed";
  }
  return "unknown";
}

void encode(std::string& out, const Follow& message) {
  const std::size_t at = begin_frame(out, Opcode::follow, 0, 0);
  Packer pack(out);
  pack.array(message.stop.empty() ? 3 : 4);
  pack.uint(message.number);
  pack.boolean(message.pull);
  pack.array(size32(message.rows.size()));
  for (const FollowRow& row : message.rows) pack_row(pack, row);
  if (!message.stop.empty()) pack_segments(pack, message.stop);
  end_frame(out, at);
}

void encode(std::string& out, const Following& message) {
  const std::size_t at = begin_frame(out, Opcode::following, 0, 0);
  Packer pack(out);
  pack.array(2);
  pack.uint(message.number);
  pack.array(size32(message.rows.size()));
  for (const FollowingRow& row : message.rows) pack_row(pack, row);
  end_frame(out, at);
}

namespace {

// Everything of a run but what stands behind its array.
std::size_t begin_run(std::string& out, SegmentId segment, Position prev, Generation generation, Revision last, std::size_t rows, bool may_wait) {
  const std::size_t at = begin_frame(out, Opcode::replica_run, may_wait ? protocol::flag_answer_may_wait : std::uint16_t{0}, 0);
  Packer pack(out);
  pack.array(5);
  pack.uint(segment.value());
  pack_position(pack, prev);
  pack.uint(generation.value());
  pack.uint(last.value());
  pack.uint(rows);
  return at;
}

std::size_t begin_page(std::string& out, SegmentId segment, const std::optional<SlotKey>& from, const std::optional<SlotKey>& to,
                       Position as_of, std::size_t rows) {
  const std::size_t at = begin_frame(out, Opcode::replica_page, 0, 0);
  Packer pack(out);
  pack.array(5);
  pack.uint(segment.value());
  protocol::pack_slot_key(pack, from);
  protocol::pack_slot_key(pack, to);
  pack_position(pack, as_of);
  pack.uint(rows);
  return at;
}

}  // namespace

void encode_run(std::string& out, SegmentId segment, Position prev, const store::LogStretch& stretch, std::size_t count, bool may_wait) {
  const Revision last{stretch.first.value() + count - 1};
  const std::size_t at = begin_run(out, segment, prev, stretch.generation, last, count, may_wait);
  for (std::size_t i = 0; i < count; ++i) {
    const store::LogIndex& index = stretch.index[i];
    append_row(out, RecordRow{index.length, index.flags, index.slot, 1});
  }
  const store::LogIndex& end = stretch.index[count - 1];
  out.append(stretch.bytes, end.offset + end.length - stretch.index[0].offset);
  end_frame(out, at);
}

void encode(std::string& out, const RunMessage& message) {
  const store::ReplicaRun& run = message.run;
  const std::size_t at = begin_run(out, message.segment, run.prev, run.generation, run.last, row_count(run.table), false);
  out.append(run.table).append(run.records);
  end_frame(out, at);
}

void encode(std::string& out, const MarksMessage& message) {
  const std::size_t at = begin_frame(out, Opcode::replica_marks, 0, 0);
  Packer pack(out);
  pack.array(5);
  pack.uint(message.segment.value());
  const store::MarksSince& marks = message.marks;
  pack_position(pack, marks.head);
  pack.uint(marks.version);
  pack.uint((marks.everything ? marks_flag_everything : 0u) | (message.more ? marks_flag_more : 0u));
  pack.array(size32(marks.changes.size()));
  for (const store::MarkChange& change : marks.changes) {
    pack.array(4);
    pack.str(change.key.link);
    pack.u64(change.key.scope.value());
    pack.uint(change.key.source_segment.value());
    if (change.mark) {
      protocol::append_mark(out, *change.mark);
    } else {
      pack.nil();
    }
  }
  end_frame(out, at);
}

void encode_page(std::string& out, SegmentId segment, const store::WalkPage& page) {
  const std::size_t at = begin_page(out, segment, page.from, page.to, page.as_of, row_count(page.table));
  out.append(page.table).append(page.records);
  end_frame(out, at);
}

void encode(std::string& out, const PageMessage& message) {
  const store::CopyPage& page = message.page;
  const std::size_t at = begin_page(out, message.segment, page.from, page.to, page.as_of, row_count(page.table));
  out.append(page.table).append(page.records);
  end_frame(out, at);
}

void encode(std::string& out, const Floors& message) {
  const std::size_t at = begin_frame(out, Opcode::replica_floors, 0, 0);
  Packer pack(out);
  pack.array(1);
  pack.array(size32(message.rows.size()));
  for (const FloorRow& row : message.rows) {
    const bool spilled = row.memory_floor > row.floor;
    pack.array(spilled ? 3 : 2);
    pack.uint(row.segment.value());
    pack.uint(row.floor.value());
    if (spilled) pack.uint(row.memory_floor.value());
  }
  end_frame(out, at);
}

void encode(std::string& out, const Pins& message) {
  const std::size_t at = begin_frame(out, Opcode::replica_pins, 0, 0);
  Packer pack(out);
  pack.array(2);
  pack.array(size32(message.pins.size()));
  for (const PinMessage& pin : message.pins) {
    pack.array(5);
    pack.str(pin.key.principal);
    pack.str(pin.key.link);
    pack.u64(pin.key.target.value());
    pack.bin(pin.scope.text());
    pack.array(size32(pin.rows.size()));
    for (const PinRow& row : pin.rows) {
      pack.array(row.place ? 3 : 1);
      pack.uint(row.segment.value());
      if (!row.place) continue;
      pack_position(pack, row.place->acknowledged);
      pack_position(pack, row.place->moved);
    }
  }
  pack_segments(pack, message.settled);
  end_frame(out, at);
}

void encode(std::string& out, const ClosedTimeMessage& message) {
  const std::size_t at = begin_frame(out, Opcode::replica_closed_time, 0, 0);
  Packer pack(out);
  pack.array(1);
  pack.uint(message.closed_time_us);
  end_frame(out, at);
}

void encode(std::string& out, const Received& message) {
  const std::size_t at = begin_frame(out, Opcode::replica_received, 0, 0);
  Packer pack(out);
  pack.array(2);
  pack.array(size32(message.rows.size()));
  for (const ReceivedRow& row : message.rows) {
    pack.array(4);
    pack.uint(row.segment.value());
    pack.uint(row.head.generation.value());
    pack.uint(row.head.revision.value());
    pack.uint(row.marks_version);
  }
  pack.uint(message.closed_time_us);
  end_frame(out, at);
}

void encode(std::string& out, const Credit& message) {
  const std::size_t at = begin_frame(out, Opcode::replica_credit, 0, 0);
  Packer pack(out);
  pack.array(1);
  pack.uint(message.bytes);
  end_frame(out, at);
}

}  // namespace zaris::replication
