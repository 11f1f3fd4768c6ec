// What makes a segment a copy of one that another node of the region owns. In a region of several processes every node has a
// place for every segment; the store does for each what its role says. Design page record ("Generation and lineage",
// "Op-log"), page cluster ("Replication inside a region", "Coming back").
//
//   none      holds nothing that counts: requests are answered Moved
//   replica   follows an owner: takes the owner's log as it is (append_run), or its content range by range (copy_*)
//   owner     commits. begin_term makes it so, with a generation record in front of the first commit
//
// A replica never commits: no expiry, no eviction, no trimming beyond the floor that its owner states. What it holds is
// the owner's log byte for byte, the tables that follow from it, the lineage whose records it has seen, and the owner's marks.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/record/lineage.hpp"
#include "cluster/record/mark.hpp"
#include "cluster/record/position.hpp"
#include "cluster/record/record.hpp"

namespace zaris::store {

enum class SegmentRole : std::uint8_t { none, replica, owner };

// What a new owner's term begins with.
struct Term {
  Generation generation;
  std::uint64_t id = 0;                // of the generation record: random, never 0
  // Where the segment is blank (no lineage) and nobody holds more: the root that it begins.
  HistoryId history;
  RootCause cause = RootCause::created;
};

// Consecutive records of one generation, verbatim from the owner's log. Views; they must outlive the call.
struct ReplicaRun {
  Position prev;                       // of the record before the first; {0, 0}: the first of all
  Generation generation;               // of every record in it
  Revision last;
  std::string_view table;              // record_table.hpp; row_flag_* and log_flag_* agree on bit 0; deltas are 1
  std::string_view records;
};

enum class ReplicaOutcome : std::uint8_t {
  ok,
  gap,          // it does not begin where we are (our head, what the copy has covered): nothing was done
  malformed,    // nothing was done
  not_replica,  // the role has changed meanwhile, or (pages) no copy has begun: nothing was done
};
struct ReplicaAnswer {
  ReplicaOutcome outcome = ReplicaOutcome::ok;
  Position head;                       // afterwards
  std::string reason;                  // for people; empty for ok
};

// What a copy begins with: the owner's segment as of one moment.
struct CopyStart {
  Lineage lineage;
  Position as_of;                      // of the lineage's last generation
  WallMicros newest_timestamp_us = 0;  // SegmentState's: deletes are in no page, and no later commit may be older than they
};

// A page of the owner's walk (WalkPage of the full scope).
struct CopyPage {
  std::optional<SlotKey> from, to;     // from exclusive, nil: the start; to inclusive, nil: the end
  Position as_of;                      // must be our head: the log up to it was taken before
  std::string_view table, records;
};

struct MarkChange {
  MarkKey key;
  std::optional<Mark> mark;            // empty: gone
};
// The marks of a segment that changed after `since` (a number that marks_since gave; 0: all), and the head under the same
// lock hold: a replica that has the log up to `head` may have these marks, and must not before.
struct MarksSince {
  std::vector<MarkChange> changes;
  bool everything = false;             // all marks that there are: what is not named here is gone
  std::uint64_t version = 0;           // `since` of the next call. A term's numbers lie above those of every term before it
  Position head;
};

}  // namespace zaris::store
