#include "cluster/ownership/formation_gate.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace zaris::ownership {

FormationGate::FormationGate(FormationTimes times, std::size_t expected, BootMicros now) : times_(times), expected_(expected), began_(now), changed_(now) {}

void FormationGate::members(std::set<std::string> alive, BootMicros now) {
  if (alive == alive_) return;
  alive_ = std::move(alive);
  changed_ = now;
}

FormationVerdict FormationGate::evaluate(BootMicros now) const {
  const auto seconds = [](BootMicros d) { return static_cast<double>(d) / static_cast<double>(boot_second); };
  const auto open = [&](std::string reason) { return FormationVerdict{true, {alive_.begin(), alive_.end()}, std::move(reason)}; };
  if (alive_.empty()) return {false, {}, "no node is alive"};
  const bool complete = alive_.size() >= expected_, stable = now - changed_ >= times_.stable_us;
  if (complete && stable) return open(fmt::format("{} nodes, unchanged for {:.1f} s", alive_.size(), seconds(now - changed_)));
  if (now - began_ >= times_.timeout_us) {
    return open(complete ? fmt::format("the nodes have kept changing for {:.1f} s: going ahead with {}", seconds(now - began_), alive_.size())
                         : fmt::format("after {:.1f} s only {} of {} nodes are there: going ahead with them", seconds(now - began_), alive_.size(), expected_));
  }
  if (!complete) return {false, {}, fmt::format("{} of {} nodes are there", alive_.size(), expected_)};
  return {false, {}, fmt::format("the nodes have been unchanged for {:.1f} s only", seconds(now - changed_))};
}

BootMicros FormationGate::next_evaluation() const {
  if (alive_.empty()) return no_end;
  const BootMicros timeout = after(began_, times_.timeout_us);
  return alive_.size() >= expected_ ? std::min(timeout, after(changed_, times_.stable_us)) : timeout;
}

}  // namespace zaris::ownership
