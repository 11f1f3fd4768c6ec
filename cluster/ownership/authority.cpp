#include "cluster/ownership/authority.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "cluster/base/assert.hpp"

namespace zaris::ownership {

void Lease::taken(LeaseId id, BootMicros sent_at, BootMicros ttl_us) {
  id_ = id;
  gone_ = false;
  until_ = 0;
  renewed_at_.reset();
  renewed(id, sent_at, ttl_us);
}

void Lease::renewed(LeaseId id, BootMicros sent_at, BootMicros ttl_us) {
  if (id != id_ || gone_) return;
  until_ = std::max(until_, after(sent_at, shortened(ttl_us)));
  renewed_at_ = std::max(renewed_at_.value_or(sent_at), sent_at);
}

void Lease::gone(LeaseId id) {
  if (id != id_) return;
  gone_ = true;
  until_ = 0;
}

std::string_view name(ServesBy by) {
  switch (by) {
    case ServesBy::nothing: return "nothing";
    case ServesBy::lease: return "lease";
    case ServesBy::grants: return "grants";
    case ServesBy::alone: return "alone";
  }
  return "";
}

OwnerTerm::OwnerTerm(Generation generation, std::uint32_t replication_factor, AuthorityTimes times, BootMicros from, Members set)
    : generation_(generation), replication_factor_(replication_factor), times_(times), from_(from), set_(std::move(set)) {
  ZARIS_ASSERT(generation != Generation{});
}

void OwnerTerm::confirmed(LeaseId lease) { confirmed_ = lease; }

void OwnerTerm::change_begins(const Members& wanted) {
  ZARIS_ASSERT(!wanted_);
  wanted_ = wanted;
}

void OwnerTerm::change_ended(Members now) {
  set_ = std::move(now);
  wanted_.reset();
  const Members left = counted();
  std::erase_if(grants_, [&](const auto& g) { return std::find(left.begin(), left.end(), g.first) == left.end(); });
}

Members OwnerTerm::counted() const {
  std::set<Member> all(set_.begin(), set_.end());
  if (wanted_) all.insert(wanted_->begin(), wanted_->end());
  return {all.begin(), all.end()};
}

void OwnerTerm::granted(const Member& member, BootMicros asked_at, BootMicros for_us) {
  const Members all = counted();
  if (std::find(all.begin(), all.end(), member) == all.end()) return;
  BootMicros& until = grants_[member];
  until = std::max(until, after(asked_at, shortened(std::min(times_.grant_us, for_us))));
}

void OwnerTerm::superseded(Generation by) {
  if (by > generation_ && ended_.empty()) ended_ = fmt::format("generation {} is over: {} exists", generation_.value(), by.value());
}

void OwnerTerm::stop(std::string why) {
  if (ended_.empty()) ended_ = std::move(why);
}

BootMicros OwnerTerm::granted_until() const {
  const Members all = counted();
  if (all.empty()) return 0;  // an empty set consents to nothing
  BootMicros until = no_end;
  for (const Member& m : all) {
    const auto at = grants_.find(m);
    until = std::min(until, at == grants_.end() ? 0 : at->second);
  }
  return until;
}

Serving OwnerTerm::serving(const Lease& lease) const {
  Serving out;
  out.from = from_;
  if (!ended_.empty()) {
    out.reason = ended_;
    return out;
  }
  const auto take = [&](BootMicros until, ServesBy by) {
    if (until <= out.until) return;
    out.until = until;
    out.by = by;
  };
  const bool confirmed = confirmed_ && *confirmed_ == lease.id();
  if (confirmed) take(lease.until(), ServesBy::lease);
  take(granted_until(), ServesBy::grants);
  // A copy that is the only one: nobody else has the data, so the leader waits for the eviction countdown, or for ever.
  if (replication_factor_ == 1) {
    if (times_.evict_rf1 == EvictRf1::never) take(confirmed_ ? no_end : 0, ServesBy::alone);
    else if (confirmed && lease.renewed_at()) take(after(*lease.renewed_at(), shortened(times_.evict_us)), ServesBy::alone);
  }
  switch (out.by) {
    case ServesBy::nothing: out.reason = confirmed_ ? "the lease is gone, and not every synchronised replica has granted" : "no lease has been confirmed in this term"; break;
    case ServesBy::lease: out.reason = "the node's lease runs"; break;
    case ServesBy::grants: out.reason = fmt::format("{} synchronised replicas have granted", counted().size()); break;
    case ServesBy::alone:
      out.reason = times_.evict_rf1 == EvictRf1::never ? "it is the only copy, which is never given to an empty node" : "it is the only copy, until its eviction may be due";
      break;
  }
  return out;
}

Granter::Granter(BootMicros process_started, BootMicros grant_us)
    : grant_us_(grant_us), last_grant_until_(after(process_started, lengthened(grant_us))) {}

GrantAnswer Granter::ask(Generation generation, BootMicros now) {
  if (generation < highest_) return {false, highest_, fmt::format("generation {} is over: {} exists", generation.value(), highest_.value())};
  highest_ = generation;
  last_grant_until_ = std::max(last_grant_until_, after(now, lengthened(grant_us_)));
  return {true, highest_, {}};
}

void Granter::learn(Generation generation) { highest_ = std::max(highest_, generation); }

}  // namespace zaris::ownership
