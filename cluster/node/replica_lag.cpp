#include "cluster/node/replica_lag.hpp"

#include <algorithm>
#include <utility>

namespace zaris::node {

bool ReplicaLag::has(const std::vector<Revision>& revisions, const Sample& sample) {
  for (std::size_t i = 0; i < sample.heads.size(); ++i) {
    if ((i < revisions.size() ? revisions[i] : Revision{0}) < sample.heads[i]) return false;
  }
  return true;
}

void ReplicaLag::sample(std::vector<Revision> heads, MonoMicros now) {
  if (samples_.empty()) began_ = now;
  newest_ = {now, std::move(heads)};
  // What every replica has in full needs no earlier sample.
  while (samples_.size() > 1 && std::all_of(received_.begin(), received_.end(), [&](const auto& of) { return has(of.second, samples_[1]); })) samples_.pop_front();
  if (samples_.size() <= 1) spacing_ = 0;
  if (!samples_.empty() && now - samples_.back().at < spacing_) return;
  if (samples_.size() >= samples_max) {
    std::deque<Sample> kept;
    for (std::size_t i = 0; i < samples_.size(); i += 2) kept.push_back(std::move(samples_[i]));
    samples_ = std::move(kept);
    spacing_ = (now - samples_.front().at) / static_cast<MonoMicros>(samples_.size());
  }
  samples_.push_back(newest_);
}

std::map<std::string, double> ReplicaLag::seconds() const {
  std::map<std::string, double> out;
  for (const auto& [replica, revisions] : received_) {
    double& seconds = out[replica];
    if (has(revisions, newest_)) continue;
    MonoMicros since = began_;
    for (const Sample& sample : samples_) {
      if (has(revisions, sample)) since = sample.at;
    }
    seconds = static_cast<double>(newest_.at - since) / 1e6;
  }
  return out;
}

}  // namespace zaris::node
