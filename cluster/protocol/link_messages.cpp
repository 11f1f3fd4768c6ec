#include "cluster/protocol/link_messages.hpp"

#include "cluster/protocol/mark_places.hpp"

namespace zaris::protocol {

void append_mark(std::string& out, const Mark& mark) {
  Packer pack(out);
  pack_mark(pack, mark);
}

bool take_mark(std::string_view& bytes, Mark& out) {
  Unpacker in(bytes);
  read_mark(in, out);
  if (in.ok()) bytes = in.rest();
  return in.ok();
}

// ---- OpenLink -----------------------------------------------------------------------------------------------------
void encode(std::string& out, std::uint32_t correlation, const OpenLinkRequest& request) {
  const std::size_t at = begin_frame(out, Opcode::open_link, 0, correlation);
  Packer pack(out);
  pack.array(9);
  pack.str(request.link);
  pack.u64(request.source_cluster.value());
  pack.bin(request.scope_text);
  pack.uint(request.site_epoch.value());
  pack.uint(request.follower_term.value());
  pack.boolean(request.adopt_data);
  pack.boolean(request.check_only);
  pack.boolean(request.reopens);
  pack.boolean(request.replace_source);
  end_frame(out, at);
}

bool decode(std::string_view body, OpenLinkRequest& out) {
  Unpacker in(body);
  Places places(in);
  out.link = read_link(in, places);
  out.source_cluster = ClusterId{places.uint()};
  out.scope_text = places.bytes();
  out.site_epoch = SiteEpoch{places.uint()};
  out.follower_term = FollowerTerm{places.uint()};
  out.adopt_data = places.boolean();
  out.check_only = places.boolean();
  out.reopens = places.boolean();
  out.replace_source = places.boolean();
  return whole(in, places);
}

void encode(std::string& out, std::uint32_t correlation, const OpenLinkAnswer& answer) {
  const std::size_t at = begin_frame(out, Opcode::open_link, 0, correlation);
  Packer pack(out);
  pack.array(9);
  pack.u64(answer.cluster.value());
  pack.uint(answer.segments);
  pack.uint(answer.key_bytes_max);
  pack.uint(answer.value_bytes_max);
  pack.uint(answer.memory_max_bytes);
  pack.uint(answer.live_bytes);
  pack.uint(answer.live_keys);
  pack.uint(answer.generation_seen.value());
  pack.uint(answer.site_epoch.value());
  end_frame(out, at);
}

bool decode(std::string_view body, OpenLinkAnswer& out) {
  Unpacker in(body);
  Places places(in);
  out.cluster = ClusterId{places.uint()};
  out.segments = places.fit<std::uint32_t>();
  out.key_bytes_max = places.uint();
  out.value_bytes_max = places.uint();
  out.memory_max_bytes = places.uint();
  out.live_bytes = places.uint();
  out.live_keys = places.uint();
  out.generation_seen = Generation{places.fit<std::uint32_t>()};
  out.site_epoch = SiteEpoch{places.uint()};
  return whole(in, places);
}

// ---- FollowerLease ------------------------------------------------------------------------------------------------
void encode(std::string& out, std::uint32_t correlation, const FollowerLeaseRequest& request) {
  const std::size_t at = begin_frame(out, Opcode::follower_lease, 0, correlation);
  Packer pack(out);
  pack.array(3);
  pack.str(request.link);
  pack.str(request.holder);
  pack.uint(request.lease_ms);
  end_frame(out, at);
}

bool decode(std::string_view body, FollowerLeaseRequest& out) {
  Unpacker in(body);
  Places places(in);
  out.link = read_link(in, places);
  out.holder = places.bytes();
  if (out.holder.empty() || out.holder.size() > link_name_bytes_max) in.fail();
  out.lease_ms = places.fit<std::uint32_t>(5000);
  return whole(in, places);
}

void encode(std::string& out, std::uint32_t correlation, const FollowerLeaseAnswer& answer) {
  const std::size_t at = begin_frame(out, Opcode::follower_lease, 0, correlation);
  Packer pack(out);
  pack.array(4);
  pack.boolean(answer.granted);
  pack.uint(answer.term.value());
  pack.str(answer.holder);
  pack.uint(answer.ms_left);
  end_frame(out, at);
}

bool decode(std::string_view body, FollowerLeaseAnswer& out) {
  Unpacker in(body);
  Places places(in);
  out.granted = places.boolean();
  out.term = FollowerTerm{places.uint()};
  out.holder = places.bytes();
  out.ms_left = places.fit<std::uint32_t>();
  return whole(in, places);
}

// ---- ReadMarks, MarkChecksum --------------------------------------------------------------------------------------
void encode(std::string& out, std::uint32_t correlation, const ReadMarksRequest& request) {
  const std::size_t at = begin_frame(out, Opcode::read_marks, 0, correlation);
  Packer pack(out);
  pack.array(4);
  pack.str(request.link);
  pack.u64(request.scope.value());
  pack.uint(request.first.value());
  pack.uint(static_cast<std::uint8_t>(request.durability));
  end_frame(out, at);
}

bool decode(std::string_view body, ReadMarksRequest& out) {
  Unpacker in(body);
  Places places(in);
  out.link = read_link(in, places);
  out.scope = ScopeId{places.uint()};
  out.first = SegmentId{places.fit<std::uint16_t>()};
  out.durability = read_durability(in, places);
  return whole(in, places);
}

void encode(std::string& out, std::uint32_t correlation, const ReadMarksAnswer& answer) {
  const std::size_t at = begin_frame(out, Opcode::read_marks, 0, correlation);
  Packer pack(out);
  pack.array(3);
  pack.array(static_cast<std::uint32_t>(answer.rows.size()));
  for (const MarkAnswerRow& row : answer.rows) {
    pack.array(4);
    pack.uint(row.target_segment.value());
    pack.uint(row.source_segment.value());
    pack_mark(pack, row.mark);
    pack_named(pack, row.durable_low);
  }
  answer.next ? pack.uint(answer.next->value()) : pack.nil();
  pack.array(static_cast<std::uint32_t>(answer.served.size()));
  for (const SegmentRun& run : answer.served) {
    pack.array(2);
    pack.uint(run.first.value());
    pack.uint(run.last.value());
  }
  end_frame(out, at);
}

bool decode(std::string_view body, ReadMarksAnswer& out) {
  out = {};
  Unpacker in(body);
  Places places(in);
  if (places.demand()) {
    const std::uint32_t count = read_count(in, 65'536);
    for (std::uint32_t i = 0; i < count && in.ok(); ++i) {
      MarkAnswerRow& row = out.rows.emplace_back();
      Places inner(in);
      row.target_segment = SegmentId{inner.fit<std::uint16_t>()};
      row.source_segment = SegmentId{inner.fit<std::uint16_t>()};
      if (inner.demand()) read_mark(in, row.mark);
      read_named(in, inner, row.durable_low);
      inner.finish();
    }
  }
  if (places.take()) {
    const std::uint64_t next = in.uint();
    if (next > 16'383) in.fail();
    out.next = SegmentId{static_cast<std::uint16_t>(next)};
  }
  if (places.take()) {
    const std::uint32_t count = read_count(in, 16'384);
    for (std::uint32_t i = 0; i < count && in.ok(); ++i) {
      SegmentRun& run = out.served.emplace_back();
      Places inner(in);
      run.first = SegmentId{inner.fit<std::uint16_t>()};
      run.last = SegmentId{inner.fit<std::uint16_t>()};
      if (run.last < run.first || run.last.value() > 16'383) in.fail();
      inner.finish();
    }
  }
  return whole(in, places);
}

void encode(std::string& out, std::uint32_t correlation, const MarkChecksumRequest& request) {
  const std::size_t at = begin_frame(out, Opcode::mark_checksum, 0, correlation);
  Packer pack(out);
  pack.array(2);
  pack.str(request.link);
  pack.u64(request.scope.value());
  end_frame(out, at);
}

bool decode(std::string_view body, MarkChecksumRequest& out) {
  Unpacker in(body);
  Places places(in);
  out.link = read_link(in, places);
  out.scope = ScopeId{places.uint()};
  return whole(in, places);
}

void encode(std::string& out, std::uint32_t correlation, const MarkChecksumAnswer& answer) {
  const std::size_t at = begin_frame(out, Opcode::mark_checksum, 0, correlation);
  Packer pack(out);
  pack.array(1);
  pack.u64(answer.checksum);
  end_frame(out, at);
}

bool decode(std::string_view body, MarkChecksumAnswer& out) {
  Unpacker in(body);
  Places places(in);
  out.checksum = places.uint();
  return whole(in, places);
}

// ---- the register of links ----------------------------------------------------------------------------------------
void encode_list_links(std::string& out, std::uint32_t correlation) {
  const std::size_t at = begin_frame(out, Opcode::list_links, 0, correlation);
  Packer(out).array(0);
  end_frame(out, at);
}

void encode(std::string& out, std::uint32_t correlation, const ListLinksAnswer& answer) {
  const std::size_t at = begin_frame(out, Opcode::list_links, 0, correlation);
  Packer pack(out);
  pack.array(1);
  pack.array(static_cast<std::uint32_t>(answer.links.size()));
  for (const LinkRow& row : answer.links) {
    pack.array(7);
    pack.str(row.link);
    pack.u64(row.source_cluster.value());
    pack.bin(row.scope_text);
    pack.uint(row.site_epoch.value());
    pack.uint(row.follower_term.value());
    pack.uint(row.marks);
    pack.array(static_cast<std::uint32_t>(row.left_scopes.size()));
    for (const std::string& scope : row.left_scopes) pack.bin(scope);
  }
  end_frame(out, at);
}

bool decode(std::string_view body, ListLinksAnswer& out) {
  out = {};
  Unpacker in(body);
  Places places(in);
  if (places.demand()) {
    const std::uint32_t count = read_count(in, 65'536);
    for (std::uint32_t i = 0; i < count && in.ok(); ++i) {
      LinkRow& row = out.links.emplace_back();
      Places inner(in);
      row.link = inner.bytes();
      row.source_cluster = ClusterId{inner.uint()};
      row.scope_text = inner.bytes();
      row.site_epoch = SiteEpoch{inner.uint()};
      row.follower_term = FollowerTerm{inner.uint()};
      row.marks = inner.fit<std::uint32_t>();
      if (inner.take()) {
        const std::uint32_t left = read_count(in, 1024);
        for (std::uint32_t k = 0; k < left && in.ok(); ++k) row.left_scopes.emplace_back(in.bytes());
      }
      inner.finish();
    }
  }
  return whole(in, places);
}

void encode(std::string& out, Opcode opcode, std::uint32_t correlation, const DropRequest& request) {
  const std::size_t at = begin_frame(out, opcode, 0, correlation);
  Packer pack(out);
  pack.array(3);
  pack.str(request.link);
  pack.boolean(request.dry_run);
  pack.boolean(request.more_follow);
  end_frame(out, at);
}

bool decode(std::string_view body, DropRequest& out) {
  Unpacker in(body);
  Places places(in);
  out.link = read_link(in, places);
  out.dry_run = places.boolean();
  out.more_follow = places.boolean();
  return whole(in, places);
}

void encode(std::string& out, Opcode opcode, std::uint32_t correlation, const DropAnswer& answer) {
  const std::size_t at = begin_frame(out, opcode, 0, correlation);
  Packer pack(out);
  pack.array(2);
  pack.uint(answer.count);
  pack.uint(answer.kept);
  end_frame(out, at);
}

bool decode(std::string_view body, DropAnswer& out) {
  Unpacker in(body);
  Places places(in);
  out.count = places.uint();
  out.kept = places.uint();
  return whole(in, places);
}

}  // namespace zaris::protocol
