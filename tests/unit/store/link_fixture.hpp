// A link from store A to store B, as a follower would drive it: opens marks, copies ranges, streams the log.
#pragma once
#include "tests/unit/store/store_fixture.hpp"

namespace zaris::store {

struct Batch {
  std::string link = "l";
  std::string table, records;
  ApplyBatch b;

  void add(std::string_view record, Slot slot) {
    append_row(table, RecordRow{static_cast<std::uint32_t>(record.size()), 0, slot, 0});
    records += record;
  }
  const ApplyBatch& ready() {
    b.link = link;
    b.table = table;
    b.records = records;
    return b;
  }
};

class Linked {
 public:
  Store& a;
  Store& b;
  Scope scope;
  SegmentId source{0}, target{0};
  SessionId session{77};
  FollowerTerm term{1};
  SiteEpoch epoch{1};
  std::optional<MarkToken> token;
  std::optional<NamedPosition> low;
  std::uint64_t removals_left = 1'000'000;
  std::vector<std::string> may_lose;
  WallMicros now = start_time;

  Linked(Store& from, Store& to, Scope s = {}) : a(from), b(to), scope(std::move(s)) {}

  Status open_link(std::string* why = nullptr) {
    std::string reason;
    LinkRegistration r{"l", a.options().cluster, scope, epoch, term};
    const Status status = b.open_link(r, reason);
    if (why != nullptr) *why = reason;
    return status;
  }
  Batch batch(ApplyKind kind) const {
    Batch out;
    out.b.source_cluster = a.options().cluster;
    out.b.history = a.lineage(source).root().history;
    out.b.scope = scope.id();
    out.b.source_segment = source;
    out.b.source_segments = a.options().segments;
    out.b.target_segment = target;
    out.b.follower_term = term;
    out.b.site_epoch = epoch;
    out.b.session = session;
    out.b.expected = token;
    out.b.kind = kind;
    out.b.removals_left = removals_left;
    out.b.may_lose = may_lose;
    return out;
  }
  ApplyAnswer send(Batch batch) {
    const ApplyAnswer answer = b.apply(batch.ready(), now);
    if (answer.status == Status::ok) {
      token = answer.mark->token;
      low = answer.mark->low;
    }
    return answer;
  }
  ApplyAnswer open() { return send(batch(ApplyKind::open)); }

  // The stretch (after, to] of the source's log, all of it that lies in the target segment and scope.
  Batch stream(Position after, Revision to) const {
    Batch out = batch(ApplyKind::stream);
    out.b.prev = NamedPosition{after, a.lineage(source).id_of(after.generation)};
    out.b.last = NamedPosition{{after.generation, to}, out.b.prev->generation_id};
    LogStretch stretch;
    for (Revision r = after.revision; r < to && a.read_log(source, r, 1 << 30, stretch) == LogRead::ok; r = stretch.last()) {
      for (std::size_t i = 0; i < stretch.index.size() && stretch.first.value() + i <= to.value(); ++i) {
        const LogIndex& index = stretch.index[i];
        if ((index.flags & (log_flag_generation | log_flag_foreign)) != 0) continue;
        if (segment_of(index.slot, b.options().segments) != target || !scope.has(index.slot, trusted_key(stretch.record(i).data()))) continue;
        out.add(stretch.record(i), index.slot);
      }
    }
    return out;
  }
  ApplyAnswer stream_all() { return send(stream(low->at, a.state(source).head.revision)); }

  Batch range(const WalkPage& page) const {
    Batch out = batch(ApplyKind::range);
    ApplyRange r;
    r.from = page.from;
    r.to = page.to;
    r.as_of = NamedPosition{page.as_of, a.lineage(source).id_of(page.as_of.generation)};
    r.final = !page.to;
    std::size_t at = 0;
    for (std::size_t i = 0; i < row_count(page.table); ++i) {
      const RecordRow row = read_row(page.table, i);
      if (segment_of(row.slot, b.options().segments) == target) out.add(std::string_view(page.records).substr(at, row.length), row.slot);
      at += row.length;
    }
    out.b.range = r;
    return out;
  }
  // Everything, page by page; the first answer that is not ok ends it.
  ApplyAnswer bootstrap(WalkLimits limits = {}) {
    auto walk = a.begin_walk(source, scope, std::nullopt);
    ApplyAnswer answer;
    do {
      answer = send(range(walk->next(limits)));
    } while (answer.status == Status::ok && !walk->done());
    return answer;
  }
};

}  // namespace zaris::store
