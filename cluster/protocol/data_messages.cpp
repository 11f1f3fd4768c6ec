#include "cluster/protocol/data_messages.hpp"

#include "cluster/base/assert.hpp"
#include "cluster/protocol/places.hpp"
#include "cluster/record/record_table.hpp"

namespace zaris::protocol {
namespace {

void put_be(char* at, std::uint64_t v, unsigned bytes) {
  for (unsigned i = 0; i < bytes; ++i) at[i] = static_cast<char>(v >> (8 * (bytes - 1 - i)));
}

void encode_key(std::string& out, Opcode opcode, std::uint32_t correlation, std::string_view key) {
  out.reserve(out.size() + frame_header_bytes + 6 + key.size());
  const std::size_t at = begin_frame(out, opcode, 0, correlation);
  Packer pack(out);
  pack.array(1);
  pack.bin(key);
  end_frame(out, at);
}

// [tag ‖ item_version, tag, expires] in fixed widths: 19 bytes behind the array's own.
void write_read_places(char* at, unsigned places, ItemToken token, WallMicros expires_us) {
  at[0] = static_cast<char>(0x90 | places);
  at[1] = '\xce';
  put_be(at + 2, token.item_version, 4);
  at[6] = '\xce';
  put_be(at + 7, token.tag, 4);
  at[11] = '\xcf';
  put_be(at + 12, expires_us, 8);
}

// How many trailing places of a Put or Touch are not their default.
unsigned trailing(WallMicros expires_us, const Condition& condition, Durability durability) {
  if (durability != Durability::store_default) return 3;
  if (condition.kind != Condition::Kind::none) return 2;
  return expires_us != 0 ? 1 : 0;
}

void pack_trailing(Packer& pack, unsigned count, WallMicros expires_us, const Condition& condition, Durability durability) {
  if (count > 0) pack.uint(expires_us);
  if (count > 1) pack_condition(pack, condition);
  if (count > 2) pack.uint(static_cast<std::uint64_t>(durability));
}

}  // namespace

// ---- requests -----------------------------------------------------------------------------------------------------
void encode_get(std::string& out, std::uint32_t correlation, std::string_view key) {
  encode_key(out, Opcode::get, correlation, key);
}
void encode_time_to_live(std::string& out, std::uint32_t correlation, std::string_view key) {
  encode_key(out, Opcode::time_to_live, correlation, key);
}

void encode(std::string& out, std::uint32_t correlation, const PutRequest& request) {
  const std::size_t at = begin_frame(out, Opcode::put, 0, correlation);
  Packer pack(out);
  const unsigned more = trailing(request.expires_us, request.condition, request.durability);
  pack.array(2 + more);
  pack.bin(request.key);
  pack.bin(request.value);
  pack_trailing(pack, more, request.expires_us, request.condition, request.durability);
  end_frame(out, at);
}

void encode(std::string& out, std::uint32_t correlation, const DeleteRequest& request) {
  const std::size_t at = begin_frame(out, Opcode::del, 0, correlation);
  Packer pack(out);
  const unsigned more = request.durability != Durability::store_default              ? 2
                        : request.condition.kind != Condition::Kind::none ? 1 : 0;
  pack.array(1 + more);
  pack.bin(request.key);
  if (more > 0) pack_condition(pack, request.condition);
  if (more > 1) pack.uint(static_cast<std::uint64_t>(request.durability));
  end_frame(out, at);
}

void encode(std::string& out, std::uint32_t correlation, const TouchRequest& request) {
  const std::size_t at = begin_frame(out, Opcode::touch, 0, correlation);
  Packer pack(out);
  const unsigned more = trailing(request.expires_us, request.condition, request.durability);
  pack.array(1 + more);
  pack.bin(request.key);
  pack_trailing(pack, more, request.expires_us, request.condition, request.durability);
  end_frame(out, at);
}

bool decode(std::string_view body, KeyRequest& out) {
  Unpacker in(body);
  Places places(in);
  if (places.demand()) out.key = in.bytes();
  return whole(in, places);
}

bool decode(std::string_view body, PutRequest& out) {
  Unpacker in(body);
  Places places(in);
  if (places.demand()) out.key = in.bytes();
  if (places.demand()) out.value = in.bytes();
  out.expires_us = places.uint();
  read_condition(in, places, out.condition);
  out.durability = read_durability(in, places);
  return whole(in, places);
}

bool decode(std::string_view body, DeleteRequest& out) {
  Unpacker in(body);
  Places places(in);
  if (places.demand()) out.key = in.bytes();
  read_condition(in, places, out.condition);
  if (out.condition.kind == Condition::Kind::absent) in.fail();
  out.durability = read_durability(in, places);
  return whole(in, places);
}

bool decode(std::string_view body, TouchRequest& out) {
  Unpacker in(body);
  Places places(in);
  if (places.demand()) out.key = in.bytes();
  out.expires_us = places.uint();
  read_condition(in, places, out.condition);
  if (out.condition.kind == Condition::Kind::absent) in.fail();
  out.durability = read_durability(in, places);
  return whole(in, places);
}

// ---- answers ------------------------------------------------------------------------------------------------------
void encode(std::string& out, Opcode opcode, std::uint32_t correlation, const WriteAnswer& answer) {
  constexpr std::size_t bytes = frame_header_bytes + 1 + 5 + 5 + 3 + 5 + 9;
  char raw[bytes];
  write_frame_header(raw, opcode, static_cast<std::uint16_t>(answer.status), correlation, bytes);
  char* at = raw + frame_header_bytes;
  at[0] = '\x95';
  at[1] = '\xce';
  put_be(at + 2, answer.token.item_version, 4);
  at[6] = '\xce';
  put_be(at + 7, answer.token.tag, 4);
  at[11] = '\xcd';
  put_be(at + 12, answer.segment.value(), 2);
  at[14] = '\xce';
  put_be(at + 15, answer.position.generation.value(), 4);
  at[19] = '\xcf';
  put_be(at + 20, answer.position.revision.value(), 8);
  out.append(raw, bytes);
}

bool decode(std::string_view body, WriteAnswer& out) {
  Unpacker in(body);
  Places places(in);
  out.token.item_version = places.fit<std::uint32_t>();
  out.token.tag = places.fit<std::uint32_t>();
  out.segment = SegmentId{places.fit<std::uint16_t>()};
  out.position.generation = Generation{places.fit<std::uint32_t>()};
  out.position.revision = Revision{places.uint()};
  return whole(in, places);
}

void finish_get_answer(std::string& out, std::size_t at, std::uint32_t correlation, Status status, ItemToken token, WallMicros expires_us) {
  if (status != Status::ok) {
    out.resize(at + frame_header_bytes + 1);
    write_frame_header(out.data() + at, Opcode::get, static_cast<std::uint16_t>(status), correlation, frame_header_bytes + 1);
    out[at + frame_header_bytes] = '\x90';
    return;
  }
  const std::size_t frame = out.size() - at;
  ZARIS_ASSERT(frame >= get_answer_prefix_bytes, frame);
  char* raw = out.data() + at;
  write_frame_header(raw, Opcode::get, static_cast<std::uint16_t>(status), correlation, frame);
  write_read_places(raw + frame_header_bytes, 4, token, expires_us);
  raw[frame_header_bytes + 20] = '\xc6';
  put_be(raw + frame_header_bytes + 21, frame - get_answer_prefix_bytes, 4);
}

void encode_get_answer(std::string& out, std::uint32_t correlation, const ReadAnswer& answer) {
  const std::size_t at = out.size();
  out.append(get_answer_prefix_bytes, '\0');
  out.append(answer.value);
  finish_get_answer(out, at, correlation, answer.status, answer.token, answer.expires_us);
}

void encode_time_to_live_answer(std::string& out, std::uint32_t correlation, Status status, ItemToken token, WallMicros expires_us) {
  const std::size_t at = begin_frame(out, Opcode::time_to_live, static_cast<std::uint16_t>(status), correlation);
  if (status == Status::ok) {
    char raw[20];
    write_read_places(raw, 3, token, expires_us);
    out.append(raw, sizeof raw);
  } else {
    out.push_back('\x90');
  }
  end_frame(out, at);
}

bool decode(std::string_view body, ReadAnswer& out) {
  Unpacker in(body);
  Places places(in);
  out.token.item_version = places.fit<std::uint32_t>();
  out.token.tag = places.fit<std::uint32_t>();
  out.expires_us = places.uint();
  out.value = places.bytes();
  return whole(in, places);
}

// ---- Batch --------------------------------------------------------------------------------------------------------
BatchRequestWriter::BatchRequestWriter(std::string& out, std::uint32_t correlation, Durability durability) : out_(out) {
  at_ = begin_frame(out_, Opcode::batch, 0, correlation);
  Packer pack(out_);
  pack.array(2);
  pack.uint(static_cast<std::uint64_t>(durability));
  out_.push_back('\xdd');
  count_at_ = out_.size();
  out_.append(4, '\0');
}

void BatchRequestWriter::add(const BatchItem& item) {
  Packer pack(out_);
  switch (item.opcode) {
    case Opcode::put: {
      const unsigned more = trailing(item.expires_us, item.condition, Durability::store_default);
      pack.array(3 + more);
      pack.uint(static_cast<std::uint64_t>(item.opcode));
      pack.bin(item.key);
      pack.bin(item.value);
      pack_trailing(pack, more, item.expires_us, item.condition, Durability::store_default);
      break;
    }
    case Opcode::touch: {
      const unsigned more = trailing(item.expires_us, item.condition, Durability::store_default);
      pack.array(2 + more);
      pack.uint(static_cast<std::uint64_t>(item.opcode));
      pack.bin(item.key);
      pack_trailing(pack, more, item.expires_us, item.condition, Durability::store_default);
      break;
    }
    case Opcode::del: {
      const bool more = item.condition.kind != Condition::Kind::none;
      pack.array(more ? 3 : 2);
      pack.uint(static_cast<std::uint64_t>(item.opcode));
      pack.bin(item.key);
      if (more) pack_condition(pack, item.condition);
      break;
    }
    default:
      ZARIS_ASSERT(item.opcode == Opcode::get || item.opcode == Opcode::time_to_live, static_cast<int>(item.opcode));
      pack.array(2);
      pack.uint(static_cast<std::uint64_t>(item.opcode));
      pack.bin(item.key);
  }
  ++count_;
  ZARIS_ASSERT(count_ <= batch_items_max, count_);
}

void BatchRequestWriter::finish() {
  put_be(out_.data() + count_at_, count_, 4);
  end_frame(out_, at_);
}

bool BatchRequest::decode(std::string_view body, BatchRequest& out) {
  Unpacker in(body);
  Places places(in);
  out = {};
  out.durability_ = read_durability(in, places);
  if (places.demand()) out.count_ = in.array();
  if (!in.ok() || out.count_ > batch_items_max) return out.ok_ = false;
  out.rest_ = in.rest();
  return true;
}

bool BatchRequest::next(BatchItem& out) {
  if (!ok_ || taken_ == count_) return false;
  Unpacker in(rest_);
  Places places(in);
  out.opcode = static_cast<Opcode>(places.fit<std::uint8_t>());
  if (places.demand()) out.key = in.bytes();
  out.value = {};
  out.expires_us = 0;
  out.condition = {};
  switch (out.opcode) {
    case Opcode::get:
    case Opcode::time_to_live:
      break;
    case Opcode::put:
      if (places.demand()) out.value = in.bytes();
      out.expires_us = places.uint();
      read_condition(in, places, out.condition);
      break;
    case Opcode::touch:
      out.expires_us = places.uint();
      read_condition(in, places, out.condition);
      if (out.condition.kind == Condition::Kind::absent) in.fail();
      break;
    case Opcode::del:
      read_condition(in, places, out.condition);
      if (out.condition.kind == Condition::Kind::absent) in.fail();
      break;
    default:
      in.fail();
  }
  places.finish();
  if (!in.ok()) return ok_ = false;
  rest_ = in.rest();
  ++taken_;
  return true;
}

BatchAnswerWriter::BatchAnswerWriter(std::string& out, std::uint32_t correlation) : out_(out) {
  at_ = begin_frame(out_, Opcode::batch, 0, correlation);
  out_.append("\x91\xdd", 2);
  count_at_ = out_.size();
  out_.append(4, '\0');
}

void BatchAnswerWriter::write(Status status, ItemToken token) {
  char raw[12];
  raw[0] = '\x93';
  raw[1] = static_cast<char>(status);  // statuses are below 128
  raw[2] = '\xce';
  put_be(raw + 3, token.item_version, 4);
  raw[7] = '\xce';
  put_be(raw + 8, token.tag, 4);
  out_.append(raw, sizeof raw);
  ++count_;
}

void BatchAnswerWriter::read(Status status, ItemToken token, WallMicros expires_us, std::string_view value) {
  Packer pack(out_);
  if (status != Status::ok) {
    pack.array(1);
    pack.uint(static_cast<std::uint64_t>(status));
  } else {
    pack.array(5);
    pack.uint(static_cast<std::uint64_t>(status));
    pack.u32(token.item_version);
    pack.u32(token.tag);
    pack.uint(expires_us);
    pack.bin(value);
  }
  ++count_;
}

void BatchAnswerWriter::time_to_live(Status status, ItemToken token, WallMicros expires_us) {
  Packer pack(out_);
  if (status != Status::ok) {
    pack.array(1);
    pack.uint(static_cast<std::uint64_t>(status));
  } else {
    pack.array(4);
    pack.uint(static_cast<std::uint64_t>(status));
    pack.u32(token.item_version);
    pack.u32(token.tag);
    pack.uint(expires_us);
  }
  ++count_;
}

void BatchAnswerWriter::finish() {
  put_be(out_.data() + count_at_, count_, 4);
  end_frame(out_, at_);
}

bool BatchAnswer::decode(std::string_view body, BatchAnswer& out) {
  Unpacker in(body);
  Places places(in);
  out = {};
  if (places.demand()) out.count_ = in.array();
  if (!in.ok() || out.count_ > batch_items_max) return out.ok_ = false;
  out.rest_ = in.rest();
  return true;
}

bool BatchAnswer::next(BatchAnswerItem& out) {
  if (!ok_ || taken_ == count_) return false;
  Unpacker in(rest_);
  Places places(in);
  out.status = static_cast<Status>(places.fit<std::uint16_t>());
  out.token.item_version = places.fit<std::uint32_t>();
  out.token.tag = places.fit<std::uint32_t>();
  out.expires_us = places.uint();
  out.value = places.bytes();
  places.finish();
  if (!in.ok()) return ok_ = false;
  rest_ = in.rest();
  ++taken_;
  return true;
}

// ---- Scan ---------------------------------------------------------------------------------------------------------
void encode(std::string& out, std::uint32_t correlation, const ScanRequest& request) {
  const std::size_t at = begin_frame(out, Opcode::scan, 0, correlation);
  Packer pack(out);
  pack.array(5);
  pack.bin(request.scope_text);
  pack_slot_key(pack, request.after);
  pack.uint(request.count_max);
  pack.uint(request.bytes_max);
  pack.boolean(request.keys_only);
  end_frame(out, at);
}

bool decode(std::string_view body, ScanRequest& out) {
  Unpacker in(body);
  Places places(in);
  out.scope_text = places.bytes();
  read_slot_key(in, places, out.after);
  out.count_max = places.fit<std::uint32_t>(1024);
  out.bytes_max = places.fit<std::uint32_t>(256u << 10);
  out.keys_only = places.boolean();
  if (out.count_max == 0 || out.count_max > scan_count_max) in.fail();
  return whole(in, places);
}

void encode(std::string& out, std::uint32_t correlation, const ScanAnswer& answer) {
  const std::size_t at = begin_frame(out, Opcode::scan, 0, correlation);
  Packer pack(out);
  pack.array(2);
  pack_slot_key(pack, answer.next);
  pack.uint(row_count(answer.table));
  out.append(answer.table);
  out.append(answer.records);
  end_frame(out, at);
}

bool decode(std::string_view body, ScanAnswer& out) {
  Unpacker in(body);
  Places places(in);
  read_slot_key(in, places, out.next);
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
