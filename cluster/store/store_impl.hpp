// The store: segments, and what they share. The methods are spread over files by purpose: requests.cpp, feed_view.cpp,
// walk.cpp (walks and scans), apply.cpp, maintenance.cpp, store.cpp; what a node of several does besides: replica.cpp, replica_log.cpp,
// replica_copy.cpp.
#pragma once
#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "cluster/store/closed_time.hpp"
#include "cluster/store/dirty_map.hpp"
#include "cluster/store/links.hpp"
#include "cluster/store/pins.hpp"
#include "cluster/store/segment.hpp"
#include "cluster/store/spill.hpp"
#include "cluster/store/store.hpp"
#include "cluster/store/write_rate.hpp"

namespace zaris::store {

class SegmentWalk;

class StoreImpl final : public Store {
 public:
  StoreImpl(const StoreOptions& options, const StoreStart& start);
  ~StoreImpl() override;

  const StoreOptions& options() const override { return options_; }
  std::unique_ptr<Committer> committer() override { return closed_time_->committer(); }

  WriteOutcome put(const Put& put, WallMicros now) override;
  WriteOutcome del(std::string_view key, const std::optional<ItemToken>& expected, WallMicros now) override;
  WriteOutcome touch(std::string_view key, WallMicros expires_us, const std::optional<ItemToken>& expected, WallMicros now) override;
  ReadOutcome get(std::string_view key, WallMicros now, std::string& out) override;
  void prefetch(std::span<const std::string_view> keys) const override;
  ScanPage scan(const ScanRequest& request, WallMicros now) override;

  Digest slot_digest(Slot slot, std::uint64_t* count) const override;
  std::uint64_t memory_slots(SegmentId segment, Slot first, Slot last) const override;
  Digest segment_digest(SegmentId segment, std::uint64_t* count, Position* as_of) const override;

  SegmentState state(SegmentId segment) const override;
  Lineage lineage(SegmentId segment) const override;
  LogRead read_log(SegmentId segment, Revision after, std::size_t bytes_max, LogStretch& out) const override;
  std::uint64_t log_bytes_after(SegmentId segment, Revision after) const override;
  std::unique_ptr<Walk> begin_walk(SegmentId segment, const Scope& scope, std::optional<SlotKey> from) override;
  Fetched fetch(SegmentId segment, const std::vector<std::string>& keys) const override;
  std::unique_ptr<DirtyMap> dirty_map(std::function<void()> wake) override { return dirty_->add(std::move(wake)); }
  WallMicros closed_time(WallMicros now) override { return closed_time_->close(now); }

  void set_pin(const PinKey& key, const Scope& scope, SegmentId segment, Position at, WallMicros now) override;
  void set_pin_place(const PinKey& key, const Scope& scope, SegmentId segment, PinPlace place, WallMicros now) override;
  void attach_pin(const PinKey& key, bool attached, WallMicros now) override { pins_.attach(key, attached, now); }
  bool drop_pin(const PinKey& key) override { return pins_.drop(key); }
  void clear_pin(const PinKey& key, SegmentId segment) override;
  std::vector<PinInfo> pins(WallMicros now) const override;
  std::optional<Revision> lowest_pin(SegmentId segment, ClusterId not_target) const override { return pins_.lowest(segment, not_target); }
  std::optional<PinPlace> pin_place(const PinKey& key, SegmentId segment) const override { return pins_.place(key, segment); }

  Status open_link(const LinkRegistration& link, std::string& reason) override;
  void close_link(const std::string& link) override;
  std::vector<LinkRegistration> links() const override { return *links_.table(); }
  std::vector<MarkRow> read_marks(const std::string& link, ScopeId scope) const override;
  std::uint64_t mark_checksum(const std::string& link, ScopeId scope) const override;
  ApplyAnswer apply(const ApplyBatch& batch, WallMicros now) override;
  RolledBackPage list_rolled_back(const RolledBackRequest& request) const override;
  bool standby(Slot slot, std::string_view key) const override { return links_.standby(slot, key); }

  void set_role(SegmentId segment, SegmentRole role) override;
  Position begin_term(SegmentId segment, const Term& term, WallMicros now) override;
  void keep_half_copy(SegmentId segment) override;
  ReplicaAnswer append_run(SegmentId segment, const ReplicaRun& run, WallMicros now) override;
  ReplicaAnswer begin_copy(SegmentId segment, const CopyStart& start, WallMicros now) override;
  ReplicaAnswer copy_page(SegmentId segment, const CopyPage& page, WallMicros now) override;
  ReplicaAnswer finish_copy(SegmentId segment) override;
  ReplicaAnswer put_marks(SegmentId segment, const MarksSince& marks) override;
  MarksSince marks_since(SegmentId segment, std::uint64_t since) const override;
  void set_owner_floor(SegmentId segment, Revision floor, Revision memory_floor) override;

  bool sweep_expiry(WallMicros now) override;
  bool evict(WallMicros now) override;
  bool trim_log(WallMicros now) override;
  void trim_log_hard(SegmentId segment) override;

  StoreCounters counters() const override;
  StoreMemory memory() const override;
  std::string spill_fault() const override;

 private:
  friend class SegmentWalk;
  friend class Applier;

  [[nodiscard]] Segment& segment(SegmentId id) const;
  [[nodiscard]] KeyPlace place(std::string_view key) const;

  // ---- requests.cpp
  // Under the lock: a live record that is due goes, with its tombstone, unless its scope is a standby. Returns the word
  // as it stands then, and whether a client would see it as live.
  Word* settle_due(Segment& s, const KeyPlace& at, Word* old, WallMicros now, Garbage& garbage, bool& visible);
  Position commit_tombstone(Segment& s, const KeyPlace& at, Word* old, Deleted cause, const std::optional<Origin>& origin,
                            WallMicros now, Garbage& garbage);
  // Under the lock, after the commits: the segment's share of the memory estimate.
  void report_memory(Segment& s);
  [[nodiscard]] std::uint64_t used() const;
  // Evicts when it must and may. False: no room.
  bool room_for(std::size_t record_bytes, WallMicros now);
  void moved(SegmentId segment) { dirty_->wake(dirty_->mark(segment)); }
  // What a write and a read are answered where the role is not owner.
  static Status write_refused(const Segment& s) {
    return s.role.load(std::memory_order_relaxed) == SegmentRole::replica ? Status::replica_write_rejected : Status::moved;
  }
  // Before the lock was taken a write was found not to fit: what it is told.
  static Status no_room(Segment& s, Status why);

  // ---- replica.cpp
  // Under the lock. What counts as owned and what does not moves with it.
  void change_role(Segment& s, SegmentRole role);
  static void put_mark(Segment& s, const MarkKey& key, const std::optional<Mark>& mark);

  // ---- replica_copy.cpp
  static void end_copy(Segment& s);

  // ---- maintenance.cpp
  bool evict_one(WallMicros now);
  enum class Trim {
    gone,
    kept,        // pins or walks
    not_yet,     // not owned, and the owner still holds it
    empty,
  };
  enum class Whose { anybodys, others };  // whose log it has to be still once the lock is held
  Trim trim_oldest(Segment& s, WallMicros now, bool force_pins, Whose whose = Whose::anybodys);
  bool trim_replicas(WallMicros now);
  bool trim_replica(Segment& s, WallMicros now, int& dropped_left);

  // ---- spill.cpp and log_spill.cpp; not called where there is no spill
  [[nodiscard]] bool spills(WallMicros now) const { return spill_writer_ != nullptr && !spill_writer_->failing(now); }
  void settle_spill(WallMicros now);
  bool bound_spill(WallMicros now);
  bool spill_out(WallMicros now);
  void spill(Segment& s, std::shared_ptr<LogChunk> chunk);
  void forget_spilled(Segment& s, Revision through, WallMicros now);
  void note_spill_fault(const Error& error) const;

  const StoreOptions options_;
  unsigned segment_shift_ = 0;                 // slot >> shift
  std::int64_t report_above_ = 0;
  LogShare log_share_;
  std::vector<std::unique_ptr<Segment>> segments_;
  std::atomic<std::int64_t> used_{0};          // estimate: each segment reports in lumps
  std::atomic<std::uint64_t> random_{0};
  std::atomic<std::uint64_t> trimmed_records_{0};
  std::atomic<bool> floors_moved_{false};      // something that is not owned may have become free to be trimmed
  std::shared_ptr<ClosedTime> closed_time_ = std::make_shared<ClosedTime>();
  std::shared_ptr<DirtyMaps> dirty_;
  Pins pins_;
  Links links_;
  bool evicting_ = false;                      // maintenance thread
  std::uint64_t spill_slack_ = 0;              // of log in memory, over its budget, while it is on its way out
  std::unique_ptr<SpillWriter> spill_writer_;  // maintenance thread
  std::vector<SpillWriter::Done> spill_done_;
  std::shared_ptr<SpillCache> spill_cache_;
  mutable std::mutex spill_fault_lock_;
  mutable std::string spill_fault_;
  mutable std::atomic<std::uint64_t> spill_read_failures_{0};
  std::atomic<std::uint64_t> spill_written_bytes_{0}, spill_write_failures_{0}, spill_passed_by_{0};
  WriteRate write_rate_;                       // of what is owned
  std::atomic<std::uint64_t> owned_changes_{0};
  // A scan that stopped inside a large slot leaves its sorted view for the page that follows.
  struct IdleScan {
    std::string scope;
    SlotKey at;
    std::unique_ptr<SegmentWalk> walk;
  };
  static constexpr std::size_t idle_scans_max = 8;
  std::mutex idle_scans_lock_;
  std::list<IdleScan> idle_scans_;
};

}  // namespace zaris::store
