// Durations, sizes and parts of a whole as people write them. A bare number is refused: "10" of what?
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace zaris::config {

// "200ms", "5s", "1m30s", "24h"; units us, ms, s, m, h, d, each at most once, from large to small; "0" alone is allowed,
// since nothing is nothing in every unit. Microseconds; empty: not such a text, or beyond 100 years.
[[nodiscard]] std::optional<std::uint64_t> parse_duration(std::string_view text);
[[nodiscard]] std::string show_duration(std::uint64_t microseconds);

// "64KiB", "1GiB", "512B", "10MB"; units B, KiB, MiB, GiB, TiB and the decimal kB, MB, GB, TB; "0" alone is allowed.
[[nodiscard]] std::optional<std::uint64_t> parse_size(std::string_view text);
[[nodiscard]] std::string show_size(std::uint64_t bytes);

// "10%", "0.5%", or a decimal fraction between 0 and 1 with a point in it ("0.1").
[[nodiscard]] std::optional<double> parse_ratio(std::string_view text);

// The nearest of `candidates` by edit distance, when it is near enough to be meant; empty otherwise.
template <class Range>
[[nodiscard]] std::string nearest(std::string_view text, const Range& candidates);
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);

template <class Range>
std::string nearest(std::string_view text, const Range& candidates) {
  std::string best;
  std::size_t least = text.size() / 3 + 2;
  for (const auto& candidate : candidates) {
    const std::size_t distance = edit_distance(text, candidate);
    if (distance < least) {
      least = distance;
      best = candidate;
    }
  }
  return best;
}

}  // namespace zaris::config
