// ApplyBatch and ListRolledBack: what changes a target segment, and what came over the link to be taken back.
#include "cluster/protocol/link_messages.hpp"
#include "cluster/protocol/mark_places.hpp"
#include "cluster/record/record_table.hpp"

namespace zaris::protocol {

// ---- ApplyBatch ---------------------------------------------------------------------------------------------------
void encode_apply(std::string& out, std::uint32_t correlation, const ApplyBatch& batch, std::uint16_t flags) {
  const std::size_t at = begin_frame(out, Opcode::apply_batch, flags, correlation);
  Packer pack(out);
  pack.array(!batch.may_lose_names.empty() ? 20 : batch.source_segments != 0 ? 19 : batch.may_lose.empty() ? 17 : 18);
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
    pack.boolean(batch.kind == ApplyKind::check ? range.mend : range.final);
    if (range.equal) {
      char digest[16];
      range.equal->digest.to_bytes(digest);
      pack.array(range.equal->names.empty() ? 2 : 3);
      pack.uint(range.equal->count);
      pack.bin({digest, sizeof digest});
      if (!range.equal->names.empty()) pack.bin(range.equal->names);
    } else {
      pack.nil();
    }
  } else if (batch.repair) {
    pack.array(4);
    pack.uint(static_cast<std::uint64_t>(batch.kind));
    pack_named(pack, batch.repair->surviving);
    pack_named(pack, batch.repair->as_of);
    pack.boolean(batch.repair->final);
  } else {
    pack.uint(static_cast<std::uint64_t>(batch.kind));
  }
  pack.uint(static_cast<std::uint64_t>(batch.durability));
  pack.uint(batch.removals_left);
  pack.uint(row_count(batch.table));
  if (!batch.may_lose.empty()) {
    pack.array(static_cast<std::uint32_t>(batch.may_lose.size()));
    for (const std::string& key : batch.may_lose) pack.bin(key);
  } else if (batch.source_segments != 0 || !batch.may_lose_names.empty()) {
    pack.nil();
  }
  if (batch.source_segments != 0 || !batch.may_lose_names.empty()) pack.uint(batch.source_segments);
  if (!batch.may_lose_names.empty()) {
    pack.array(static_cast<std::uint32_t>(batch.may_lose_names.size()));
    for (const std::uint64_t name : batch.may_lose_names) pack.u64(name);
  }
  end_frame(out, at, batch.table.size() + batch.records.size());
}

namespace {

ApplyKind as_kind(Unpacker& in, std::uint64_t v) {
  if (v > static_cast<std::uint64_t>(ApplyKind::check)) in.fail();
  return static_cast<ApplyKind>(v);
}

void read_range_or_repair(Unpacker& in, ApplyBatch& out) {
  Places places(in);
  out.kind = as_kind(in, places.uint());
  if (out.kind == ApplyKind::repair) {
    ApplyRepair repair;
    if (places.demand()) repair.surviving = read_named(in);
    if (places.demand()) repair.as_of = read_named(in);
    repair.final = places.boolean();
    out.repair = repair;
    return places.finish();
  }
  ApplyRange& range = out.range.emplace();
  read_slot_key(in, places, range.from);
  read_slot_key(in, places, range.to);
  if (places.demand()) range.as_of = read_named(in);
  (out.kind == ApplyKind::check ? range.mend : range.final) = places.boolean();
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
    equal.names = inner.bytes();
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
  out.repair.reset();
  if (places.demand()) {
    if (in.at_array()) {
      read_range_or_repair(in, out);
    } else {
      out.kind = as_kind(in, in.uint());
    }
  }
  if ((out.kind == ApplyKind::range || out.kind == ApplyKind::check || out.kind == ApplyKind::delta) && !out.range) in.fail();
  if (out.kind == ApplyKind::repair && !out.repair) in.fail();
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
  out.may_lose_names.clear();
  if (places.take()) {
    const std::uint32_t count = read_count(in, may_lose_max);
    if (count > out.may_lose.size()) in.fail();
    for (std::uint32_t i = 0; i < count && in.ok(); ++i) out.may_lose_names.push_back(in.uint());
  }
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
  const bool checked = answer.differing != 0 || answer.memory_slots != 0;
  const bool plain = answer.removal_count == 0 && answer.would_lose.empty() && answer.reason.empty() && !checked;
  pack.array(plain ? 6 : checked ? 11 : 9);
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
    if (checked) {
      pack.uint(answer.differing);
      pack.uint(answer.memory_slots);
    }
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
  out.differing = places.uint();
  out.memory_slots = places.uint();
  return whole(in, places);
}

// ---- ListRolledBack ------------------------------------------------------------------------------------------------
void encode(std::string& out, std::uint32_t correlation, const ListRolledBackRequest& request) {
  const std::size_t at = begin_frame(out, Opcode::list_rolled_back, 0, correlation);
  Packer pack(out);
  pack.array(9);
  pack.str(request.link);
  pack.u64(request.scope.value());
  pack.uint(request.source_segment.value());
  pack.uint(request.target_segment.value());
  pack.uint(request.source_segments);
  pack_named(pack, request.surviving);
  pack_token(pack, request.token);
  request.below ? pack.uint(request.below->value()) : pack.nil();
  pack.uint(request.bytes_max);
  end_frame(out, at);
}

bool decode(std::string_view body, ListRolledBackRequest& out) {
  Unpacker in(body);
  Places places(in);
  out.link = read_link(in, places);
  out.scope = ScopeId{places.uint()};
  out.source_segment = SegmentId{places.fit<std::uint16_t>()};
  out.target_segment = SegmentId{places.fit<std::uint16_t>()};
  out.source_segments = places.fit<std::uint32_t>();
  if (out.source_segments > 16'384) in.fail();
  if (places.demand()) out.surviving = read_named(in);
  if (places.demand()) out.token = read_token(in);
  out.below.reset();
  if (places.take()) out.below = Revision{in.uint()};
  out.bytes_max = places.fit<std::uint32_t>();
  return whole(in, places);
}

void encode(std::string& out, std::uint32_t correlation, const ListRolledBackAnswer& answer) {
  const std::size_t at = begin_frame(out, Opcode::list_rolled_back, 0, correlation);
  Packer pack(out);
  pack.array(2);
  answer.below ? pack.uint(answer.below->value()) : pack.nil();
  pack.uint(row_count(answer.table));
  out.append(answer.table);
  out.append(answer.records);
  end_frame(out, at);
}

bool decode(std::string_view body, ListRolledBackAnswer& out) {
  Unpacker in(body);
  Places places(in);
  out.below.reset();
  if (places.take()) out.below = Revision{in.uint()};
  const std::uint64_t rows = places.uint();
  places.finish();
  if (!in.ok()) return false;
  const std::string_view rest = in.rest();
  if (rows > rest.size() / record_row_bytes) return false;
  out.table = rest.substr(0, rows * record_row_bytes);
  out.records = rest.substr(out.table.size());
  return table_fits(out.table, out.records.size());
}

}  // namespace zaris::protocol
