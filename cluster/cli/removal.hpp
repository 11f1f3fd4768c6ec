// What a link that is held for large_removal waits with, summed over its segments.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>

namespace zaris::cli {

// A segment tells what the range of keys that it stopped at would remove; behind it there may be more.
struct Removal {
  std::uint64_t keys = 0;
  std::size_t segments = 0;
};
[[nodiscard]] Removal removal_of(const nlohmann::ordered_json& link);

}  // namespace zaris::cli
