// Nodes of one region that follow each other, without a network between them.
#pragma once
#include "tests/unit/store/link_fixture.hpp"

namespace zaris::store {

inline constexpr SegmentId seg0{0};

inline std::unique_ptr<Store> make_member(std::uint32_t segments = 1, std::uint64_t seed = 1, StoreOptions options = {}) {
  options.cluster_member = true;
  options.cluster = ClusterId{0xc};
  options.segments = segments;
  options.seed = seed;
  return Store::create(options, StoreStart{Generation{0}, RootCause::created, start_time});
}

inline Position own(Store& store, std::uint32_t generation, SegmentId segment = seg0, WallMicros now = start_time) {
  return store.begin_term(segment, Term{Generation{generation}, 7000u + generation, HistoryId{0x4157}, RootCause::created}, now);
}

// A stretch of an owner's log as it travels.
struct LogRun {
  ReplicaRun run;
  std::string table, records;

  const ReplicaRun& ready() {
    run.table = table;
    run.records = records;
    return run;
  }
};

// What follows `prev`, at most `count` records, of one generation. Empty: the log does not go on there.
inline std::optional<LogRun> read_run(const Store& owner, SegmentId segment, Position prev, std::size_t count = 1000) {
  LogStretch stretch;
  if (owner.read_log(segment, prev.revision, 1 << 20, stretch) != LogRead::ok) return std::nullopt;
  LogRun out;
  out.run.prev = prev;
  out.run.generation = stretch.generation;
  const std::size_t n = std::min(count, stretch.index.size());
  for (std::size_t i = 0; i < n; ++i) {
    const LogIndex& index = stretch.index[i];
    append_row(out.table, RecordRow{index.length, static_cast<std::uint8_t>(index.flags & row_flag_tombstone), index.slot, 1});
    out.records += stretch.record(i);
  }
  out.run.last = Revision{prev.revision.value() + n};
  return out;
}

// Takes the owner's log up to its head. The first answer that is not ok ends it.
inline ReplicaAnswer catch_up(const Store& owner, Store& replica, SegmentId segment = seg0, std::size_t count = 1000, WallMicros now = start_time) {
  ReplicaAnswer answer;
  while (auto run = read_run(owner, segment, replica.state(segment).head, count)) {
    answer = replica.append_run(segment, run->ready(), now);
    if (answer.outcome != ReplicaOutcome::ok) break;
  }
  return answer;
}

inline CopyStart copy_start(const Store& owner, SegmentId segment = seg0) {
  const SegmentState state = owner.state(segment);
  return CopyStart{owner.lineage(segment), state.head, state.newest_timestamp_us};
}

inline CopyPage copy_page(const WalkPage& page) { return CopyPage{page.from, page.to, page.as_of, page.table, page.records}; }

inline ReplicaAnswer copy_all(Store& owner, Store& replica, WalkLimits limits = {}, SegmentId segment = seg0) {
  ReplicaAnswer answer = replica.begin_copy(segment, copy_start(owner, segment), start_time);
  auto walk = owner.begin_walk(segment, {}, std::nullopt);
  while (answer.outcome == ReplicaOutcome::ok && !walk->done()) {
    const WalkPage page = walk->next(limits);
    if (page.as_of != replica.state(segment).head) answer = catch_up(owner, replica, segment);
    if (answer.outcome == ReplicaOutcome::ok) answer = replica.copy_page(segment, copy_page(page), start_time);
  }
  return answer;
}

// Every live record's bytes, in the order of the walk.
inline std::vector<std::string> records_of(Store& store, SegmentId segment = seg0) {
  std::vector<std::string> out;
  auto walk = store.begin_walk(segment, {}, std::nullopt);
  while (!walk->done()) {
    const WalkPage page = walk->next({});
    std::size_t at = 0;
    for (std::size_t i = 0; i < row_count(page.table); ++i) {
      const RecordRow row = read_row(page.table, i);
      out.push_back(page.records.substr(at, row.length));
      at += row.length;
    }
  }
  return out;
}

// The log's bytes behind `after`, and what its index says.
inline std::vector<std::string> log_of(const Store& store, SegmentId segment = seg0, Revision after = Revision{0}) {
  std::vector<std::string> out;
  LogStretch stretch;
  while (store.read_log(segment, after, 1 << 20, stretch) == LogRead::ok) {
    for (std::size_t i = 0; i < stretch.index.size(); ++i) {
      const LogIndex& index = stretch.index[i];
      out.push_back(fmt::format("{} {} {} {} ", stretch.generation.value(), index.slot.value(), index.flags, index.key_prefix) + std::string(stretch.record(i)));
    }
    after = stretch.last();
  }
  return out;
}

inline std::map<MarkKey, Mark> marks_of(const Store& store, SegmentId segment = seg0) {
  std::map<MarkKey, Mark> out;
  for (const MarkChange& change : store.marks_since(segment, 0).changes) out[change.key] = change.mark.value();
  return out;
}

// Everything by which one holder of a segment could be told from another, from the higher of the two floors on.
// "": nothing.
inline std::string difference(Store& a, Store& b, SegmentId segment = seg0) {
  const SegmentState x = a.state(segment), y = b.state(segment);
  if (x.head != y.head) return fmt::format("heads {} and {}", to_string(x.head), to_string(y.head));
  if (x.live_keys != y.live_keys) return fmt::format("{} and {} live keys", x.live_keys, y.live_keys);
  if (x.live_bytes != y.live_bytes) return "live bytes";
  if (x.floor == y.floor && x.tombstones != y.tombstones) return fmt::format("{} and {} tombstones", x.tombstones, y.tombstones);
  if (x.newest_timestamp_us != y.newest_timestamp_us) return "newest timestamps";
  if (a.lineage(segment) != b.lineage(segment)) return "lineages";
  std::uint64_t count = 0, other_count = 0;
  if (a.segment_digest(segment, &count) != b.segment_digest(segment, &other_count)) return "digests";
  if (count != other_count) return "counts";
  if (records_of(a, segment) != records_of(b, segment)) return "records";
  const Revision after{std::max(x.floor, y.floor).value() - 1};
  if (log_of(a, segment, after) != log_of(b, segment, after)) return "logs";
  if (a.log_bytes_after(segment, after) != b.log_bytes_after(segment, after)) return "log bytes";
  if (marks_of(a, segment) != marks_of(b, segment)) return "marks";
  return {};
}

}  // namespace zaris::store
