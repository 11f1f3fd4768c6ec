// "Did you mean …?"
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace zaris::cli {

// How many letters must be put in, left out, changed or swapped with their neighbour to make one of the other.
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);
// The nearest of them when it is near enough to be meant; else empty.
[[nodiscard]] std::string nearest(std::string_view given, const std::vector<std::string>& known);

}  // namespace zaris::cli
