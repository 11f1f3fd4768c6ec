#include "cursor/cursor_rows.hpp"

#include <fmt/format.h>

#include <exception>
#include <msgpack.hpp>

#include "cluster/base/assert.hpp"

namespace zaris::cursor {
namespace {

constexpr std::uint32_t link_row_format = 1;
constexpr std::uint32_t cursor_row_format = 1;
constexpr std::uint32_t link_row_places = 16;
constexpr std::uint32_t cursor_row_places = 11;

using Packer = msgpack::packer<msgpack::sbuffer>;

void big_endian(std::string& out, std::uint64_t number, unsigned bytes) {
  for (unsigned i = bytes; i-- > 0;) out += static_cast<char>(number >> (8 * i));
}
std::uint64_t read_big_endian(std::string_view bytes) {
  std::uint64_t out = 0;
  for (const char c : bytes) out = out << 8 | static_cast<unsigned char>(c);
  return out;
}

void pack_bytes(Packer& pack, std::string_view bytes) {
  pack.pack_bin(static_cast<std::uint32_t>(bytes.size()));
  pack.pack_bin_body(bytes.data(), static_cast<std::uint32_t>(bytes.size()));
}

std::string string_of(const msgpack::sbuffer& buffer) { return {buffer.data(), buffer.size()}; }

// A row's places, bounded before memory is taken; places beyond those that this build knows are passed over.
class Places {
 public:
  // Throws std::exception on anything that is not such a row.
  Places(std::string_view bytes, std::uint32_t least)
      : handle_(msgpack::unpack(bytes.data(), bytes.size(), nullptr, nullptr,
                                msgpack::unpack_limit(65536, 16, 1u << 16, 4u << 20, 0, 8))) {
    const auto& root = handle_.get();
    if (root.type != msgpack::type::ARRAY || root.via.array.size < 1) throw msgpack::type_error();
    format = number(0);
    places = root.via.array.size;
    least_ = least;
  }
  void check_size() const {
    if (places < least_) throw msgpack::type_error();
  }
  [[nodiscard]] const msgpack::object& at(std::uint32_t i) const {
    const auto& array = handle_.get().via.array;
    if (i >= array.size) throw msgpack::type_error();
    return array.ptr[i];
  }
  [[nodiscard]] std::uint64_t number(std::uint32_t i) const { return at(i).as<std::uint64_t>(); }
  [[nodiscard]] bool flag(std::uint32_t i) const { return at(i).as<bool>(); }
  [[nodiscard]] bool nil(std::uint32_t i) const { return at(i).is_nil(); }
  [[nodiscard]] std::string bytes(std::uint32_t i) const {
    const auto& object = at(i);
    if (object.type != msgpack::type::BIN) throw msgpack::type_error();
    return {object.via.bin.ptr, object.via.bin.size};
  }
  [[nodiscard]] std::vector<std::uint64_t> numbers(std::uint32_t i) const { return at(i).as<std::vector<std::uint64_t>>(); }

  std::uint64_t format = 0;
  std::uint32_t places = 0;

 private:
  msgpack::object_handle handle_;
  std::uint32_t least_ = 0;
};

template <class Row, class Fill>
Result<Row> decode_row(std::string_view bytes, std::uint32_t format, std::uint32_t least, const char* kind, Fill fill) {
  try {
    const Places places(bytes, least);
    if (places.format > format) {
      return failure("cursor_format_newer", fmt::format("a {} row of the cursor store has format {}, this program reads up to {}",
                                                        kind, places.format, format),
                     "run the version that wrote it, or a newer one");
    }
    places.check_size();
    Row row{};
    fill(places, row);
    return row;
  } catch (const std::exception& e) {
    return failure("cursor_damaged", fmt::format("a {} row of the cursor store is malformed ({})", kind, e.what()));
  }
}

}  // namespace

std::string link_key(std::string_view link) { return "L" + std::string(link); }

std::string cursor_prefix(std::string_view link) {
  ZARIS_ASSERT(link.size() <= 255, link.size());
  return "C" + std::string(1, static_cast<char>(link.size())) + std::string(link);
}

std::string cursor_key(const CursorKey& key) {
  std::string out = cursor_prefix(key.link);
  big_endian(out, key.source_cluster.value(), 8);
  big_endian(out, key.target_cluster.value(), 8);
  big_endian(out, key.scope.value(), 8);
  big_endian(out, key.segment.value(), 2);
  return out;
}

bool parse_link_key(std::string_view bytes, std::string& link) {
  if (bytes.size() < 2 || bytes[0] != 'L') return false;
  link = bytes.substr(1);
  return true;
}

bool parse_cursor_key(std::string_view bytes, CursorKey& key) {
  if (bytes.size() < 2 || bytes[0] != 'C') return false;
  const auto name_bytes = static_cast<unsigned char>(bytes[1]);
  if (bytes.size() != 2u + name_bytes + 26u) return false;
  key.link = bytes.substr(2, name_bytes);
  const auto rest = bytes.substr(2u + name_bytes);
  key.source_cluster = ClusterId{read_big_endian(rest.substr(0, 8))};
  key.target_cluster = ClusterId{read_big_endian(rest.substr(8, 8))};
  key.scope = ScopeId{read_big_endian(rest.substr(16, 8))};
  key.segment = SegmentId{static_cast<std::uint16_t>(read_big_endian(rest.substr(24, 2)))};
  return true;
}

std::string encode(const LinkRow& row) {
  msgpack::sbuffer buffer;
  Packer pack(buffer);
  pack.pack_array(link_row_places);
  pack.pack(link_row_format);
  pack_bytes(pack, row.follower);
  pack.pack(row.source_cluster.value());
  pack.pack(row.target_cluster.value());
  pack.pack(row.scope.value());
  pack_bytes(pack, row.scope_text);
  pack.pack(row.source_segments);
  if (row.accepted) {
    pack.pack_array(2);
    pack.pack(row.accepted->first.value());
    pack.pack(row.accepted->second.value());
  } else {
    pack.pack_nil();
  }
  pack.pack_array(static_cast<std::uint32_t>(row.accepted_histories.size()));
  for (const auto history : row.accepted_histories) pack.pack(history.value());
  pack.pack(row.rewind);
  if (row.rewind_to) {
    pack.pack_array(2);
    pack.pack(row.rewind_to->generation.value());
    pack.pack(row.rewind_to->revision.value());
  } else {
    pack.pack_nil();
  }
  pack.pack_array(static_cast<std::uint32_t>(row.rewind_segments.size()));
  for (const auto segment : row.rewind_segments) pack.pack(segment.value());
  pack.pack(row.paused);
  pack_bytes(pack, row.paused_reason);
  pack.pack(row.rows_version);
  pack.pack(row.format);
  return string_of(buffer);
}

Result<LinkRow> decode_link(std::string_view bytes) {
  return decode_row<LinkRow>(bytes, link_row_format, link_row_places, "link", [](const Places& places, LinkRow& row) {
    row.follower = places.bytes(1);
    row.source_cluster = ClusterId{places.number(2)};
    row.target_cluster = ClusterId{places.number(3)};
    row.scope = ScopeId{places.number(4)};
    row.scope_text = places.bytes(5);
    row.source_segments = places.at(6).as<std::uint32_t>();
    if (!places.nil(7)) {
      const auto pair = places.numbers(7);
      row.accepted = {ClusterId{pair.at(0)}, HistoryId{pair.at(1)}};
    }
    for (const auto history : places.numbers(8)) row.accepted_histories.emplace_back(history);
    row.rewind = places.flag(9);
    if (!places.nil(10)) {
      const auto pair = places.numbers(10);
      row.rewind_to = Position{Generation{static_cast<std::uint32_t>(pair.at(0))}, Revision{pair.at(1)}};
    }
    for (const auto segment : places.numbers(11)) {
      if (segment > 16383) throw msgpack::type_error();
      row.rewind_segments.emplace_back(static_cast<std::uint16_t>(segment));
    }
    row.paused = places.flag(12);
    row.paused_reason = places.bytes(13);
    row.rows_version = places.number(14);
    row.format = places.at(15).as<std::uint32_t>();
  });
}

std::string encode(const CursorRow& row) {
  msgpack::sbuffer buffer;
  Packer pack(buffer);
  pack.pack_array(cursor_row_places);
  pack.pack(cursor_row_format);
  pack.pack(row.history.value());
  pack.pack(row.position.at.generation.value());
  pack.pack(row.position.at.revision.value());
  pack.pack(row.position.generation_id);
  pack.pack(static_cast<std::uint8_t>(row.phase));
  pack.pack(row.source_time_us);
  pack.pack(row.persisted_us);
  pack.pack(row.records_applied);
  pack.pack(row.bytes_applied);
  pack.pack(row.bootstraps);
  return string_of(buffer);
}

Result<CursorRow> decode_cursor(std::string_view bytes) {
  return decode_row<CursorRow>(bytes, cursor_row_format, cursor_row_places, "cursor", [](const Places& places, CursorRow& row) {
    row.history = HistoryId{places.number(1)};
    row.position.at = Position{Generation{places.at(2).as<std::uint32_t>()}, Revision{places.number(3)}};
    row.position.generation_id = places.number(4);
    const auto phase = places.number(5);
    if (phase > static_cast<std::uint64_t>(Phase::repair)) throw msgpack::type_error();
    row.phase = static_cast<Phase>(phase);
    row.source_time_us = places.number(6);
    row.persisted_us = places.number(7);
    row.records_applied = places.number(8);
    row.bytes_applied = places.number(9);
    row.bootstraps = places.number(10);
  });
}

}  // namespace zaris::cursor
