#include "cluster/record/mark.hpp"

#include <xxhash.h>

namespace zaris {
namespace {

void put_little(std::string& out, std::uint64_t number, int bytes) {
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>(number >> (8 * i)));
}

}  // namespace

std::uint64_t mark_checksum(const std::vector<MarkChecksumRow>& rows) {
  std::string bytes;
  bytes.reserve(rows.size() * 24);
  for (const auto& row : rows) {
    put_little(bytes, row.source_segment.value(), 2);
    put_little(bytes, row.target_segment.value(), 2);
    put_little(bytes, row.token.target_generation.value(), 4);
    put_little(bytes, row.token.session.value(), 8);
    put_little(bytes, row.token.number, 8);
  }
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::string_view name(Phase phase) {
  switch (phase) {
    case Phase::bootstrap: return "bootstrap";
    case Phase::stream: return "stream";
    case Phase::repair: return "repair";
  }
  return "unknown";
}

}  // namespace zaris
