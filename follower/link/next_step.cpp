#include "follower/link/next_step.hpp"

#include <array>

#include "cluster/base/result.hpp"

namespace zaris::follower {

std::string next_step(std::string_view code, std::string_view link, const Scope& scope) {
  struct Row {
    std::string_view code, step;  // NAME: the link's; PREFIXES: its scope's, as options
  };
  static constexpr std::array rows{
      // held
      Row{"source_reset", "which end is right? The source as it is now: `zaris link accept-source NAME`. The target: refill the source first, "
                          "`zaris kv export --url TARGETPREFIXES | zaris kv import --url SOURCE`, then `zaris link accept-source NAME`"},
      Row{"wrong_cluster", "point links[].source.url at the right source; or, if the new one is meant, `zaris link accept-source NAME`"},
      Row{"source_changed", "point links[].source.url at the right source; or, if the new one is meant, `zaris link accept-source NAME`"},
      Row{"ahead_of_source", "bring the newer source back; or, if it is gone for good, `zaris link accept-source NAME`"},
      Row{"target_changed", "point target.url at the right target; or, if the new one is meant, `zaris link accept-target NAME`"},
      Row{"target_too_small", "raise limits.key and limits.value of the target to the source's, or memory.max_bytes of its nodes: all that own something count together; looked at again every 5 s"},
      Row{"large_removal", "look at what the source has lost; if it is right, `zaris link accept-removal NAME`, else `zaris link pause NAME`, mend the source, and `zaris link resume NAME` looks again"},
      Row{"scope_mismatch", "give each link its own links[].scope, or have it granted in feed.access of the source; a link that nobody runs any more: "
                            "`zaris link drop OTHER --url TARGET`"},
      Row{"scope_holds_data", "the target holds keys that no link brought: set links[].adopt_data: true to let the source replace them, or empty the scope"},
      Row{"scope_revoked", "have the scope granted again in feed.access of the source, or narrow links[].scope.prefixes"},
      Row{"unauthorised", "check links[].source.cert against feed.access of the source, and the certificate of target.url against the target's access table"},
      Row{"source_standby", "read from the region where those writes are made; narrow links[].scope to what no link writes there; or, once that other link is over, `zaris link accept-source NAME` copies once more what it wrote"},
      Row{"version_unsupported", "bring the older end up to date: `zaris version`, `zaris status --url SOURCE`"},
      Row{"term_superseded", "another follower runs this link: stop one of the two, and restart the one that is to go on"},
      Row{"epoch_superseded", "this region has become the active side: take the link out of the follower's configuration"},
      // failed, stuck
      Row{"item_too_large", "raise limits.key or limits.value of the target; it goes on by itself then"},
      Row{"capacity_exceeded", "raise memory.max_bytes of the target, or make room there outside this link's scope; it goes on by itself then. What is deleted inside the scope is missing until the link is copied anew"},
      Row{"apply_refused", "see the target's log and `zaris status --url TARGET`; it is tried again by itself"},
      Row{"conflict_log_full", "raise links[].conflict_bytes, or stop the follower and move NAME.conflicts away; it goes on by itself then"},
      Row{"conflict_log_damaged", "move NAME.conflicts under cursor.path away and keep it; it goes on by itself then"},
      Row{"conflict_log_disk_full", "make room under cursor.path; it goes on by itself then"},
      Row{"conflict_log_io", "see the disk under cursor.path and the kernel's log; it is tried again by itself"},
      Row{"conflict_log_locked", "another process has NAME.conflicts open: stop one of the two"},
      Row{"conflict_log_format_newer", "run the version that wrote NAME.conflicts, or move the file away"},
      Row{"stuck", "keep both logs and report it; is `/readyz` of the source well? Then restart the follower, not the source"},
      // backoff
      Row{"source_silent", "`zaris status --url SOURCE`: an owner that stands still or that the gateway does not reach, or a partition without a replica in step; it goes on by itself"},
      Row{"source_unavailable", "`zaris status --url SOURCE`: which partition has no owner? It is tried again by itself"},
      Row{"target_unavailable", "`zaris status --url TARGET`: is it starting, stopping, overloaded? It is asked again by itself"},
      Row{"target_unreachable", "`zaris status --url TARGET` from the follower's machine; it is tried again by itself"},
      Row{"another_follower", "stop one of the two followers: the target's log names both (audit lines OpenLink)"},
      // any
      Row{"paused", "`zaris link resume NAME`"},
      Row{"cursor_disk_full", "make room under cursor.path; applying goes on meanwhile"},
      Row{"cursor_io", "see the disk under cursor.path and the kernel's log; applying goes on meanwhile"},
  };
  for (const auto& row : rows) {
    if (row.code != code) continue;
    std::string out(row.step);
    std::string prefixes;
    for (const std::string& prefix : scope.prefixes()) prefixes += " --prefix " + printable(prefix);
    const auto put = [&out](std::string_view name, std::string_view value) {
      for (auto at = out.find(name); at != std::string::npos; at = out.find(name, at + value.size())) out.replace(at, name.size(), value);
    };
    put("NAME", link);
    put("PREFIXES", prefixes);
    return out;
  }
  return {};
}

}  // namespace zaris::follower
