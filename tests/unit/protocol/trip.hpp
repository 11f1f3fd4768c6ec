// A frame as values and back: for round trips, for mutated input and for the fuzz target.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace zaris::protocol {

enum class Side { request, answer };

// Parses one frame, decodes its body as that opcode's request or answer, and encodes what came out. Empty: refused.
[[nodiscard]] std::optional<std::string> trip(Side side, std::string_view bytes);

// Whatever these bytes are: refused, or what was read survives a second trip unchanged.
[[nodiscard]] bool steady(Side side, std::string_view bytes);

}  // namespace zaris::protocol
