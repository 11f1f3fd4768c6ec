#include "feed/gateway/access.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace zaris::feed {

Result<std::shared_ptr<const AccessTable>> AccessTable::make(const std::vector<AccessRule>& rules) {
  auto out = std::make_shared<AccessTable>();
  for (const auto& rule : rules) {
    const auto invalid = [&](const std::string& why) {
      return failure("feed_access_invalid", fmt::format("feed.access, subject '{}': {}", printable(rule.subject), why), "each subject once, each with at least one prefix; \"\" is everything");
    };
    if (rule.subject.empty()) return invalid("the subject is empty");
    if (rule.prefixes.empty()) return invalid("no prefix is given");
    // One identity in two rows: whichever was meant, somebody gets what is not theirs.
    if (std::any_of(out->rows_.begin(), out->rows_.end(), [&](const Row& r) { return r.subject == rule.subject; })) return invalid("it has a row already");
    auto scope = std::find(rule.prefixes.begin(), rule.prefixes.end(), std::string()) != rule.prefixes.end() ? Result<Scope>(Scope{}) : Scope::make(rule.prefixes);
    if (!scope) return invalid(scope.error().what);
    out->rows_.push_back({rule.subject, {std::move(*scope)}});
  }
  return std::shared_ptr<const AccessTable>(std::move(out));
}

std::optional<Principal> AccessTable::principal(const tls::Peer& peer) const {
  const bool anonymous = peer.subject.empty();
  const std::string name = anonymous ? "anonymous" : peer.common_name.empty() ? peer.subject : peer.common_name;
  if (rows_.empty()) return Principal{name, {Scope{}}};
  const auto row_of = [&](const std::string& subject) -> const Row* {
    const auto found = std::find_if(rows_.begin(), rows_.end(), [&](const Row& r) { return r.subject == subject; });
    return subject.empty() || found == rows_.end() ? nullptr : &*found;
  };
  const Row* row = anonymous ? row_of("anonymous") : row_of(peer.common_name);
  if (row == nullptr && !anonymous) row = row_of(peer.subject);
  for (std::size_t i = 0; row == nullptr && i < peer.names.size(); ++i) row = row_of(peer.names[i]);
  if (row == nullptr) return std::nullopt;
  return Principal{row->subject, row->granted};
}

}  // namespace zaris::feed
