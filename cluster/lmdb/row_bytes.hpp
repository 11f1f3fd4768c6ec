// The bytes of rows and of the manifest; shared by the owner and by the child that examines a file.
#pragma once
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "cluster/lmdb/checked_lmdb.hpp"

namespace zaris::lmdb {

inline std::string fixed64(std::uint64_t number) {
  std::string out(8, '\0');
  for (int i = 0; i < 8; ++i) out[static_cast<std::size_t>(i)] = static_cast<char>(number >> (8 * i));
  return out;
}
inline std::string fixed32(std::uint32_t number) { return fixed64(number).substr(0, 4); }
// Little endian, up to 8 bytes.
inline std::uint64_t read_fixed(std::string_view bytes) {
  std::uint64_t out = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) out = out << 8 | static_cast<unsigned char>(bytes[i]);
  return out;
}

inline std::string with_sum(std::string_view key, std::string_view content) {
  std::string out(content);
  return out += fixed64(row_sum(key, content));
}
inline std::uint64_t trailing_sum(std::string_view value) {
  return value.size() < 8 ? 0 : read_fixed(value.substr(value.size() - 8));
}
// Empty: the sum does not fit.
inline std::optional<std::string_view> without_sum(std::string_view key, std::string_view value) {
  if (value.size() < 8 || value.size() > value_bytes_max) return std::nullopt;
  const auto content = value.substr(0, value.size() - 8);
  if (trailing_sum(value) != row_sum(key, content)) return std::nullopt;
  return content;
}

// Every row but the manifest itself is counted, format and id included.
struct Manifest {
  std::uint64_t rows = 0;
  std::uint64_t sums = 0;      // XOR
  std::uint64_t commits = 0;
};
inline std::string manifest_bytes(const Manifest& manifest) {
  return fixed64(manifest.rows) + fixed64(manifest.sums) + fixed64(manifest.commits);
}
inline std::optional<Manifest> parse_manifest(std::string_view key, std::string_view value) {
  const auto content = without_sum(key, value);
  if (!content || content->size() != 24) return std::nullopt;
  return Manifest{read_fixed(content->substr(0, 8)), read_fixed(content->substr(8, 8)), read_fixed(content->substr(16, 8))};
}

}  // namespace zaris::lmdb
