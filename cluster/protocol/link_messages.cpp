#include "cluster/protocol/link_messages.hpp"

#include "cluster/protocol/places.hpp"
#include "cluster/record/record_table.hpp"

namespace zaris::protocol {
namespace {

std::string_view read_link(Unpacker& in, Places& places) {
  if (!places.demand()) return {};
  const std::string_view link = in.bytes();
  if (link.empty() || link.size() > link_name_bytes_max) in.fail();
  return link;
}

void pack_mark(Packer& pack, const Mark& mark) {
  pack.array(12);
  pack.u64(mark.source_cluster.value());
  pack.u64(mark.history.value());
  pack.uint(mark.site_epoch.value());
  pack.uint(mark.follower_term.value());
  pack_token(pack, mark.token);
  pack.uint(static_cast<std::uint64_t>(mark.phase));
  pack_slot_key(pack, mark.last_key);
  pack.uint(mark.closed_time_us);
  pack_named(pack, mark.low);
  pack_named(pack, mark.high);
  pack_named(pack, mark.horizon);
  pack.uint(mark.registered_us);
}

void read_mark(Unpacker& in, Mark& out) {
  Places places(in);
  out.source_cluster = ClusterId{places.uint()};
  out.history = HistoryId{places.uint()};
  out.site_epoch = SiteEpoch{places.uint()};
  out.follower_term = FollowerTerm{places.uint()};
  if (places.demand()) out.token = read_token(in);
  const auto phase = places.fit<std::uint8_t>();
  if (phase > static_cast<std::uint8_t>(Phase::repair)) in.fail();
  out.phase = static_cast<Phase>(phase);
  read_slot_key(in, places, out.last_key);
  out.closed_time_us = places.uint();
  read_named(in, places, out.low);
  read_named(in, places, out.high);
  read_named(in, places, out.horizon);
  out.registered_us = places.uint();
  places.finish();
}

}  // namespace

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

// ---- ApplyBatch ---------------------------------------------------------------------------------------------------
void encode_apply(std::string& out, std::uint32_t correlation, const ApplyBatch& batch, std::uint16_t flags) {
  const std::size_t at = begin_frame(out, Opcode::apply_batch, flags, correlation);
  Packer pack(out);
  pack.array(batch.source_segments != 0 ? 19 : batch.may_lose.empty() ? 17 : 18);
  pack.str(batch.link);
  pack.u64(batch.source_cluster.value());
  pack.u64(batch.history.value());
  pack.u64(batch.scope.value());
  pack.uint(batch.source_segment.value());
  pack.uint(batch.target_segment.value());
  pack.uint(batch.follower_term.value());
  pack.uint(batch.site_epoch.value());
  pack.u64(batch.session.value());
  batch.expected ? pack_token(pack, *batch.expected) : pack.nil();
  pack_named(pack, batch.prev);
  pack_named(pack, batch.last);
  pack.uint(batch.closed_time_us);
  if (batch.range) {
    const ApplyRange& range = *batch.range;
    pack.array(6);
    pack.uint(static_cast<std::uint64_t>(batch.kind));
    pack_slot_key(pack, range.from);
    pack_slot_key(pack, range.to);
    pack_named(pack, range.as_of);
    pack.boolean(range.final);
    if (range.equal) {
      char digest[16];
      range.equal->digest.to_bytes(digest);
      pack.array(2);
      pack.uint(range.equal->count);
      pack.bin({digest, sizeof digest});
    } else {
      pack.nil();
    }
  } else {
    pack.uint(static_cast<std::uint64_t>(batch.kind));
  }
  pack.uint(static_cast<std::uint64_t>(batch.durability));
  pack.uint(batch.removals_left);
  pack.uint(row_count(batch.table));
  if (!batch.may_lose.empty()) {
    pack.array(static_cast<std::uint32_t>(batch.may_lose.size()));
    for (const std::string& key : batch.may_lose) pack.bin(key);
  } else if (batch.source_segments != 0) {
    pack.nil();
  }
  if (batch.source_segments != 0) pack.uint(batch.source_segments);
  end_frame(out, at, batch.table.size() + batch.records.size());
}

namespace {

ApplyKind as_kind(Unpacker& in, std::uint64_t v) {
  if (v > static_cast<std::uint64_t>(ApplyKind::repair)) in.fail();
  return static_cast<ApplyKind>(v);
}

void read_range(Unpacker& in, ApplyBatch& out) {
  Places places(in);
  out.kind = as_kind(in, places.uint());
  ApplyRange& range = out.range.emplace();
  read_slot_key(in, places, range.from);
  read_slot_key(in, places, range.to);
  if (places.demand()) range.as_of = read_named(in);
  range.final = places.boolean();
  if (places.take()) {
    Places inner(in);
    ApplyRange::Equal equal{};  // Clang 14 cannot emplace() it: its defaults stand in the class around it
    equal.count = inner.uint();
    const std::string_view digest = inner.bytes();
    if (digest.size() == 16) {
      equal.digest = Digest::from_bytes(digest.data());
    } else {
      in.fail();
    }
    inner.finish();
    range.equal = equal;
  }
  places.finish();
}

}  // namespace

bool decode(std::string_view body, ApplyBatch& out) {
  Unpacker in(body);
  Places places(in);
  out.link = read_link(in, places);
  out.source_cluster = ClusterId{places.uint()};
  out.history = HistoryId{places.uint()};
  out.scope = ScopeId{places.uint()};
  out.source_segment = SegmentId{places.fit<std::uint16_t>()};
  out.target_segment = SegmentId{places.fit<std::uint16_t>()};
  out.follower_term = FollowerTerm{places.uint()};
  out.site_epoch = SiteEpoch{places.uint()};
  out.session = SessionId{places.uint()};
  out.expected.reset();
  if (places.take()) out.expected = read_token(in);
  read_named(in, places, out.prev);
  read_named(in, places, out.last);
  out.closed_time_us = places.uint();
  out.range.reset();
  if (places.demand()) {
    if (in.at_array()) {
      read_range(in, out);
    } else {
      out.kind = as_kind(in, in.uint());
    }
  }
  if (out.kind == ApplyKind::range && !out.range) in.fail();
  if ((out.kind == ApplyKind::open || out.kind == ApplyKind::stream) && out.range) in.fail();
  out.durability = read_durability(in, places);
  out.removals_left = places.uint();
  const std::uint64_t rows = places.uint();
  out.may_lose.clear();
  if (places.take()) {
    const std::uint32_t count = read_count(in, may_lose_max);
    for (std::uint32_t i = 0; i < count && in.ok(); ++i) out.may_lose.emplace_back(in.bytes());
  }
  const std::uint64_t source_segments = places.uint();
  if (source_segments > 16'384) in.fail();
  out.source_segments = static_cast<std::uint32_t>(source_segments);
  places.finish();
  if (!in.ok()) return false;
  const std::string_view rest = in.rest();
  if (rows > rest.size() / record_row_bytes) return false;
  out.table = rest.substr(0, rows * record_row_bytes);
  out.records = rest.substr(out.table.size());
  return table_fits(out.table, out.records.size());
}

void encode(std::string& out, std::uint32_t correlation, const ApplyAnswer& answer) {
  const std::size_t at = begin_frame(out, Opcode::apply_batch, static_cast<std::uint16_t>(answer.status), correlation);
  Packer pack(out);
  const bool plain = answer.removal_count == 0 && answer.would_lose.empty() && answer.reason.empty();
  pack.array(plain ? 6 : 9);
  pack.uint(static_cast<std::uint64_t>(answer.status));
  answer.mark ? pack_mark(pack, *answer.mark) : pack.nil();
  pack.array(5);
  for (const std::uint64_t count : {answer.applied, answer.skipped, answer.replaced, answer.removed, answer.conflicts}) pack.uint(count);
  if (answer.refused_index) {
    pack.array(2);
    pack.uint(*answer.refused_index);
    pack.uint(static_cast<std::uint64_t>(answer.refused_status));
  } else {
    pack.nil();
  }
  pack.uint(answer.target_generation.value());
  pack.array(2);
  pack.uint(answer.target_position.generation.value());
  pack.uint(answer.target_position.revision.value());
  if (!plain) {
    pack.uint(answer.removal_count);
    if (answer.would_lose.empty()) {
      pack.nil();
    } else {
      pack.array(static_cast<std::uint32_t>(answer.would_lose.size()));
      for (const LostRecord& lost : answer.would_lose) {
        pack.array(2);
        pack.bin(lost.key);
        pack.bin(lost.record);
      }
    }
    pack.str(answer.reason);
  }
  end_frame(out, at);
}

bool decode(std::string_view body, ApplyAnswer& out) {
  Unpacker in(body);
  Places places(in);
  out = {};
  out.status = static_cast<Status>(places.fit<std::uint16_t>());
  if (places.take()) read_mark(in, out.mark.emplace());
  if (places.take()) {
    Places inner(in);
    for (std::uint64_t* count : {&out.applied, &out.skipped, &out.replaced, &out.removed, &out.conflicts}) *count = inner.uint();
    inner.finish();
  }
  if (places.take()) {
    Places inner(in);
    out.refused_index = inner.fit<std::uint32_t>();
    out.refused_status = static_cast<Status>(inner.fit<std::uint16_t>());
    inner.finish();
  }
  out.target_generation = Generation{places.fit<std::uint32_t>()};
  if (places.take()) {
    Places inner(in);
    out.target_position.generation = Generation{inner.fit<std::uint32_t>()};
    out.target_position.revision = Revision{inner.uint()};
    inner.finish();
  }
  out.removal_count = places.uint();
  if (places.take()) {
    const std::uint32_t count = read_count(in, would_lose_max);
    for (std::uint32_t i = 0; i < count && in.ok(); ++i) {
      Places inner(in);
      LostRecord& lost = out.would_lose.emplace_back();
      lost.key = inner.bytes();
      lost.record = inner.bytes();
      inner.finish();
    }
  }
  out.reason = places.bytes();
  return whole(in, places);
}

}  // namespace zaris::protocol
