#include "cluster/base/json_shape.hpp"

#include <algorithm>

namespace zaris {

JsonShape json_shape(std::string_view text) {
  JsonShape shape;
  std::size_t depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      else quoted = c != '"';
      continue;
    }
    switch (c) {
      case '"': quoted = true; break;
      case '[': case '{':
        shape.depth = std::max(shape.depth, ++depth);
        ++shape.values;
        break;
      case ']': case '}':
        if (depth > 0) --depth;
        break;
      case ',': ++shape.values; break;
      default: break;
    }
  }
  return shape;
}

}  // namespace zaris
