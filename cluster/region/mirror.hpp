// A node's copy of what its region keeps in etcd: listed once, then kept by a watch, and checked against one small row every two
// seconds, since a watch may be blind without anybody noticing. Whoever differs, or has heard nothing for five seconds, lists
// anew; so does whoever slept through a compaction. Design page cluster, "Coordination". No thread and no clock of its own:
// everything happens on the thread that the Etcd's handlers come on.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cluster/etcd/etcd.hpp"
#include "cluster/ownership/ownership.hpp"
#include "cluster/ownership/partition_map.hpp"
#include "cluster/region/rows.hpp"

namespace zaris::region {

// A row as etcd has it.
template <class T>
struct Held {
  T value;
  etcd::EtcdRevision created, changed;
};

struct MirrorTimes {
  MonoMicros check_us = 2'000'000;         // between two looks at the beacon
  MonoMicros silence_us = 5'000'000;       // of the watch, before it is not believed any more
  MonoMicros retry_us = 200'000;
  std::chrono::milliseconds call{1000};    // time-out of one call
};

struct MirrorCounters {
  std::uint64_t lists = 0, watch_ends = 0, compacted = 0, differences = 0, cured = 0, malformed = 0;
};

class Mirror {
 public:
  // `changed` is called after each change of any of the rows, and when the first list is there.
  Mirror(etcd::Etcd& etcd, KeyNames keys, MirrorTimes times, std::function<MonoMicros()> clock, std::function<void()> changed);
  ~Mirror();
  void start();
  void tick(MonoMicros now);
  // Something says that the copy is old (another node's view differs): list anew.
  void doubt();

  [[nodiscard]] bool listed() const { return listed_; }
  // Another node has told of this version of the ownership, which etcd had therefore before now.
  void told_of(std::uint64_t ownership_version);
  // What etcd shows is older than what this node has seen, or than what another one had seen before etcd was asked: it was restored from an old copy.
  // Nobody is promoted, leads or changes a set by it.
  [[nodiscard]] bool older() const { return went_back_ || (ownership_ && ownership_->value.version < others_have_ && confirmed_at_ > others_had_at_); }
  [[nodiscard]] const KeyNames& keys() const { return keys_; }
  // Looks at the beacon now instead of in its turn.
  void look_soon() { next_look_ = 0; }
  // When etcd last answered a linearizable read of ours, on the caller's clock: the moment at which it was asked. 0: never.
  [[nodiscard]] MonoMicros answered_at() const { return answered_at_; }
  // The same of the newest read that showed map and ownership as the copy has them.
  [[nodiscard]] MonoMicros confirmed_at() const { return confirmed_at_; }
  // The newest revision that the copy is known to show in full.
  [[nodiscard]] etcd::EtcdRevision told() const { return told_; }

  [[nodiscard]] const std::map<std::string, Held<MemberRow>>& members() const { return members_; }
  [[nodiscard]] const std::optional<Held<LeaderRow>>& leader() const { return leader_; }
  [[nodiscard]] const std::optional<Held<ownership::PartitionMap>>& map() const { return map_; }
  [[nodiscard]] const std::optional<Held<ownership::Ownership>>& ownership() const { return ownership_; }
  [[nodiscard]] const std::map<ownership::PartitionId, Held<ownership::SynchronisedSet>>& synchronised() const { return synchronised_; }
  [[nodiscard]] const std::optional<Held<Generation>>& generation() const { return generation_; }
  [[nodiscard]] const std::optional<Held<std::string>>& links() const { return links_; }
  [[nodiscard]] const std::map<std::string, Held<std::string>>& drains() const { return drains_; }
  [[nodiscard]] const std::map<std::string, Held<std::string>>& accepted() const { return accepted_; }   // by the partition's id in hex
  [[nodiscard]] const MirrorCounters& counters() const { return counters_; }
  // What cannot be read stays as it was; said here (empty: nothing).
  [[nodiscard]] const std::string& trouble() const { return trouble_; }

 private:
  struct Rows;
  void list();
  void list_page(std::shared_ptr<std::vector<etcd::Row>> so_far, std::string after, etcd::EtcdRevision at, MonoMicros asked_at);
  void adopt(const std::vector<etcd::Row>& rows, etcd::EtcdRevision at);
  void watch(etcd::EtcdRevision from);
  void look();
  void went_back();
  void apply(const etcd::Row& row);
  void remove(const std::string& key, etcd::EtcdRevision at);
  void again(bool at_once);

  etcd::Etcd& etcd_;
  const KeyNames keys_;
  const MirrorTimes times_;
  const std::function<MonoMicros()> clock_;
  const std::function<void()> changed_;
  std::shared_ptr<int> life_ = std::make_shared<int>(0);  // handlers of calls look whether it is still there
  std::unique_ptr<etcd::Watch> watch_;
  std::uint64_t watch_number_ = 0;
  bool listed_ = false, listing_ = false, looking_ = false;
  bool went_back_ = false;
  std::uint64_t others_have_ = 0;           // the newest version of the ownership that another node told of, and when it was heard first
  MonoMicros others_had_at_ = 0;
  bool differed_ = false;                   // at the last look
  MonoMicros next_look_ = 0, list_at_ = 0, heard_at_ = 0, answered_at_ = 0, confirmed_at_ = 0;  // list_at_ 0: no list is due
  etcd::EtcdRevision told_;

  std::map<std::string, Held<MemberRow>> members_;
  std::optional<Held<LeaderRow>> leader_;
  std::optional<Held<ownership::PartitionMap>> map_;
  std::optional<Held<ownership::Ownership>> ownership_;
  std::map<ownership::PartitionId, Held<ownership::SynchronisedSet>> synchronised_;
  std::optional<Held<Generation>> generation_;
  std::optional<Held<BeaconRow>> beacon_;
  std::optional<Held<std::string>> links_;
  std::map<std::string, Held<std::string>> drains_, accepted_;
  MirrorCounters counters_;
  std::string trouble_;
};

}  // namespace zaris::region
