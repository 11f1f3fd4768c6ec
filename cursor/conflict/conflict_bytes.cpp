#include "cursor/conflict/conflict_bytes.hpp"

#include <xxhash.h>

#include <exception>
#include <msgpack.hpp>

namespace zaris::cursor {
namespace {

constexpr std::string_view log_mark = "ZARISCFL";

void little_endian(std::string& out, std::uint64_t number, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(number >> (8 * i));
}
std::uint64_t read_little_endian(std::string_view bytes) {
  std::uint64_t out = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) out = out << 8 | static_cast<unsigned char>(bytes[i]);
  return out;
}

std::uint64_t block_sum(std::uint64_t place, std::uint32_t content_bytes, std::uint32_t records, std::string_view content) {
  std::string head;
  little_endian(head, place, 8);
  little_endian(head, content_bytes, 4);
  little_endian(head, records, 4);
  XXH3_state_t* state = XXH3_createState();
  XXH3_64bits_reset(state);
  XXH3_64bits_update(state, head.data(), head.size());
  XXH3_64bits_update(state, content.data(), content.size());
  const std::uint64_t sum = XXH3_64bits_digest(state);
  XXH3_freeState(state);
  return sum;
}

void pack_bytes(msgpack::packer<msgpack::sbuffer>& pack, std::string_view bytes) {
  pack.pack_bin(static_cast<std::uint32_t>(bytes.size()));
  pack.pack_bin_body(bytes.data(), static_cast<std::uint32_t>(bytes.size()));
}

}  // namespace

std::string log_head() {
  std::string out(log_mark);
  little_endian(out, log_format, 4);
  little_endian(out, 0, 4);
  little_endian(out, XXH3_64bits(out.data(), out.size()), 8);
  return out;
}

HeadVerdict check_head(std::string_view head) {
  if (head.size() < head_bytes || !head.starts_with(log_mark)) return HeadVerdict::not_a_log;
  if (read_little_endian(head.substr(16, 8)) != XXH3_64bits(head.data(), 16)) return HeadVerdict::not_a_log;
  return read_little_endian(head.substr(8, 4)) > log_format ? HeadVerdict::newer : HeadVerdict::good;
}

std::string encode_blocks(const std::vector<Conflict>& conflicts, std::uint64_t place) {
  std::string out;
  for (std::size_t next = 0; next < conflicts.size();) {
    msgpack::sbuffer content;
    msgpack::packer<msgpack::sbuffer> pack(content);
    std::uint32_t records = 0;
    while (next < conflicts.size() && content.size() < block_content_wanted) {
      const auto& c = conflicts[next++];
      pack.pack_array(8);
      pack.pack(c.at_us);
      pack.pack(c.segment.value());
      pack_bytes(pack, c.key);
      pack_bytes(pack, c.target_record);
      pack_bytes(pack, c.source_record);
      pack.pack(c.as_of.at.generation.value());
      pack.pack(c.as_of.at.revision.value());
      pack.pack(c.as_of.generation_id);
      ++records;
    }
    const std::string_view bytes(content.data(), content.size());
    const auto length = static_cast<std::uint32_t>(bytes.size());
    const std::uint64_t sum = block_sum(place + out.size(), length, records, bytes);
    out += block_mark;
    little_endian(out, length, 4);
    little_endian(out, records, 4);
    little_endian(out, sum, 8);
    out += bytes;
  }
  return out;
}

bool parse_block_head(std::string_view bytes, BlockHead& out) {
  if (bytes.size() < block_head_bytes || !bytes.starts_with(block_mark)) return false;
  out.content_bytes = static_cast<std::uint32_t>(read_little_endian(bytes.substr(4, 4)));
  out.records = static_cast<std::uint32_t>(read_little_endian(bytes.substr(8, 4)));
  out.sum = read_little_endian(bytes.substr(12, 8));
  return out.content_bytes <= block_content_max;
}

bool sum_fits(const BlockHead& head, std::uint64_t place, std::string_view content) {
  return content.size() == head.content_bytes && block_sum(place, head.content_bytes, head.records, content) == head.sum;
}

bool decode_content(const BlockHead& head, std::string_view content, std::vector<Conflict>& out) {
  out.clear();
  try {
    std::size_t at = 0;
    const auto bytes_of = [](const msgpack::object& object) {
      if (object.type != msgpack::type::BIN) throw msgpack::type_error();
      return std::string(object.via.bin.ptr, object.via.bin.size);
    };
    for (std::uint32_t i = 0; i < head.records; ++i) {
      const auto handle = msgpack::unpack(content.data(), content.size(), at, nullptr, nullptr,
                                          msgpack::unpack_limit(64, 16, 64, block_content_max, 0, 4));
      const auto& root = handle.get();
      if (root.type != msgpack::type::ARRAY || root.via.array.size < 8) return false;
      const auto* place = root.via.array.ptr;
      Conflict c;
      c.at_us = place[0].as<std::uint64_t>();
      c.segment = SegmentId{place[1].as<std::uint16_t>()};
      c.key = bytes_of(place[2]);
      c.target_record = bytes_of(place[3]);
      c.source_record = bytes_of(place[4]);
      c.as_of = {Position{Generation{place[5].as<std::uint32_t>()}, Revision{place[6].as<std::uint64_t>()}}, place[7].as<std::uint64_t>()};
      out.push_back(std::move(c));
    }
    return at == content.size();
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace zaris::cursor
