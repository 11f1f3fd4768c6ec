#include "cluster/record/digest.hpp"

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

#include <cstring>

namespace zaris {

std::string Digest::hex() const { return fmt::format("{:016x}{:016x}", high, low); }

void Digest::to_bytes(char out[16]) const {
  const std::uint64_t parts[2] = {__builtin_bswap64(high), __builtin_bswap64(low)};
  std::memcpy(out, parts, 16);
}

Digest Digest::from_bytes(const char in[16]) {
  std::uint64_t parts[2];
  std::memcpy(parts, in, 16);
  return {__builtin_bswap64(parts[0]), __builtin_bswap64(parts[1])};
}

std::uint64_t record_name(std::string_view record) {
  const std::uint64_t hash = XXH3_64bits(record.data(), record.size());
  return hash == 0 ? 1 : hash;
}

Digest record_digest(std::string_view entry, std::uint32_t item_version) {
  const XXH128_hash_t content = XXH3_128bits(entry.data(), entry.size());
  char block[20];
  Digest{content.high64, content.low64}.to_bytes(block);
  const std::uint32_t version = __builtin_bswap32(item_version);
  std::memcpy(block + 16, &version, 4);
  const XXH128_hash_t term = XXH3_128bits(block, sizeof block);
  return {term.high64, term.low64};
}

}  // namespace zaris
