// Link in a world of its own: a source that says what a test tells it to, a target that keeps marks as page protocol says,
// a disk. No data: runs carry rows of made-up records; whether the data is right is the simulator's question.
#pragma once
#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "cluster/record/record_table.hpp"
#include "feed/message/message.hpp"
#include "follower/link/link.hpp"

namespace zaris::follower {

inline constexpr ClusterId source_cluster{0xaaaa}, target_cluster{0xbbbb};

struct WorldSegment {
  Position head{Generation{1}, Revision{1}};
  Revision floor{1};
  Lineage lineage{Root{HistoryId{0x71}, Generation{1}, 0, RootCause::created}, {{Generation{1}, 0x91, Revision{1}, 0}}};
};

struct World {
  // ---- the source
  std::uint32_t source_segments = 2;
  ClusterId source = source_cluster;
  std::vector<WorldSegment> segments;
  bool source_up = true, silent = false;
  bool echoing = true;                              // false: Pings are not answered, all else is
  std::vector<SegmentId> unavailable;               // segments that no Pong speaks for
  feed::Welcome welcome_extra;
  std::vector<feed::SubscribeSegment> subscribed;   // every one asked for
  std::vector<feed::AckSegment> acked;
  std::vector<MonoMicros> pings;
  std::map<std::uint64_t, bool> feeds;              // connection → welcomed
  std::map<SegmentId, std::uint32_t> subscription;
  std::vector<feed::Hello> hellos;
  std::vector<feed::FetchKeys> fetches;             // every one asked for
  std::function<void(std::uint64_t, const feed::FetchKeys&)> fetched;  // what becomes of it; null: nothing

  std::vector<feed::DigestRequest> digest_requests;  // every one asked for
  std::function<void(std::uint64_t, const feed::DigestRequest&)> digested;  // what becomes of it; null: nothing

  // ---- the target
  std::uint32_t target_segments = 2;
  ClusterId target = target_cluster;
  Generation generation{500};
  bool target_up = true;
  std::uint64_t target_live_keys = 0, target_memory = 0;
  std::map<std::pair<SegmentId, SegmentId>, Mark> marks;   // (source segment, target segment)
  std::vector<ApplyRequest> applied;                       // everything that came, in order
  std::deque<ApplyRequest> waiting;                        // while `hold_applies`
  bool hold_applies = false;
  bool hold_marks = false;                                 // questions are answered as of when they came, and the answers wait in `marks_waiting`
  std::vector<std::pair<std::uint64_t, MarksAnswer>> marks_waiting;
  std::function<std::optional<ApplyAnswer>(const ApplyRequest&)> refuse;  // an answer instead of applying
  Status open_status = Status::ok;
  std::vector<OpenLinkRequest> opened;
  std::optional<Error> marks_refused;
  std::uint64_t range_removes = 0, check_finds = 0;
  bool checksums_differ = false;
  std::vector<ListRolledBackRequest> lists;
  std::function<RolledBackAnswer(const ListRolledBackRequest&)> rolled_back;  // null: the list is gone

  // ---- the disk, the conflict log, the operator's poll
  std::optional<cursor::LinkRow> row;
  std::map<cursor::CursorKey, cursor::CursorRow> cursors;
  bool disk_full = false, hold_commits = false;
  std::vector<std::uint64_t> commits_waiting;
  std::vector<cursor::CursorCommit> unsynced;
  std::vector<ConflictRecord> conflicts;
  bool conflict_log_full = false;
  std::vector<SegmentsPollRow> poll_rows;

  std::vector<LogLine> lines;
  MonoMicros now = 1'000'000'000;
  WallMicros wall = 1'800'000'000'000'000;
  LinkConfig config;
  std::unique_ptr<Link> link;

  explicit World(std::uint32_t sources = 2, std::uint32_t targets = 2) : source_segments(sources), target_segments(targets) {
    segments.resize(sources);
    config.name = "l";
    config.follower = "f";
    config.seed = 42;
  }

  void start() {
    std::vector<std::pair<cursor::CursorKey, cursor::CursorRow>> rows(cursors.begin(), cursors.end());
    feeds.clear();
    waiting.clear();
    commits_waiting.clear();
    unsynced.clear();
    ++config.seed;  // the shell draws it
    link = Link::create(config, row, rows);
    link->start(now);
    settle();
  }

  // Time passes in ticks of 10 ms.
  void run(MonoMicros us) {
    for (const MonoMicros end = now + us; now < end;) {
      now += 10'000;
      wall += 10'000;
      link->on_tick(now, wall);
      settle();
    }
  }
  // Until it is so, at most `most`.
  bool until(const std::function<bool()>& so, MonoMicros most = 30'000'000) {
    for (const MonoMicros end = now + most; now < end;) {
      if (so()) return true;
      run(10'000);
    }
    return so();
  }
  LinkStatus status() { return link->status(now, true); }
  bool caught_up() {
    return until([&] { return status().caught_up; });
  }
  bool held(const std::string& code) {
    return until([&] {
      const auto s = status();
      return s.state == LinkState::held && s.reason.starts_with(code);
    });
  }
  std::size_t logged(const std::string& event) const {
    std::size_t n = 0;
    for (const auto& line : lines) n += line.event == event ? 1 : 0;
    return n;
  }

  // ---- what a test says on the source's behalf
  NamedPosition at(std::size_t segment, std::uint64_t revision) const {
    const auto& entries = segments[segment].lineage.entries();
    for (auto e = entries.rbegin(); e != entries.rend(); ++e) {
      if (e->first.value() <= revision) return {{e->generation, Revision{revision}}, e->id};
    }
    return {};
  }
  SegmentId id(std::size_t segment) const { return SegmentId{static_cast<std::uint16_t>(segment)}; }
  void say(const feed::GatewayMessage& message) {
    if (feeds.empty()) return;
    auto bytes = std::make_shared<const std::string>(feed::encode(message));
    link->on_feed_message(feeds.rbegin()->first, bytes, now);
    settle();
  }
  // A run (from, to] with one record per revision listed, in these slots; the head follows.
  void write(std::size_t segment, std::uint64_t from, std::uint64_t to, const std::vector<std::pair<std::uint64_t, std::uint16_t>>& rows) {
    std::string table, records;
    std::uint64_t before = from;
    for (const auto& [revision, slot] : rows) {
      append_row(table, {10, 0, Slot{slot}, static_cast<std::uint16_t>(revision - before)});
      records += "0123456789";
      before = revision;
    }
    const NamedPosition last = at(segment, to);
    segments[segment].head = std::max(segments[segment].head, last.at);
    feed::Batch batch;
    batch.runs.push_back({id(segment), at(segment, from).at, last.at.generation, last.at.revision, wall, true, table, records});
    say(batch);
  }
  void chunk(std::size_t segment, std::optional<SlotKey> from, std::optional<SlotKey> to, std::uint64_t as_of,
             const std::vector<std::uint16_t>& slots = {}, std::optional<feed::Chunk::Others> others = {}) {
    std::string table, records;
    for (const auto slot : slots) {
      append_row(table, {10, 0, Slot{slot}, 0});
      records += "0123456789";
    }
    feed::Chunk c;
    c.segment = id(segment);
    c.from = from;
    c.to = to;
    c.as_of = at(segment, as_of);
    c.count = slots.size();
    c.last = !to;
    c.table = table;
    c.records = records;
    c.others = others;
    segments[segment].head = std::max(segments[segment].head, c.as_of.at);
    say(c);
  }
  void end(std::size_t segment, feed::EndReason reason, std::optional<Lineage> lineage = {}, std::uint64_t floor = 0) {
    feed::StreamEnd e;
    e.segment = id(segment);
    e.reason = reason;
    e.lineage = std::move(lineage);
    e.floor = Revision{floor};
    e.subscription = subscription[e.segment];
    say(e);
  }
  // Every segment's bootstrap in one chunk.
  void bootstrap_all() {
    for (std::size_t s = 0; s < segments.size(); ++s) chunk(s, std::nullopt, std::nullopt, segments[s].head.revision.value());
  }
  void lose_source(std::uint64_t history) {
    for (auto& s : segments) {
      s = WorldSegment{};
      s.lineage = Lineage(Root{HistoryId{history}, Generation{9}, 0, RootCause::restarted_empty}, {{Generation{9}, 0x99, Revision{1}, 0}});
      s.head = {Generation{9}, Revision{1}};
    }
    cut();
  }
  void cut() {
    const auto all = feeds;
    for (const auto& [connection, welcomed] : all) link->on_feed_closed(connection, Error{"connection_lost", "reset", {}}, now);
    feeds.clear();
    settle();
  }
  // An established link: both segments in stream at revision 10.
  void establish() {
    for (auto& s : segments) s.head = {Generation{1}, Revision{10}};
    start();
    ASSERT_TRUE(until([&] { return subscribed.size() >= segments.size(); }));
    bootstrap_all();
    ASSERT_TRUE(caught_up());
  }

  // ---- the target
  ApplyAnswer apply(const ApplyRequest& r) {
    if (refuse) {
      if (auto instead = refuse(r)) return *instead;
    }
    const ApplyBatch& b = r.batch;
    const auto key = std::pair(b.source_segment, b.target_segment);
    ApplyAnswer a;
    a.target_generation = generation;
    const auto found = marks.find(key);
    const auto stands = found == marks.end() ? std::nullopt : std::optional(found->second.token);
    if (stands != b.expected) {
      a.status = Status::mark_gap;
      if (found != marks.end()) a.mark = found->second;
      return a;
    }
    Mark m = found == marks.end() || b.kind == ApplyKind::open ? Mark{} : found->second;
    if (b.prev && m.low && m.low->at < b.prev->at) {
      a.status = Status::invalid_argument;
      a.reason = "prev above low";
      return a;
    }
    if (b.kind == ApplyKind::open) {
      m.source_cluster = b.source_cluster;
      m.history = b.history;
      m.since = b.prev;
    } else if (b.kind == ApplyKind::stream) {
      if (!m.low || m.low->at < b.last->at) m.low = b.last;
      if (!m.high || m.high->at < b.last->at) m.high = b.last;
    } else if (b.kind == ApplyKind::check) {
      a.differing = check_finds;  // and the mark stays where it is
    } else if (b.kind == ApplyKind::repair) {
      m.horizon = m.horizon ? later(*m.horizon, b.repair->as_of) : b.repair->as_of;
      m.high = later(*m.high, b.repair->as_of);
      m.phase = b.repair->final ? Phase::stream : Phase::repair;
      if (b.repair->final) {
        if (b.repair->surviving.at < m.low->at) m.low = b.repair->surviving;
        m.high = later(b.repair->surviving, *m.horizon);
      }
    } else {
      if (b.range->from && (!m.last_key || *m.last_key < *b.range->from)) {
        a.status = Status::invalid_argument;
        a.reason = "from above last";
        return a;
      }
      m.low = m.high = m.horizon = b.range->as_of;
      m.last_key = b.range->final ? std::nullopt : b.range->to;
      m.phase = b.range->final ? Phase::stream : Phase::bootstrap;
      if (b.range->final) m.since.reset();
    }
    m.site_epoch = b.site_epoch;
    m.follower_term = b.follower_term;
    m.token = {generation, b.session, (stands ? stands->number : 0) + 1};
    marks[key] = m;
    a.mark = m;
    a.applied = row_count(b.table);
    if (b.kind == ApplyKind::range) a.removed = range_removes;
    a.conflicts = b.may_lose.size();
    applied.push_back(r);
    return a;
  }
  void deliver_waiting() {
    while (!waiting.empty()) {
      const ApplyRequest r = std::move(waiting.front());
      waiting.pop_front();
      answer(r);
    }
    settle();
  }
  void answer(const ApplyRequest& r) {
    if (target_up) link->on_applied(r.id, apply(r), now);
    else link->on_applied(r.id, failure("target_connection_lost", "gone"), now);
  }
  std::uint64_t checksum() const {
    std::vector<MarkChecksumRow> rows;
    for (const auto& [key, mark] : marks) rows.push_back({key.first, key.second, mark.token});
    return mark_checksum(rows);
  }

  // ---- carries everything out until nothing is left
  void settle() {
    for (;;) {
      auto actions = link->take_actions();
      if (actions.empty()) return;
      for (auto& action : actions) std::visit([this](auto& a) { perform(a); }, action);
    }
  }
  void perform(OpenLinkRequest& a) {
    opened.push_back(a);
    if (!target_up) return link->on_open_link(a.id, failure("target_unreachable", "refused"), Status::ok, now);
    TargetInfo info;
    info.cluster = target;
    info.segments = target_segments;
    info.memory_max_bytes = target_memory;
    info.live_keys = target_live_keys;
    link->on_open_link(a.id, info, open_status, now);
  }
  void perform(ReadMarksRequest& a) {
    if (!target_up) return link->on_marks(a.id, failure("target_unreachable", "refused"), now);
    if (marks_refused) return link->on_marks(a.id, tl::unexpected(*marks_refused), now);
    MarksAnswer answer;
    for (const auto& [key, mark] : marks) answer.marks.push_back({key.second, {MarkKey{"l", ScopeId{0}, key.first}, mark}});
    if (hold_marks) marks_waiting.emplace_back(a.id, std::move(answer));
    else link->on_marks(a.id, answer, now);
  }
  void perform(MarkChecksumRequest& a) {
    if (!target_up) return link->on_mark_checksum(a.id, failure("target_unreachable", "refused"), now);
    if (marks_refused && !checksums_differ) return link->on_mark_checksum(a.id, tl::unexpected(*marks_refused), now);
    link->on_mark_checksum(a.id, !checksums_differ && checksum() == mark_checksum(a.rows), now);
  }
  void perform(ListRolledBackRequest& a) {
    lists.push_back(a);
    if (!target_up) return link->on_rolled_back(a.id, failure("target_unreachable", "refused"), now);
    link->on_rolled_back(a.id, rolled_back ? rolled_back(a) : RolledBackAnswer{Status::list_gone, "the log begins later", {}, {}, {}}, now);
  }
  void perform(ApplyRequest& a) {
    if (hold_applies) waiting.push_back(std::move(a));
    else answer(a);
  }
  void perform(ConnectFeed& a) {
    if (!source_up) return link->on_feed_closed(a.connection, Error{"source_unreachable", "refused", {}}, now);
    feeds[a.connection] = false;
    link->on_feed_connected(a.connection, now);
  }
  void perform(CloseFeed& a) { feeds.erase(a.connection); }
  void perform(SendFeed& a) {
    std::string out;
    while (out.clear(), link->next_feed_message(a.connection, out)) {
      if (silent || !feeds.contains(a.connection)) continue;
      auto message = feed::decode_from_follower(out);
      ASSERT_TRUE(message && *message);
      std::visit([&](auto& m) { hear(a.connection, m); }, **message);
    }
  }
  void perform(PersistCursors& a) {
    unsynced.push_back(a.commit);
    if (hold_commits) {
      commits_waiting.push_back(a.id);
      return;
    }
    sync(a.id);
  }
  void sync(std::uint64_t commit) {
    if (disk_full) {
      unsynced.clear();
      return link->on_persisted(commit, failure("cursor_disk_full", "no space"), now);
    }
    for (const auto& c : unsynced) {
      for (const auto& [name, r] : c.links) row = r;
      for (const auto& key : c.removed) cursors.erase(key);
      for (const auto& [key, r] : c.cursors) cursors[key] = r;
    }
    unsynced.clear();
    link->on_persisted(commit, {}, now);
  }
  void perform(KeepConflicts& a) {
    if (conflict_log_full) return link->on_conflicts_kept(a.id, failure("conflict_log_full", "full"), now);
    for (auto& r : a.records) conflicts.push_back(std::move(r));
    link->on_conflicts_kept(a.id, {}, now);
  }
  void perform(PollSegments& a) { link->on_segments_polled(a.id, poll_rows, now); }
  void perform(LogLine& a) { lines.push_back(a); }

  // ---- the source hears
  void tell(std::uint64_t connection, const feed::GatewayMessage& message) {
    link->on_feed_message(connection, std::make_shared<const std::string>(feed::encode(message)), now);
  }
  void hear(std::uint64_t connection, feed::Hello& m) {
    hellos.push_back(m);
    subscription.clear();
    if (m.source_expected && *m.source_expected != source) return tell(connection, feed::ErrorMessage{"wrong_cluster", "another one", false, 0});
    feed::Welcome w = welcome_extra;
    w.cluster = source;
    w.cluster_name = "a/default";
    w.segments = source_segments;
    w.scope = m.scope.id();
    for (const auto& s : segments) w.roots.push_back(s.lineage.root());
    tell(connection, w);
  }
  void hear(std::uint64_t connection, feed::Subscribe& m) {
    for (auto& s : m.segments) {
      subscribed.push_back(s);
      const std::uint32_t number = ++subscription[s.segment];
      const WorldSegment& here = segments[s.segment.value()];
      feed::StreamEnd e;
      e.segment = s.segment;
      e.subscription = number;
      for (const auto* p : {&s.low, &s.high}) {
        if (!*p) continue;
        const auto verdict = here.lineage.test(*s.history, **p, here.head).verdict;
        if (verdict == OnLineage::on) continue;
        e.reason = verdict == OnLineage::diverged          ? feed::EndReason::diverged
                   : verdict == OnLineage::unknown_lineage ? feed::EndReason::unknown_lineage
                   : verdict == OnLineage::ahead_of_source ? feed::EndReason::ahead_of_source
                                                           : feed::EndReason::source_reset;
        if (verdict != OnLineage::ahead_of_source) e.lineage = here.lineage;
        break;
      }
      if (e.reason == feed::EndReason::protocol_error && s.low && s.low->at.revision.next() < here.floor) {
        e.reason = feed::EndReason::below_floor;
        e.floor = here.floor;
      }
      if (e.reason != feed::EndReason::protocol_error) {
        tell(connection, e);
        continue;
      }
      feed::Subscribed answer;
      answer.segment = s.segment;
      if (s.low) answer.accepted = s.low->at;
      answer.head = here.head;
      answer.floor = here.floor;
      answer.lineage = here.lineage;
      answer.subscription = number;
      tell(connection, answer);
    }
  }
  void hear(std::uint64_t connection, feed::Ping& m) {
    pings.push_back(m.sent_us);
    if (!echoing) return;
    feed::Pong pong;
    pong.echoed_us = m.sent_us;
    pong.unavailable = unavailable;
    for (std::size_t s = 0; s < segments.size(); ++s) {
      if (std::find(unavailable.begin(), unavailable.end(), id(s)) == unavailable.end()) pong.rows.push_back({id(s), segments[s].head});
    }
    tell(connection, pong);
  }
  void hear(std::uint64_t, feed::Ack& m) { acked.insert(acked.end(), m.segments.begin(), m.segments.end()); }
  void hear(std::uint64_t, feed::Credit&) {}
  void hear(std::uint64_t connection, feed::FetchKeys& m) {
    fetches.push_back(m);
    if (fetched) fetched(connection, m);
  }
  void hear(std::uint64_t connection, feed::DigestRequest& m) {
    digest_requests.push_back(m);
    if (digested) digested(connection, m);
  }
  void hear(std::uint64_t, feed::Unsubscribe&) {}
};

}  // namespace zaris::follower
