#include "cluster/config/units.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numeric>
#include <vector>

namespace zaris::config {
namespace {

struct Unit {
  std::string_view name;
  std::uint64_t factor;
};

constexpr std::array<Unit, 6> duration_units{{{"d", 86'400'000'000}, {"h", 3'600'000'000}, {"m", 60'000'000}, {"s", 1'000'000}, {"ms", 1'000}, {"us", 1}}};
constexpr std::array<Unit, 5> binary_units{{{"TiB", 1ull << 40}, {"GiB", 1ull << 30}, {"MiB", 1ull << 20}, {"KiB", 1ull << 10}, {"B", 1}}};
constexpr std::array<Unit, 4> decimal_units{{{"TB", 1'000'000'000'000}, {"GB", 1'000'000'000}, {"MB", 1'000'000}, {"kB", 1'000}}};
constexpr std::uint64_t duration_max = 100ull * 366 * 86'400'000'000;
constexpr std::uint64_t size_max = 1ull << 60;

// Takes "12.5" off the front; empty: no digit there.
std::optional<double> take_number(std::string_view& text) {
  std::size_t n = 0;
  while (n < text.size() && ((text[n] >= '0' && text[n] <= '9') || text[n] == '.')) ++n;
  if (n == 0 || n > 20 || text[0] == '.' || text[n - 1] == '.') return std::nullopt;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + n, value);
  if (error != std::errc{} || end != text.data() + n) return std::nullopt;
  text.remove_prefix(n);
  return value;
}

std::string_view take_letters(std::string_view& text) {
  std::size_t n = 0;
  while (n < text.size() && ((text[n] >= 'a' && text[n] <= 'z') || (text[n] >= 'A' && text[n] <= 'Z'))) ++n;
  const std::string_view letters = text.substr(0, n);
  text.remove_prefix(n);
  return letters;
}

}  // namespace

std::optional<std::uint64_t> parse_duration(std::string_view text) {
  if (text == "0") return 0;
  double total = 0;
  std::size_t next_unit = 0;
  if (text.empty()) return std::nullopt;
  while (!text.empty()) {
    const auto number = take_number(text);
    if (!number) return std::nullopt;
    const std::string_view unit = take_letters(text);
    const auto found = std::find_if(duration_units.begin() + static_cast<std::ptrdiff_t>(next_unit), duration_units.end(),
                                    [&](const Unit& u) { return u.name == unit; });
    if (found == duration_units.end()) return std::nullopt;
    next_unit = static_cast<std::size_t>(found - duration_units.begin()) + 1;
    total += *number * static_cast<double>(found->factor);
    if (total > static_cast<double>(duration_max)) return std::nullopt;
  }
  return static_cast<std::uint64_t>(std::llround(total));
}

std::string show_duration(std::uint64_t microseconds) {
  if (microseconds == 0) return "0";
  std::string out;
  for (const Unit& unit : duration_units) {
    if (microseconds < unit.factor) continue;
    out += fmt::format("{}{}", microseconds / unit.factor, unit.name);
    microseconds %= unit.factor;
  }
  return out;
}

std::optional<std::uint64_t> parse_size(std::string_view text) {
  if (text == "0") return 0;
  const auto number = take_number(text);
  if (!number) return std::nullopt;
  for (const auto& unit : binary_units) {
    if (text != unit.name) continue;
    const double bytes = *number * static_cast<double>(unit.factor);
    if (bytes > static_cast<double>(size_max)) return std::nullopt;
    return static_cast<std::uint64_t>(std::llround(bytes));
  }
  for (const auto& unit : decimal_units) {
    if (text != unit.name) continue;
    const double bytes = *number * static_cast<double>(unit.factor);
    if (bytes > static_cast<double>(size_max)) return std::nullopt;
    return static_cast<std::uint64_t>(std::llround(bytes));
  }
  return std::nullopt;
}

std::string show_size(std::uint64_t bytes) {
  if (bytes == 0) return "0";
  for (const Unit& unit : binary_units) {
    if (bytes >= unit.factor && bytes % unit.factor == 0) return fmt::format("{}{}", bytes / unit.factor, unit.name);
  }
  return fmt::format("{}B", bytes);
}

std::optional<double> parse_ratio(std::string_view text) {
  const bool has_point = text.find('.') != std::string_view::npos;
  const auto number = take_number(text);
  if (!number) return std::nullopt;
  if (text == "%") return *number <= 100 ? std::optional(*number / 100) : std::nullopt;
  if (!text.empty() || !has_point || *number > 1) return std::nullopt;
  return *number;
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0u);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0u : 1u)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace zaris::config
