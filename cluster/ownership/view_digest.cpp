#include "cluster/ownership/view_digest.hpp"

#include <xxhash.h>

#include <algorithm>
#include <vector>

namespace zaris::ownership {
namespace {

void put(std::string& out, std::uint64_t number) {
  for (int shift = 56; shift >= 0; shift -= 8) out.push_back(static_cast<char>(number >> shift));
}

}  // namespace

std::uint64_t view_digest(const View& view) {
  std::string bytes;
  put(bytes, view.leader.size());
  bytes += view.leader;
  put(bytes, view.leader_term);
  put(bytes, view.map_version);
  put(bytes, view.nodes);
  if (view.ownership != nullptr) {
    std::vector<std::pair<PartitionId, Generation>> rows;
    for (const PartitionOwner& p : view.ownership->partitions) rows.emplace_back(p.id, p.generation);
    std::sort(rows.begin(), rows.end());
    for (const auto& [id, generation] : rows) {
      put(bytes, id.high);
      put(bytes, id.low);
      put(bytes, generation.value());
    }
  }
  return XXH3_64bits(bytes.data(), bytes.size());
}

bool ViewWatch::compare(std::string_view peer, std::uint64_t own, std::uint64_t theirs) {
  auto at = peers_.find(peer);
  if (own == theirs) {
    if (at == peers_.end()) return false;
    if (at->second.reported) ++cures_;
    peers_.erase(at);
    return false;
  }
  if (at == peers_.end()) at = peers_.emplace(std::string(peer), Peer{}).first;
  if (++at->second.in_a_row < evaluations_until_reread) return false;
  at->second = {0, true};
  ++differences_;
  return true;
}

void ViewWatch::forget(std::string_view peer) {
  if (const auto at = peers_.find(peer); at != peers_.end()) peers_.erase(at);
}

bool ViewWatch::differs() const {
  return std::any_of(peers_.begin(), peers_.end(), [](const auto& p) { return p.second.reported; });
}

}  // namespace zaris::ownership
