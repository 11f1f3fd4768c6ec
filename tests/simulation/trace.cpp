#include "tests/simulation/trace.hpp"

#include <fmt/format.h>

#include <cstdio>

namespace zaris::simulation {

void Trace::print(std::int64_t now, std::string_view what, const std::string& line) {
  fmt::print(stderr, "{:>12.6f} {:<18} {}\n", static_cast<double>(now) / 1e6, what, line);
}

}  // namespace zaris::simulation
