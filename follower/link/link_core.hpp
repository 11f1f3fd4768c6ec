// The wiring of one link: what Link (link.hpp) promises, made of the parts in this folder. Private to follower/link.
// Where what happens stands: link_start.cpp (from nothing to running, holds, operators' words), link_segments.cpp
// (decisions per segment), link_feed.cpp (what the source says), link_apply.cpp (what the target answers),
// link_repair.cpp (after the source has lost a tail), link_verify.cpp (do both hold the same?), link_cursor.cpp (persisting and acknowledging), link_watch.cpp (checks that run beside), link_status.cpp.
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "feed/session/reader.hpp"
#include "follower/link/backoff.hpp"
#include "follower/link/bootstrap_progress.hpp"
#include "follower/link/event_log.hpp"
#include "follower/link/lane.hpp"
#include "follower/link/link.hpp"
#include "follower/link/next_step.hpp"
#include "follower/link/resume.hpp"
#include "follower/link/segment_repair.hpp"
#include "follower/link/staleness.hpp"
#include "follower/link/verification.hpp"

namespace zaris::follower {

class LinkCore;

// One feed connection and what its reader tells.
struct FeedConnection final : feed::ReaderSink {
  FeedConnection(LinkCore& core, std::uint64_t id_, std::size_t index_) : link(core), id(id_), index(index_) {}
  void on_event(const feed::ReaderEvent& event) override;

  LinkCore& link;
  const std::uint64_t id;
  const std::size_t index;                 // segments with id % connections == index are its own
  std::unique_ptr<feed::ReaderSession> reader;  // empty until connected
  std::optional<feed::Welcome> welcome;
  Bytes message;                           // the one whose views the reader is handing out
  std::vector<feed::SubscribeSegment> subscribes;  // collected, sent as one message
  bool may_send = false;                   // the reader may have something
  WallMicros closed_time_us = 0;           // newest from Progress
  std::optional<MonoMicros> data;          // when records last came, or a piece of a message
  std::optional<MonoMicros> last_pong;     // send time of the newest Ping that came back
  // Everything up to `closed` is applied once each of these heads is durable; one candidate at a time.
  struct Closing {
    WallMicros closed_time_us = 0;
    std::vector<std::pair<std::size_t, Position>> heads;
  };
  std::optional<Closing> closing;
  WallMicros closed_applied_us = 0;
};

enum class SegmentStage : std::uint8_t {
  detached,      // the link is not active
  opening,       // marks are being opened
  repairing,     // what the source has lost is put right (segment_repair.hpp)
  subscribing,
  streaming,
  parked,        // its stream has ended; decided anew when its lanes are quiet and the moment has come
};

struct SegmentState {
  explicit SegmentState(SegmentId segment) : id(segment) {}

  SegmentId id;
  std::size_t first_lane = 0, lane_count = 0;
  SegmentStage stage = SegmentStage::detached;
  Root root;

  // What the source said.
  Lineage lineage;
  std::optional<Position> head;
  Revision floor;
  std::uint64_t bytes_behind = 0;
  std::optional<NamedPosition> received;

  // Why it is parked, and what the source said at its end.
  MonoMicros retry_at = 0;
  Backoff retry{200'000, 10'000'000};
  bool halted = false;                     // its lanes send nothing more (else what is queued is finished first)
  bool stopped = false;                    // loudly: needs somebody, unless the cause goes away
  bool held_removal = false;
  std::string code, why;
  std::optional<Lineage> end_lineage;
  std::optional<Revision> end_floor;
  std::optional<BootstrapReason> reopen;   // every mark that covers something begins anew, for this reason
  Backoff stopped_retry{1'000'000, 60'000'000};

  std::unique_ptr<SegmentRepair> repair;   // in stage repairing
  bool list_gone = false;                  // …has been tried: by ranges

  // Bootstrap.
  bool bootstrapping = false;
  enum class Delta : std::uint8_t { summed, named, none };  // how much is asked about what did not change
  Delta delta = Delta::summed;
  bool rewind = false;                     // an operator's rewind waits for this segment's bootstrap
  bool rewind_begun = false;
  bool removal_accepted = false;
  bool standby_copied = false;             // since an operator accepted what another link brings to the source

  // Durable in the target: lowest low of its marks.
  std::optional<NamedPosition> durable, high;
  bool in_stream = false;                  // every mark

  // The cursor: as persisted (or being persisted).
  std::optional<cursor::CursorRow> cursor;
  bool dirty = false;
  bool marks_doubted = false;              // the target holds something else than it had answered: nothing is claimed until
                                           // its marks have been read again
  std::uint64_t records_applied = 0, bytes_applied = 0, bootstraps = 0;
  WallMicros source_time_us = 0;

  HeadEchoes echoes;
  std::optional<MonoMicros> echoed;        // send time of the newest Ping that came back for it, whatever became of what it said
  MonoMicros asked = 0;                    // its newest subscription
  bool heard = false;                      // since the watchdog's last round
  int strikes = 0;
};

class LinkCore final : public Link {
 public:
  LinkCore(LinkConfig config, std::optional<cursor::LinkRow> row, std::vector<std::pair<cursor::CursorKey, cursor::CursorRow>> cursors);

  void start(MonoMicros now) override;
  void on_tick(MonoMicros now, WallMicros wall) override;
  std::vector<Action> take_actions() override;
  void on_open_link(std::uint64_t id, Result<TargetInfo> answer, Status status, MonoMicros now) override;
  void on_marks(std::uint64_t id, Result<MarksAnswer> answer, MonoMicros now) override;
  void on_mark_checksum(std::uint64_t id, Result<bool> same, MonoMicros now) override;
  void on_owners_changed(MonoMicros now) override;
  void on_applied(std::uint64_t id, Result<ApplyAnswer> answer, MonoMicros now) override;
  void on_rolled_back(std::uint64_t id, Result<RolledBackAnswer> answer, MonoMicros now) override;
  void on_feed_connected(std::uint64_t connection, MonoMicros now) override;
  void on_feed_message(std::uint64_t connection, std::shared_ptr<const std::string> bytes, MonoMicros now) override;
  void on_feed_part(std::uint64_t connection, MonoMicros now) override;
  void on_feed_closed(std::uint64_t connection, const Error& why, MonoMicros now) override;
  bool next_feed_message(std::uint64_t connection, std::string& out) override;
  void on_persisted(std::uint64_t id, Result<void> answer, MonoMicros now) override;
  void on_conflicts_kept(std::uint64_t id, Result<void> answer, MonoMicros now) override;
  void on_segments_polled(std::uint64_t id, Result<std::vector<SegmentsPollRow>> answer, MonoMicros now) override;
  Result<void> pause(std::string reason, MonoMicros now) override;
  Result<void> resume(MonoMicros now) override;
  Result<void> accept_source(MonoMicros now) override;
  Result<void> accept_target(MonoMicros now) override;
  Result<void> accept_removal(MonoMicros now) override;
  Result<void> verify(MonoMicros now) override;
  bool words_pending() const override { return !words_.empty() || (committing_ && !committing_->words.empty()); }
  void stop(MonoMicros now) override;
  bool stopped() const override { return stage_ == Stage::stopped; }
  LinkStatus status(MonoMicros now, bool with_segments) const override;

 private:
  friend struct FeedConnection;
  enum class Stage : std::uint8_t { idle, waiting, probing, opening, reading, connecting, active, stopping, stopped };
  struct Hold {
    std::string code, text;
  };
  enum class Word : std::uint8_t { pause, resume, accept_source, accept_target };

  // ---- link_start.cpp
  void begin();
  void probe();
  void open_target();
  void note_losses(const MarksAnswer& answer);
  void found_back(SegmentState& segment, const std::optional<Position>& low, bool in_stream);
  void doubt(const Lane& lane, const Mark* found);
  void connect_feeds();
  void on_probe_welcome(FeedConnection& feed);
  void on_welcome(FeedConnection& feed);
  [[nodiscard]] bool source_agrees(const feed::Welcome& welcome);
  void activate();
  void build_segments(std::uint32_t source_segments, std::uint32_t target_segments);
  void age_segments();
  void take_marks();
  [[nodiscard]] bool histories_agree();
  void compare_cursors();
  void disconnect();
  // Everything is taken down; begun anew after a while that grows with repetition.
  void again_later(std::string code, std::string text);
  void hold(std::string code, std::string text);
  void clear_hold();
  void say(Word word);
  void carry_out(Word word);
  void accept_roots();
  void forget_cursors();
  void forget_held_removals();
  [[nodiscard]] Result<void> paused_says_nothing() const;

  // ---- link_segments.cpp
  [[nodiscard]] std::span<Lane> lanes_of(SegmentState& segment) { return {lanes_.data() + segment.first_lane, segment.lane_count}; }
  [[nodiscard]] std::span<const Lane> lanes_of(const SegmentState& segment) const { return {lanes_.data() + segment.first_lane, segment.lane_count}; }
  [[nodiscard]] std::vector<MarkDecision> decisions(const SegmentState& segment) const;
  // False: the link was held or taken down instead.
  bool resume_segment(SegmentState& segment);
  [[nodiscard]] std::uint64_t removals_allowed(const SegmentState& segment) const;
  void open_marks(SegmentState& segment, const std::vector<MarkDecision>& plan);
  void subscribe(SegmentState& segment);
  void flush_subscribes();
  void park(SegmentState& segment, bool halt, MonoMicros delay, std::string code, std::string why);
  void delta_differs(SegmentState& segment, const std::string& why);
  void stop_segment(SegmentState& segment, std::string code, std::string why);
  void resume_parked();
  void refresh_durable(SegmentState& segment);
  void bootstrap_done(SegmentState& segment);
  static constexpr MonoMicros report_every_us = 30'000'000;
  void report_bootstraps();
  // True: low and high of every mark, as they will stand, are on the lineage.
  [[nodiscard]] bool on_lineage(const SegmentState& segment, std::string& why) const;

  // ---- link_feed.cpp
  void on_event(FeedConnection& feed, const feed::ReaderEvent& event);
  void on_subscribed(FeedConnection& feed, const feed::Subscribed& m);
  void on_batch(FeedConnection& feed, const feed::Batch& m);
  void on_run(FeedConnection& feed, SegmentState& segment, const feed::Run& run, const Bytes& message);
  void on_chunk(FeedConnection& feed, const feed::Chunk& m);
  void on_progress(FeedConnection& feed, const feed::Progress& m);
  void on_pong(FeedConnection& feed, const feed::Pong& m);
  void on_stream_end(FeedConnection& feed, const feed::StreamEnd& m);
  void on_feed_error(const std::string& code, const std::string& text);
  [[nodiscard]] FeedConnection* find_feed(std::uint64_t id);
  [[nodiscard]] FeedConnection* feed_of(const SegmentState& segment);
  [[nodiscard]] SegmentState* find_segment(SegmentId id);
  [[nodiscard]] NamedPosition named(const SegmentState& segment, Position at) const;
  void grant(const SegmentState& segment, std::uint64_t bytes);
  void check_reader(FeedConnection& feed);
  void advance_lagging();

  // ---- link_repair.cpp
  void begin_repair(SegmentState& segment, const std::vector<MarkDecision>& plan);
  void begin_part(SegmentState& segment);
  void ask_rolled_back(SegmentState& segment, std::optional<Revision> below);
  void fetch_keys(SegmentState& segment);
  void on_records(FeedConnection& feed, const feed::Records& m);
  void keep_and_apply(SegmentState& segment);
  void on_repair_kept(SegmentState& segment, const Result<void>& answer);
  void apply_kept(SegmentState& segment);
  void part_repaired(SegmentState& segment);
  void repair_again(SegmentState& segment, std::string code, std::string why);
  void repair_by_ranges(SegmentState& segment, std::string why);
  void drop_repair(SegmentState& segment);
  void watch_repairs();
  [[nodiscard]] SegmentState* repairing(std::uint64_t request);

  // ---- link_verify.cpp
  void verify_in_turn();
  void ask_page();
  [[nodiscard]] bool in_step(const SegmentState& segment, const Lane& lane) const;
  [[nodiscard]] std::optional<SlotKey> lane_begin(const Lane& lane) const;
  [[nodiscard]] std::optional<SlotKey> lane_end(std::size_t lane) const;
  void on_digests(FeedConnection& feed, const feed::Digests& m);
  void checked(std::size_t lane, const Flight& flight);
  void name_differing(SegmentState& segment, const Flight& flight);
  void check_refused(SegmentState& segment, Status status, const std::string& why);
  void report_round();

  // ---- link_apply.cpp
  void queue(std::size_t lane, Piece piece);
  void pump(std::size_t lane);
  void send(std::size_t lane, const Flight& flight);
  void settle_lane(std::size_t lane);
  // What the target holds for certain may have moved: counted, and persisted in its turn.
  void note_durable(SegmentState& segment);
  void count_done(SegmentState& segment, const Flight& flight);
  void on_would_lose(std::size_t lane, std::uint64_t id, const ApplyAnswer& answer);
  [[nodiscard]] KeepConflicts conflicts_of(const SegmentState& segment, const Piece& piece, const std::vector<LostRecord>& lost);
  void on_gap(std::size_t lane, const ApplyAnswer& answer);
  void retry_lanes();
  [[nodiscard]] bool anything_in_flight() const;

  // ---- link_cursor.cpp
  void maybe_commit(bool now_please);
  void acknowledge(const cursor::CursorCommit& commit);
  [[nodiscard]] cursor::CursorKey cursor_key(SegmentId segment) const;
  void note_dirty(SegmentState& segment);
  void finish_stop();
  void update_closed_time();

  // ---- link_watch.cpp
  static constexpr MonoMicros verify_again_us = 200'000;
  void want_marks(MonoMicros in);
  [[nodiscard]] static bool is_undurable(const MarksAnswer& answer, const Lane& lane);
  void check_marks();
  void verify_marks(const MarksAnswer& answer);
  void watch();

  template <class A>
  void act(A action) { actions_.emplace_back(std::move(action)); }
  void log(LogLine::Level level, std::string_view event, std::string text);
  [[nodiscard]] std::uint64_t control_id() { return (++sequence_ << 16) | 0xffffu; }
  [[nodiscard]] std::uint64_t flight_id(std::size_t lane) { return (++sequence_ << 16) | lane; }
  [[nodiscard]] WallMicros wall_now() const;
  [[nodiscard]] ClusterId source() const { return row_.source_cluster; }

  const LinkConfig config_;
  const std::shared_ptr<const std::string> name_;
  Random random_;
  EventLog events_;
  std::vector<Action> actions_;

  MonoMicros now_ = 0, started_ = 0, oldest_cursor_ = 0;
  WallMicros wall_ = 0;                    // at wall_mono_
  MonoMicros wall_mono_ = 0;
  std::uint64_t sequence_ = 0;

  Stage stage_ = Stage::idle;
  std::optional<Hold> hold_;
  [[nodiscard]] bool held_for_standby() const { return hold_ && hold_->code == "source_standby"; }
  bool paused_ = false;
  Backoff backoff_{100'000, 4'000'000};
  MonoMicros begin_at_ = 0, give_up_at_ = 0;
  std::optional<MonoMicros> active_since_;
  std::string waiting_code_ = "connecting", waiting_text_;
  // A reader must not be destroyed while it hands something out: what ends the connection is done afterwards.
  bool in_reader_ = false;
  std::optional<Error> deferred_;
  bool deferred_hold_ = false;

  std::uint64_t request_ = 0;              // the control request that is being waited for
  SessionId session_;
  std::optional<TargetInfo> target_;
  std::optional<feed::Welcome> welcome_;   // the newest, also of a source that is not the expected one
  std::optional<MarksAnswer> marks_;

  std::vector<std::unique_ptr<FeedConnection>> feeds_;
  std::vector<SegmentState> segments_;
  std::deque<SessionId> own_sessions_;                 // the newest few
  std::optional<MonoMicros> foreign_gap_at_;           // a batch was last refused over a mark that no session of ours wrote
  std::vector<Lane> lanes_;
  std::vector<std::size_t> lane_segment_;
  std::uint32_t source_segments_ = 0, target_segments_ = 0;
  std::uint64_t applies_sent_ = 0;
  std::uint64_t queue_bytes_ = 0;
  std::vector<Flight> done_;
  bool any_retry_ = false, any_parked_ = false;
  std::map<std::uint64_t, std::size_t> keeping_;       // KeepConflicts on its way → lane
  std::map<std::uint64_t, std::vector<Lane::Kept>> kept_keys_;

  // Cursors.
  cursor::LinkRow row_;
  bool row_known_ = false, row_dirty_ = false;
  std::map<SegmentId, cursor::CursorRow> loaded_;      // as read at start, for segments not built yet
  std::vector<cursor::CursorKey> removed_;
  std::vector<cursor::CursorKey> other_scopes_;  // cursors of scopes that this link had: over, once the target has opened it with this one
  std::vector<Word> words_;                            // said, not persisted
  struct Commit {
    std::uint64_t id;
    cursor::CursorCommit commit;
    std::vector<Word> words;
  };
  std::optional<Commit> committing_;
  MonoMicros last_commit_ = 0, persisted_at_ = 0;
  bool any_dirty_ = false;
  std::uint64_t bytes_since_commit_ = 0, records_since_commit_ = 0;
  std::uint64_t commits_ = 0, commit_failures_ = 0;
  std::string commit_failure_;
  MonoMicros last_advance_ = 0;
  WallMicros closed_applied_us_ = 0;

  // Checks beside.
  MonoMicros next_mark_check_ = 0, next_watch_ = 0, last_mark_proof_ = 0;
  MonoMicros marks_asked_ = 0;             // the oldest question about the marks of a quiet link that no good answer has ended; 0: none
  std::uint64_t checksum_id_ = 0, checksum_sent_mark_ = 0;
  std::uint64_t verify_id_ = 0, verify_sent_mark_ = 0, poll_id_ = 0;
  MonoMicros verify_at_ = 0;
  std::vector<std::optional<NamedPosition>> verify_lows_;  // acknowledged when the question was asked
  std::vector<bool> verify_quiet_;                         // nothing was on its way to that lane then
  bool verify_wanted_ = false;
  bool stuck_ = false, stuck_reconnected_ = false;

  Verification verification_;
  std::uint64_t mends_left_ = 0;           // live keys that mending may still replace or remove in the lane that is looked at
  bool verify_refused_ = false;            // the target does not know how: not asked again by this process

  BootstrapProgress progress_;
  struct Copying {                         // what the log has not been told of bootstraps
    std::uint64_t begun[bootstrap_reason_count] = {}, resumed = 0;
    std::string example;
    bool round = false;                    // begun and not said to be over
    MonoMicros since = 0, said = 0;
  };
  Copying copying_;
  bool accept_ahead_ = false;
  bool accept_standby_ = false;            // until everything has caught up once, each segment may begin anew once
  bool replace_source_ = false;            // an operator has accepted the source, and the target has not heard of it yet
  bool opened_here_ = false;               // the target has had the link open with this scope, for this process
  bool removal_held_ = false;
  LinkStatus counted_;                     // the counters of status()
};

}  // namespace zaris::follower
