#include "cluster/placement/slot.hpp"

#include <array>

namespace zaris {
namespace {

// Slicing by eight: table k holds the CRC of a byte that k zero bytes follow.
using Tables = std::array<std::array<std::uint16_t, 256>, 8>;
constexpr Tables make_tables() {
  Tables t{};
  for (unsigned b = 0; b < 256; ++b) {
    auto crc = static_cast<std::uint16_t>(b << 8);
    for (int bit = 0; bit < 8; ++bit) crc = static_cast<std::uint16_t>((crc << 1) ^ ((crc & 0x8000) != 0 ? 0x1021 : 0));
    t[0][b] = crc;
  }
  for (unsigned k = 1; k < 8; ++k) {
    for (unsigned b = 0; b < 256; ++b) {
      const std::uint16_t prev = t[k - 1][b];
      t[k][b] = static_cast<std::uint16_t>((prev << 8) ^ t[0][prev >> 8]);
    }
  }
  return t;
}
constexpr Tables tables = make_tables();

}  // namespace

std::uint16_t crc16_xmodem(std::string_view bytes) {
  std::uint16_t crc = 0;
  const auto* p = reinterpret_cast<const unsigned char*>(bytes.data());
  std::size_t n = bytes.size();
  for (; n >= 8; n -= 8, p += 8) {
    crc = static_cast<std::uint16_t>(tables[7][p[0] ^ (crc >> 8)] ^ tables[6][p[1] ^ (crc & 0xff)] ^ tables[5][p[2]] ^
                                     tables[4][p[3]] ^ tables[3][p[4]] ^ tables[2][p[5]] ^ tables[1][p[6]] ^ tables[0][p[7]]);
  }
  for (; n != 0; --n, ++p) crc = static_cast<std::uint16_t>((crc << 8) ^ tables[0][(crc >> 8) ^ *p]);
  return crc;
}

std::string_view hash_tag(std::string_view key) {
  const auto open = key.find('{');
  if (open == std::string_view::npos) return key;
  const auto close = key.find('}', open + 1);
  if (close == std::string_view::npos || close == open + 1) return key;
  return key.substr(open + 1, close - open - 1);
}

Slot slot_of(std::string_view key) {
  return Slot{static_cast<std::uint16_t>(crc16_xmodem(hash_tag(key)) & (slot_count - 1))};
}

bool valid_segment_count(std::uint32_t segments) {
  return segments >= 1 && segments <= slot_count && (segments & (segments - 1)) == 0;
}

}  // namespace zaris
