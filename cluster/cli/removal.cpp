#include "cluster/cli/removal.hpp"

#include <charconv>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace zaris::cli {

Removal removal_of(const nlohmann::ordered_json& link) {
  Removal out;
  if (!link.contains("segments") || !link["segments"].is_array()) return out;
  constexpr std::string_view code = "large_removal: ";
  for (const auto& segment : link["segments"]) {
    if (!segment.contains("stopped_reason") || !segment["stopped_reason"].is_string()) continue;
    const auto& reason = segment["stopped_reason"].get_ref<const std::string&>();
    if (!reason.starts_with(code)) continue;
    std::uint64_t keys = 0;
    std::from_chars(reason.data() + code.size(), reason.data() + reason.size(), keys);
    out.keys += keys;
    ++out.segments;
  }
  return out;
}

}  // namespace zaris::cli
