// Who may read what: without a store, as a gateway of its own needs it too.
#include <fmt/format.h>

#include <algorithm>

#include "feed/session/source.hpp"

namespace zaris::feed {

std::optional<ScopeRefusal> refuse_scope(const Principal& principal, const Scope& scope) {
  const auto& granted = principal.granted;
  if (std::any_of(granted.begin(), granted.end(), [&](const Scope& g) { return g.contains(scope); })) return std::nullopt;
  const bool partly = std::any_of(granted.begin(), granted.end(), [&](const Scope& g) { return g.overlaps(scope); });
  return ScopeRefusal{partly ? "scope_mismatch" : "unauthorised",
                      fmt::format("{} may not read {} of the scope asked for", printable(principal.name), partly ? "all" : "anything")};
}

}  // namespace zaris::feed
