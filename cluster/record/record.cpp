#include "cluster/record/record.hpp"

#include <cstring>

#include "cluster/base/assert.hpp"
#include "cluster/record/msgpack_scan.hpp"

namespace zaris {
namespace {

using scan::load16;
using scan::load32;
using scan::load64;

// The header behind the entry: revision, item_version, timestamp, deleted, generation; then origin.
constexpr std::size_t header_fixed = 9 + 5 + 9 + 1 + 5;
constexpr std::size_t origin_nil = 1;
constexpr std::size_t origin_full = 1 + 9 + 5 + 9;
constexpr std::size_t expiry_metadata = 1 + 1 + 9;  // [nil, expires_us]

constexpr char array7 = static_cast<char>(0x97);
constexpr char array8 = static_cast<char>(0x98);
constexpr char array4 = static_cast<char>(0x94);
constexpr char array3 = static_cast<char>(0x93);
constexpr char array2 = static_cast<char>(0x92);
constexpr char nil = static_cast<char>(0xc0);

std::size_t bin_header(std::size_t n) { return n < 0x100 ? 2 : n < 0x10000 ? 3 : 5; }

char* put8(char* out, std::uint8_t v) {
  *out = static_cast<char>(v);
  return out + 1;
}
char* put32(char* out, std::uint32_t v) {
  v = __builtin_bswap32(v);
  std::memcpy(out, &v, 4);
  return out + 4;
}
char* put64(char* out, std::uint64_t v) {
  v = __builtin_bswap64(v);
  std::memcpy(out, &v, 8);
  return out + 8;
}
char* put_u64(char* out, std::uint64_t v) { return put64(put8(out, 0xcf), v); }
char* put_u32(char* out, std::uint32_t v) { return put32(put8(out, 0xce), v); }

char* put_bin(char* out, std::string_view bytes) {
  const std::size_t n = bytes.size();
  if (n < 0x100) {
    out = put8(put8(out, 0xc4), static_cast<std::uint8_t>(n));
  } else if (n < 0x10000) {
    out = put8(put8(put8(out, 0xc5), static_cast<std::uint8_t>(n >> 8)), static_cast<std::uint8_t>(n));
  } else {
    out = put32(put8(out, 0xc6), static_cast<std::uint32_t>(n));
  }
  if (n != 0) std::memcpy(out, bytes.data(), n);
  return out + n;
}

char* put_header(char* out, const RecordHeader& h) {
  out = put_u64(out, h.revision.value());
  out = put_u32(out, h.item_version);
  out = put_u64(out, h.timestamp_us);
  out = put8(out, h.deleted == Deleted::no ? 0xc2 : static_cast<std::uint8_t>(h.deleted));
  out = put_u32(out, h.generation.value());
  if (!h.origin) return put8(out, 0xc0);
  *out++ = array3;
  out = put_u64(out, h.origin->cluster.value());
  out = put_u32(out, h.origin->at.generation.value());
  return put_u64(out, h.origin->at.revision.value());
}

std::size_t entry_size(const EntryFields& f) {
  std::size_t n = 1 + bin_header(f.key.size()) + f.key.size();
  n += f.tombstone ? 1 : bin_header(f.value.size()) + f.value.size();
  n += f.expires_us != 0 ? expiry_metadata : 1;
  return n + 5;
}

tl::unexpected<Error> malformed(const char* what) { return failure("record_malformed", std::string("a record is malformed: ") + what); }

bool take_origin(scan::Cursor& in, std::optional<Origin>& out) {
  if (in.take_nil()) return true;
  std::uint32_t places = 0;
  std::uint64_t cluster = 0, revision = 0;
  std::uint32_t generation = 0;
  if (!in.take_array(places) || places < 3) return false;
  if (!in.take_u64_wide(cluster) || !in.take_u32_wide(generation) || !in.take_u64_wide(revision)) return false;
  for (std::uint32_t i = 3; i < places; ++i) {
    if (!in.skip()) return false;
  }
  out = Origin{ClusterId{cluster}, Position{Generation{generation}, Revision{revision}}};
  return true;
}

bool take_metadata(scan::Cursor& in, WallMicros& expires_us) {
  if (in.take_nil()) return true;
  std::uint32_t places = 0;
  if (!in.take_array(places)) return false;
  for (std::uint32_t i = 0; i < places; ++i) {
    if (i == 1 && !in.at_nil()) {
      if (!in.take_u64_wide(expires_us)) return false;
    } else if (!in.skip()) {
      return false;
    }
  }
  return true;
}

bool take_deleted(scan::Cursor& in, Deleted& out) {
  std::uint8_t byte = 0;
  if (!in.take_byte(byte)) return false;
  if (byte == 0xc2) {
    out = Deleted::no;
    return true;
  }
  if (byte < 1 || byte > 4) return false;
  out = static_cast<Deleted>(byte);
  return true;
}

}  // namespace

Result<RecordView> parse_record(std::string_view bytes) {
  RecordView r;
  r.bytes = bytes;
  scan::Cursor in(bytes);
  std::uint32_t places = 0;
  if (!in.take_array(places) || places < 7) return malformed("not an array of at least 7 places");
  const std::size_t entry_at = in.offset();
  if (in.at_nil()) return malformed("no entry (a generation record is none)");
  std::uint32_t entry_places = 0;
  if (!in.take_array(entry_places) || entry_places < 2) return malformed("entry");
  if (!in.take_bin(r.key)) return malformed("key");
  const bool value_nil = in.take_nil();
  if (!value_nil && !in.take_bin_or_ext(r.value)) return malformed("value");
  if (entry_places > 2 && !take_metadata(in, r.expires_us)) return malformed("metadata");
  if (entry_places > 3 && !in.take_u32_wide(r.tag)) return malformed("tag");
  for (std::uint32_t i = 4; i < entry_places; ++i) {
    if (!in.skip()) return malformed("entry's trailing places");
  }
  r.entry = bytes.substr(entry_at, in.offset() - entry_at);
  std::uint64_t revision = 0;
  std::uint32_t generation = 0;
  if (!in.take_u64_wide(revision)) return malformed("revision");
  if (!in.take_u32_wide(r.item_version)) return malformed("item_version");
  if (!in.take_u64_wide(r.timestamp_us)) return malformed("timestamp_us");
  if (!take_deleted(in, r.deleted)) return malformed("deleted");
  if (!in.take_u32_wide(generation)) return malformed("generation");
  if (!take_origin(in, r.origin)) return malformed("origin");
  for (std::uint32_t i = 7; i < places; ++i) {
    if (!in.skip()) return malformed("trailing places");
  }
  if (!in.at_end()) return malformed("bytes after its end");
  if (value_nil != (r.deleted != Deleted::no)) return malformed("a tombstone has no value, and only a tombstone has none");
  r.revision = Revision{revision};
  r.generation = Generation{generation};
  return r;
}

Result<GenerationRecordView> parse_generation_record(std::string_view bytes) {
  GenerationRecordView g;
  g.bytes = bytes;
  scan::Cursor in(bytes);
  std::uint32_t places = 0, item_version = 0, generation = 0, inner = 0;
  std::uint64_t revision = 0, history = 0;
  std::uint8_t deleted = 0, cause = 0;
  const bool head = in.take_array(places) && places >= 8 && in.take_nil() && in.take_u64_wide(revision) &&
                    in.take_u32_wide(item_version) && in.take_u64_wide(g.timestamp_us) && in.take_byte(deleted) &&
                    deleted == 0xc2 && in.take_u32_wide(generation) && in.take_nil();
  if (!head) return malformed("generation record");
  if (!in.take_array(inner) || inner < 3 || !in.take_u64_wide(g.id) || !in.take_u64_wide(history) || !in.take_byte(cause) ||
      cause > 3) {
    return malformed("generation record's eighth place");
  }
  for (std::uint32_t i = 3; i < inner; ++i) {
    if (!in.skip()) return malformed("generation record's eighth place");
  }
  for (std::uint32_t i = 8; i < places; ++i) {
    if (!in.skip()) return malformed("generation record's trailing places");
  }
  if (!in.at_end()) return malformed("bytes after its end");
  g.revision = Revision{revision};
  g.generation = Generation{generation};
  g.history = HistoryId{history};
  g.cause = static_cast<RootCause>(cause);
  return g;
}

std::string_view trusted_key(const char* record) {
  // record header (1), entry header (1), then the key's bin header.
  const char* p = record + 2;
  switch (static_cast<std::uint8_t>(*p)) {
    case 0xc4: return {p + 2, static_cast<std::uint8_t>(p[1])};
    case 0xc5: return {p + 3, load16(p + 1)};
    default: return {p + 5, load32(p + 1)};
  }
}

RecordView trusted_record(std::string_view bytes) {
  RecordView r;
  r.bytes = bytes;
  r.key = trusted_key(bytes.data());
  const char* p = r.key.data() + r.key.size();
  switch (static_cast<std::uint8_t>(*p)) {
    case 0xc0: p += 1; break;
    case 0xc4: r.value = {p + 2, static_cast<std::uint8_t>(p[1])}; p = r.value.data() + r.value.size(); break;
    case 0xc5: r.value = {p + 3, load16(p + 1)}; p = r.value.data() + r.value.size(); break;
    case 0xc6: r.value = {p + 5, load32(p + 1)}; p = r.value.data() + r.value.size(); break;
    default: {  // a kind of value that this build only carries
      auto slow = parse_record(bytes);
      ZARIS_ASSERT(slow.has_value());
      return *slow;
    }
  }
  if (*p == nil) {
    p += 1;
  } else if (*p == array2 && p[1] == nil && static_cast<std::uint8_t>(p[2]) == 0xcf) {
    r.expires_us = load64(p + 3);
    p += expiry_metadata;
  } else {
    auto slow = parse_record(bytes);
    ZARIS_ASSERT(slow.has_value());
    return *slow;
  }
  if (bytes[1] != array4) {
    auto slow = parse_record(bytes);
    ZARIS_ASSERT(slow.has_value());
    return *slow;
  }
  r.tag = load32(p + 1);
  p += 5;
  r.entry = {bytes.data() + 1, static_cast<std::size_t>(p - bytes.data() - 1)};
  r.revision = Revision{load64(p + 1)};
  r.item_version = load32(p + 10);
  r.timestamp_us = load64(p + 15);
  const auto deleted = static_cast<std::uint8_t>(p[23]);
  r.deleted = deleted == 0xc2 ? Deleted::no : static_cast<Deleted>(deleted);
  r.generation = Generation{load32(p + 25)};
  if (p[29] != nil) {
    r.origin = Origin{ClusterId{load64(p + 31)}, Position{Generation{load32(p + 40)}, Revision{load64(p + 45)}}};
  }
  return r;
}

std::size_t record_size(const EntryFields& fields, bool with_origin) {
  return wrapped_size(entry_size(fields), with_origin);
}

std::size_t write_record(char* out, const EntryFields& fields, bool with_origin) {
  char* p = out;
  *p++ = array7;
  *p++ = array4;
  p = put_bin(p, fields.key);
  p = fields.tombstone ? put8(p, 0xc0) : put_bin(p, fields.value);
  if (fields.expires_us == 0) {
    *p++ = nil;
  } else {
    *p++ = array2;
    *p++ = nil;
    p = put_u64(p, fields.expires_us);
  }
  p = put_u32(p, fields.tag);
  RecordHeader zeros;
  if (with_origin) zeros.origin = Origin{};
  p = put_header(p, zeros);
  return static_cast<std::size_t>(p - out);
}

void patch_header(char* record, std::size_t size, const RecordHeader& header) {
  const std::size_t tail = header_fixed + (header.origin ? origin_full : origin_nil);
  ZARIS_ASSERT(size > tail, size, tail);
  put_header(record + size - tail, header);
}

std::size_t wrapped_size(std::size_t entry, bool with_origin) {
  return 1 + entry + header_fixed + (with_origin ? origin_full : origin_nil);
}

std::size_t wrap_entry(char* out, std::string_view entry, const RecordHeader& header) {
  *out = array7;
  std::memcpy(out + 1, entry.data(), entry.size());
  char* end = put_header(out + 1 + entry.size(), header);
  return static_cast<std::size_t>(end - out);
}

std::string make_record(const EntryFields& fields, const RecordHeader& header) {
  std::string out(record_size(fields, header.origin.has_value()), '\0');
  const std::size_t n = write_record(out.data(), fields, header.origin.has_value());
  ZARIS_ASSERT(n == out.size(), n, out.size());
  patch_header(out.data(), out.size(), header);
  return out;
}

std::string make_generation_record(Revision revision, WallMicros timestamp_us, Generation generation, std::uint64_t id,
                                   HistoryId history, RootCause cause) {
  std::string out(2 + header_fixed + origin_nil + 1 + 9 + 9 + 1, '\0');
  char* p = out.data();
  *p++ = array8;
  *p++ = nil;
  p = put_header(p, RecordHeader{revision, 0, timestamp_us, Deleted::no, generation, std::nullopt});
  *p++ = array3;
  p = put_u64(p, id);
  p = put_u64(p, history.value());
  p = put8(p, static_cast<std::uint8_t>(cause));
  ZARIS_ASSERT(p == out.data() + out.size());
  return out;
}

}  // namespace zaris
