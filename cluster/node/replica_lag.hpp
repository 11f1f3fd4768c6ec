// How long ago an owner's log was where a replica is: the replica's lag in seconds. From samples of heads, without a clock of its own and
// without asking the replica anything; whoever samples hands the time in. One thread.
//
// What a replica lacks was committed after the newest sample that it has in full. So the lag is the age of that sample: too large by one
// sampling interval, or a thirtieth of the longest lag if that is more, never too small.
#pragma once
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cluster/record/position.hpp"

namespace zaris::node {

class ReplicaLag {
 public:
  // The heads of one partition's segments, which this node has owned without a break since the first sample.
  void sample(std::vector<Revision> heads, MonoMicros now);
  // What `replica` has received in full of those segments, in the same order; 0: nothing, or it is being copied. To be left out while the
  // replica is away: it keeps what it has.
  void received(const std::string& replica, std::vector<Revision> revisions) { received_[replica] = std::move(revisions); }
  [[nodiscard]] bool knows(const std::string& replica) const { return received_.contains(replica); }

  // By replica, as of the newest sample; 0: it has all. Where it has nothing of a segment: since the first sample.
  [[nodiscard]] std::map<std::string, double> seconds() const;

  static constexpr std::size_t samples_max = 64;   // then every second one is forgotten, and half as many are taken

 private:
  struct Sample {
    MonoMicros at = 0;
    std::vector<Revision> heads;
  };
  [[nodiscard]] static bool has(const std::vector<Revision>& revisions, const Sample& sample);

  MonoMicros began_ = 0, spacing_ = 0;
  Sample newest_;
  std::deque<Sample> samples_;
  std::map<std::string, std::vector<Revision>> received_;
};

}  // namespace zaris::node
