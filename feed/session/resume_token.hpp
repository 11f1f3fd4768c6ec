// The resume token of /v1/changes: opaque to its reader, safe in a URL. Bytes: docs/formats/feed.md, "Resume tokens".
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cluster/record/lineage.hpp"
#include "cluster/record/position.hpp"

namespace zaris::feed {

struct ResumeToken {
  ClusterId cluster;
  ScopeId scope;
  // XXH3-64 over (segment, history id, id of the generation record of the position) of every row: two histories that use
  // the same numbers are told apart by it.
  std::uint64_t lineage_sum = 0;
  std::vector<std::pair<SegmentId, Position>> positions;  // ascending

  // What lineage_sum is by these lineages.
  [[nodiscard]] std::uint64_t sum(const std::function<Lineage(SegmentId)>& lineage) const;
  [[nodiscard]] std::string encode() const;
  // Empty: not a token of ours, or damaged.
  [[nodiscard]] static std::optional<ResumeToken> decode(std::string_view text);
};

}  // namespace zaris::feed
