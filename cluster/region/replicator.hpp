// All replication of one node: towards each peer one session in which this node owns, and one in which it follows; which segment is
// followed where, and what the synchronised replicas hold. The sessions and their rules: cluster/replication. No I/O; one thread.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "cluster/replication/held_positions.hpp"
#include "cluster/replication/owner_session.hpp"
#include "cluster/replication/replica_session.hpp"
#include "cluster/store/store.hpp"

namespace zaris::region {

using replication::Now;

struct ReplicatorCounters {
  std::uint64_t sessions_ended = 0;          // by what came over them
  std::uint64_t follows = 0;
};

class Replicator {
 public:
  // `peers`: the others of the roster; their places are the replica indexes.
  Replicator(store::Store& store, const std::vector<std::string>& peers);
  // Whether a peer's copy of a segment may be begun anew: it is out of the segment's synchronised set by the coordinator's word.
  void may_copy(std::function<bool(const std::string& peer, SegmentId segment)> decide) { may_copy_ = std::move(decide); }
  ~Replicator();

  void peer_up(const std::string& peer);
  void peer_down(const std::string& peer);
  // False: no frame of replication. `broken` is set when the connection is to be dropped, and says why.
  bool on_frame(const std::string& peer, const protocol::Frame& frame, Now now, std::string& broken);
  void on_dirty(std::span<const SegmentId> segments);
  void tick(Now now);
  // Does anybody wait for what replicas confirm (OwnerSession::confirmations_awaited)? Until it is said: yes.
  void confirmations_awaited(bool awaited);
  // Some peer follows a segment here: on_dirty is listened to.
  [[nodiscard]] bool followed() const;
  // The earliest ReplicaSession::confirms_at; confirm, then next, are to be called by then.
  [[nodiscard]] std::optional<MonoMicros> confirms_at() const;
  void confirm(Now now);
  // Appends frames for that peer; false: nothing to say.
  bool next(const std::string& peer, std::string& out);

  // ---- following
  // Follows the segment there from now on (again and again, as connections come and go). A pull asks for a tail only.
  void follow(SegmentId segment, const std::string& peer, Generation generation, bool pull = false);
  void unfollow(SegmentId segment);
  void learn(SegmentId segment, Generation generation);
  [[nodiscard]] replication::FollowState following(SegmentId segment) const;

  // ---- owning
  [[nodiscard]] replication::ReplicaProgress progress(const std::string& peer, SegmentId segment) const;
  [[nodiscard]] replication::HeldPositions& held() { return held_; }
  [[nodiscard]] std::optional<replication::ReplicaIndex> index_of(const std::string& peer) const;
  // Owned segments of which replicas have confirmed more since the last call.
  [[nodiscard]] std::vector<SegmentId> take_moved();
  // Terms that peers know and that are newer than ours.
  [[nodiscard]] std::vector<replication::HeardGeneration> take_heard();
  [[nodiscard]] WallMicros closed_time_heard() const;   // the newest that any owner has sent
  [[nodiscard]] const ReplicatorCounters& counters() const { return counters_; }

 private:
  struct Peer {
    replication::ReplicaIndex index;
    std::unique_ptr<replication::OwnerSession> owner;      // null: no connection
    std::unique_ptr<replication::ReplicaSession> replica;
  };
  struct Following {
    std::string peer;
    Generation generation;
    bool pull = false;
    MonoMicros again_at = 0;                  // 0: it was asked for
  };
  void collect(Peer& peer);

  store::Store& store_;
  std::function<bool(const std::string&, SegmentId)> may_copy_;
  std::map<std::string, Peer> peers_;
  std::map<SegmentId, Following> following_;
  std::map<SegmentId, Generation> learnt_;
  replication::HeldPositions held_;
  std::set<SegmentId> moved_;
  std::vector<replication::HeardGeneration> heard_;
  bool awaited_ = true;
  Now now_;
  ReplicatorCounters counters_;
};

}  // namespace zaris::region
