#include "cluster/region/settings_watch.hpp"

#include <fmt/format.h>

namespace zaris::region {

bool SettingsWatch::look(const std::map<std::string, Held<MemberRow>>& members) {
  std::map<std::string, std::string> found;
  for (const auto& [name, row] : members) {
    if (name == self_) continue;
    for (const auto& [key, theirs] : row.value.settings) {
      const auto ours = own_.find(key);
      if (ours == own_.end() || ours->second == theirs) continue;  // a key that this version does not know
      std::string& text = found[name];
      text += fmt::format("{}{} is {} there, {} here", text.empty() ? "" : "; ", key, printable(theirs), ours->second);
    }
  }
  if (found == differing_) return false;
  differing_ = std::move(found);
  return true;
}

std::string SettingsWatch::text() const {
  std::string out;
  for (const auto& [name, what] : differing_) out += fmt::format("{}{}: {}", out.empty() ? "" : "; ", name, what);
  return out;
}

}  // namespace zaris::region
