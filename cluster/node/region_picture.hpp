// What status and metrics say of a region, as one of its nodes sees it. The region's thread.
#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "cluster/node/region_member.hpp"
#include "cluster/node/replica_lag.hpp"
#include "cluster/ownership/ownership.hpp"
#include "cluster/ownership/partition_map.hpp"
#include "cluster/ownership/roster.hpp"

namespace zaris::region {
class RegionCore;
}
namespace zaris::peer {
class PeerNet;
}

namespace zaris::node {

class RegionPicture {
 public:
  struct Of {
    const std::string& self;
    const ownership::Roster& roster;
    region::RegionCore& core;
    const store::Store& store;
    const peer::PeerNet& net;
    MonoMicros now = 0;
  };
  [[nodiscard]] RegionStatus take(const Of& of);

 private:
  // Overrides a state that was written down when the owner still was heard.
  static void look_for_owner(const Of& of, const ownership::PartitionOwner& row, RegionStatus::Partition& to);
  [[nodiscard]] static std::string missing_of(const Of& of, const ownership::Partition& partition);
  void look_at_copies(const Of& of, RegionStatus& status);
  void take_lag(const Of& of, const ownership::Partition& partition, RegionStatus::Partition& to);

  std::map<std::string, ReplicaLag> lags_;      // by partition; of those that are served here
  bool caught_up_ = false;                      // once; what falls behind later is its owner's to say
  std::uint64_t leader_changes_ = 0, leader_term_seen_ = 0;
};

}  // namespace zaris::node
