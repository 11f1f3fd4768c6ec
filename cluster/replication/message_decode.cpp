#include "cluster/protocol/link_messages.hpp"
#include "cluster/protocol/places.hpp"
#include "cluster/record/record_table.hpp"
#include "cluster/replication/message.hpp"

namespace zaris::replication {
namespace {

using protocol::Places;
using protocol::read_count;
using protocol::Unpacker;
using protocol::whole;

SegmentId as_segment(Unpacker& in, std::uint64_t v) {
  if (v > 16'383) in.fail();
  return SegmentId{static_cast<std::uint16_t>(v)};
}

// The place that says which segment: it must be there.
SegmentId read_segment(Unpacker& in, Places& places) {
  if (!places.demand()) return {};
  return as_segment(in, in.uint());
}

// A position at whose array the reader stands.
Position read_position(Unpacker& in) {
  Places places(in);
  Position at;
  at.generation = Generation{places.fit<std::uint32_t>()};
  at.revision = Revision{places.uint()};
  places.finish();
  return at;
}

Position demand_position(Unpacker& in, Places& places) { return places.demand() ? read_position(in) : Position{}; }

template <class Enum>
Enum read_enum(Unpacker& in, Places& places, Enum most) {
  const auto v = places.fit<std::uint8_t>();
  if (v > static_cast<std::uint8_t>(most)) in.fail();
  return static_cast<Enum>(v);
}

void read_segments(Unpacker& in, Places& places, std::vector<SegmentId>& out) {
  out.clear();
  if (!places.take()) return;
  const std::uint32_t count = read_count(in, rows_max);
  for (std::uint32_t i = 0; i < count && in.ok(); ++i) out.push_back(as_segment(in, in.uint()));
}

// Calls `row` for each element of the list in the next place.
template <class F>
void read_list(Unpacker& in, Places& places, std::uint32_t most, F&& row) {
  if (!places.take()) return;
  const std::uint32_t count = read_count(in, most);
  for (std::uint32_t i = 0; i < count && in.ok(); ++i) {
    Places inner(in);
    row(inner);
    inner.finish();
  }
}

// Whoever writes a lineage keeps its order; one that does not hold it is no lineage.
void read_lineage(Unpacker& in, Lineage& out) {
  Places places(in);
  Root root;
  root.history = HistoryId{places.uint()};
  root.generation = Generation{places.fit<std::uint32_t>()};
  root.timestamp_us = places.uint();
  root.cause = read_enum(in, places, RootCause::takeover);
  std::vector<LineageEntry> entries;
  read_list(in, places, Lineage::entries_max, [&](Places& row) {
    LineageEntry entry;
    entry.generation = Generation{row.fit<std::uint32_t>()};
    entry.id = row.uint();
    entry.first = Revision{row.uint()};
    entry.timestamp_us = row.uint();
    if (!entries.empty() && (entry.generation <= entries.back().generation || entry.first <= entries.back().first)) in.fail();
    entries.push_back(entry);
  });
  places.finish();
  if (in.ok()) out = Lineage(root, std::move(entries));
}

// What stands behind a message's array: `rows` rows of table, then the records.
bool read_behind(Unpacker& in, Places& places, std::uint64_t rows, std::string_view& table, std::string_view& records) {
  places.finish();
  if (!in.ok()) return false;
  const std::string_view rest = in.rest();
  if (rows > rest.size() / record_row_bytes) return false;
  table = rest.substr(0, rows * record_row_bytes);
  records = rest.substr(table.size());
  return table_fits(table, records.size());
}

}  // namespace

bool decode(std::string_view body, Follow& out) {
  out = {};
  Unpacker in(body);
  Places places(in);
  out.number = places.fit<std::uint32_t>();
  out.pull = places.boolean();
  read_list(in, places, rows_max, [&](Places& inner) {
    FollowRow& row = out.rows.emplace_back();
    row.segment = read_segment(in, inner);
    row.generation = Generation{inner.fit<std::uint32_t>()};
    if (inner.take()) row.history = HistoryId{in.uint()};
    if (inner.take()) row.head = protocol::read_named(in);
    row.copying = inner.boolean();
    row.count = inner.uint();
    const std::string_view digest = inner.bytes();
    if (digest.size() == 16) {
      row.digest = Digest::from_bytes(digest.data());
    } else {
      in.fail();
    }
    row.floor = Revision{inner.uint()};
  });
  read_segments(in, places, out.stop);
  return whole(in, places);
}

bool decode(std::string_view body, Following& out) {
  out = {};
  Unpacker in(body);
  Places places(in);
  out.number = places.fit<std::uint32_t>();
  read_list(in, places, rows_max, [&](Places& inner) {
    FollowingRow& row = out.rows.emplace_back();
    row.segment = read_segment(in, inner);
    row.how = read_enum(in, inner, FollowHow::refused);
    row.generation = Generation{inner.fit<std::uint32_t>()};
    row.head = demand_position(in, inner);
    row.floor = Revision{inner.uint()};
    const bool has_lineage = inner.take();
    if (has_lineage) read_lineage(in, row.lineage);
    if (inner.take()) row.as_of = read_position(in);
    const bool by_content = row.how == FollowHow::copy || row.how == FollowHow::equal;
    // The newest generation of a lineage is the one that its as_of is of.
    if (by_content && (!has_lineage || row.lineage.entries().empty() || row.lineage.entries().back().generation != row.as_of.generation ||
                       row.lineage.entries().back().first > row.as_of.revision)) {
      in.fail();
    }
    row.reason = inner.bytes();
    row.refusal = read_enum(in, inner, Refusal::trimmed);
    row.newest_timestamp_us = inner.uint();
  });
  return whole(in, places);
}

bool decode(std::string_view body, RunMessage& out) {
  out = {};
  Unpacker in(body);
  Places places(in);
  out.segment = read_segment(in, places);
  out.run.prev = demand_position(in, places);
  out.run.generation = Generation{places.fit<std::uint32_t>()};
  out.run.last = Revision{places.uint()};
  const std::uint64_t rows = places.uint();
  return read_behind(in, places, rows, out.run.table, out.run.records) && rows > 0 && out.run.prev.revision < out.run.last &&
         out.run.last.value() - out.run.prev.revision.value() == rows;
}

bool decode(std::string_view body, MarksMessage& out) {
  out = {};
  Unpacker in(body);
  Places places(in);
  out.segment = read_segment(in, places);
  out.marks.head = demand_position(in, places);
  out.marks.version = places.uint();
  const std::uint64_t flags = places.uint();
  out.marks.everything = (flags & marks_flag_everything) != 0;
  out.more = (flags & marks_flag_more) != 0;
  read_list(in, places, mark_changes_max, [&](Places& inner) {
    store::MarkChange& change = out.marks.changes.emplace_back();
    change.key.link = inner.bytes();
    if (change.key.link.empty() || change.key.link.size() > protocol::link_name_bytes_max) in.fail();
    change.key.scope = ScopeId{inner.uint()};
    change.key.source_segment = read_segment(in, inner);
    if (!inner.take()) return;
    const std::string_view before = in.rest();
    in.skip();
    std::string_view mark = before.substr(0, before.size() - in.rest().size());
    if (!in.ok() || !protocol::take_mark(mark, change.mark.emplace())) in.fail();
  });
  return whole(in, places);
}

bool decode(std::string_view body, PageMessage& out) {
  out = {};
  Unpacker in(body);
  Places places(in);
  out.segment = read_segment(in, places);
  protocol::read_slot_key(in, places, out.page.from);
  protocol::read_slot_key(in, places, out.page.to);
  out.page.as_of = demand_position(in, places);
  const std::uint64_t rows = places.uint();
  return read_behind(in, places, rows, out.page.table, out.page.records);
}

bool decode(std::string_view body, Floors& out) {
  out = {};
  Unpacker in(body);
  Places places(in);
  read_list(in, places, rows_max, [&](Places& inner) {
    FloorRow& row = out.rows.emplace_back();
    row.segment = read_segment(in, inner);
    row.floor = Revision{inner.uint()};
    row.memory_floor = Revision{inner.uint()};
  });
  return whole(in, places);
}

bool decode(std::string_view body, Pins& out) {
  out = {};
  Unpacker in(body);
  Places places(in);
  read_list(in, places, pins_in_frame_max, [&](Places& inner) {
    PinMessage& pin = out.pins.emplace_back();
    pin.key.principal = inner.bytes();
    pin.key.link = inner.bytes();
    pin.key.target = ClusterId{inner.uint()};
    if (pin.key.principal.size() > protocol::link_name_bytes_max || pin.key.link.size() > protocol::link_name_bytes_max) in.fail();
    auto scope = Scope::parse(inner.bytes());
    if (!scope) return in.fail();
    pin.scope = std::move(*scope);
    pin.key.scope = pin.scope.id();
    read_list(in, inner, rows_max, [&](Places& place) {
      PinRow& row = pin.rows.emplace_back();
      row.segment = read_segment(in, place);
      if (!place.take()) return;
      row.place.emplace().acknowledged = read_position(in);
      row.place->moved = demand_position(in, place);
    });
  });
  read_segments(in, places, out.settled);
  return whole(in, places);
}

bool decode(std::string_view body, ClosedTimeMessage& out) {
  Unpacker in(body);
  Places places(in);
  out.closed_time_us = places.uint();
  return whole(in, places);
}

bool decode(std::string_view body, Received& out) {
  out = {};
  Unpacker in(body);
  Places places(in);
  read_list(in, places, rows_max, [&](Places& inner) {
    ReceivedRow& row = out.rows.emplace_back();
    row.segment = read_segment(in, inner);
    row.head.generation = Generation{inner.fit<std::uint32_t>()};
    row.head.revision = Revision{inner.uint()};
    row.marks_version = inner.uint();
  });
  out.closed_time_us = places.uint();
  return whole(in, places);
}

bool decode(std::string_view body, Credit& out) {
  Unpacker in(body);
  Places places(in);
  out.bytes = places.uint();
  return whole(in, places);
}

}  // namespace zaris::replication
