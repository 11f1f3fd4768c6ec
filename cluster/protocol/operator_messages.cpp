#include "cluster/protocol/operator_messages.hpp"

#include <algorithm>

#include "cluster/protocol/places.hpp"

namespace zaris::protocol {
namespace {

constexpr std::uint32_t partitions_max = 16'384, segments_max = 16'384, members_max = 4096;
constexpr std::uint32_t names_max = 64;             // nodes of one partition
constexpr std::size_t text_bytes_max = 4096;
constexpr std::uint64_t clock_us_max = std::uint64_t{1} << 62;

std::string read_text(Unpacker& in, Places& places) {
  const std::string_view text = places.bytes();
  if (text.size() > text_bytes_max) in.fail();
  return in.ok() ? std::string(text) : std::string();
}

void pack_names(Packer& pack, const std::vector<std::string>& names) {
  pack.array(static_cast<std::uint32_t>(names.size()));
  for (const std::string& name : names) pack.str(name);
}

void read_names(Unpacker& in, Places& places, std::vector<std::string>& out) {
  if (!places.take()) return;
  for (std::uint32_t n = read_count(in, names_max); n > 0 && in.ok(); --n) {
    const std::string_view name = in.bytes();
    if (name.size() > text_bytes_max) in.fail();
    if (in.ok()) out.emplace_back(name);
  }
}

}  // namespace

// ---- RegionStatus -------------------------------------------------------------------------------------------------
void encode_region_status_request(std::string& out, std::uint32_t correlation) {
  const std::size_t at = begin_frame(out, Opcode::region_status, 0, correlation);
  Packer(out).array(0);
  end_frame(out, at);
}

void encode(std::string& out, std::uint32_t correlation, const RegionStatusAnswer& answer) {
  const std::size_t at = begin_frame(out, Opcode::region_status, 0, correlation);
  Packer pack(out);
  pack.array(16);
  pack.uint(answer.map_version);
  pack.uint(answer.ownership_version);
  pack.uint(answer.leader_term);
  pack.str(answer.node);
  pack.str(answer.leader);
  for (const bool v : {answer.converged, answer.registered, answer.name_taken}) pack.boolean(v);
  pack.str(answer.etcd_trouble);
  pack.uint(answer.etcd_silence_us);
  pack.str(answer.waiting_for);
  pack.uint(answer.replication_factor);
  pack.str(answer.ack);
  pack.str(answer.ack_max);
  pack.array(static_cast<std::uint32_t>(answer.members.size()));
  for (const RegionStatusAnswer::Member& row : answer.members) {
    pack.array(10);
    pack.str(row.name);
    pack.str(row.address);
    for (const bool v : {row.registered, row.connected, row.leader, row.draining}) pack.boolean(v);
    pack.str(row.state);
    pack.str(row.version);
    if (!row.clock) {
      pack.nil();
      pack.str(row.settings_differ);
      continue;
    }
    const auto forward = [](std::int64_t v) { return static_cast<std::uint64_t>(std::max<std::int64_t>(v, 0)); };
    pack.array(4);
    pack.uint(forward(row.clock->ahead_us));
    pack.uint(forward(-row.clock->ahead_us));
    pack.uint(row.clock->within_us);
    pack.boolean(row.clock->beyond);
    pack.str(row.settings_differ);
  }
  pack.array(static_cast<std::uint32_t>(answer.partitions.size()));
  for (const RegionStatusAnswer::Partition& row : answer.partitions) {
    pack.array(16);
    pack.str(row.id);
    pack.uint(row.first);
    pack.uint(row.segments);
    for (const std::string* text : {&row.primary, &row.owner, &row.state, &row.reason}) pack.str(*text);
    pack_names(pack, row.replicas);
    pack_names(pack, row.synchronised);
    pack.uint(row.generation.value());
    for (const std::string* text : {&row.role, &row.role_reason, &row.serves_by}) pack.str(*text);
    pack.uint(row.lag_revisions);
    pack.boolean(row.accepted);
    pack.str(row.waits_for);
  }
  end_frame(out, at);
}

bool decode(std::string_view body, RegionStatusAnswer& out) {
  out = {};
  Unpacker in(body);
  Places places(in);
  out.map_version = places.uint();
  out.ownership_version = places.uint();
  out.leader_term = places.uint();
  out.node = read_text(in, places);
  out.leader = read_text(in, places);
  for (bool* v : {&out.converged, &out.registered, &out.name_taken}) *v = places.boolean();
  out.etcd_trouble = read_text(in, places);
  out.etcd_silence_us = places.uint();
  out.waiting_for = read_text(in, places);
  out.replication_factor = places.fit<std::uint32_t>();
  out.ack = read_text(in, places);
  out.ack_max = read_text(in, places);
  if (places.take()) {
    for (std::uint32_t n = read_count(in, members_max); n > 0 && in.ok(); --n) {
      RegionStatusAnswer::Member& row = out.members.emplace_back();
      Places inner(in);
      row.name = read_text(in, inner);
      row.address = read_text(in, inner);
      for (bool* v : {&row.registered, &row.connected, &row.leader, &row.draining}) *v = inner.boolean();
      row.state = read_text(in, inner);
      row.version = read_text(in, inner);
      if (inner.take()) {
        Places clock(in);
        const std::uint64_t ahead = clock.uint(), behind = clock.uint();
        if (ahead > clock_us_max || behind > clock_us_max) in.fail();
        RegionStatusAnswer::Member::Clock& to = row.clock.emplace();
        if (in.ok()) to.ahead_us = static_cast<std::int64_t>(ahead) - static_cast<std::int64_t>(behind);
        to.within_us = clock.uint();
        to.beyond = clock.boolean();
        clock.finish();
      }
      row.settings_differ = read_text(in, inner);
      inner.finish();
    }
  }
  if (places.take()) {
    for (std::uint32_t n = read_count(in, partitions_max); n > 0 && in.ok(); --n) {
      RegionStatusAnswer::Partition& row = out.partitions.emplace_back();
      Places inner(in);
      row.id = read_text(in, inner);
      row.first = inner.fit<std::uint32_t>();
      row.segments = inner.fit<std::uint32_t>();
      for (std::string* text : {&row.primary, &row.owner, &row.state, &row.reason}) *text = read_text(in, inner);
      read_names(in, inner, row.replicas);
      read_names(in, inner, row.synchronised);
      row.generation = Generation{inner.fit<std::uint32_t>()};
      for (std::string* text : {&row.role, &row.role_reason, &row.serves_by}) *text = read_text(in, inner);
      row.lag_revisions = inner.uint();
      row.accepted = inner.boolean();
      row.waits_for = read_text(in, inner);
      inner.finish();
    }
  }
  return whole(in, places);
}

// ---- DrainNode ----------------------------------------------------------------------------------------------------
void encode(std::string& out, std::uint32_t correlation, const DrainNodeRequest& request) {
  const std::size_t at = begin_frame(out, Opcode::drain_node, 0, correlation);
  Packer pack(out);
  pack.array(3);
  pack.str(request.node);
  pack.boolean(request.undo);
  pack.boolean(request.dry_run);
  end_frame(out, at);
}

bool decode(std::string_view body, DrainNodeRequest& out) {
  Unpacker in(body);
  Places places(in);
  out = {};
  out.node = places.bytes();
  if (out.node.empty() || out.node.size() > text_bytes_max) in.fail();
  out.undo = places.boolean();
  out.dry_run = places.boolean();
  return whole(in, places);
}

void encode(std::string& out, std::uint32_t correlation, const DrainNodeAnswer& answer) {
  const std::size_t at = begin_frame(out, Opcode::drain_node, 0, correlation);
  Packer pack(out);
  pack.array(1);
  pack.boolean(answer.changed);
  end_frame(out, at);
}

bool decode(std::string_view body, DrainNodeAnswer& out) {
  Unpacker in(body);
  Places places(in);
  out = {};
  out.changed = places.boolean();
  return whole(in, places);
}

// ---- Copies -------------------------------------------------------------------------------------------------------
void encode(std::string& out, std::uint32_t correlation, const CopiesRequest& request) {
  const std::size_t at = begin_frame(out, Opcode::copies, 0, correlation);
  Packer pack(out);
  pack.array(2);
  pack.uint(request.first.value());
  pack.uint(request.last.value());
  end_frame(out, at);
}

bool decode(std::string_view body, CopiesRequest& out) {
  Unpacker in(body);
  Places places(in);
  out = {};
  out.first = SegmentId{places.fit<std::uint16_t>()};
  out.last = SegmentId{places.fit<std::uint16_t>()};
  if (out.first > out.last) in.fail();
  return whole(in, places);
}

void encode(std::string& out, std::uint32_t correlation, const CopiesAnswer& answer) {
  const std::size_t at = begin_frame(out, Opcode::copies, 0, correlation);
  Packer pack(out);
  pack.array(1);
  pack.array(static_cast<std::uint32_t>(answer.rows.size()));
  for (const CopyRow& row : answer.rows) {
    pack.array(7);
    pack.uint(row.segment.value());
    pack.uint(static_cast<std::uint64_t>(row.role));
    pack.uint(row.at.generation.value());
    pack.uint(row.at.revision.value());
    pack.uint(row.count);
    pack_digest(pack, row.digest);
    pack.boolean(row.copying);
  }
  end_frame(out, at);
}

bool decode(std::string_view body, CopiesAnswer& out) {
  Unpacker in(body);
  Places places(in);
  out = {};
  if (places.demand()) {
    const std::uint32_t count = read_count(in, segments_max);
    for (std::uint32_t i = 0; i < count && in.ok(); ++i) {
      CopyRow& row = out.rows.emplace_back();
      Places inner(in);
      row.segment = SegmentId{inner.fit<std::uint16_t>()};
      const auto role = inner.fit<std::uint8_t>();
      if (role > static_cast<std::uint8_t>(CopyRow::Role::owner)) in.fail();
      row.role = static_cast<CopyRow::Role>(role);
      row.at.generation = Generation{inner.fit<std::uint32_t>()};
      row.at.revision = Revision{inner.uint()};
      row.count = inner.uint();
      row.digest = read_digest(in, inner);
      row.copying = inner.boolean();
      inner.finish();
    }
  }
  return whole(in, places);
}

}  // namespace zaris::protocol
