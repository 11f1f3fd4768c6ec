// Base64 with padding (RFC 4648, section 4).
#pragma once
#include <string>
#include <string_view>

namespace zaris {

void append_base64(std::string& out, std::string_view bytes);
[[nodiscard]] std::string to_base64(std::string_view bytes);
// False: not such a text, or one that no encoder writes (bits that would be lost); `out` is then of no use.
[[nodiscard]] bool from_base64(std::string_view text, std::string& out);

}  // namespace zaris
