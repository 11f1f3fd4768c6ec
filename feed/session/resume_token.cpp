#include "feed/session/resume_token.hpp"

#include <xxhash.h>

#include <array>

namespace zaris::feed {
namespace {

constexpr std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
constexpr std::size_t text_bytes_max = 512u << 10;
constexpr unsigned char version = 1;

std::string base64url(std::string_view bytes) {
  std::string out;
  out.reserve((bytes.size() * 4 + 2) / 3);
  std::uint32_t bits = 0;
  int have = 0;
  for (const char c : bytes) {
    bits = bits << 8 | static_cast<unsigned char>(c);
    for (have += 8; have >= 6; have -= 6) out += alphabet[bits >> (have - 6) & 63];
  }
  if (have > 0) out += alphabet[bits << (6 - have) & 63];
  return out;
}

std::optional<std::string> from_base64url(std::string_view text) {
  static constexpr auto values = [] {
    std::array<signed char, 256> v{};
    v.fill(-1);
    for (std::size_t i = 0; i < alphabet.size(); ++i) v[static_cast<unsigned char>(alphabet[i])] = static_cast<signed char>(i);
    return v;
  }();
  std::string out;
  out.reserve(text.size() * 3 / 4);
  std::uint32_t bits = 0;
  int have = 0;
  for (const char c : text) {
    const signed char v = values[static_cast<unsigned char>(c)];
    if (v < 0) return std::nullopt;
    bits = (bits << 6 | static_cast<std::uint32_t>(v)) & 0xffffff;
    have += 6;
    if (have < 8) continue;
    have -= 8;
    out += static_cast<char>(bits >> have);
  }
  return out;
}

void put_varint(std::string& out, std::uint64_t v) {
  for (; v >= 0x80; v >>= 7) out += static_cast<char>(v | 0x80);
  out += static_cast<char>(v);
}
void put_big_endian(std::string& out, std::uint64_t v) {
  for (int shift = 56; shift >= 0; shift -= 8) out += static_cast<char>(v >> shift);
}

struct Reader {
  std::string_view left;
  bool failed = false;
  unsigned char byte() {
    if (left.empty()) {
      failed = true;
      return 0;
    }
    const auto b = static_cast<unsigned char>(left.front());
    left.remove_prefix(1);
    return b;
  }
  std::uint64_t varint() {
    std::uint64_t v = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const unsigned char b = byte();
      v |= std::uint64_t{b & 0x7fu} << shift;
      if (b < 0x80) return v;
    }
    failed = true;
    return 0;
  }
  std::uint64_t big_endian() {
    std::uint64_t v = 0;
    for (int i = 0; i < 8; ++i) v = v << 8 | byte();
    return v;
  }
};

}  // namespace

// Ids, then per segment its distance from the one before, its generation as a difference (nearly always 0) and its revision.
std::uint64_t ResumeToken::sum(const std::function<Lineage(SegmentId)>& lineage) const {
  std::string bytes;
  for (const auto& [id, at] : positions) {
    const Lineage of = lineage(id);
    for (const std::uint64_t v : {std::uint64_t{id.value()}, of.root().history.value(), of.id_of(at.generation)}) {
      for (int shift = 56; shift >= 0; shift -= 8) bytes += static_cast<char>(v >> shift);
    }
  }
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::string ResumeToken::encode() const {
  std::string out(1, static_cast<char>(version));
  put_big_endian(out, cluster.value());
  put_big_endian(out, scope.value());
  put_big_endian(out, lineage_sum);
  put_varint(out, positions.size());
  std::uint64_t segment = 0, generation = 0;
  for (const auto& [id, at] : positions) {
    put_varint(out, id.value() - segment);
    const auto step = static_cast<std::int64_t>(at.generation.value()) - static_cast<std::int64_t>(generation);
    put_varint(out, static_cast<std::uint64_t>(step) << 1 ^ static_cast<std::uint64_t>(step >> 63));
    put_varint(out, at.revision.value());
    segment = id.value();
    generation = at.generation.value();
  }
  return base64url(out);
}

std::optional<ResumeToken> ResumeToken::decode(std::string_view text) {
  if (text.size() > text_bytes_max) return std::nullopt;
  const auto bytes = from_base64url(text);
  if (!bytes) return std::nullopt;
  Reader in{*bytes};
  if (in.byte() != version) return std::nullopt;
  ResumeToken out;
  out.cluster = ClusterId{in.big_endian()};
  out.scope = ScopeId{in.big_endian()};
  out.lineage_sum = in.big_endian();
  const std::uint64_t count = in.varint();
  if (in.failed || count == 0 || count > 16384 || count > in.left.size()) return std::nullopt;
  std::uint64_t segment = 0;
  std::int64_t generation = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t distance = in.varint();
    const std::uint64_t step = in.varint();
    const std::uint64_t revision = in.varint();
    if (distance > 16383 || (i > 0 && distance == 0) || step > std::uint64_t{1} << 34) return std::nullopt;
    segment += distance;
    generation += static_cast<std::int64_t>(step >> 1) ^ -static_cast<std::int64_t>(step & 1);
    if (in.failed || segment > 16383 || generation < 0 || generation > INT64_C(0xffffffff)) return std::nullopt;
    out.positions.emplace_back(SegmentId{static_cast<std::uint16_t>(segment)},
                               Position{Generation{static_cast<std::uint32_t>(generation)}, Revision{revision}});
  }
  if (in.failed || !in.left.empty()) return std::nullopt;
  return out;
}

}  // namespace zaris::feed
