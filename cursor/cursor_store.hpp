// The follower's own durable copy of positions. Rules: design page follower, "Cursor rules". The interface is narrow so
// that the simulator can put a disk behind it that forgets what was not synced; the real one is LMDB (lmdb_cursor_store.hpp).
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cluster/base/result.hpp"
#include "cluster/record/mark.hpp"
#include "cluster/record/position.hpp"

namespace zaris::cursor {

// One per link. Another source or target under a known name is refused until an operator accepts it.
struct LinkRow {
  std::uint32_t format = 1;
  std::string follower;
  ClusterId source_cluster, target_cluster;
  ScopeId scope;
  std::string scope_text;
  std::uint32_t source_segments = 0;
  // What an operator accepted (`zaris link accept-source`): marks of other histories may be replaced by this one.
  std::optional<std::pair<ClusterId, HistoryId>> accepted;   // valid for every segment whose root names this history
  std::vector<HistoryId> accepted_histories;                 // one per segment, when they were accepted
  // An operator's rewind, until its last range: the segments are copied again by ranges (BootstrapReason::rewind).
  std::optional<Position> rewind_to;                          // what was asked for, kept for the log; empty: the beginning
  bool rewind = false;
  bool paused = false;
  std::string paused_reason;
  std::uint64_t rows_version = 0;
  std::vector<SegmentId> rewind_segments;                     // with `rewind`: these only; empty: every segment
  friend bool operator==(const LinkRow&, const LinkRow&) = default;
};

struct CursorKey {
  std::string link;
  ClusterId source_cluster, target_cluster;
  ScopeId scope;
  SegmentId segment;                          // of the source
  friend auto operator<=>(const CursorKey&, const CursorKey&) = default;
};

struct CursorRow {
  HistoryId history;
  NamedPosition position;                     // acknowledged by the target at the link's durability
  Phase phase = Phase::bootstrap;
  WallMicros source_time_us = 0;              // commit (or closed) time at that position
  WallMicros persisted_us = 0;
  std::uint64_t records_applied = 0, bytes_applied = 0, bootstraps = 0;
  friend bool operator==(const CursorRow&, const CursorRow&) = default;
};

// What one commit writes, all or nothing, synced.
struct CursorCommit {
  std::vector<std::pair<std::string, LinkRow>> links;
  std::vector<std::pair<CursorKey, CursorRow>> cursors;
  std::vector<CursorKey> removed;
};

class CursorStore {
 public:
  virtual ~CursorStore() = default;
  [[nodiscard]] virtual Result<std::vector<std::pair<std::string, LinkRow>>> links() const = 0;
  [[nodiscard]] virtual Result<std::vector<std::pair<CursorKey, CursorRow>>> cursors(const std::string& link) const = 0;
  // Blocks until it is on the disk; never called on a network thread. Errors: `cursor_disk_full` (map or disk; may be
  // repeated later), `cursor_io`.
  [[nodiscard]] virtual Result<void> commit(const CursorCommit& commit) = 0;
};

}  // namespace zaris::cursor
