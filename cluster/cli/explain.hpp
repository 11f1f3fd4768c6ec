// Pages about error codes, compiled in from docs/reference/errors.
#pragma once
#include <span>
#include <string_view>

namespace zaris::cli {

struct ErrorPage {
  std::string_view code;
  std::string_view text;  // Markdown
};
[[nodiscard]] std::span<const ErrorPage> error_pages();  // ascending by code

}  // namespace zaris::cli
