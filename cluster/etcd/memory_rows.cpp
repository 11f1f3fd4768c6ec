#include "cluster/etcd/memory_rows.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cluster/base/assert.hpp"

namespace zaris::etcd {

template <class Answer>
Answer MemoryRows::no(Outcome outcome, const char* error_code, std::string what) const {
  Answer out;
  out.outcome = outcome;
  out.revision = revision_;
  out.error = Error{error_code, std::move(what), {}};
  return out;
}

const Row* MemoryRows::find(const std::string& key, EtcdRevision at) const {
  const auto found = keys_.find(key);
  if (found == keys_.end()) return nullptr;
  for (auto version = found->second.rbegin(); version != found->second.rend(); ++version)
    if (version->row.mod_revision <= at) return version->removed ? nullptr : &version->row;
  return nullptr;
}

OperationAnswer MemoryRows::read(const RangeRequest& request, EtcdRevision at) const {
  OperationAnswer out;
  const bool go_on = !request.after.empty() && request.after >= request.keys.key;
  for (auto it = go_on ? keys_.upper_bound(request.after) : keys_.lower_bound(request.keys.key); it != keys_.end() && request.keys.contains(it->first); ++it) {
    const Row* row = find(it->first, at);
    if (row == nullptr) continue;
    if (out.rows.size() == request.limit) {
      out.more = true;
      break;
    }
    out.rows.push_back(*row);
    if (request.keys_only) out.rows.back().value.clear();
  }
  return out;
}

RangeAnswer MemoryRows::range(const RangeRequest& request) const {
  if (Error error = objection(request); !error.code.empty()) return no<RangeAnswer>(Outcome::refused, "etcd_refused", error.what);
  if (request.at > revision_) return no<RangeAnswer>(Outcome::refused, "etcd_refused", "the revision is a future one");
  if (request.at != EtcdRevision{} && request.at < compacted_) return no<RangeAnswer>(Outcome::compacted, "etcd_compacted", "the revision has been compacted");
  OperationAnswer rows = read(request, request.at == EtcdRevision{} ? revision_ : request.at);
  RangeAnswer out;
  out.outcome = Outcome::ok;
  out.revision = revision_;
  out.rows = std::move(rows.rows);
  out.more = rows.more;
  return out;
}

bool MemoryRows::holds(const Compare& guard) const {
  const Row* row = find(guard.key, revision_);
  const auto decide = [&](auto order) {
    switch (guard.is) {
      case Compare::Is::equal: return order == 0;
      case Compare::Is::not_equal: return order != 0;
      case Compare::Is::less: return order < 0;
      case Compare::Is::greater: return order > 0;
    }
    return false;
  };
  std::int64_t number = 0;
  switch (guard.target) {
    case Compare::Target::value: return row != nullptr && decide(row->value <=> guard.value);
    case Compare::Target::create_revision: number = row == nullptr ? 0 : row->create_revision.value(); break;
    case Compare::Target::mod_revision: number = row == nullptr ? 0 : row->mod_revision.value(); break;
    case Compare::Target::version: number = row == nullptr ? 0 : row->version; break;
  }
  return decide(number <=> guard.number);
}

// What etcd looks at before it executes anything: no key is put twice, or put and deleted, in one list.
std::optional<Error> MemoryRows::forbidden(const std::vector<Operation>& operations, Outcome& outcome) const {
  std::set<std::string> puts;
  for (const Operation& operation : operations) {
    const Put* one = std::get_if<Put>(&operation);
    if (one != nullptr && !puts.insert(one->key).second) return Error{"etcd_refused", "a key is put twice in one transaction", {}};
  }
  for (const Operation& operation : operations) {
    if (const Delete* removal = std::get_if<Delete>(&operation)) {
      for (const std::string& key : puts)
        if (removal->keys.contains(key)) return Error{"etcd_refused", "a key is put and deleted in one transaction", {}};
    }
    if (const RangeRequest* request = std::get_if<RangeRequest>(&operation); request != nullptr && request->at != EtcdRevision{}) {
      if (request->at > revision_) return Error{"etcd_refused", "the revision is a future one", {}};
      if (request->at < compacted_) {
        outcome = Outcome::compacted;
        return Error{"etcd_compacted", "the revision has been compacted", {}};
      }
    }
  }
  return std::nullopt;
}

void MemoryRows::put(const Put& put, EtcdRevision at) {
  const Row* before = find(put.key, at);
  Row row{put.key, put.value, before == nullptr ? at : before->create_revision, at, before == nullptr ? 1 : before->version + 1, put.lease};
  if (before != nullptr && before->lease != LeaseId{} && before->lease != put.lease) {
    if (const auto lease = leases_.find(before->lease); lease != leases_.end()) lease->second.keys.erase(put.key);
  }
  if (put.lease != LeaseId{}) leases_.at(put.lease).keys.insert(put.key);
  history_.push_back({Event::Kind::put, row});
  keys_[put.key].push_back({std::move(row), false});
}

bool MemoryRows::remove_one(const std::string& key, EtcdRevision at) {
  const Row* before = find(key, at);
  if (before == nullptr) return false;
  if (const auto lease = leases_.find(before->lease); lease != leases_.end()) lease->second.keys.erase(key);
  Row gone;
  gone.key = key;
  gone.mod_revision = at;
  history_.push_back({Event::Kind::removed, gone});
  keys_[key].push_back({std::move(gone), true});
  return true;
}

std::int64_t MemoryRows::remove(const Keys& keys, EtcdRevision at) {
  std::int64_t out = 0;
  for (auto it = keys_.lower_bound(keys.key); it != keys_.end() && keys.contains(it->first); ++it) out += remove_one(it->first, at) ? 1 : 0;
  return out;
}

TxnAnswer MemoryRows::txn(const TxnRequest& request) {
  if (Error error = objection(request); !error.code.empty()) {
    auto out = no<TxnAnswer>(Outcome::refused, "etcd_refused", {});
    out.error = std::move(error);
    return out;
  }
  for (const auto* operations : {&request.then, &request.otherwise}) {
    Outcome outcome = Outcome::refused;
    if (auto error = forbidden(*operations, outcome)) {
      auto out = no<TxnAnswer>(outcome, "etcd_refused", error->what);
      out.error = std::move(*error);
      return out;
    }
  }
  const bool good = std::all_of(request.guards.begin(), request.guards.end(), [this](const Compare& guard) { return holds(guard); });
  const auto& operations = good ? request.then : request.otherwise;
  for (const Operation& operation : operations) {
    const Put* one = std::get_if<Put>(&operation);
    if (one != nullptr && one->lease != LeaseId{} && !leases_.contains(one->lease)) return no<TxnAnswer>(Outcome::lease_gone, "etcd_lease_gone", "there is no such lease");
  }
  TxnAnswer out;
  const EtcdRevision at = revision_.next();
  bool changed = false;
  for (const Operation& operation : operations) {
    OperationAnswer answer;
    if (const Put* one = std::get_if<Put>(&operation)) {
      put(*one, at);
      changed = true;
    } else if (const Delete* removal = std::get_if<Delete>(&operation)) {
      answer.deleted = remove(removal->keys, at);
      changed = changed || answer.deleted > 0;
    } else if (const RangeRequest* request_in = std::get_if<RangeRequest>(&operation)) {
      answer = read(*request_in, request_in->at == EtcdRevision{} ? at : request_in->at);
    }
    out.answers.push_back(std::move(answer));
  }
  if (changed) revision_ = at;
  out.outcome = good ? Outcome::ok : Outcome::compare_failed;
  out.revision = revision_;
  return out;
}

LeaseAnswer MemoryRows::grant(std::chrono::seconds ttl, LeaseId id, MonoMicros now) {
  if (id == LeaseId{}) {
    while (leases_.contains(LeaseId{next_lease_})) ++next_lease_;
    id = LeaseId{next_lease_++};
  }
  if (leases_.contains(id)) return no<LeaseAnswer>(Outcome::refused, "etcd_refused", "the lease exists already");
  Lease lease;
  lease.ttl = std::max(ttl, std::chrono::seconds(2));  // etcd's least with its defaults
  lease.ends = now + std::chrono::microseconds(lease.ttl).count();
  LeaseAnswer out;
  out.outcome = Outcome::ok;
  out.revision = revision_;
  out.lease = id;
  out.ttl = lease.ttl;
  leases_.emplace(id, std::move(lease));
  return out;
}

LeaseAnswer MemoryRows::keep_alive(LeaseId id, MonoMicros now) {
  const auto lease = leases_.find(id);
  if (lease == leases_.end()) return no<LeaseAnswer>(Outcome::lease_gone, "etcd_lease_gone", "there is no such lease");
  lease->second.ends = now + std::chrono::microseconds(lease->second.ttl).count();
  LeaseAnswer out;
  out.outcome = Outcome::ok;
  out.revision = revision_;
  out.lease = id;
  out.ttl = lease->second.ttl;
  return out;
}

void MemoryRows::end_lease(std::map<LeaseId, Lease>::iterator lease) {
  const std::set<std::string> keys = lease->second.keys;
  if (!keys.empty()) revision_ = revision_.next();
  for (const std::string& key : keys) remove_one(key, revision_);
  leases_.erase(lease);
}

Answered MemoryRows::revoke(LeaseId id) {
  const auto lease = leases_.find(id);
  if (lease == leases_.end()) return no<Answered>(Outcome::lease_gone, "etcd_lease_gone", "there is no such lease");
  end_lease(lease);
  return {Outcome::ok, revision_, {}};
}

TimeToLiveAnswer MemoryRows::time_to_live(LeaseId id, MonoMicros now) const {
  const auto lease = leases_.find(id);
  if (lease == leases_.end()) return no<TimeToLiveAnswer>(Outcome::lease_gone, "etcd_lease_gone", "there is no such lease");
  TimeToLiveAnswer out;
  out.outcome = Outcome::ok;
  out.revision = revision_;
  out.left = std::chrono::seconds(std::max<MonoMicros>(0, lease->second.ends - now) / 1'000'000);
  out.granted = lease->second.ttl;
  out.keys.assign(lease->second.keys.begin(), lease->second.keys.end());
  return out;
}

Answered MemoryRows::compact(EtcdRevision revision) {
  if (revision > revision_) return no<Answered>(Outcome::refused, "etcd_refused", "the revision is a future one");
  if (revision <= compacted_) return no<Answered>(Outcome::compacted, "etcd_compacted", "the revision has been compacted");
  compacted_ = revision;
  while (!history_.empty() && history_.front().row.mod_revision < revision) history_.pop_front();
  for (auto it = keys_.begin(); it != keys_.end();) {
    auto& versions = it->second;
    // The newest at or before the revision stays: reads as of it must find it.
    auto keep = std::find_if(versions.rbegin(), versions.rend(), [&](const Version& v) { return v.row.mod_revision <= revision; }).base();
    if (keep != versions.begin() && !(keep - 1)->removed) --keep;
    versions.erase(versions.begin(), keep);
    it = versions.empty() ? keys_.erase(it) : std::next(it);
  }
  return {Outcome::ok, revision_, {}};
}

void MemoryRows::expire(MonoMicros now) {
  while (true) {
    auto first = leases_.end();
    for (auto it = leases_.begin(); it != leases_.end(); ++it)
      if (it->second.ends + lease_late_us_ <= now && (first == leases_.end() || it->second.ends < first->second.ends)) first = it;
    if (first == leases_.end()) return;
    end_lease(first);
  }
}

std::optional<MonoMicros> MemoryRows::next_expiry() const {
  std::optional<MonoMicros> out;
  for (const auto& [id, lease] : leases_)
    if (!out || lease.ends + lease_late_us_ < *out) out = lease.ends + lease_late_us_;
  return out;
}

std::vector<Event> MemoryRows::events(const Keys& keys, EtcdRevision from) const {
  ZARIS_ASSERT(from >= compacted_, from.value(), compacted_.value());
  std::vector<Event> out;
  auto it = std::lower_bound(history_.begin(), history_.end(), from, [](const Event& event, EtcdRevision revision) { return event.row.mod_revision < revision; });
  for (; it != history_.end(); ++it)
    if (keys.contains(it->row.key)) out.push_back(*it);
  return out;
}

void MemoryRows::restore(const MemoryRows& older, MonoMicros now) {
  const std::int64_t next = std::max(next_lease_, older.next_lease_);
  *this = older;
  next_lease_ = next;
  for (auto& [id, lease] : leases_) lease.ends = now + std::chrono::microseconds(lease.ttl).count();
}

}  // namespace zaris::etcd
