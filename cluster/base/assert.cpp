#include "cluster/base/assert.hpp"

#include <cstdio>
#include <cstdlib>

namespace zaris {

void assert_failed(std::string_view expression, const std::string& values, std::source_location where) noexcept {
  std::fprintf(stderr, "zaris: broken invariant: %.*s: %s(%s:%u, %s)\n", static_cast<int>(expression.size()),
               expression.data(), values.c_str(), where.file_name(), where.line(), where.function_name());
  std::fflush(stderr);
  std::abort();
}

}  // namespace zaris
