#include "cluster/protocol/admin_messages.hpp"

#include "cluster/protocol/places.hpp"

namespace zaris::protocol {
namespace {

void encode_empty(std::string& out, Opcode opcode, std::uint32_t correlation) {
  const std::size_t at = begin_frame(out, opcode, 0, correlation);
  Packer(out).array(0);
  end_frame(out, at);
}

constexpr std::size_t name_bytes_max = 4096;  // token, store, program: nothing a peer says about itself is longer

std::string_view read_name(Unpacker& in, Places& places) {
  const std::string_view text = places.bytes();
  if (text.size() > name_bytes_max) in.fail();
  return text;
}

}  // namespace

// ---- Hello --------------------------------------------------------------------------------------------------------
void encode(std::string& out, std::uint32_t correlation, const Hello& hello) {
  const std::size_t at = begin_frame(out, Opcode::hello, 0, correlation);
  Packer pack(out);
  pack.array(9);
  pack.uint(hello.version_min);
  pack.uint(hello.version_max);
  hello.cluster_expected ? pack.u64(hello.cluster_expected->value()) : pack.nil();
  hello.store.empty() ? pack.nil() : pack.str(hello.store);
  pack.uint(static_cast<std::uint64_t>(hello.role));
  hello.token.empty() ? pack.nil() : pack.str(hello.token);
  pack.uint(hello.features);
  pack.uint(hello.generation_seen.value());
  pack.str(hello.program);
  end_frame(out, at);
}

bool decode(std::string_view body, Hello& out) {
  Unpacker in(body);
  Places places(in);
  out = {};
  if (places.demand()) {
    const std::uint64_t v = in.uint();
    if (v > 255) in.fail();
    out.version_min = static_cast<std::uint8_t>(v);
  }
  if (places.demand()) {
    const std::uint64_t v = in.uint();
    if (v > 255) in.fail();
    out.version_max = static_cast<std::uint8_t>(v);
  }
  if (places.take()) out.cluster_expected = ClusterId{in.uint()};
  out.store = read_name(in, places);
  out.role = static_cast<PeerRole>(places.fit<std::uint8_t>());
  out.token = read_name(in, places);
  out.features = places.uint();
  out.generation_seen = Generation{places.fit<std::uint32_t>()};
  out.program = read_name(in, places);
  return whole(in, places);
}

void encode(std::string& out, std::uint32_t correlation, const Welcome& welcome) {
  const std::size_t at = begin_frame(out, Opcode::hello, 0, correlation);
  Packer pack(out);
  pack.array(12);
  pack.uint(welcome.version);
  pack.u64(welcome.cluster.value());
  pack.str(welcome.region);
  pack.str(welcome.store);
  pack.uint(welcome.segments);
  pack.uint(welcome.key_bytes_max);
  pack.uint(welcome.value_bytes_max);
  pack.uint(welcome.generation.value());
  pack.uint(welcome.features);
  pack.str(welcome.principal);
  pack.str(welcome.node);
  pack.str(welcome.program);
  end_frame(out, at);
}

bool decode(std::string_view body, Welcome& out) {
  Unpacker in(body);
  Places places(in);
  if (places.demand()) {
    const std::uint64_t v = in.uint();
    if (v > 255) in.fail();
    out.version = static_cast<std::uint8_t>(v);
  }
  out.cluster = ClusterId{places.uint()};
  out.region = read_name(in, places);
  out.store = read_name(in, places);
  out.segments = places.fit<std::uint32_t>();
  out.key_bytes_max = places.uint();
  out.value_bytes_max = places.uint();
  out.generation = Generation{places.fit<std::uint32_t>()};
  out.features = places.uint();
  out.principal = read_name(in, places);
  out.node = read_name(in, places);
  out.program = read_name(in, places);
  return whole(in, places);
}

// ---- Status -------------------------------------------------------------------------------------------------------
void encode_status_request(std::string& out, std::uint32_t correlation) { encode_empty(out, Opcode::status, correlation); }

void encode(std::string& out, std::uint32_t correlation, const StatusAnswer& answer) {
  const std::size_t at = begin_frame(out, Opcode::status, 0, correlation);
  Packer pack(out);
  pack.array(34);
  pack.u64(answer.cluster.value());
  for (const std::string* text : {&answer.region, &answer.store, &answer.node, &answer.version, &answer.role, &answer.state, &answer.state_reason})
    pack.str(*text);
  pack.uint(answer.segments);
  for (const std::uint64_t v : {answer.live_keys, answer.live_bytes, answer.tombstones, answer.memory_used, answer.memory_max,
                                answer.memory_resident, answer.log_bytes, answer.log_budget, answer.log_pinned, answer.log_reach_us,
                                std::uint64_t{answer.generation.value()}, answer.site_epoch.value(), std::uint64_t{answer.links},
                                std::uint64_t{answer.pins}, std::uint64_t{answer.connections}, answer.uptime_us})
    pack.uint(v);
  pack.boolean(answer.insecure);
  for (const std::uint64_t v : {answer.key_bytes_max, answer.value_bytes_max, answer.closed_time_us, answer.commits}) pack.uint(v);
  pack_digest(pack, answer.digest);
  pack.str(answer.feed_address);
  pack.str(answer.admin_address);
  pack.u64(answer.history.value());
  end_frame(out, at);
}

bool decode(std::string_view body, StatusAnswer& out) {
  Unpacker in(body);
  Places places(in);
  out.cluster = ClusterId{places.uint()};
  for (std::string* text : {&out.region, &out.store, &out.node, &out.version, &out.role, &out.state, &out.state_reason})
    *text = read_name(in, places);
  out.segments = places.fit<std::uint32_t>();
  for (std::uint64_t* v : {&out.live_keys, &out.live_bytes, &out.tombstones, &out.memory_used, &out.memory_max, &out.memory_resident,
                           &out.log_bytes, &out.log_budget, &out.log_pinned, &out.log_reach_us})
    *v = places.uint();
  out.generation = Generation{places.fit<std::uint32_t>()};
  out.site_epoch = SiteEpoch{places.uint()};
  for (std::uint32_t* v : {&out.links, &out.pins, &out.connections}) *v = places.fit<std::uint32_t>();
  out.uptime_us = places.uint();
  out.insecure = places.boolean();
  for (std::uint64_t* v : {&out.key_bytes_max, &out.value_bytes_max, &out.closed_time_us, &out.commits}) *v = places.uint();
  out.digest = read_digest(in, places);
  out.feed_address = read_name(in, places);
  out.admin_address = read_name(in, places);
  out.history = HistoryId{places.uint()};
  return whole(in, places);
}

// ---- Map ----------------------------------------------------------------------------------------------------------
void encode_map_request(std::string& out, std::uint32_t correlation) { encode_empty(out, Opcode::map, correlation); }

void encode(std::string& out, std::uint32_t correlation, const MapAnswer& answer) {
  const std::size_t at = begin_frame(out, Opcode::map, 0, correlation);
  Packer pack(out);
  pack.array(6);
  pack.uint(answer.version);
  pack.uint(answer.topology_version);
  pack.uint(answer.segments);
  pack.array(static_cast<std::uint32_t>(answer.nodes.size()));
  for (const MapNode& node : answer.nodes) {
    pack.array(node.feed_port != 0 ? 5 : 4);
    pack.str(node.id);
    pack.str(node.host);
    pack.uint(node.port);
    pack.uint(node.tls_port);
    if (node.feed_port != 0) pack.uint(node.feed_port);
  }
  pack.array(static_cast<std::uint32_t>(answer.runs.size()));
  for (const MapRun& run : answer.runs) {
    pack.array(4);
    pack.uint(run.first.value());
    pack.uint(run.last.value());
    pack.uint(run.node);
    pack.uint(run.generation.value());
  }
  pack.boolean(answer.provisional);
  end_frame(out, at);
}

bool decode(std::string_view body, MapAnswer& out) {
  out = {};
  Unpacker in(body);
  Places places(in);
  out.version = places.uint();
  out.topology_version = places.uint();
  out.segments = places.fit<std::uint32_t>();
  if (out.segments == 0 || out.segments > 16'384) in.fail();
  if (places.take()) {
    const std::uint32_t count = read_count(in, 4096);
    for (std::uint32_t i = 0; i < count && in.ok(); ++i) {
      MapNode& node = out.nodes.emplace_back();
      Places inner(in);
      node.id = inner.bytes();
      node.host = inner.bytes();
      node.port = inner.fit<std::uint16_t>();
      node.tls_port = inner.fit<std::uint16_t>();
      node.feed_port = inner.fit<std::uint16_t>();
      inner.finish();
    }
  }
  if (places.take()) {
    const std::uint32_t count = read_count(in, 16'384);
    std::uint32_t from = 0;
    for (std::uint32_t i = 0; i < count && in.ok(); ++i) {
      MapRun& run = out.runs.emplace_back();
      Places inner(in);
      run.first = SegmentId{inner.fit<std::uint16_t>()};
      run.last = SegmentId{inner.fit<std::uint16_t>()};
      run.node = inner.fit<std::uint32_t>();
      run.generation = Generation{inner.fit<std::uint32_t>()};
      inner.finish();
      if (run.first.value() < from || run.last < run.first || run.last.value() >= out.segments || run.node >= out.nodes.size()) in.fail();
      from = run.last.value() + 1u;
    }
  }
  out.provisional = places.boolean();
  return whole(in, places);
}

// ---- Digest -------------------------------------------------------------------------------------------------------
void encode(std::string& out, std::uint32_t correlation, const DigestRequest& request) {
  const std::size_t at = begin_frame(out, Opcode::digest, 0, correlation);
  Packer pack(out);
  pack.array(4);
  pack.bin(request.scope_text);
  pack.uint(static_cast<std::uint64_t>(request.by));
  pack.uint(request.first.value());
  pack.uint(request.last.value());
  end_frame(out, at);
}

bool decode(std::string_view body, DigestRequest& out) {
  Unpacker in(body);
  Places places(in);
  out.scope_text = places.bytes();
  const auto by = places.fit<std::uint8_t>();
  if (by > static_cast<std::uint8_t>(DigestBy::slot)) in.fail();
  out.by = static_cast<DigestBy>(by);
  out.first = Slot{places.fit<std::uint16_t>()};
  out.last = Slot{places.fit<std::uint16_t>(16'383)};
  if (out.last.value() > 16'383 || out.first > out.last) in.fail();
  return whole(in, places);
}

void encode(std::string& out, std::uint32_t correlation, const DigestAnswer& answer) {
  const std::size_t at = begin_frame(out, Opcode::digest, 0, correlation);
  Packer pack(out);
  pack.array(2);
  pack.array(static_cast<std::uint32_t>(answer.rows.size()));
  for (const DigestRow& row : answer.rows) {
    pack.array(3);
    pack.uint(row.id);
    pack.uint(row.count);
    pack_digest(pack, row.digest);
  }
  answer.next ? pack.uint(answer.next->value()) : pack.nil();
  end_frame(out, at);
}

bool decode(std::string_view body, DigestAnswer& out) {
  out = {};
  Unpacker in(body);
  Places places(in);
  if (places.demand()) {
    const std::uint32_t count = read_count(in, 16'384);
    for (std::uint32_t i = 0; i < count && in.ok(); ++i) {
      DigestRow& row = out.rows.emplace_back();
      Places inner(in);
      row.id = inner.fit<std::uint32_t>();
      row.count = inner.uint();
      row.digest = read_digest(in, inner);
      inner.finish();
    }
  }
  if (places.take()) {
    const std::uint64_t next = in.uint();
    if (next > 16'383) in.fail();
    out.next = Slot{static_cast<std::uint16_t>(next)};
  }
  return whole(in, places);
}

// ---- pins ---------------------------------------------------------------------------------------------------------
void encode_list_pins(std::string& out, std::uint32_t correlation) { encode_empty(out, Opcode::list_pins, correlation); }

void encode(std::string& out, std::uint32_t correlation, const ListPinsAnswer& answer) {
  const std::size_t at = begin_frame(out, Opcode::list_pins, 0, correlation);
  Packer pack(out);
  pack.array(1);
  pack.array(static_cast<std::uint32_t>(answer.pins.size()));
  for (const PinRow& row : answer.pins) {
    pack.array(15);
    pack.str(row.principal);
    pack.str(row.link);
    pack.u64(row.scope.value());
    pack.bin(row.scope_text);
    pack.u64(row.target.value());
    pack.boolean(row.attached);
    for (const std::uint64_t v : {row.age_us, row.idle_us, row.held_bytes, row.held_records, row.bytes_max, row.age_max_us}) pack.uint(v);
    row.left_us ? pack.uint(*row.left_us) : pack.nil();
    pack.uint(row.segments);
    pack.boolean(row.lost);
  }
  end_frame(out, at);
}

bool decode(std::string_view body, ListPinsAnswer& out) {
  out = {};
  Unpacker in(body);
  Places places(in);
  if (places.demand()) {
    const std::uint32_t count = read_count(in, 65'536);
    for (std::uint32_t i = 0; i < count && in.ok(); ++i) {
      PinRow& row = out.pins.emplace_back();
      Places inner(in);
      row.principal = inner.bytes();
      row.link = inner.bytes();
      row.scope = ScopeId{inner.uint()};
      row.scope_text = inner.bytes();
      row.target = ClusterId{inner.uint()};
      row.attached = inner.boolean();
      for (std::uint64_t* v : {&row.age_us, &row.idle_us, &row.held_bytes, &row.held_records, &row.bytes_max, &row.age_max_us}) *v = inner.uint();
      if (inner.take()) row.left_us = in.uint();
      row.segments = inner.fit<std::uint32_t>();
      row.lost = inner.boolean();
      inner.finish();
    }
  }
  return whole(in, places);
}

void encode(std::string& out, std::uint32_t correlation, const DropPinRequest& request) {
  const std::size_t at = begin_frame(out, Opcode::drop_pin, 0, correlation);
  Packer pack(out);
  pack.array(4);
  pack.str(request.principal);
  pack.str(request.link);
  pack.u64(request.scope.value());
  pack.u64(request.target.value());
  end_frame(out, at);
}

bool decode(std::string_view body, DropPinRequest& out) {
  Unpacker in(body);
  Places places(in);
  out.principal = read_name(in, places);
  out.link = read_name(in, places);
  out.scope = ScopeId{places.uint()};
  out.target = ClusterId{places.uint()};
  return whole(in, places);
}

void encode(std::string& out, std::uint32_t correlation, const DropPinAnswer& answer) {
  const std::size_t at = begin_frame(out, Opcode::drop_pin, 0, correlation);
  Packer pack(out);
  pack.array(1);
  pack.boolean(answer.dropped);
  end_frame(out, at);
}

bool decode(std::string_view body, DropPinAnswer& out) {
  Unpacker in(body);
  Places places(in);
  out.dropped = places.boolean();
  return whole(in, places);
}

// ---- AcceptEmpty --------------------------------------------------------------------------------------------------
void encode(std::string& out, std::uint32_t correlation, const AcceptEmptyRequest& request) {
  const std::size_t at = begin_frame(out, Opcode::accept_empty, 0, correlation);
  Packer pack(out);
  pack.array(1);
  pack.boolean(request.undo);
  end_frame(out, at);
}

bool decode(std::string_view body, AcceptEmptyRequest& out) {
  Unpacker in(body);
  Places places(in);
  out.undo = places.boolean();
  return whole(in, places);
}

void encode(std::string& out, std::uint32_t correlation, const AcceptEmptyAnswer& answer) {
  const std::size_t at = begin_frame(out, Opcode::accept_empty, 0, correlation);
  Packer pack(out);
  pack.array(1);
  pack.boolean(answer.was_holding);
  end_frame(out, at);
}

bool decode(std::string_view body, AcceptEmptyAnswer& out) {
  Unpacker in(body);
  Places places(in);
  out.was_holding = places.boolean();
  return whole(in, places);
}

}  // namespace zaris::protocol
