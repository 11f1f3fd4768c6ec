// Where a link goes on, and how: pure decisions about marks, cursors and what the source says of itself. Design page
// follower, "What is durable, and who says so"; searched with models before it was written down. No state, no I/O.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cluster/record/lineage.hpp"
#include "cluster/record/mark.hpp"
#include "feed/message/message.hpp"
#include "follower/link/link.hpp"

namespace zaris::follower {

// ---- first, before anything else: is this the history that our marks and cursors speak of? --------------------------
enum class HistoryVerdict : std::uint8_t { same, accepted, source_reset };

// `root` is the segment's root at the source now. One mark or cursor of another source cluster or history is enough,
// whatever is missing elsewhere. `accepted`: an operator accepted exactly this root's history.
[[nodiscard]] HistoryVerdict compare_histories(ClusterId source, const Root& root, std::span<const std::optional<Mark>> marks,
                                               std::optional<HistoryId> cursor, bool accepted);

// ---- per mark --------------------------------------------------------------------------------------------------------
// What the source said about a segment (Subscribed, or the payload of StreamEnd).
struct SourceView {
  const Lineage* lineage = nullptr;       // empty: nothing is known of it
  Position head;
  std::optional<Revision> floor;
};
struct MarkQuestion {
  ClusterId source;
  HistoryId history;                      // of the root
  SiteEpoch site_epoch;
  bool accepted = false;                  // an operator accepted this history: marks of others begin anew
  bool accept_ahead = false;              // …and positions that the source does not have (yet)
  bool rewind = false;                    // an operator's rewind: by ranges, from nothing
  bool cursor_known = false;              // the cursor store knew a position of this segment
  bool list_gone = false;                 // what the source has lost cannot be named key by key
  std::optional<SourceView> view;         // empty: the source has not been asked yet
};
enum class MarkPlan : std::uint8_t {
  stream,     // goes on where it stands
  walk,       // in bootstrap: the walk goes on behind its last key
  open,       // begins anew: bootstrap, nothing covered
  repair,     // the source has lost a tail that it holds: just those keys are put right
  hold,       // beyond the source's head: nobody may touch it
  start_over, // the source's root has changed meanwhile: from the beginning, histories first
};
struct MarkDecision {
  MarkPlan plan = MarkPlan::stream;
  BootstrapReason reason = BootstrapReason::new_segment;  // only for open
  std::string why;                                        // for people; empty for stream and walk
  NamedPosition surviving;                                // repair: of what the mark stems from, the last that is on the lineage still
  std::optional<NamedPosition> since;                     // open: up to here the target holds what the source has, as far as is known; empty: nothing is known
};
[[nodiscard]] MarkDecision decide(const std::optional<Mark>& mark, const MarkQuestion& question);

// Can a log whose oldest revision is `floor` go on behind `low`? low = floor − 1 is the last that can.
[[nodiscard]] constexpr bool below_floor(Position low, Revision floor) { return low.revision.next() < floor; }

// ---- what is asked of the source ---------------------------------------------------------------------------------------
// A target segment's part of a source segment: its mark, and its first slot.
struct LanePlace {
  const Mark* mark = nullptr;             // never null when this is asked
  Slot first_slot;
};
// Lowest low and highest high of the marks that cover something; the walk from the lowest uncovered place of the marks
// in bootstrap, never before a target segment's first slot.
[[nodiscard]] feed::SubscribeSegment subscribe_request(SegmentId segment, HistoryId history, Slot source_first_slot,
                                                       std::span<const LanePlace> lanes);

// ---- the cursor against the marks ----------------------------------------------------------------------------------------
enum class CursorVerdict : std::uint8_t {
  none,        // no cursor: the mark is adopted
  agrees,
  above,       // the target lost something: target_rollback
  copying,     // above, in the middle of a copy: the marks count, and nothing is lost
  taken_back,  // the source had lost something, and a repair put its mark back, which this cursor has not heard of
  below,       // the last commits were lost; redelivery is harmless
  mark_gone,   // the target holds no mark at all: target_rollback too
};
// `mark_low`: lowest low of the marks that cover something. `any_mark`: there is a mark at all. `repaired`: was_taken_back of any of them. `copying`: cursor and marks are
// both of a bootstrap. Such a cursor says only where the stream would go on: a mark that covered nothing then may cover something lower by now.
[[nodiscard]] CursorVerdict compare_cursor(const std::optional<Position>& cursor, const std::optional<Position>& mark_low, bool any_mark, bool repaired, bool copying);
// A mark whose low is below its horizon was put back there by a repair, as of a generation that the cursor has not come to.
[[nodiscard]] bool was_taken_back(const Mark& mark, Position cursor);

// ---- before a bootstrap --------------------------------------------------------------------------------------------------
// Empty: it fits as far as can be told. Else a sentence for people.
[[nodiscard]] std::optional<std::string> too_small(const feed::Welcome& source, const TargetInfo& target);

// How many live keys one bootstrap of a segment's part may take away without an operator's word.
[[nodiscard]] std::uint64_t removal_budget(std::uint64_t target_live_keys, std::uint64_t parts, double ratio, std::uint64_t floor);

}  // namespace zaris::follower
