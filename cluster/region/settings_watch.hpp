// What all nodes of a region should have alike in their configurations, and which node has not: each tells its own with its registration, and compares those
// of the others with it. A difference is said, not refused: a setting is changed by restarting one node after the other.
#pragma once
#include <map>
#include <string>
#include <string_view>

#include "cluster/region/mirror.hpp"

namespace zaris::region {

class SettingsWatch {
 public:
  // `own`: key of the configuration → value as it is written there.
  SettingsWatch(std::string self, std::map<std::string, std::string> own) : self_(std::move(self)), own_(std::move(own)) {}

  // True: what differs is not what it was at the last look.
  [[nodiscard]] bool look(const std::map<std::string, Held<MemberRow>>& members);
  // Node → "replication.ack is async there, replica here; …". Members of a version that told nothing are left out.
  [[nodiscard]] const std::map<std::string, std::string>& differing() const { return differing_; }
  [[nodiscard]] std::string text() const;  // all of it, for people; empty: nothing differs

 private:
  const std::string self_;
  const std::map<std::string, std::string> own_;
  std::map<std::string, std::string> differing_;
};

}  // namespace zaris::region
