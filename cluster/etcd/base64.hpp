// Base64 with padding (RFC 4648, section 4), in which etcd's JSON carries keys and values.
#pragma once
#include <string>
#include <string_view>

namespace zaris::etcd {

[[nodiscard]] std::string to_base64(std::string_view bytes);
// False: not such a text; `out` is then of no use.
[[nodiscard]] bool from_base64(std::string_view text, std::string& out);

}  // namespace zaris::etcd
