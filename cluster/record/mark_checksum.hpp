// The checksum of a link's mark tokens, which target and follower compute alike: once a second, and whenever an owner
// changes, the follower compares (design page protocol, "Marks").
//
// XXH3-64, seed 0, over one 24-byte row per mark in (source segment, target segment) order, all big endian:
//   u16 source segment · u16 target segment · u32 target generation · u64 session id · u64 number
#pragma once
#include <algorithm>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include <xxhash.h>

#include "cluster/record/mark.hpp"

namespace zaris {

struct MarkTokenRow {
  SegmentId source_segment, target_segment;
  MarkToken token;
};

[[nodiscard]] inline std::uint64_t mark_checksum(std::vector<MarkTokenRow> rows) {
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return std::tie(a.source_segment, a.target_segment) < std::tie(b.source_segment, b.target_segment);
  });
  std::string bytes;
  bytes.reserve(rows.size() * 24);
  const auto put = [&bytes](std::uint64_t v, int width) {
    for (int shift = (width - 1) * 8; shift >= 0; shift -= 8) bytes += static_cast<char>(v >> shift);
  };
  for (const auto& row : rows) {
    put(row.source_segment.value(), 2);
    put(row.target_segment.value(), 2);
    put(row.token.target_generation.value(), 4);
    put(row.token.session.value(), 8);
    put(row.token.number, 8);
  }
  return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace zaris
