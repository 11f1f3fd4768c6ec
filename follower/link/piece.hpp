// What a run or a chunk becomes for one target segment before it is given a token: views into the message that brought
// it where nothing had to change, bytes of its own where it was cut, widened or joined. Nothing is decoded: the table
// that travels with the records says where each belongs. No state, no I/O.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/record/mark.hpp"
#include "feed/message/message.hpp"

namespace zaris::follower {

using Bytes = std::shared_ptr<const std::string>;

// Bytes of a joined piece; grows in place until the piece is sent.
struct JoinedBytes {
  std::string records, table;
  Revision newest;                        // the last record's revision
};

struct Piece {
  ApplyKind kind = ApplyKind::stream;
  std::optional<NamedPosition> prev, last;
  WallMicros closed_time_us = 0;
  WallMicros commit_time_us = 0;          // of the newest change in it; 0: not known (chunks)
  std::optional<ApplyRange> range;
  std::optional<ApplyRepair> repair;
  std::string_view table, records;
  Bytes message, own;                     // what the views point into
  std::uint64_t credit = 0;               // bytes that go back to the feed when it is done
  std::shared_ptr<JoinedBytes> joined;    // only of a piece that others were joined to; `own` keeps it alive too

  // Keys that it does not bring may go: then the removal budget has to be exact.
  [[nodiscard]] bool may_remove() const {
    return kind == ApplyKind::range || kind == ApplyKind::repair || (kind == ApplyKind::delta && !range->equal->names.empty());
  }
  [[nodiscard]] std::uint64_t rows() const { return table.size() / 8; }
  [[nodiscard]] std::uint64_t bytes() const { return table.size() + records.size(); }
};

// A target segment's part of a source segment, as far as cutting needs to know it.
struct LaneView {
  SegmentId target;
  std::optional<NamedPosition> low;       // as it will stand when everything sent before has been applied; empty: nothing covered
};

// Receives pieces in order; `lane` is an index into the lanes given.
using PieceSink = std::function<void(std::size_t lane, Piece piece)>;

// One run for the only target segment of a source segment: views, no copy, unless its beginning must be widened to `low`
// (then the table alone is copied). Precondition: low covers something and lies below the run's end.
void whole_run(const feed::Run& run, const NamedPosition& prev, const NamedPosition& last, const NamedPosition& low,
               const Bytes& message, const std::function<void(Piece)>& out);

// One run cut by slot for several target segments (each a run of slots; `target_segments` of them in the whole target).
// A lane that gets no record gets no piece; one whose low lies below the run's begin gets a widened one; one that covers
// nothing, or has the run already, gets none. Returns the credit that no piece carries.
[[nodiscard]] std::uint64_t split_run(const feed::Run& run, const NamedPosition& prev, const NamedPosition& last,
                                      std::span<const LaneView> lanes, std::uint32_t target_segments, const PieceSink& out);

// A stretch of records without revisions (a chunk's) cut by slot: one entry per lane.
struct Cut {
  std::string bytes;                      // records, then table
  std::size_t records = 0;                // length of the first part
};
[[nodiscard]] std::vector<Cut> split_records(std::string_view table, std::string_view records, std::span<const LaneView> lanes,
                                             std::uint32_t target_segments);

// Calls `out` with the piece in parts of at most `bytes_max` (records and table), one record at least; most are one part. The last part has the
// credit and the closed time. A range is cut behind a record's key.
void cut(Piece piece, std::size_t bytes_max, const std::function<void(Piece)>& out);

// Joins `next` to `piece` when both are small stretches of one generation that follow each other; false: not possible.
inline constexpr std::size_t joined_bytes_max = 64u << 10;
[[nodiscard]] bool join(Piece& piece, const Piece& next);

}  // namespace zaris::follower
