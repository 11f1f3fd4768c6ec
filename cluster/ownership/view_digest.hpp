// Does this node see the same cluster as the others? A digest of its view goes with each heartbeat; whoever keeps differing reads
// the truth again. Design page cluster, "Staying converged".
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "cluster/ownership/ownership.hpp"

namespace zaris::ownership {

struct View {
  std::string leader;
  std::uint64_t leader_term = 0;
  std::uint64_t map_version = 0;
  std::uint32_t nodes = 0;
  const Ownership* ownership = nullptr;  // whose generations count, in any order; null: none
};

// XXH3-64 of a canonical form: the same on every node, whatever its byte order.
[[nodiscard]] std::uint64_t view_digest(const View& view);

// One node's comparison with its peers. No thread of its own; bounded by the peers that are told to it.
class ViewWatch {
 public:
  static constexpr std::uint32_t evaluations_until_reread = 2;  // one difference is a change under way

  // A heartbeat of `peer` came in. True: re-read map, ownership and leader from the coordinator now. Says so again after as many
  // further differences.
  [[nodiscard]] bool compare(std::string_view peer, std::uint64_t own, std::uint64_t theirs);
  void forget(std::string_view peer);    // it is gone: its difference is no longer waited for

  [[nodiscard]] std::uint64_t differences() const { return differences_; }  // times that a re-read was asked for, ever
  [[nodiscard]] std::uint64_t cures() const { return cures_; }              // of peers that differed so, and agree again
  [[nodiscard]] bool differs() const;

 private:
  struct Peer {
    std::uint32_t in_a_row = 0;
    bool reported = false;
  };
  std::map<std::string, Peer, std::less<>> peers_;
  std::uint64_t differences_ = 0, cures_ = 0;
};

}  // namespace zaris::ownership
