#include "cluster/coordinator/link_register.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace zaris::coordinator {
namespace {

constexpr std::size_t link_name_bytes_max = 255;
constexpr std::size_t left_scopes_max = 64;

std::string shown(const Scope& scope) { return scope.full() ? "the full scope" : "scope " + printable(scope.text(), 80); }

}  // namespace

const LinkEntry* LinkRegister::find(std::string_view link) const {
  for (const auto& entry : links) {
    if (entry.link == link) return &entry;
  }
  return nullptr;
}

const LinkEntry* LinkRegister::standby_of(Slot slot, std::string_view key) const {
  for (const auto& entry : links) {
    if (entry.standby && entry.scope.has(slot, key)) return &entry;
  }
  return nullptr;
}

Result<LinkOpened> admit(const LinkRegister& links, SiteEpoch known_epoch, const LinkOpening& opening) {
  const std::string link = printable(opening.link, 80);
  if (opening.link.empty() || opening.link.size() > link_name_bytes_max) {
    return failure("link_name_invalid", fmt::format("a link's name has 1 to {} bytes, not {}", link_name_bytes_max, opening.link.size()));
  }
  for (const auto& other : links.links) {
    if (other.link != opening.link && other.scope.overlaps(opening.scope)) {
      return failure("scope_mismatch",
                     fmt::format("link {} wants {}, which overlaps {} of link {}", link, shown(opening.scope), shown(other.scope),
                                 printable(other.link, 80)),
                     "one writer per key: choose scopes that do not overlap, or drop the other link (zaris link drop)");
    }
  }
  LinkOpened out;
  const LinkEntry* before = links.find(opening.link);
  out.first = before == nullptr;
  if (before) {
    out.entry = *before;
    if (!before->standby) {
      return failure("epoch_superseded", fmt::format("this region is the active side of {}: link {} may not write here",
                                                     shown(before->scope), link),
                     "this region was promoted: a link for this scope has to run the other way");
    }
    if (opening.follower_term < before->follower_term) {
      return failure("term_superseded", fmt::format("link {} has follower term {}, the asker has {}: another follower took over", link,
                                                    before->follower_term.value(), opening.follower_term.value()),
                     "one follower runs a link at a time; stop this one or let it take the lease");
    }
    // A scope is changed by whoever starts with it, a source by an operator's word. One that runs and finds another has been taken the place of:
    // opening it again would void the other's marks, which would do the same in its turn.
    if (opening.reopens && (before->scope != opening.scope || (before->source_cluster != opening.source_cluster && !opening.replace_source))) {
      return failure("term_superseded", fmt::format("link {} was opened with {} of cluster {} since by another follower, which took the place of this one with {} of cluster {}", link,
                                                    shown(before->scope), hex16(before->source_cluster.value()), shown(opening.scope), hex16(opening.source_cluster.value())),
                     "one follower runs a link: stop one of the two or give it another name; the one that is to go on is restarted last");
    }
    if (before->source_cluster != opening.source_cluster) {
      if (!opening.replace_source) {
        return failure("source_changed", fmt::format("link {} is fed by cluster {}, the asker by cluster {}", link,
                                                     hex16(before->source_cluster.value()), hex16(opening.source_cluster.value())),
                       "if the source was replaced on purpose: zaris link accept-source; else give this link another name");
      }
      out.source_replaced = true;
    }
    known_epoch = std::max(known_epoch, before->site_epoch);
  }
  if (opening.site_epoch < known_epoch) {
    return failure("epoch_superseded", fmt::format("link {} has site epoch {}, this region knows {}", link, opening.site_epoch.value(),
                                                   known_epoch.value()),
                   "the sides have been switched since: a link for this scope has to run the other way");
  }
  if (opening.live_keys > 0 && !opening.adopt_data) {
    return failure("scope_holds_data",
                   fmt::format("{} holds at least {} keys here that no link has brought; as a standby it would become what the source is",
                               shown(opening.scope), opening.live_keys),
                   "if these keys may go, set links[].adopt_data for this link; else empty the scope or choose another");
  }
  if (before && before->scope != opening.scope) {
    out.replaced_scope = before->scope;
    out.entry.left_scopes.push_back(before->scope);
  }
  // What is fed again has not left.
  std::erase_if(out.entry.left_scopes, [&](const Scope& scope) { return opening.scope.contains(scope); });
  if (out.entry.left_scopes.size() > left_scopes_max) {
    return failure("scope_mismatch", fmt::format("link {} has left more than {} scopes behind", link, left_scopes_max),
                   "drop what is no longer fed: zaris link drop-scope");
  }
  out.entry.link = opening.link;
  out.entry.source_cluster = opening.source_cluster;
  out.entry.scope = opening.scope;
  out.entry.standby = true;
  out.entry.site_epoch = std::max(known_epoch, opening.site_epoch);
  out.entry.follower_term = opening.follower_term;
  if (out.first) out.entry.opened_us = opening.now_us;
  if (out.first || out.replaced_scope || out.source_replaced) out.entry.registered_us = std::max(opening.now_us, out.entry.registered_us + 1);
  return out;
}

}  // namespace zaris::coordinator
