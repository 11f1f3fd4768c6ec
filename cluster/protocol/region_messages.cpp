#include "cluster/protocol/region_messages.hpp"

#include "cluster/protocol/places.hpp"

namespace zaris::protocol {
namespace {

constexpr std::uint32_t rows_max = 16384;    // partitions, or segments of one
constexpr std::uint32_t nodes_max = 64;
constexpr std::size_t name_bytes_max = 256;

std::string read_name(Unpacker& in, Places& places) {
  const std::string_view text = places.bytes();
  if (text.size() > name_bytes_max) in.fail();
  return in.ok() ? std::string(text) : std::string();
}

Generation read_generation(Places& places) { return Generation{places.fit<std::uint32_t>()}; }

}  // namespace

// ---- PeerHello ----------------------------------------------------------------------------------------------------
void encode(std::string& out, const PeerHello& hello) {
  const std::size_t at = begin_frame(out, Opcode::peer_hello, 0, 0);
  Packer pack(out);
  pack.array(7);
  pack.uint(peer_version);
  pack.u64(hello.cluster.value());
  pack.str(hello.store);
  pack.str(hello.name);
  pack.u64(hello.incarnation);
  pack.uint(hello.segments);
  pack.str(hello.program);
  end_frame(out, at);
}

bool decode(std::string_view body, PeerHello& out) {
  Unpacker in(body);
  Places places(in);
  out = {};
  if (places.uint() != peer_version) return false;
  out.cluster = ClusterId{places.uint()};
  out.store = read_name(in, places);
  out.name = read_name(in, places);
  out.incarnation = places.uint();
  out.segments = places.fit<std::uint32_t>();
  out.program = read_name(in, places);
  return whole(in, places) && !out.name.empty() && out.incarnation != 0 && out.segments <= rows_max;
}

// ---- Heartbeat ----------------------------------------------------------------------------------------------------
void encode(std::string& out, const Heartbeat& heartbeat) {
  const std::size_t at = begin_frame(out, Opcode::heartbeat, 0, 0);
  Packer pack(out);
  pack.array(heartbeat.clock ? 5 : 4);
  pack.u64(heartbeat.view_digest);
  pack.uint(heartbeat.map_version);
  pack.uint(heartbeat.ownership_version);
  pack.array(static_cast<std::uint32_t>(heartbeat.owned.size()));
  for (const Heartbeat::Owned& row : heartbeat.owned) {
    pack.array(4);
    pack.u64(row.partition);
    pack.uint(row.generation.value());
    pack.boolean(row.serving);
    pack.array(static_cast<std::uint32_t>(row.synchronised.size()));
    for (const std::string& name : row.synchronised) pack.str(name);
  }
  if (heartbeat.clock) {
    pack.array(4);
    for (const std::uint64_t v : {heartbeat.clock->sent, heartbeat.clock->wall_us, heartbeat.clock->echo, heartbeat.clock->held_us}) pack.uint(v);
  }
  end_frame(out, at);
}

bool decode(std::string_view body, Heartbeat& out) {
  Unpacker in(body);
  Places places(in);
  out = {};
  out.view_digest = places.uint();
  out.map_version = places.uint();
  out.ownership_version = places.uint();
  if (places.take()) {
    for (std::uint32_t n = read_count(in, rows_max); n > 0 && in.ok(); --n) {
      Places row(in);
      Heartbeat::Owned owned;
      owned.partition = row.uint();
      owned.generation = read_generation(row);
      owned.serving = row.boolean();
      if (row.take()) {
        for (std::uint32_t m = read_count(in, nodes_max); m > 0 && in.ok(); --m) {
          const std::string_view name = in.bytes();
          if (name.size() > name_bytes_max) in.fail();
          if (in.ok()) owned.synchronised.emplace_back(name);
        }
      }
      row.finish();
      out.owned.push_back(std::move(owned));
    }
  }
  if (places.take()) {
    Places inner(in);
    Heartbeat::Clock& clock = out.clock.emplace();
    for (std::uint64_t* v : {&clock.sent, &clock.wall_us, &clock.echo, &clock.held_us}) *v = inner.uint();
    inner.finish();
  }
  return whole(in, places);
}

// ---- Grant, Granted -----------------------------------------------------------------------------------------------
void encode(std::string& out, Opcode opcode, const Grant& grant) {
  const std::size_t at = begin_frame(out, opcode, 0, 0);
  Packer pack(out);
  pack.array(3);
  pack.u64(grant.echo);
  pack.array(static_cast<std::uint32_t>(grant.rows.size()));
  for (const Grant::Row& row : grant.rows) {
    pack.array(2);
    pack.u64(row.partition);
    pack.uint(row.generation.value());
  }
  pack.uint(grant.for_us);
  end_frame(out, at);
}

bool decode(std::string_view body, Grant& out) {
  Unpacker in(body);
  Places places(in);
  out = {};
  out.echo = places.uint();
  if (places.take()) {
    for (std::uint32_t n = read_count(in, rows_max); n > 0 && in.ok(); --n) {
      Places row(in);
      Grant::Row one;
      one.partition = row.uint();
      one.generation = read_generation(row);
      row.finish();
      out.rows.push_back(one);
    }
  }
  out.for_us = places.uint();
  return whole(in, places);
}

// ---- Fence, Fenced ------------------------------------------------------------------------------------------------
void encode(std::string& out, const Fence& fence) {
  const std::size_t at = begin_frame(out, Opcode::fence, 0, 0);
  Packer pack(out);
  pack.array(3);
  pack.u64(fence.partition);
  pack.uint(fence.generation.value());
  pack.u64(fence.echo);
  end_frame(out, at);
}

void encode(std::string& out, const Fenced& fenced) {
  const std::size_t at = begin_frame(out, Opcode::fenced, 0, 0);
  Packer pack(out);
  pack.array(7);
  pack.u64(fenced.partition);
  pack.uint(fenced.generation.value());
  pack.u64(fenced.echo);
  pack.u64(fenced.incarnation);
  pack.uint(fenced.highest.value());
  pack.boolean(fenced.certified);
  pack.array(static_cast<std::uint32_t>(fenced.rows.size()));
  for (const Fenced::Row& row : fenced.rows) {
    pack.array(7);
    pack.uint(row.segment.value());
    pack.u64(row.history.value());
    pack.uint(row.head.at.generation.value());
    pack.uint(row.head.at.revision.value());
    pack.u64(row.head.generation_id);
    pack.boolean(row.whole);
    pack.boolean(row.synced);
  }
  end_frame(out, at);
}

bool decode(std::string_view body, Fence& out) {
  Unpacker in(body);
  Places places(in);
  out = {};
  out.partition = places.uint();
  out.generation = read_generation(places);
  out.echo = places.uint();
  return whole(in, places);
}

bool decode(std::string_view body, Fenced& out) {
  Unpacker in(body);
  Places places(in);
  out = {};
  out.partition = places.uint();
  out.generation = read_generation(places);
  out.echo = places.uint();
  out.incarnation = places.uint();
  out.highest = read_generation(places);
  out.certified = places.boolean();
  if (places.take()) {
    for (std::uint32_t n = read_count(in, rows_max); n > 0 && in.ok(); --n) {
      Places row(in);
      Fenced::Row one;
      one.segment = SegmentId{row.fit<std::uint16_t>()};
      one.history = HistoryId{row.uint()};
      one.head.at.generation = read_generation(row);
      one.head.at.revision = Revision{row.uint()};
      one.head.generation_id = row.uint();
      one.whole = row.boolean();
      one.synced = row.boolean();
      row.finish();
      out.rows.push_back(one);
    }
  }
  return whole(in, places);
}

// ---- HandOver, HandedOver -----------------------------------------------------------------------------------------
void encode(std::string& out, const HandOver& message) {
  const std::size_t at = begin_frame(out, Opcode::hand_over, 0, 0);
  Packer pack(out);
  pack.array(3);
  pack.u64(message.partition);
  pack.uint(message.generation.value());
  pack.str(message.to);
  end_frame(out, at);
}

void encode(std::string& out, const HandedOver& message) {
  const std::size_t at = begin_frame(out, Opcode::handed_over, 0, 0);
  Packer pack(out);
  pack.array(5);
  pack.u64(message.partition);
  pack.uint(message.generation.value());
  pack.str(message.to);
  pack.boolean(message.done);
  pack.str(message.reason);
  end_frame(out, at);
}

bool decode(std::string_view body, HandOver& out) {
  Unpacker in(body);
  Places places(in);
  out = {};
  out.partition = places.uint();
  out.generation = read_generation(places);
  out.to = read_name(in, places);
  return whole(in, places);
}

bool decode(std::string_view body, HandedOver& out) {
  Unpacker in(body);
  Places places(in);
  out = {};
  out.partition = places.uint();
  out.generation = read_generation(places);
  out.to = read_name(in, places);
  out.done = places.boolean();
  out.reason = read_name(in, places);
  return whole(in, places);
}

}  // namespace zaris::protocol
