#include "tests/simulation/target_region.hpp"

#include <fmt/format.h>

#include "tests/simulation/history.hpp"

namespace zaris::simulation {

TargetRegion::TargetRegion(World& world, const Keys& keys)
    : world_(world), keys_(keys), cluster_((world.regions.next() | 1) << 1) {
  boot(RootCause::created);
}

TargetRegion::~TargetRegion() = default;

void TargetRegion::create() {
  committer_.reset();
  store_ = store::Store::create(options_, start_);
  committer_ = store_->committer();
  locals_.clear();
}

void TargetRegion::boot(RootCause cause) {
  const SimOptions& o = world_.options;
  generation_ = Generation{generation_.value() + 1};
  options_.cluster = cluster_;
  options_.segments = o.target_segments;
  options_.value_bytes_max = o.value_bytes_max;
  options_.key_bytes_max = 4u << 10;
  options_.log_budget_bytes = o.target_log_budget;
  options_.log_pin_bytes = o.target_log_budget;
  options_.seed = world_.regions.next();
  start_ = {generation_, cause, wall()};
  create();
  applies_ = 0;
  done_.clear();
  up_ = true;
  // The register of links is the coordinator's: the node brings it back before it serves.
  for (const auto& entry : register_.links) register_link(entry, false);
  world_.note("target starts", [&] { return fmt::format("cluster {} generation {}", hex16(cluster_.value()), generation_.value()); },
              generation_.value());
}

Status TargetRegion::open_link(const follower::OpenLinkRequest& request, std::string& reason) {
  coordinator::LinkOpening opening;
  opening.link = request.link;
  opening.source_cluster = request.source;
  opening.scope = request.scope;
  opening.site_epoch = request.site_epoch;
  opening.follower_term = request.term;
  opening.adopt_data = request.adopt_data;
  opening.reopens = request.reopens;
  opening.replace_source = request.replace_source;
  if (register_.find(request.link) == nullptr) {
    store::ScanRequest scan;
    scan.scope = request.scope;
    scan.count_max = 1;
    opening.live_keys = store_->scan(scan, wall()).records.size();
  }
  const auto opened = coordinator::admit(register_, SiteEpoch{0}, opening);
  if (!opened) {
    reason = opened.error().what;
    const std::string& code = opened.error().code;
    return code == "scope_holds_data"  ? Status::conflict
           : code == "source_changed"  ? Status::source_changed
           : code == "term_superseded" ? Status::term_superseded
           : code == "scope_mismatch"  ? Status::scope_mismatch
                                       : Status::epoch_superseded;
  }
  register_.links = {opened->entry};
  if (opened->source_replaced) world_.probes.hit("target: another source accepted");
  register_link(opened->entry, opened->source_replaced || opened->replaced_scope);
  return Status::ok;
}

void TargetRegion::register_link(const coordinator::LinkEntry& entry, bool drops_marks) {
  store::LinkRegistration link;
  link.link = entry.link;
  link.source_cluster = entry.source_cluster;
  link.scope = entry.scope;
  link.site_epoch = entry.site_epoch;
  link.follower_term = entry.follower_term;
  Operation operation;
  operation.now = wall();
  operation.link = std::make_shared<store::LinkRegistration>(link);
  operation.drops_marks = drops_marks;
  done_.push_back(std::move(operation));
  perform(done_.back());
}

follower::TargetInfo TargetRegion::info() const {
  follower::TargetInfo info;
  info.cluster = cluster_;
  info.segments = options_.segments;
  info.key_bytes_max = options_.key_bytes_max;
  info.value_bytes_max = options_.value_bytes_max;
  info.memory_max_bytes = options_.memory_max_bytes;
  for (std::uint32_t t = 0; t < options_.segments; ++t) {
    const auto state = store_->state(SegmentId{static_cast<std::uint16_t>(t)});
    info.live_bytes += state.live_bytes;
    info.live_keys += state.live_keys;
  }
  info.generation_seen = generation_;
  return info;
}

follower::MarksAnswer TargetRegion::read_marks(const std::string& link, ScopeId scope) const {
  follower::MarksAnswer answer;
  for (auto& row : store_->read_marks(link, scope)) answer.marks.push_back({row.target_segment, {row.key, row.mark}});
  return answer;
}

follower::RolledBackAnswer TargetRegion::list_rolled_back(const follower::ListRolledBackRequest& request) const {
  store::RolledBackPage page = store_->list_rolled_back({request.link, request.scope, request.source_segment, request.target_segment, request.source_segments,
                                                         request.surviving.at, request.token, request.below, 1u << 10});
  return {page.status, std::move(page.reason), std::move(page.table), std::move(page.records), page.below};
}

ApplyAnswer TargetRegion::apply(const std::shared_ptr<const follower::ApplyRequest>& request) {
  Operation operation;
  operation.now = wall();
  operation.apply = request;
  done_.push_back(std::move(operation));
  ApplyAnswer answer = perform(done_.back());
  if (answer.status != Status::ok) done_.pop_back();  // nothing was applied
  else ++applies_;
  return answer;
}

void TargetRegion::put_local(std::uint32_t key, std::string value) {
  if (!up_ || frozen_until_ > world_.now()) return;
  Operation operation;
  operation.now = wall();
  operation.put = std::make_shared<std::pair<std::uint32_t, std::string>>(key, std::move(value));
  done_.push_back(std::move(operation));
  perform(done_.back());
}

void TargetRegion::maintain() {
  if (!up_ || frozen_until_ > world_.now()) return;
  Operation operation;
  operation.now = wall();
  operation.maintenance = true;
  done_.push_back(std::move(operation));
  perform(done_.back());
}

ApplyAnswer TargetRegion::perform(const Operation& operation) {
  const WallMicros now = committer_->begin([&] { return operation.now; });
  ApplyAnswer answer;
  if (operation.apply) {
    answer = store_->apply(operation.apply->batch, now);
  } else if (operation.link) {
    std::string reason;
    if (operation.drops_marks) store_->close_link(operation.link->link);
    const Status status = store_->open_link(*operation.link, reason);
    if (status != Status::ok) world_.broken("register", fmt::format("the coordinator admitted the link, the store did not: {}", reason));
  } else if (operation.put) {
    const auto& [index, value] = *operation.put;
    store::Put put;
    put.key = keys_[index].bytes;
    put.value = value;
    const auto outcome = store_->put(put, now);
    if (outcome.status == Status::ok && !keys_[index].in_scope) {
      const auto found = store_->fetch(keys_[index].target_segment, {keys_[index].bytes});
      auto record = found.records[0] ? parse_record(*found.records[0]) : Result<RecordView>(failure("missing", "not there"));
      if (record) locals_[index] = {record->item_version, entry_hash(record->entry)};
    }
  } else {
    (void)store_->sweep_expiry(now);
    (void)store_->trim_log(now);
  }
  committer_->idle();
  return answer;
}

void TargetRegion::lose_everything(bool identity_too) {
  if (!up_) return;
  up_ = false;
  ++losses_;
  committer_.reset();
  store_.reset();
  if (identity_too) {
    cluster_ = ClusterId{(world_.regions.next() | 1) << 1};
    register_.links.clear();
  }
  world_.note("target lost", [&] { return std::string(identity_too ? "with its coordinator" : "data only"); });
  world_.probes.hit(identity_too ? "target: lost with its identity" : "target: lost everything");
  if (on_down) on_down();
  world_.queue.after(world_.faults.between(1'000, 1'500'000), [this] { boot(RootCause::restarted_empty); });
}

// The state of some operations ago comes back, marks and all (a promoted replica that lagged, a restored machine).
void TargetRegion::lose_tail() {
  if (!up_ || done_.size() < 2) return;
  std::size_t applies = 0;
  const std::size_t most = 1 + world_.faults.below(40);
  std::size_t keep = done_.size();
  while (keep > 1 && applies < most) applies += done_[--keep].apply ? 1 : 0;
  ++losses_;
  applies_ -= applies;
  std::vector<Operation> again(done_.begin(), done_.begin() + static_cast<std::ptrdiff_t>(keep));
  create();
  done_ = std::move(again);
  ClusterId registered{};
  for (const Operation& operation : done_) {
    perform(operation);
    if (operation.link) registered = operation.link->source_cluster;
  }
  // The register is the coordinator's and did not go back: the node brings it to the store again.
  for (const auto& entry : register_.links) register_link(entry, registered != ClusterId{} && registered != entry.source_cluster);
  world_.note("target tail lost", [&] { return fmt::format("{} applies", applies); }, applies);
  world_.probes.hit("target: lost a tail");
  if (on_down && world_.faults.chance(0.5)) on_down();  // else even its connections live on: only tokens tell
}

}  // namespace zaris::simulation
