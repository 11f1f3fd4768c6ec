// One link: source → scope → order → target → cursor. The whole decision of replication, as a state machine without
// sockets, clocks, threads or files; the shell (follower/shell) and the simulator perform its actions. Design pages
// follower, protocol (Marks, ApplyBatch) and operations (Lag, honestly). One thread at a time.
//
//                 target + marks read        welcome, identities agree       every mark in stream
//   backoff ────────▶ connecting ────────────────▶ bootstrap / running ◀──────────────▶ running
//      ▲                   │                            │
//      └── any failure ────┴──── source_reset, large_removal, target_changed … ──▶ held(reason) ── operator ──▶ backoff
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cluster/base/result.hpp"
#include "cluster/placement/scope.hpp"
#include "cluster/record/mark.hpp"
#include "cluster/record/position.hpp"
#include "cursor/cursor_store.hpp"
#include "feed/message/message.hpp"

namespace zaris::follower {

// Rounds in which every record of source and target is read and compared, while all goes on.
struct VerifyConfig {
  MonoMicros interval_us = 0;                      // from the beginning of one to that of the next; 0: only when asked
  std::uint64_t bytes_per_second = 8u << 20;       // read for it, at each end
  bool mend = false;                               // what differs becomes what the source has
};

struct LinkConfig {
  std::string name;
  std::string follower;                            // this process' id
  Scope scope;
  std::optional<ClusterId> source_expected;        // from configuration; else learnt at first contact and kept
  Durability durability = Durability::store_default;
  std::uint32_t connections = 1;                   // feed sessions that share the segments
  std::uint64_t credit_bytes = 32u << 20;
  std::uint64_t queue_bytes = 64u << 20;           // received and not yet acknowledged by the target
  MonoMicros commit_interval_us = 100'000;
  std::uint64_t commit_bytes = 64u << 20;
  bool accept_source_reset = false;                // on_source_reset: accept
  double max_removal_ratio = 0.10;                 // and more than max_removal_floor keys: held(large_removal)
  std::uint64_t max_removal_floor = 100;
  bool adopt_scope_with_data = false;              // --yes at the first OpenLink of a scope that holds data
  std::uint64_t seed = 0;                          // session ids, jitter; drawn by the shell
  SiteEpoch site_epoch{1};                         // one site and one follower until leases and promotion are built
  FollowerTerm term{1};
  MonoMicros mark_check_us = 1'000'000;            // mark tokens compared with the target's
  MonoMicros watchdog_us = 10'000'000;             // PollSegments
  VerifyConfig verify;
};

// ---- what the shell must do ---------------------------------------------------------------------------------------
// Requests to the target are answered by the on_… call of the same name with the same id; an id whose attempt is over
// (the core asked anew) is ignored when it comes late.
struct OpenLinkRequest { std::uint64_t id; std::string link; ClusterId source; Scope scope; SiteEpoch site_epoch; FollowerTerm term; bool adopt_data, reopens, replace_source; };
// Answered only when every target segment has been spoken for by the one node that serves it.
struct ReadMarksRequest { std::uint64_t id; std::string link; ScopeId scope; Durability durability; };
// Do the owners hold just these tokens, each those of its segments?
struct MarkChecksumRequest { std::uint64_t id; std::string link; ScopeId scope; std::vector<MarkChecksumRow> rows; };

// One batch; `batch`'s views point into `hold`. Batches of one target segment must reach its owner in the order given.
struct ApplyRequest {
  std::uint64_t id;
  ApplyBatch batch;
  std::vector<std::shared_ptr<const std::string>> hold;
  std::shared_ptr<const std::string> link_name;    // batch.link points here
};
// What came over the link above `surviving`: one page, the newest first (store::Store::list_rolled_back).
struct ListRolledBackRequest {
  std::uint64_t id;
  std::string link;
  ScopeId scope;
  SegmentId source_segment, target_segment;
  std::uint32_t source_segments;
  NamedPosition surviving;
  MarkToken token;
  std::optional<Revision> below;                   // of the page before
};
struct ConnectFeed { std::uint64_t connection; };  // dial, TLS, upgrade; then on_feed_connected or on_feed_closed
struct CloseFeed { std::uint64_t connection; };
struct SendFeed { std::uint64_t connection; };     // next_feed_message(connection) has something
struct PersistCursors { std::uint64_t id; cursor::CursorCommit commit; };  // synced, on a thread of its own; one in flight
// What a range, a repair or a one-way conflict takes away; synced before the core goes on.
struct ConflictRecord { SegmentId segment; std::string key; std::string target_record, source_record; NamedPosition as_of; };
struct KeepConflicts { std::uint64_t id; std::vector<ConflictRecord> records; };
struct PollSegments { std::uint64_t id; };         // watchdog: GET /v1/segments on a connection of its own
struct LogLine { enum class Level { debug, info, warning, error } level; std::string event; std::string text; };

using Action = std::variant<OpenLinkRequest, ReadMarksRequest, MarkChecksumRequest, ApplyRequest, ListRolledBackRequest, ConnectFeed, CloseFeed,
                            SendFeed, PersistCursors, KeepConflicts, PollSegments, LogLine>;

// ---- what the shell tells -----------------------------------------------------------------------------------------
struct TargetInfo {
  ClusterId cluster;
  std::uint32_t segments = 0;
  std::uint64_t key_bytes_max = 0, value_bytes_max = 0;
  std::size_t request_bytes_max = SIZE_MAX;  // records and their table that one ApplyBatch may carry, if they are more than one
  std::uint64_t memory_max_bytes = 0, live_bytes = 0, live_keys = 0;
  Generation generation_seen;
};
struct MarksAnswer {
  std::vector<std::pair<SegmentId /*target*/, std::pair<MarkKey, Mark>>> marks;
  // (source, target) of marks whose low is not known to have the link's durability: resumed from, but neither persisted nor acknowledged.
  std::vector<std::pair<SegmentId, SegmentId>> undurable;
};
struct RolledBackAnswer {
  Status status = Status::ok;
  std::string reason;                              // for people; empty for ok
  std::string table, records;
  std::optional<Revision> below;                   // more is to be asked for
};
struct SegmentsPollRow { SegmentId segment; Position head; };

// ---- what an operator sees ----------------------------------------------------------------------------------------
enum class LinkState : std::uint8_t { running, bootstrap, repair, held, paused, backoff, failed, stuck };
[[nodiscard]] std::string_view name(LinkState state);
enum class SegmentPhase : std::uint8_t { bootstrap, stream, repair, stopped };

enum class BootstrapReason : std::uint8_t { new_segment, below_floor, unknown_lineage, horizon, target_lost, rewind, accepted, scope };
inline constexpr std::size_t bootstrap_reason_count = 8;
[[nodiscard]] std::string_view name(BootstrapReason reason);

struct SegmentStatus {
  SegmentId id;
  SegmentPhase phase = SegmentPhase::stopped;
  std::optional<Position> received;                // up to here the stream was handed to the target's connections
  std::optional<Position> position;                // durable in the target (lowest low of its marks)
  std::optional<Position> high;                    // highest high of its marks
  std::optional<Position> head;
  Revision floor;
  std::optional<Position> cursor;                  // persisted
  std::string stopped_reason;
};
// Apply delay: from commit at the source (its clock) to the acknowledgement (ours), per change; page operations.
inline constexpr double apply_delay_bounds_seconds[] = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                                        0.25,   0.5,   1,      2.5,   5,    10,    60,   600};
inline constexpr std::size_t apply_delay_buckets = sizeof(apply_delay_bounds_seconds) / sizeof(double) + 1;  // the last: more

struct DivergentKey {
  enum class How : std::uint8_t { missing, different, unknown_at_source };  // at the target
  SegmentId segment;                               // of the source
  std::string key;
  How how = How::different;
  Position as_of;
};
[[nodiscard]] std::string_view name(DivergentKey::How how);

struct VerifyStatus {
  bool running = false;
  std::size_t lanes = 0, lanes_done = 0;           // of the round that runs, or ran last
  std::optional<double> next_round_seconds;
  std::optional<WallMicros> equal_as_of_us;        // both held the same then, or at a later moment: the beginning of the newest round that found nothing
  std::uint64_t rounds_equal = 0, rounds_repaired = 0, rounds_different = 0, rounds_incomplete = 0;
  std::string_view last_result;                    // equal, repaired, different, incomplete; empty: there was none
  std::uint64_t left_out = 0, last_records = 0, last_repaired = 0;  // of the last round: lanes (pages) that could not be looked at; records compared; keys put right
  double last_seconds = 0;
  std::uint64_t records = 0, bytes = 0;            // compared, ever; bytes read for it at each end
  std::uint64_t differing = 0, mended = 0;         // keys, ever
  std::uint64_t divergent = 0;                     // keys that differ as far as is known
  std::vector<DivergentKey> keys;                  // the first of them
  std::uint64_t source_memory_slots = 0, target_memory_slots = 0;  // slots whose bytes had changed in memory, as often as they were seen
};

struct LinkStatus {
  std::string name;
  LinkState state = LinkState::backoff;
  std::string reason;                              // held, backoff, stuck, failed: why; code first
  std::string next_step;                           // for people; empty when nothing is to be done
  std::optional<ClusterId> source, target;
  ScopeId scope;
  double staleness_seconds = 0;                    // never absent, never negative
  std::uint64_t backlog_revisions = 0, backlog_bytes = 0, backlog_revisions_worst = 0;
  bool backlog_known = false;                      // the source says what it has: not while paused, held, cut off or silent (hearing.hpp)
  std::optional<double> heads_age_seconds;         // of the newest Ping that came back, of the segment heard of longest ago; empty: never
  std::uint64_t segments_total = 0, segments_bootstrap = 0, segments_stream = 0, segments_repair = 0, segments_stopped = 0;
  std::uint64_t bootstrap_segments_done = 0, bootstrap_segments_total = 0, bootstrap_records = 0;
  std::optional<double> bootstrap_eta_seconds;
  std::uint64_t bootstraps_by_reason[bootstrap_reason_count] = {};
  std::uint64_t applied_records = 0, applied_bytes = 0, skipped_records = 0, removed_records = 0, conflicts = 0;
  std::uint64_t kept_records = 0;                  // that copies found in place by their digests: they did not cross
  std::uint64_t repairs = 0, rolled_back_records = 0;  // of segments whose source had lost a tail; records that this took away or replaced
  std::uint64_t repair_bytes = 0;                  // keys that were asked for, and records that came
  std::uint64_t gap_errors = 0, mark_behind_cursor = 0, mark_ahead_of_cursor = 0, target_rollbacks = 0, reconnects = 0;
  std::map<std::string, std::uint64_t> stream_ends;
  std::uint64_t queue_bytes = 0;
  WallMicros closed_time_us = 0;                   // the source's, up to which everything is applied
  double cursor_age_seconds = 0;                   // since everything acknowledged was last persisted (0: it is now)
  std::uint64_t cursor_commits = 0, cursor_commit_failures = 0;
  std::uint64_t mark_gaps = 0, apply_retries = 0, watchdog_strikes = 0;
  std::uint64_t apply_delay_counts[apply_delay_buckets] = {};
  double apply_delay_sum_seconds = 0;
  bool caught_up = false;                          // by the definition of page follower, against the newest echoed Ping, which is not old
  std::vector<SegmentStatus> segments;
  VerifyStatus verify;
  std::optional<std::uint64_t> source_live_keys, target_live_keys;
};

class Link {
 public:
  // `row` and `cursors` as they were read from the cursor store at start (empty: a new link).
  [[nodiscard]] static std::unique_ptr<Link> create(LinkConfig config, std::optional<cursor::LinkRow> row,
                                                    std::vector<std::pair<cursor::CursorKey, cursor::CursorRow>> cursors);
  virtual ~Link() = default;

  virtual void start(MonoMicros now) = 0;
  // At least every 10 ms while anything is in flight, every fresh interval otherwise.
  virtual void on_tick(MonoMicros now, WallMicros wall) = 0;
  // In the order in which they must be carried out.
  [[nodiscard]] virtual std::vector<Action> take_actions() = 0;

  virtual void on_open_link(std::uint64_t id, Result<TargetInfo> answer, Status status, MonoMicros now) = 0;
  virtual void on_marks(std::uint64_t id, Result<MarksAnswer> answer, MonoMicros now) = 0;
  virtual void on_mark_checksum(std::uint64_t id, Result<bool> same, MonoMicros now) = 0;
  // Target segments have other owners than before: what they hold is looked at now. Batches that are on their way are answered as ever.
  virtual void on_owners_changed(MonoMicros now) = 0;
  // A failed Result: the connection to the owner is gone and the outcome unknown (the mark decides at the next ReadMarks).
  virtual void on_applied(std::uint64_t id, Result<ApplyAnswer> answer, MonoMicros now) = 0;
  // A failed Result: the owner cannot be asked; a refusal is an answer with its status.
  virtual void on_rolled_back(std::uint64_t id, Result<RolledBackAnswer> answer, MonoMicros now) = 0;
  virtual void on_feed_connected(std::uint64_t connection, MonoMicros now) = 0;
  virtual void on_feed_message(std::uint64_t connection, std::shared_ptr<const std::string> bytes, MonoMicros now) = 0;
  virtual void on_feed_part(std::uint64_t connection, MonoMicros now) = 0;  // more of a message that is not whole yet
  virtual void on_feed_closed(std::uint64_t connection, const Error& why, MonoMicros now) = 0;
  virtual bool next_feed_message(std::uint64_t connection, std::string& out) = 0;
  virtual void on_persisted(std::uint64_t id, Result<void> answer, MonoMicros now) = 0;
  virtual void on_conflicts_kept(std::uint64_t id, Result<void> answer, MonoMicros now) = 0;
  virtual void on_segments_polled(std::uint64_t id, Result<std::vector<SegmentsPollRow>> answer, MonoMicros now) = 0;

  // ---- an operator's words; each is persisted with the link's row before it counts
  virtual Result<void> pause(std::string reason, MonoMicros now) = 0;
  virtual Result<void> resume(MonoMicros now) = 0;
  virtual Result<void> accept_source(MonoMicros now) = 0;    // held(source_reset): the target becomes what the source is
  virtual Result<void> accept_target(MonoMicros now) = 0;    // held(target_changed): the cursors of the old target go
  virtual Result<void> accept_removal(MonoMicros now) = 0;   // held(large_removal): this once
  virtual Result<void> verify(MonoMicros now) = 0;           // a round of verification begins now; nothing is persisted

  // A word has been said and is not on the disk yet: it does not count yet.
  [[nodiscard]] virtual bool words_pending() const = 0;

  // SIGTERM: no more grants; finish what is in flight; persist; acknowledge. `stopped` turns true when all is done.
  virtual void stop(MonoMicros now) = 0;
  [[nodiscard]] virtual bool stopped() const = 0;

  [[nodiscard]] virtual LinkStatus status(MonoMicros now, bool with_segments) const = 0;
};

}  // namespace zaris::follower
