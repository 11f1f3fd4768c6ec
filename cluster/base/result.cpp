#include "cluster/base/result.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace zaris {

std::string Error::text() const {
  std::string out = code + ": " + what;
  if (!hint.empty()) out += "; try: " + hint;
  return out;
}

bool is_code(std::string_view text) {
  const auto fits = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; };
  return !text.empty() && text.size() <= 48 && std::all_of(text.begin(), text.end(), fits);
}

std::string printable(std::string_view bytes, std::size_t most) {
  std::string out;
  const bool cut = bytes.size() > most;
  for (const char c : bytes.substr(0, most)) {
    const auto u = static_cast<unsigned char>(c);
    if (c == '\\') {
      out += "\\\\";
    } else if (u >= 0x20 && u < 0x7f) {
      out += c;
    } else {
      out += fmt::format("\\x{:02x}", u);
    }
  }
  if (cut) out += "…";
  return out;
}

std::string hex16(std::uint64_t id) { return fmt::format("{:016x}", id); }

}  // namespace zaris
