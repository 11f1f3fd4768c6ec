#include "cluster/region/etcd_coordinator.hpp"

#include <future>
#include <nlohmann/json.hpp>

#include "cluster/coordinator/link_register.hpp"

namespace zaris::region {
namespace {

constexpr std::chrono::milliseconds call_timeout{2000};
constexpr int attempts_max = 20;
constexpr const char* etcd_hint = "is etcd reachable from this node? The data are served on without it; the register of links cannot be changed";

}  // namespace

EtcdCoordinator::EtcdCoordinator(etcd::Etcd& etcd, KeyNames keys, SettingsRow settings)
    : etcd_(etcd), keys_(std::move(keys)), row_(std::move(settings)), settings_{row_.region, row_.store, row_.segments} {}

Result<Generation> EtcdCoordinator::mint_generation(Generation, WallMicros) {
  return failure("unsupported_here", "in a region of several processes the leader mints generations");
}

std::shared_ptr<const coordinator::LinkRegister> EtcdCoordinator::links() const {
  const std::lock_guard lock(mutex_);
  return links_;
}

void EtcdCoordinator::hold(RegisterDocument document, etcd::EtcdRevision changed) {
  const std::lock_guard lock(mutex_);
  if (changed < known_.changed) return;
  known_ = {std::move(document), changed};
  auto next = std::make_shared<coordinator::LinkRegister>(known_.document.links);
  next->version = ++versions_;
  links_ = std::move(next);
}

void EtcdCoordinator::saw_register(const std::string& bytes, etcd::EtcdRevision changed) {
  {
    const std::lock_guard lock(mutex_);
    if (changed <= known_.changed) return;
  }
  // What cannot be read leaves the register as it was; the mirror counts malformed rows.
  if (auto document = decode_register(bytes)) hold(std::move(*document), changed);
}

Result<etcd::TxnAnswer> EtcdCoordinator::run(etcd::TxnRequest request) {
  auto promise = std::make_shared<std::promise<etcd::TxnAnswer>>();
  auto answered = promise->get_future();
  etcd_.txn(std::move(request), call_timeout, [promise](etcd::TxnAnswer answer) { promise->set_value(std::move(answer)); });
  // The handler is dropped only with the Etcd; the bound is for that.
  if (answered.wait_for(2 * call_timeout) != std::future_status::ready) return failure("etcd_outcome_unknown", "etcd did not answer in time; whether it was done is not known", etcd_hint);
  return answered.get();
}

Result<void> EtcdCoordinator::alter(const std::function<Result<bool>(RegisterDocument&)>& change) {
  const std::lock_guard one(altering_);
  etcd::RangeRequest now;
  now.keys = etcd::Keys::one(keys_.links());
  now.limit = 1;
  for (int attempt = 0; attempt < attempts_max; ++attempt) {
    Known base;
    {
      const std::lock_guard lock(mutex_);
      base = known_;
    }
    auto changed = change(base.document);
    if (!changed) return tl::unexpected(changed.error());
    if (!*changed) return {};
    etcd::TxnRequest request;
    request.guards.push_back(base.changed.value() == 0 ? etcd::Compare::absent(keys_.links()) : etcd::Compare::unchanged_since(keys_.links(), base.changed));
    request.then.push_back(etcd::Put{keys_.links(), encode(base.document), {}});
    request.otherwise.push_back(now);
    auto answer = run(std::move(request));
    if (!answer) return tl::unexpected(answer.error());
    if (answer->ok()) {
      hold(std::move(base.document), answer->revision);
      return {};
    }
    if (answer->outcome != etcd::Outcome::compare_failed) {
      Error error = answer->error;
      error.hint = etcd_hint;
      return tl::unexpected(std::move(error));
    }
    // Somebody else has written it, or an answer to our own attempt was lost: go on from what is there.
    if (answer->answers.empty() || answer->answers.front().rows.empty()) hold({}, answer->revision);
    else saw_register(answer->answers.front().rows.front().value, answer->answers.front().rows.front().mod_revision);
  }
  return failure("register_contended", "the register of links changes faster than this change could be written", "try again");
}

Result<coordinator::LinkOpened> EtcdCoordinator::open_link(const coordinator::LinkOpening& opening) {
  coordinator::LinkOpened opened;
  const auto done = alter([&](RegisterDocument& document) -> Result<bool> {
    const auto scope = document.scopes.find(opening.scope.id().value());
    auto admitted = coordinator::admit(document.links, scope == document.scopes.end() ? SiteEpoch{0} : scope->second.second, opening);
    if (!admitted) return tl::unexpected(admitted.error());
    opened = *admitted;
    auto& links = document.links.links;
    const auto at = std::find_if(links.begin(), links.end(), [&](const auto& entry) { return entry.link == opening.link; });
    if (at != links.end() && *at == opened.entry) return false;
    if (at != links.end()) *at = opened.entry;
    else links.insert(std::find_if(links.begin(), links.end(), [&](const auto& entry) { return entry.link > opening.link; }), opened.entry);
    document.scopes[opening.scope.id().value()] = {opening.scope.text(), opened.entry.site_epoch};
    return true;
  });
  if (!done) return tl::unexpected(done.error());
  return opened;
}

Result<bool> EtcdCoordinator::drop_link(const std::string& link) {
  bool there = false;
  const auto done = alter([&](RegisterDocument& document) -> Result<bool> {
    there = std::erase_if(document.links.links, [&](const auto& entry) { return entry.link == link; }) > 0;
    return there;
  });
  if (!done) return tl::unexpected(done.error());
  return there;
}

Result<bool> EtcdCoordinator::clear_left_scopes(const std::string& link) {
  bool there = false;
  const auto done = alter([&](RegisterDocument& document) -> Result<bool> {
    for (auto& entry : document.links.links) {
      if (entry.link != link) continue;
      there = true;
      if (entry.left_scopes.empty()) return false;
      entry.left_scopes.clear();
      return true;
    }
    return false;
  });
  if (!done) return tl::unexpected(done.error());
  return there;
}

void EtcdCoordinator::unavailable(std::vector<ownership::PartitionId> partitions) {
  const std::lock_guard lock(mutex_);
  unavailable_ = std::move(partitions);
}

Result<bool> EtcdCoordinator::accept_empty() {
  std::vector<ownership::PartitionId> partitions;
  {
    const std::lock_guard lock(mutex_);
    partitions = unavailable_;
  }
  if (partitions.empty()) return false;
  if (partitions.size() > etcd::operations_max) partitions.resize(etcd::operations_max);
  etcd::TxnRequest request;
  for (const auto& id : partitions) request.then.push_back(etcd::Put{keys_.accepted(id), "{}", {}});
  auto answer = run(std::move(request));
  if (!answer) return tl::unexpected(answer.error());
  if (!answer->ok()) {
    Error error = answer->error;
    error.hint = "is etcd reachable from this node? What is accepted is written there";
    return tl::unexpected(std::move(error));
  }
  return true;
}

Result<bool> EtcdCoordinator::take_back_accepted() {
  etcd::TxnRequest request;
  request.then = {etcd::Delete{etcd::Keys::under(keys_.accepted())}};
  auto answer = run(std::move(request));
  if (!answer) return tl::unexpected(answer.error());
  if (!answer->ok()) {
    Error error = answer->error;
    error.hint = "is etcd reachable from this node? What was accepted is written there";
    return tl::unexpected(std::move(error));
  }
  return !answer->answers.empty() && answer->answers.front().deleted > 0;
}

Result<bool> EtcdCoordinator::drain(const std::string& node, bool undo, bool dry_run) {
  const std::string key = keys_.drain(node);
  etcd::TxnRequest request;
  request.guards = {etcd::Compare::absent(key)};
  if (!dry_run) {
    // A process that stops has put its own row there under its lease: an operator's takes its place, or it would go with the process.
    if (undo) request.otherwise = {etcd::Delete{etcd::Keys::one(key)}};
    else request.then = request.otherwise = {etcd::Put{key, "{}", {}}};
  }
  auto answer = run(std::move(request));
  if (!answer) return tl::unexpected(answer.error());
  if (answer->ok()) return !undo;
  if (answer->outcome == etcd::Outcome::compare_failed) return undo;
  Error error = answer->error;
  error.hint = "is etcd reachable from this node? A drain is written there";
  return tl::unexpected(std::move(error));
}

Result<coordinator::FollowerLease> EtcdCoordinator::follower_lease(const std::string&, const std::string&, MonoMicros, MonoMicros) {
  return failure("unsupported_here", "followers in pairs are not supported in a region of several processes yet");
}

}  // namespace zaris::region
