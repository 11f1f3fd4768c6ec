// The resume token of /v1/changes: opaque to its reader, safe in a URL. Bytes: docs/formats/feed.md, "Resume tokens".
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cluster/record/position.hpp"

namespace zaris::feed {

struct ResumeToken {
  ClusterId cluster;
  ScopeId scope;
  // XXH3-64 over (segment, history id, id of the generation record of the position) of every row: two histories that use
  // the same numbers are told apart by it.
  std::uint64_t lineage_sum = 0;
  std::vector<std::pair<SegmentId, Position>> positions;  // ascending

  [[nodiscard]] std::string encode() const;
  // Empty: not a token of ours, or damaged.
  [[nodiscard]] static std::optional<ResumeToken> decode(std::string_view text);
};

}  // namespace zaris::feed
