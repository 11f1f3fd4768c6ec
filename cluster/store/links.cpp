#include "cluster/store/links.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace zaris::store {

const LinkRegistration* find_link(const Links::Table& table, std::string_view name) {
  for (const auto& link : table) {
    if (link.link == name) return &link;
  }
  return nullptr;
}

std::shared_ptr<const Links::Table> Links::table() const {
  const std::lock_guard hold(lock_);
  return table_;
}

Links::Opened Links::open(const LinkRegistration& link, std::string& reason) {
  const std::lock_guard hold(lock_);
  for (const auto& other : *table_) {
    if (other.link == link.link || !other.scope.overlaps(link.scope)) continue;
    reason = fmt::format("the scope overlaps with that of link '{}'", other.link);
    return {Status::scope_mismatch};
  }
  Opened result;
  if (const LinkRegistration* now = find_link(*table_, link.link); now != nullptr) {
    if (link.source_cluster != now->source_cluster) {
      reason = fmt::format("link '{}' follows cluster {}, not {}", link.link, hex16(now->source_cluster.value()), hex16(link.source_cluster.value()));
      return {Status::source_changed};
    }
    if (link.site_epoch < now->site_epoch) {
      reason = fmt::format("site epoch {} is older than {}", link.site_epoch.value(), now->site_epoch.value());
      return {Status::epoch_superseded};
    }
    if (link.follower_term < now->follower_term) {
      reason = fmt::format("follower term {} is older than {}", link.follower_term.value(), now->follower_term.value());
      return {Status::term_superseded};
    }
    result.drops_marks = link.scope != now->scope || link.site_epoch > now->site_epoch;
  }
  auto next = std::make_shared<Table>();
  for (const auto& other : *table_) {
    if (other.link != link.link) next->push_back(other);
  }
  next->push_back(link);
  std::sort(next->begin(), next->end(), [](const auto& a, const auto& b) { return a.link < b.link; });
  count_.store(next->size(), std::memory_order_release);
  table_ = std::move(next);
  return result;
}

bool Links::close(const std::string& link) {
  const std::lock_guard hold(lock_);
  auto next = std::make_shared<Table>();
  for (const auto& other : *table_) {
    if (other.link != link) next->push_back(other);
  }
  const bool was = next->size() != table_->size();
  count_.store(next->size(), std::memory_order_release);
  table_ = std::move(next);
  return was;
}

bool Links::standby(Slot slot, std::string_view key) const {
  if (none()) return false;
  const auto links = table();
  return std::any_of(links->begin(), links->end(), [&](const auto& link) { return link.scope.has(slot, key); });
}

}  // namespace zaris::store
