// When a leader without a map may make the first one. Design page cluster, "Ready to serve" (1).
#pragma once
#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "cluster/ownership/boot_time.hpp"

namespace zaris::ownership {

struct FormationTimes {
  BootMicros stable_us = 3 * boot_second;
  BootMicros timeout_us = 30 * boot_second;
};

struct FormationVerdict {
  bool open = false;
  std::vector<std::string> members;      // with whom, ordered; only if open
  std::string reason;                    // for people, in both cases
};

// The whole roster, unchanged for stable_us, opens it; after timeout_us it goes ahead with whom it has, since a later node costs a
// move of segments and a missing one must not hold up the others for ever. Without anybody it stays shut.
class FormationGate {
 public:
  // `expected`: nodes in the roster; 0: not known, then being unchanged is enough.
  FormationGate(FormationTimes times, std::size_t expected, BootMicros now);

  // Who is alive, told whenever it changes and as often as one likes.
  void members(std::set<std::string> alive, BootMicros now);
  [[nodiscard]] FormationVerdict evaluate(BootMicros now) const;
  // When evaluate() may say something else without a change of members.
  [[nodiscard]] BootMicros next_evaluation() const;

 private:
  FormationTimes times_;
  std::size_t expected_;
  BootMicros began_;
  BootMicros changed_;
  std::set<std::string> alive_;
};

}  // namespace zaris::ownership
