// A replica takes the owner's log as it is.
#include <algorithm>
#include <fmt/format.h>

#include "cluster/record/record_table.hpp"
#include "cluster/store/replica_records.hpp"

namespace zaris::store {
namespace {

constexpr std::size_t ahead = 16;  // records whose memory is asked for before it is needed

// A run, looked through before the lock.
struct Incoming {
  std::optional<GenerationRecordView> term;  // the first record, where it begins the generation
  Slot term_slot;
  std::vector<ReplicaRecord> records;        // behind it
};

// Empty: good.
std::string read_term(std::string_view bytes, GenerationRecordView& out) {
  auto parsed = parse_generation_record(bytes);
  if (!parsed) return std::move(parsed.error().what);
  out = *parsed;
  if (out.id == 0) return "a generation record without an id";
  // Its time is read at a fixed place (SegmentLog::read).
  return (static_cast<std::uint8_t>(bytes[0]) & 0xf0) == 0x90 ? "" : "not in the form in which records are kept";
}

std::string read_run(const ReplicaRun& run, const ReplicaLimits& limits, Incoming& out) {
  if (!table_fits(run.table, run.records.size())) return "the table does not fit the records";
  const std::size_t n = row_count(run.table);
  if (n == 0 || run.last.value() - run.prev.revision.value() != n) {
    return fmt::format("{} records from {} to {}", n, to_string(run.prev), run.last.value());
  }
  if (run.generation == Generation{0}) return "no generation";
  if (run.generation < run.prev.generation) return fmt::format("generation {} behind {}", run.generation.value(), to_string(run.prev));
  const bool begins = run.generation != run.prev.generation;
  out.records.reserve(n);
  const char* p = run.records.data();
  Revision revision = run.prev.revision;
  for (std::size_t i = 0; i < n; ++i) {
    const RecordRow row = read_row(run.table, i);
    const std::string_view bytes(p, row.length);
    p += row.length;
    revision = revision.next();
    const auto bad = [i](const std::string& why) { return fmt::format("record {}: {}", i, why); };
    Position is;
    if (begins && i == 0) {
      out.term.emplace();
      if (auto why = read_term(bytes, *out.term); !why.empty()) return bad(why);
      if ((row.flags & row_flag_tombstone) != 0) return bad("its row says otherwise whether it is a tombstone");
      is = {out.term->generation, out.term->revision};
    } else {
      ReplicaRecord& record = out.records.emplace_back();
      if (auto why = read_replica_record(bytes, row, limits, record); !why.empty()) return bad(why);
      is = record.view.position();
    }
    if (row.revision_delta != 1 || is != Position{run.generation, revision}) {
      return bad(fmt::format("{} does not follow {} in generation {}", to_string(is), revision.value() - 1, run.generation.value()));
    }
  }
  return {};
}

}  // namespace

ReplicaAnswer StoreImpl::append_run(SegmentId id, const ReplicaRun& run, WallMicros now) {
  Segment& s = segment(id);
  const ReplicaLimits limits{id, segment_shift_, options_.key_bytes_max, options_.value_bytes_max};
  Incoming incoming;
  std::string malformed = read_run(run, limits, incoming);
  if (malformed.empty()) {
    for (ReplicaRecord& record : incoming.records) make_block(record);
  }
  ReplicaAnswer answer;
  const auto refuse = [&](ReplicaOutcome outcome, std::string reason) {
    answer.outcome = outcome;
    answer.reason = std::move(reason);
    answer.head = s.head();
  };
  Garbage garbage;
  {
    const std::lock_guard hold(s.lock);
    if (s.role.load(std::memory_order_relaxed) != SegmentRole::replica) {
      refuse(ReplicaOutcome::not_replica, "the segment is no replica here");
      return answer;
    }
    if (!malformed.empty()) {
      refuse(ReplicaOutcome::malformed, std::move(malformed));
      return answer;
    }
    if (run.prev != s.head()) {
      refuse(ReplicaOutcome::gap, fmt::format("the run begins behind {}; the log here ends at {}", to_string(run.prev), to_string(s.head())));
      return answer;
    }
    if (incoming.term) {
      const GenerationRecordView& term = *incoming.term;
      const LineageEntry entry{term.generation, term.id, term.revision, term.timestamp_us};
      const bool blank = s.lineage.entries().empty();
      if (!blank && term.history != s.lineage.root().history) {
        refuse(ReplicaOutcome::malformed, fmt::format("a generation record of history {}", hex16(term.history.value())));
        return answer;
      }
      if (blank) {
        s.lineage = Lineage(Root{term.history, term.generation, term.timestamp_us, term.cause}, {entry});
        s.log_complete_since_us = term.timestamp_us;
      } else {
        s.lineage.append(entry);
      }
      s.generation = term.generation;
      s.newest_timestamp_us = std::max(s.newest_timestamp_us, term.timestamp_us);
      s.log.append(term.bytes, nullptr, LogNote{0, s.first, log_flag_generation}, term.generation, term.revision, now);
    }
    const std::size_t n = incoming.records.size();
    for (std::size_t i = 0; i < std::min(2 * ahead, n); ++i) s.table(incoming.records[i].at.slot).prefetch(incoming.records[i].at.hash);
    for (std::size_t i = 0; i < n; ++i) {
      if (i + 2 * ahead < n) {
        const KeyPlace& at = incoming.records[i + 2 * ahead].at;
        s.table(at.slot).prefetch(at.hash);
      }
      if (i + ahead < n) {
        const KeyPlace& at = incoming.records[i + ahead].at;
        s.table(at.slot).prefetch_record(at.hash);
      }
      ReplicaRecord& record = incoming.records[i];
      const RecordView& view = record.view;
      const Change change{record.at, record.block, view.deleted, view.item_version, view.timestamp_us, view.origin, view.expires_us, ChangeKind::from_log};
      if (s.copy && !s.copy->covers(record.at.slot, record.at.key)) {
        s.log_only(change, now);
      } else {
        s.commit(change, s.find(record.at), now, garbage);
      }
    }
    s.unreported_bytes = 0;  // what is not owned is not in the store's estimate
    answer.head = s.head();
  }
  moved(id);
  return answer;
}

}  // namespace zaris::store
