// Where a region keeps what must be agreed on and must outlive its processes: who it is, its immutable settings, the
// generation counter, the register of links with their scopes, site epochs and follower terms. Not: heads, marks, data.
// Design page cluster, "Coordination: etcd, or none". Implementations: local (local_coordinator.hpp); etcd comes later.
//
// Any thread. Calls that change something return when it is synced (milliseconds: never on a path per request); the
// others answer from memory.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cluster/base/result.hpp"
#include "cluster/placement/scope.hpp"
#include "cluster/record/position.hpp"
#include "cluster/record/record.hpp"

namespace zaris::coordinator {

// Fixed at the first start; a configuration that says otherwise is refused (`settings_changed`).
struct ClusterSettings {
  std::string region;
  std::string store;
  std::uint32_t segments = 256;
  friend bool operator==(const ClusterSettings&, const ClusterSettings&) = default;
};

// How the run before this one began and ended.
struct StartReport {
  bool first = false;                              // this region did not exist before
  bool had_data = false;                           // keys were held before, and nobody has accepted their loss
  RootCause cause = RootCause::created;            // of the roots that an empty store begins with: restarted_empty if had_data
  std::optional<WallMicros> previous_start_us;
  struct CleanStop { WallMicros at_us = 0; std::uint64_t keys = 0; };
  std::optional<CleanStop> clean_stop;             // of the run before; empty: it was killed, or there was none
};

// One link that writes into this region.
struct LinkEntry {
  std::string link;
  ClusterId source_cluster;
  Scope scope;
  bool standby = true;                             // clients may not write to the scope
  SiteEpoch site_epoch;
  FollowerTerm follower_term;
  WallMicros opened_us = 0;                        // first
  WallMicros registered_us = 0;                    // with this source and this scope; no other registration of the region's has this number
  std::vector<Scope> left_scopes;                  // earlier scopes whose keys are no longer fed and not yet dropped
  friend bool operator==(const LinkEntry&, const LinkEntry&) = default;
};

// Immutable: taken once, read without a lock, replaced as a whole.
struct LinkRegister {
  std::uint64_t version = 0;                       // grows with every change, in this process' life
  std::vector<LinkEntry> links;                    // by name
  [[nodiscard]] const LinkEntry* find(std::string_view link) const;
  // The standby that a key lies in, if any.
  [[nodiscard]] const LinkEntry* standby_of(Slot slot, std::string_view key) const;
};

struct LinkOpening {
  std::string link;
  ClusterId source_cluster;
  Scope scope;
  SiteEpoch site_epoch;                            // as the follower knows it
  FollowerTerm follower_term;
  bool adopt_data = false;                         // consent of an operator: the scope holds data
  bool replace_source = false;                     // the same: the link has followed another source
  bool reopens = false;                            // this follower had the link open with this scope before
  std::uint64_t live_keys = 0;                     // in the scope, outside the scope that the link has registered already
  WallMicros now_us = 0;
};
struct LinkOpened {
  LinkEntry entry;                                 // as it stands now
  bool first = false;
  std::optional<Scope> replaced_scope;             // the link had this one: its marks are to be dropped
  bool source_replaced = false;                    // --yes over another source: all marks of the link are to be dropped
};

struct FollowerLease {
  bool granted = false;
  std::string holder;                              // who has it now
  FollowerTerm term;
  MonoMicros left_us = 0;
};

class Coordinator {
 public:
  virtual ~Coordinator() = default;

  [[nodiscard]] virtual ClusterId cluster_id() const = 0;
  [[nodiscard]] virtual const ClusterSettings& settings() const = 0;
  [[nodiscard]] virtual WallMicros created_us() const = 0;
  [[nodiscard]] virtual const StartReport& start() const = 0;

  // A number that no holder in this cluster has used: max(counter + 1, highest_seen + 1, now in seconds of UTC), synced
  // before it is returned. Before any listener opens. Errors: `generation_exhausted`, `<…>_disk_full`, `<…>_io`.
  [[nodiscard]] virtual Result<Generation> mint_generation(Generation highest_seen, WallMicros now_us) = 0;
  [[nodiscard]] virtual Generation highest_generation() const = 0;

  // The first key was written (or arrived): from now on an empty start is `restarted_empty`. Cheap after the first call.
  [[nodiscard]] virtual Result<void> note_data() = 0;
  // `zaris node accept-empty`: what was lost is accepted; start() stays as it was. True: something had been lost.
  [[nodiscard]] virtual Result<bool> accept_empty() = 0;
  // Takes back what accept_empty said of partitions for which nobody has acted on it yet. True: there were some. Error
  // `unsupported_here`: one process is the region, and serves at once.
  [[nodiscard]] virtual Result<bool> take_back_accepted() = 0;
  // `zaris node drain`: what that node owns is to go to others, and nothing to come to it, until the wish is taken back (undo). True:
  // the wish was not there (undo: was there). `dry_run` changes nothing. Error `unsupported_here`: one process is the region.
  [[nodiscard]] virtual Result<bool> drain(const std::string& node, bool undo, bool dry_run) = 0;
  // The last act of a clean stop.
  [[nodiscard]] virtual Result<void> note_clean_stop(std::uint64_t keys, WallMicros now_us) = 0;

  [[nodiscard]] virtual std::shared_ptr<const LinkRegister> links() const = 0;
  // Registers the link or finds it registered. Errors: `scope_mismatch` (overlaps another link's scope),
  // `scope_holds_data` (needs adopt_data), `source_changed` (needs replace_source), `term_superseded`, `epoch_superseded` (an
  // older site epoch, or this region is the active side), `link_name_invalid`.
  [[nodiscard]] virtual Result<LinkOpened> open_link(const LinkOpening& opening) = 0;
  // Its scope is no standby any more; the site epoch of the scope stays known. False: no such link.
  [[nodiscard]] virtual Result<bool> drop_link(const std::string& link) = 0;
  // The keys of its left scopes are gone. False: no such link.
  [[nodiscard]] virtual Result<bool> clear_left_scopes(const std::string& link) = 0;

  // Takes or renews (same holder), or gives up (lease_us 0). A free lease goes to the asker under the next follower term,
  // synced before it is granted; running time is not kept over a restart. `now` is this process' monotonic clock.
  [[nodiscard]] virtual Result<FollowerLease> follower_lease(const std::string& link, const std::string& holder,
                                                             MonoMicros lease_us, MonoMicros now) = 0;
};

}  // namespace zaris::coordinator
