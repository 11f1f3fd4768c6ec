#include "cluster/coordinator/local_coordinator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>

#include "cluster/coordinator/coordinator_rows.hpp"
#include "cluster/coordinator/link_register.hpp"
#include "cluster/lmdb/checked_lmdb.hpp"
#include "cluster/lmdb/durable_file.hpp"
#include "cluster/lmdb/examine.hpp"
#include "cluster/lmdb/process_lock.hpp"

namespace zaris::coordinator {
namespace {

const std::string cluster_name = "cluster";
const std::string run_name = "run";

struct Held {
  LeaseRow row;
  MonoMicros until = 0;                            // 0: free
};

class LocalCoordinator final : public Coordinator {
 public:
  LocalCoordinator(lmdb::ProcessLock lock, std::unique_ptr<lmdb::CheckedLmdb> db) : lock_(std::move(lock)), db_(std::move(db)) {}

  Result<void> load(const std::vector<lmdb::Row>& rows, const std::string& file);
  Result<void> begin(const LocalCoordinatorOptions& options, bool first);

  ClusterId cluster_id() const override { return cluster_.id; }
  const ClusterSettings& settings() const override { return cluster_.settings; }
  WallMicros created_us() const override { return cluster_.created_us; }
  const StartReport& start() const override { return start_; }

  Result<Generation> mint_generation(Generation highest_seen, WallMicros now_us) override;
  Generation highest_generation() const override {
    const std::lock_guard guard(mutex_);
    return run_.generation;
  }
  Result<void> note_data() override;
  Result<bool> accept_empty() override;
  Result<bool> take_back_accepted() override {
    return failure("unsupported_here", "this node alone is its region: it serves from the moment on at which the loss is accepted", "zaris status");
  }
  Result<bool> drain(const std::string&, bool, bool) override {
    return failure("unsupported_here", "one process is this region: there is no other node that could take over", "stop it, or move its data over a link");
  }
  Result<void> note_clean_stop(std::uint64_t keys, WallMicros now_us) override;

  std::shared_ptr<const LinkRegister> links() const override {
    const std::lock_guard guard(mutex_);
    return links_;
  }
  Result<LinkOpened> open_link(const LinkOpening& opening) override;
  Result<bool> drop_link(const std::string& link) override;
  Result<bool> clear_left_scopes(const std::string& link) override;
  Result<FollowerLease> follower_lease(const std::string& link, const std::string& holder, MonoMicros lease_us, MonoMicros now) override;

 private:
  Result<void> write_run(const RunRow& next);
  // The register with `entry` in place of what stood under its name (or without that, if empty).
  void replace(const std::string& link, const LinkEntry* entry);

  lmdb::ProcessLock lock_;
  std::unique_ptr<lmdb::CheckedLmdb> db_;
  mutable std::mutex mutex_;
  ClusterRow cluster_;
  RunRow run_;
  StartReport start_;
  std::shared_ptr<const LinkRegister> links_ = std::make_shared<LinkRegister>();
  std::map<ScopeId, ScopeRow> scopes_;
  std::map<std::string, Held> leases_;
  bool owes_ = false;                              // this run began without what a run before held
  std::atomic<bool> had_data_{false};              // run_.had_data, to be asked without the lock
};

Result<void> LocalCoordinator::load(const std::vector<lmdb::Row>& rows, const std::string& file) {
  auto links = std::make_shared<LinkRegister>();
  bool has_cluster = false, has_run = false;
  for (const auto& row : rows) {
    bool newer = false, good = false;
    if (row.key == cluster_name) {
      good = has_cluster = decode(row.value, cluster_, newer);
    } else if (row.key == run_name) {
      good = has_run = decode(row.value, run_, newer);
    } else if (row.key[0] == 'l') {
      LinkEntry entry;
      good = decode(row.value, entry, newer) && row.key == link_key(entry.link);
      links->links.push_back(std::move(entry));
    } else if (row.key[0] == 's') {
      ScopeRow scope;
      good = decode(row.value, scope, newer);
      const auto parsed = good ? Scope::parse(scope.text) : Result<Scope>{};
      if (!parsed) good = false;
      if (good) scopes_[parsed->id()] = scope;
    } else if (row.key[0] == 'f') {
      LeaseRow lease;
      good = decode(row.value, lease, newer);
      leases_[row.key.substr(1)] = {lease, 0};
    }
    if (newer) {
      return failure("coordinator_format_newer", fmt::format("the coordinator's file {} has a row of a newer version ({})", file, printable(row.key, 40)),
                     "run the version that wrote it, or a newer one");
    }
    if (!good) {
      return failure("coordinator_damaged", fmt::format("the coordinator's file {} has a row that this program cannot read ({})", file, printable(row.key, 40)));
    }
  }
  if (!has_cluster || !has_run) {
    return failure("coordinator_damaged", "the coordinator's file " + file + " does not say which cluster it is of");
  }
  links_ = std::move(links);
  had_data_ = run_.had_data;
  return {};
}

// The settings are compared before anything is written, so that a start with a wrong configuration leaves no trace.
Result<void> LocalCoordinator::begin(const LocalCoordinatorOptions& options, bool first) {
  const auto& want = options.settings;
  const auto& have = cluster_.settings;
  std::string differences;
  const auto compare = [&](const char* key, const std::string& configured, const std::string& stored) {
    if (configured == stored) return;
    if (!differences.empty()) differences += "; ";
    differences += fmt::format("{}: the configuration says {}, this region was created with {}", key, configured, stored);
  };
  compare("segments", std::to_string(want.segments), std::to_string(have.segments));
  compare("store", printable(want.store), printable(have.store));
  compare("region", printable(want.region), printable(have.region));
  if (!differences.empty()) {
    return failure("settings_changed", differences + " (node.data_dir " + options.data_dir + ")",
                   "put the configuration back; another value needs another node.data_dir, which is another cluster");
  }
  owes_ = run_.had_data;
  start_.first = first;
  start_.had_data = run_.had_data;
  start_.cause = run_.had_data ? RootCause::restarted_empty : RootCause::created;
  if (!first) {
    start_.previous_start_us = run_.last_start_us;
    if (!run_.running) start_.clean_stop = StartReport::CleanStop{run_.stopped_us, run_.keys_at_stop};
  }
  RunRow next = run_;
  next.last_start_us = options.now_us;
  next.running = true;
  return write_run(next);
}

Result<void> LocalCoordinator::write_run(const RunRow& next) {
  if (auto done = db_->commit({{run_name, encode(next)}}); !done) return done;
  run_ = next;
  had_data_ = next.had_data;
  return {};
}

Result<Generation> LocalCoordinator::mint_generation(Generation highest_seen, WallMicros now_us) {
  const std::lock_guard guard(mutex_);
  const std::uint64_t next = std::max({std::uint64_t{run_.generation.value()} + 1, std::uint64_t{highest_seen.value()} + 1, now_us / 1'000'000});
  if (next > 0xffffffffu) {
    return failure("generation_exhausted", fmt::format("the next generation would be {}, beyond 32 bits (counter {}, highest seen {})", next,
                                                       run_.generation.value(), highest_seen.value()),
                   "look for a clock that is decades ahead");
  }
  RunRow row = run_;
  row.generation = Generation{static_cast<std::uint32_t>(next)};
  if (auto done = write_run(row); !done) return tl::unexpected(done.error());
  return row.generation;
}

Result<void> LocalCoordinator::note_data() {
  if (had_data_.load(std::memory_order_relaxed)) return {};
  const std::lock_guard guard(mutex_);
  if (run_.had_data) return {};
  RunRow row = run_;
  row.had_data = true;
  return write_run(row);
}

Result<bool> LocalCoordinator::accept_empty() {
  const std::lock_guard guard(mutex_);
  if (!run_.had_data) return false;
  RunRow row = run_;
  row.had_data = false;
  if (auto done = write_run(row); !done) return tl::unexpected(done.error());
  owes_ = false;
  return true;
}

Result<void> LocalCoordinator::note_clean_stop(std::uint64_t keys, WallMicros now_us) {
  const std::lock_guard guard(mutex_);
  RunRow row = run_;
  row.running = false;
  row.stopped_us = now_us;
  row.keys_at_stop = keys;
  // Emptied by its users, it loses nothing by stopping. But a node that came back empty and holds nothing still owes what
  // it lost before.
  if (keys == 0 && !owes_) row.had_data = false;
  return write_run(row);
}

void LocalCoordinator::replace(const std::string& link, const LinkEntry* entry) {
  auto next = std::make_shared<LinkRegister>(*links_);
  std::erase_if(next->links, [&](const LinkEntry& e) { return e.link == link; });
  if (entry) {
    const auto at = std::find_if(next->links.begin(), next->links.end(), [&](const LinkEntry& e) { return e.link > link; });
    next->links.insert(at, *entry);
  }
  ++next->version;
  links_ = std::move(next);
}

Result<LinkOpened> LocalCoordinator::open_link(const LinkOpening& opening) {
  const std::lock_guard guard(mutex_);
  const auto scope = scopes_.find(opening.scope.id());
  auto opened = admit(*links_, scope == scopes_.end() ? SiteEpoch{0} : scope->second.epoch, opening);
  if (!opened) return opened;
  const LinkEntry* before = links_->find(opening.link);
  if (before && *before == opened->entry) return opened;
  const ScopeRow scope_row{opening.scope.text(), opened->entry.site_epoch};
  std::vector<lmdb::Row> rows = {{link_key(opening.link), encode(opened->entry)}, {scope_key(opening.scope.id()), encode(scope_row)}};
  for (const auto& row : rows) {
    if (row.value.size() + 8 > lmdb::value_bytes_max) {
      return failure("scope_invalid", fmt::format("the scopes of link {} take {} bytes, more than {}", printable(opening.link, 80), row.value.size(),
                                                  lmdb::value_bytes_max),
                     "use fewer or shorter prefixes");
    }
  }
  if (auto done = db_->commit(rows); !done) return tl::unexpected(done.error());
  scopes_[opening.scope.id()] = scope_row;
  replace(opening.link, &opened->entry);
  return opened;
}

Result<bool> LocalCoordinator::drop_link(const std::string& link) {
  const std::lock_guard guard(mutex_);
  if (!links_->find(link)) return false;
  if (auto done = db_->commit({}, {link_key(link)}); !done) return tl::unexpected(done.error());
  replace(link, nullptr);
  return true;
}

Result<bool> LocalCoordinator::clear_left_scopes(const std::string& link) {
  const std::lock_guard guard(mutex_);
  const LinkEntry* before = links_->find(link);
  if (!before) return false;
  LinkEntry entry = *before;
  entry.left_scopes.clear();
  if (auto done = db_->commit({{link_key(link), encode(entry)}}); !done) return tl::unexpected(done.error());
  replace(link, &entry);
  return true;
}

Result<FollowerLease> LocalCoordinator::follower_lease(const std::string& link, const std::string& holder, MonoMicros lease_us, MonoMicros now) {
  const std::lock_guard guard(mutex_);
  if (link.empty() || link.size() > 255 || holder.size() > 4096) {
    return failure("link_name_invalid", "a link's name has 1 to 255 bytes, a holder's at most 4096");
  }
  // What is not held is not kept in memory for every name that somebody asks about: only a grant makes an entry.
  const auto found = leases_.find(link);
  Held held = found == leases_.end() ? Held{} : found->second;
  const bool taken = held.until > now;
  if (taken && held.row.holder != holder) return FollowerLease{false, held.row.holder, held.row.term, held.until - now};
  if (lease_us <= 0) {
    if (taken) leases_[link].until = 0;
    return FollowerLease{false, "", held.row.term, 0};
  }
  if (!taken) {
    const LinkEntry* entry = links_->find(link);
    const auto highest = std::max(held.row.term, entry ? entry->follower_term : FollowerTerm{0});
    held.row = {holder, FollowerTerm{highest.value() + 1}};
    if (auto done = db_->commit({{lease_key(link), encode(held.row)}}); !done) return tl::unexpected(done.error());
  }
  held.until = now + lease_us;
  leases_[link] = held;
  return FollowerLease{true, holder, held.row.term, lease_us};
}

}  // namespace

Result<std::unique_ptr<Coordinator>> open_local_coordinator(const LocalCoordinatorOptions& options) {
  const std::string directory = options.data_dir + "/coordinator";
  const std::string file = directory + "/coordinator.mdb", twin = directory + "/coordinator.id";
  if (auto made = lmdb::make_directories(directory, "data_dir_unreadable"); !made) {
    made.error().hint = "node.data_dir must be a directory that this user may write in";
    return tl::unexpected(made.error());
  }
  auto lock = lmdb::ProcessLock::take(directory + "/coordinator.lock", "data_dir", "node.data_dir " + options.data_dir);
  if (!lock) return tl::unexpected(lock.error());

  lmdb::StoreOptions store;
  store.file = file;
  store.subject = "the coordinator's file";
  store.code_prefix = "coordinator";
  lmdb::ExamineOptions how;
  how.file = file;
  how.twin = twin;
  how.format = coordinator_format;
  how.owner = true;
  auto findings = lmdb::examine(how);
  bool first = false;
  std::uint64_t id = findings.store_id;
  const std::string way_on =
      "put a copy of " + directory + " back; or move it away: the region begins anew under another cluster id, and every link asks "
      "before it trusts it (zaris link accept-source, accept-target)";
  switch (findings.verdict) {
    case lmdb::Verdict::absent:
      first = true;
      break;
    case lmdb::Verdict::sound:
      break;
    case lmdb::Verdict::format_newer:
      return failure("coordinator_format_newer", "the coordinator's file " + file + " was written by a newer version: " + findings.why,
                     "run that version, or a newer one");
    case lmdb::Verdict::format_older:
      return failure("coordinator_format_old", "the coordinator's file " + file + " was written by an older version: " + findings.why,
                     "run that version, or begin a new node.data_dir");
    case lmdb::Verdict::damaged:
      return failure("coordinator_damaged", "the coordinator's file " + file + " is damaged: " + findings.why, way_on);
    case lmdb::Verdict::unreadable:
      return failure("data_dir_unreadable", "the coordinator's file " + file + " cannot be read: " + findings.why,
                     "see that this user owns node.data_dir");
  }
  std::vector<lmdb::Row> rows = std::move(findings.rows);
  // A first start that was cut off before it had written who it is begins again: nothing was told to anybody yet.
  const bool unfinished = findings.verdict == lmdb::Verdict::sound && rows.empty() && findings.twin_missing;
  if (first) {
    id = lmdb::random_id();
    if (auto made = lmdb::CheckedLmdb::create(store, coordinator_format, id); !made) return tl::unexpected(made.error());
  }
  auto db = lmdb::CheckedLmdb::open(store);
  if (!db) return tl::unexpected(db.error());
  if (first || unfinished) {
    first = true;
    ClusterRow cluster;
    cluster.id = ClusterId{lmdb::random_id()};
    cluster.settings = options.settings;
    cluster.created_us = options.now_us;
    rows = {{cluster_name, encode(cluster)}, {run_name, encode(RunRow{})}};
    if (auto done = (*db)->commit(rows); !done) return tl::unexpected(done.error());
  }
  // The twin comes after the rows: with it, a file without rows is damaged and not new.
  if (first || findings.twin_missing) {
    if (auto written = lmdb::write_twin(twin, id, "coordinator_io"); !written) return tl::unexpected(written.error());
  }
  auto out = std::make_unique<LocalCoordinator>(std::move(*lock), std::move(*db));
  if (auto loaded = out->load(rows, file); !loaded) {
    if (loaded.error().hint.empty()) loaded.error().hint = way_on;
    return tl::unexpected(loaded.error());
  }
  if (auto begun = out->begin(options, first); !begun) return tl::unexpected(begun.error());
  return std::unique_ptr<Coordinator>(std::move(out));
}

}  // namespace zaris::coordinator
