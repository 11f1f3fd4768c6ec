// One node of a region of several processes, without sockets, threads and clocks: its copy of what etcd holds, its registration, its roles,
// its replication, and the leader's work where it leads. A shell (region_thread.hpp) or a simulator calls it on one thread and does
// what Outside says. Design page cluster; docs/explanation/region.md.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cluster/etcd/etcd.hpp"
#include "cluster/ownership/traffic_gate.hpp"
#include "cluster/ownership/view_digest.hpp"
#include "cluster/protocol/admin_messages.hpp"
#include "cluster/region/clock_skew.hpp"
#include "cluster/region/leader.hpp"
#include "cluster/region/mirror.hpp"
#include "cluster/region/node_roles.hpp"
#include "cluster/region/registration.hpp"
#include "cluster/region/replicator.hpp"
#include "cluster/region/serving_table.hpp"
#include "cluster/region/settings_watch.hpp"
#include "cluster/store/store.hpp"

namespace zaris::region {

struct RegionOptions {
  LeaderOptions leader;                      // self, incarnation, roster, settings and times
  KeyNames keys;
  std::string version;                       // of the program
  std::string host, address;                 // of this process, for whoever finds its name taken
  std::map<std::string, std::string> settings;  // of its configuration, what all nodes should have alike
  std::chrono::seconds lease{2};
  MonoMicros heartbeat_us = 500'000;
  MonoMicros suspect_us = 2'000'000;
  MonoMicros clock_skew_us = 500'000;        // wall clocks further apart than this are said
  ownership::AuthorityTimes authority;
  MirrorTimes mirror;
};

class RegionCore {
 public:
  RegionCore(etcd::Etcd& etcd, store::Store& store, ServingTable& serving, RegionOptions options, Outside& outside);
  ~RegionCore();

  // ---- in
  void start();
  void tick();                               // at least every 50 ms
  void peer_up(const std::string& node, const protocol::PeerHello& hello);
  void peer_down(const std::string& node, const std::string& reason);
  // Empty: fine. Otherwise the connection is to be dropped, and why.
  [[nodiscard]] std::string on_frame(const std::string& node, const protocol::Frame& frame);
  void on_dirty(std::span<const SegmentId> segments) { replicator_.on_dirty(segments); }
  // Appends frames for that peer, a bounded amount; false: nothing to say.
  bool next(const std::string& node, std::string& out) { return replicator_.next(node, out); }
  // This node wants to leave: its partitions are to be handed over. `left` says when nothing is owned any more.
  void begin_drain();
  [[nodiscard]] bool drained() const;
  void leave(std::function<void()> done) { registration_.leave(std::move(done)); }

  // ---- out
  // After a change of who owns what: the table for clients. Empty optional: none can be made yet.
  [[nodiscard]] std::optional<protocol::MapAnswer> routing() const;
  // May the client listener open? Stays true.
  [[nodiscard]] ownership::TrafficVerdict traffic();
  [[nodiscard]] Replicator& replicator() { return replicator_; }
  [[nodiscard]] const Mirror& mirror() const { return mirror_; }
  [[nodiscard]] const Registration& registration() const { return registration_; }
  [[nodiscard]] const NodeRoles& roles() const { return roles_; }
  [[nodiscard]] const Leader& leader() const { return leader_; }
  [[nodiscard]] const ownership::ViewWatch& views() const { return views_; }
  [[nodiscard]] const ClockSkew& clocks() const { return clocks_; }
  [[nodiscard]] const SettingsWatch& settings() const { return settings_; }
  // May this process speak to the others under its name? Not before it has been registered, and not while another process is:
  // the two would take each other's connections away.
  [[nodiscard]] bool speaks() const { return registration_.was_registered() && (!registration_.name_taken() || mirror_.older()); }
  // Does anything say that this very process lives: a connection with it, or its lease in an etcd that answers? What the newest
  // ownership names as an owner may be gone where etcd is away, and nobody can write that down.
  [[nodiscard]] bool hears(const std::string& node, ownership::Incarnation process) const;
  // Called after each change of the mirror.
  void on_change(std::function<void()> changed) { changed_ = std::move(changed); }

 private:
  [[nodiscard]] std::uint64_t view_digest() const;
  void send_heartbeats();
  void look_at_name();
  void compare_settings();
  void compare_clocks(const std::string& node, const protocol::Heartbeat::Clock& clock);

  const RegionOptions options_;
  store::Store& store_;
  Outside& outside_;
  etcd::Etcd& etcd_;
  std::shared_ptr<int> life_ = std::make_shared<int>(0);
  std::function<void()> changed_;
  Mirror mirror_;
  Registration registration_;
  Replicator replicator_;
  NodeRoles roles_;
  Leader leader_;
  ownership::ViewWatch views_;
  ClockSkew clocks_;
  SettingsWatch settings_;
  ownership::TrafficGate traffic_;
  std::map<std::string, ownership::Incarnation> peers_;
  MonoMicros heartbeat_at_ = 0;
  bool draining_ = false, drain_written_ = false, drain_writing_ = false;
  bool updating_ = false;
  bool said_taken_ = false;
};

}  // namespace zaris::region
