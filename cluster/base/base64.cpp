#include "cluster/base/base64.hpp"

#include <array>
#include <cstdint>

namespace zaris {
namespace {

constexpr std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

constexpr std::array<std::int8_t, 256> digits = [] {
  std::array<std::int8_t, 256> out{};
  out.fill(-1);
  for (std::size_t i = 0; i < alphabet.size(); ++i) out[static_cast<unsigned char>(alphabet[i])] = static_cast<std::int8_t>(i);
  return out;
}();

}  // namespace

void append_base64(std::string& out, std::string_view bytes) {
  const std::size_t at = out.size();
  out.resize(at + (bytes.size() + 2) / 3 * 4);
  char* to = out.data() + at;
  const auto* from = reinterpret_cast<const unsigned char*>(bytes.data());
  std::size_t left = bytes.size();
  for (; left >= 3; left -= 3, from += 3) {
    const unsigned v = static_cast<unsigned>(from[0]) << 16 | static_cast<unsigned>(from[1]) << 8 | from[2];
    *to++ = alphabet[v >> 18];
    *to++ = alphabet[v >> 12 & 63];
    *to++ = alphabet[v >> 6 & 63];
    *to++ = alphabet[v & 63];
  }
  if (left > 0) {
    const unsigned v = static_cast<unsigned>(from[0]) << 16 | (left > 1 ? static_cast<unsigned>(from[1]) << 8 : 0);
    *to++ = alphabet[v >> 18];
    *to++ = alphabet[v >> 12 & 63];
    *to++ = left > 1 ? alphabet[v >> 6 & 63] : '=';
    *to++ = '=';
  }
}

std::string to_base64(std::string_view bytes) {
  std::string out;
  append_base64(out, bytes);
  return out;
}

bool from_base64(std::string_view text, std::string& out) {
  out.clear();
  if (text.size() % 4 != 0) return false;
  std::size_t padding = 0;
  while (padding < 2 && padding < text.size() && text[text.size() - 1 - padding] == '=') ++padding;
  out.resize(text.size() / 4 * 3);
  char* to = out.data();
  for (std::size_t i = 0; i < text.size(); i += 4) {
    unsigned v = 0;
    const bool last = i + 4 == text.size();
    for (std::size_t k = 0; k < 4; ++k) {
      const bool padded = last && k >= 4 - padding;
      const std::int8_t six = padded ? std::int8_t{0} : digits[static_cast<unsigned char>(text[i + k])];
      if (six < 0) return false;
      v = v << 6 | static_cast<unsigned>(six);
    }
    if (last && ((padding == 1 && (v & 0xff) != 0) || (padding == 2 && (v & 0xffff) != 0))) return false;
    *to++ = static_cast<char>(v >> 16);
    *to++ = static_cast<char>(v >> 8);
    *to++ = static_cast<char>(v);
  }
  out.resize(out.size() - padding);
  return true;
}

}  // namespace zaris
