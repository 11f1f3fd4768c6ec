// The promises, looked at from outside after every step: in what the source sends, in what the target holds, in what the
// follower persists, acknowledges and reports. Knows the true history; believes none of the parts.
//
//   exact            phase stream and low = high  ⇒ the target's live content of the cell is the source's at that position;
//                    phase bootstrap              ⇒ the same for the keys up to the last one covered
//   regression       nothing older than what a mark had promised shows again, deletes included
//   held             no cursor, acknowledgement or resume above what the target was found to hold
//   staleness        never smaller than the truth, never negative
//   scope            nothing out of scope crosses; the target's own keys out of scope stay
//   unasked          no other history replaces what the target holds before an operator accepts it
//   closed           no commit at or below a closed time that was announced
//   refused          a batch that is refused changes nothing
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "feed/message/message.hpp"
#include "follower/link/link.hpp"
#include "tests/simulation/cursor_disk.hpp"
#include "tests/simulation/keys.hpp"
#include "tests/simulation/source_region.hpp"
#include "tests/simulation/target_region.hpp"
#include "tests/simulation/world.hpp"

namespace zaris::simulation {

inline const std::string link_name = "a-to-b";

class Checker {
 public:
  // What a target segment looked like before an apply.
  struct Before {
    Digest digest;
    std::uint64_t count = 0;
    std::vector<std::pair<std::uint32_t, std::string>> own;  // its own records in the scope that stand in the cell
  };

  Checker(World& world, const Keys& keys, const TargetRegion& target, const CursorDisk& disk);
  void watch(const SourceRegion& source) { source_ = &source; }

  // ---- the feed
  void from_source(std::string_view message);
  void from_follower(std::string_view message);

  // ---- the target
  [[nodiscard]] Before before_apply(const ApplyBatch& batch) const;
  void after_apply(const ApplyBatch& batch, const Before& before, const ApplyAnswer& answer);
  void target_went_back();
  void marks_dropped() { reload_marks(); }
  // An in-scope value was written by the target's own client before the link came.
  void target_owns(std::uint32_t key) { own_.insert(key); }

  // ---- the follower
  // Marks are read at the target, and what was read reaches the follower (one that it does not look at never does).
  void marks_read(std::uint64_t request);
  void marks_delivered(std::uint64_t request);
  void persisting(const cursor::CursorCommit& commit);
  void conflicts_kept(const std::vector<follower::ConflictRecord>& records);
  void follower_started() {
    started_ = world_.now();
    reads_.clear();
  }
  void reported(const follower::LinkStatus& status);
  void accepted_source();

  // ---- at rest
  // Empty: source and target agree on everything in the scope, and every mark says so. Else what is missing.
  [[nodiscard]] std::string difference() const;
  void final_check();
  [[nodiscard]] std::uint64_t opens() const { return opens_; }
  [[nodiscard]] bool history_accepted() const;

 private:
  struct Cell {
    bool exists = false;                 // source and target segment overlap
    std::optional<Mark> mark;
    std::optional<Position> promise;     // the newest position that the mark promised in full
    std::vector<std::pair<std::uint64_t, Position>> promises;  // every one, with how many batches the target had applied by then
    std::uint64_t applies = 0;
  };
  void promise(Cell& at);
  Cell& cell(SegmentId source, SegmentId target) { return cells_[source.value() * world_.options.target_segments + target.value()]; }
  [[nodiscard]] const Cell& cell(SegmentId source, SegmentId target) const { return cells_[source.value() * world_.options.target_segments + target.value()]; }
  template <class Visit>
  void each_cell(SegmentId source, Visit&& visit) const;
  void check_cell(SegmentId source, SegmentId target, std::string_view after);
  void check_records(std::string_view kind, SegmentId segment, std::string_view table, std::string_view records);
  void check_chunk(const feed::Chunk& chunk);
  void check_locals() const;
  void reload_marks();
  // What the target was found to hold of a source segment: the lowest low of what covers something.
  [[nodiscard]] std::optional<Position> held(SegmentId source) const;
  // Empty: the target's record of this key is that version, or is absent where it should be.
  [[nodiscard]] std::string compare(std::uint32_t key, const std::optional<std::string>& record, const Version* version, const History& life) const;

  World& world_;
  const Keys& keys_;
  const TargetRegion& target_;
  const CursorDisk& disk_;
  const SourceRegion* source_ = nullptr;
  std::vector<Cell> cells_;
  // Per cell: low as the follower was told of it. After an open the data are still those of the low before, and a follower
  // that has not heard of the open yet goes by it.
  struct CellHeld {
    std::optional<Position> low;
    bool opened = false;
  };
  using Held = std::vector<CellHeld>;
  Held held_;
  struct Read {
    std::uint64_t losses = 0;
    Held held;                                      // as read, and what was applied since
  };
  std::map<std::uint64_t, Read> reads_;             // on their way to the follower
  std::set<std::uint32_t> own_;
  std::set<std::string> conflict_keys_;
  bool at_end_ = false;
  std::set<Generation> accepted_;                   // lives of the source that may fill the target
  std::map<std::uint16_t, std::optional<SlotKey>> walks_;  // for probes: where a segment's walk is
  std::uint64_t losses_known_ = 0, opens_ = 0;
  MonoMicros started_ = 0;
};

}  // namespace zaris::simulation
