// What a JSON text would become, before a parser sees it: each bracket and each comma can cost one up to a hundred bytes, so the length of a
// text alone does not bound its memory.
#pragma once
#include <cstddef>
#include <string_view>

namespace zaris {

struct JsonShape {
  std::size_t values = 0;                // at least; of a text that is no JSON, whatever its brackets and commas say
  std::size_t depth = 0;                 // the deepest nesting
};
[[nodiscard]] JsonShape json_shape(std::string_view text);

}  // namespace zaris
