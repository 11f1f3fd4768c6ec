// Assertions that stay on in release: a process that is wrong stops before it spreads it.
#pragma once
#include <fmt/format.h>

#include <source_location>
#include <string>
#include <string_view>

namespace zaris {

// Prints expression, values and place on stderr and aborts (exit by SIGABRT). Never returns, never throws.
[[noreturn]] void assert_failed(std::string_view expression, const std::string& values,
                                std::source_location where = std::source_location::current()) noexcept;

namespace detail {
inline std::string show_values() { return {}; }
template <class... T>
std::string show_values(const T&... values) {
  std::string out;
  ((out += fmt::format("{} ", values)), ...);
  return out;
}
}  // namespace detail
}  // namespace zaris

// ZARIS_ASSERT(next == last + 1, next, last) -> "next == last + 1: 17 15" and abort.
#define ZARIS_ASSERT(condition, ...)                                                        \
  do {                                                                                      \
    if (!(condition)) [[unlikely]]                                                          \
      ::zaris::assert_failed(#condition, ::zaris::detail::show_values(__VA_ARGS__));        \
  } while (false)
