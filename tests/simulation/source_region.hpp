// The source: one standalone node, its clients' writes, and one feed session per connection. What the gateway's shell
// does with sockets and timers is done here with pipes and events; Store and SourceSession are the real ones.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cluster/store/store.hpp"
#include "feed/session/source.hpp"
#include "tests/simulation/history.hpp"
#include "tests/simulation/keys.hpp"
#include "tests/simulation/pipe.hpp"
#include "tests/simulation/world.hpp"

namespace zaris::simulation {

// Both directions of one feed connection, and the follower's ears. Kept by whoever holds it; a dead end ignores it.
struct FeedConnection {
  std::uint64_t id = 0;
  std::shared_ptr<Pipe> to_source, to_follower;
  std::function<void(std::shared_ptr<const std::string>)> follower_hears;
  std::function<void(Error)> follower_closed;
};

// What a client was told about a key last.
struct Acknowledged {
  Position at;
  bool live = false;
  std::uint32_t item_version = 0;
};

class SourceRegion {
 public:
  // `inspect` sees every message before it leaves.
  SourceRegion(World& world, const Keys& keys, std::function<void(std::string_view)> inspect);
  ~SourceRegion();

  // ---- connections. False: nobody listens.
  bool accept(std::shared_ptr<FeedConnection> connection);
  void hear(std::uint64_t connection, std::string_view bytes);
  void closed(std::uint64_t connection);

  // ---- clients
  void put(std::uint32_t key, std::string value, WallMicros expires_us, const std::optional<ItemToken>& expected, bool only_if_absent);
  void del(std::uint32_t key, const std::optional<ItemToken>& expected);
  void touch(std::uint32_t key, WallMicros expires_us);
  [[nodiscard]] store::ReadOutcome get(std::uint32_t key, std::string& value);

  // ---- another region's link that writes here. False, or no mark: not now.
  bool open_link(const store::LinkRegistration& link);
  ApplyAnswer apply(const ApplyBatch& batch);

  // ---- maintenance and faults
  void maintain();
  void trim_hard();
  void lose_everything(bool identity_too);
  void freeze_until(MonoMicros when) { frozen_until_ = std::max(frozen_until_, when); }
  void set_may_confirm(bool may) { may_confirm_ = may; }

  [[nodiscard]] bool up() const { return up_; }
  [[nodiscard]] const store::Store& store() const { return *store_; }
  [[nodiscard]] const History& history() const { return *lives_.back(); }
  void announced_closed(WallMicros time) const { lives_.back()->closed_at(time); }
  // The life whose positions carry this generation; none: nobody's.
  [[nodiscard]] const History* life(Generation generation) const;
  [[nodiscard]] const History* life(HistoryId id) const;
  [[nodiscard]] const std::vector<std::unique_ptr<History>>& lives() const { return lives_; }
  [[nodiscard]] ClusterId cluster() const { return cluster_; }
  [[nodiscard]] const std::map<std::uint32_t, Acknowledged>& acknowledged() const { return acknowledged_; }
  [[nodiscard]] const MonoMicros& frozen_until() const { return frozen_until_; }
  [[nodiscard]] WallMicros wall() const { return world_.source_clock.wall(world_.now()); }

 private:
  struct Session {
    std::shared_ptr<FeedConnection> connection;
    std::unique_ptr<feed::SourceSession> core;
    bool pump_scheduled = false, closing = false;
  };
  void boot(RootCause cause);
  void tick();
  void wake();
  void pump_dirty();
  void pump(std::uint64_t connection);
  void schedule_pump(std::uint64_t connection);
  void told(std::uint32_t key, const store::WriteOutcome& outcome, bool live);
  void absorb_all();
  [[nodiscard]] feed::Now clocks() const;
  template <class Operation>
  store::WriteOutcome commit(Operation&& operation);

  World& world_;
  const Keys& keys_;
  std::function<void(std::string_view)> inspect_;
  ClusterId cluster_;
  Generation generation_{100};
  feed::Principal principal_;
  std::vector<std::unique_ptr<History>> lives_;
  std::map<std::uint32_t, Acknowledged> acknowledged_;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<store::Committer> committer_;
  std::unique_ptr<store::DirtyMap> dirty_;
  std::map<std::uint64_t, Session> sessions_;
  std::string out_;
  MonoMicros frozen_until_ = 0;
  std::uint64_t epoch_ = 0;  // of the process; events of a dead one do nothing
  bool up_ = false, may_confirm_ = true, dirty_scheduled_ = false;
};

}  // namespace zaris::simulation
