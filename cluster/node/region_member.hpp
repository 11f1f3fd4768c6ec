// What makes a node one of several: the thread that runs the region's core, with its access to etcd and its connections to the other
// nodes. Between open() and start() the store is made, since it needs the cluster id that etcd holds. Design page cluster.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cluster/base/result.hpp"
#include "cluster/config/node_config.hpp"
#include "cluster/coordinator/coordinator.hpp"
#include "cluster/node/node_state.hpp"
#include "cluster/region/clock_skew.hpp"
#include "cluster/tls/context.hpp"

namespace zaris::node {

// What status and metrics show; a copy of a moment not long ago.
struct RegionStatus {
  struct Member {
    std::string name;
    bool registered = false, connected = false, leader = false, draining = false;
    std::string state;                       // as the leader sees it; empty where this node does not lead
    std::string version;
    std::string settings_differ;             // which of its settings for the region are not this node's; empty: none
    std::optional<region::ClockEstimate> clock;   // of the connected ones, after the first round trip
  };
  struct Partition {
    std::string id;
    std::uint32_t first = 0, segments = 0;
    std::string primary, owner, state, reason;   // state not_heard: of the owner, whatever was written of it last
    bool accepted = false;                   // an operator has accepted that what it had is lost, and nobody has begun it yet
    std::string waits_for;                   // what the leader waits for to give it an owner or to hand it over, where this node leads
    std::vector<std::string> replicas, synchronised;
    Generation generation;
    // ---- this node's part
    std::string role, role_reason, serves_by;
    std::uint64_t replica_lag_revisions = 0; // where it owns: of the furthest replica that is connected
    std::vector<std::pair<std::string, double>> replica_lag_seconds;   // where it serves: of each replica, those that are away included
  };
  std::string self;
  std::string leader;
  std::uint64_t leader_term = 0;
  std::uint64_t map_version = 0, ownership_version = 0;
  bool converged = false;                    // map and ownership are of one version, and no peer differs
  bool registered = false, name_taken = false;
  std::string name_holder;                   // where the other process runs
  std::optional<Error> gave_up;              // this process cannot be one of its region: it is to end
  std::string etcd_trouble;                  // empty: it answers
  double etcd_silence_seconds = 0;           // since its last answer to a linearizable read
  std::string waiting_for;                   // what the leader waits for, where this node leads
  std::string catching_up = "what it has to hold is not known yet";   // copies that this process has not had in step since it began; empty: it had all at once
  std::vector<Member> members;
  std::vector<Partition> partitions;
  std::uint64_t promotions = 0, hand_overs = 0, elections = 0, fenced = 0, terms = 0, set_changes = 0, view_differences = 0, view_cures = 0;
  std::uint64_t lists = 0, watch_ends = 0, sessions_ended = 0, lease_losses = 0, peers_lost = 0, peer_sent_bytes = 0, peer_received_bytes = 0;
  std::uint64_t grants_given = 0, grants_refused = 0;
  std::uint64_t leader_changes = 0;          // another leader, or another term, than the one that this node saw before
};

// While a node has not joined its region; both on the thread that calls open().
struct Joining {
  std::function<bool(std::chrono::milliseconds)> stop_asked;   // waits for so long at most; true: this process is to end
  std::function<void(const std::string&)> waits_for;           // what for, whenever that changes
};

class RegionMember {
 public:
  // Reaches etcd (waits up to a minute), agrees on who the region is, binds the cluster listener. Null: a stop was asked for
  // meanwhile. Errors: `settings_changed`, `etcd_…`, `listen_failed`, the TLS contexts'.
  [[nodiscard]] static Result<std::unique_ptr<RegionMember>> open(const config::NodeConfig& config, const std::string& version, const Joining& joining);
  virtual ~RegionMember() = default;         // ends the thread

  [[nodiscard]] virtual coordinator::Coordinator& coordinator() = 0;
  struct Hooks {
    std::function<void()> may_open;          // the client listener may open; once, on the region's thread
    std::function<void()> held;              // more is held than before
    std::function<void()> map;               // another map was published
    std::function<bool()> awaited;           // does anybody wait for what replicas confirm?
  };
  // The store and `shared` outlive it.
  virtual void start(store::Store& store, RegionShared& shared, Hooks hooks) = 0;
  // A write waits for replicas from now on: what has been committed leaves for them at once. Any thread, cheap.
  virtual void hurry() = 0;
  // Hands over what this node owns; returns when nothing is left, at the deadline, or when hurry() says so. True: nothing is left.
  virtual bool drain(MonoMicros within_us, const std::function<bool()>& hurry) = 0;
  // Gives the lease back and ends the connections.
  virtual void stop() = 0;

  [[nodiscard]] virtual RegionStatus status() const = 0;   // any thread
  [[nodiscard]] virtual std::uint64_t rounds() const = 0;
  [[nodiscard]] virtual std::uint16_t port() const = 0;
  [[nodiscard]] virtual std::vector<std::shared_ptr<tls::Context>> certificates() const = 0;
};

}  // namespace zaris::node
