#include "tests/simulation/neighbour.hpp"

#include <fmt/format.h>

#include "cluster/record/record_table.hpp"

namespace zaris::simulation {
namespace {

constexpr ClusterId cluster{0x4e45494748u};
constexpr HistoryId history{0x77};
constexpr SessionId session{0x5e};
constexpr std::string_view link_name = "neighbour";

NamedPosition at(std::uint64_t revision) { return {{Generation{1}, Revision{revision}}, 0x71}; }

}  // namespace

bool Neighbour::apply(ApplyBatch& batch) {
  batch.link = link_name;
  batch.source_cluster = cluster;
  batch.history = history;
  batch.scope = neighbour_scope().id();
  batch.source_segment = batch.target_segment;
  batch.follower_term = FollowerTerm{1};
  batch.site_epoch = SiteEpoch{1};
  batch.session = session;
  batch.removals_left = ~std::uint64_t{0};
  const auto mark = marks_.find(batch.target_segment);
  if (mark != marks_.end()) batch.expected = mark->second.token;
  const ApplyAnswer answer = source_.apply(batch);
  if (answer.status != Status::ok || !answer.mark) return false;
  marks_[batch.target_segment] = *answer.mark;
  return true;
}

bool Neighbour::begin(SegmentId segment) {
  ApplyBatch open;
  open.target_segment = segment;
  open.kind = ApplyKind::open;
  if (!apply(open)) return false;
  ApplyBatch nothing;
  nothing.target_segment = segment;
  nothing.kind = ApplyKind::range;
  nothing.range.emplace();
  nothing.range->as_of = at(revision_);
  nothing.range->final = true;
  return apply(nothing);
}

void Neighbour::write() {
  if (!source_.up() || keys_.neighbours().empty()) return;
  if (life_ != &source_.history()) {
    life_ = &source_.history();
    marks_.clear();
    if (!source_.open_link({std::string(link_name), cluster, neighbour_scope(), SiteEpoch{1}, FollowerTerm{1}})) return;
  }
  if (revision_ == 0) revision_ = 1;
  const auto& mine = keys_.neighbours();
  const Key& key = keys_[mine[world_.faults.below(mine.size())]];
  if (!marks_.contains(key.source_segment) && !begin(key.source_segment)) return;
  const Mark& mark = marks_.at(key.source_segment);
  ++revision_;
  const std::string value = fmt::format("n{}", revision_);
  EntryFields fields;
  fields.key = key.bytes;
  fields.tombstone = world_.faults.chance(0.2);
  if (!fields.tombstone) fields.value = value;
  fields.tag = static_cast<std::uint32_t>(revision_);
  RecordHeader header;
  header.revision = Revision{revision_};
  header.item_version = ++version_;
  header.timestamp_us = source_.wall();
  header.deleted = fields.tombstone ? Deleted::by_delete : Deleted::no;
  header.generation = Generation{1};
  const std::string record = make_record(fields, header);
  std::string table;
  const std::uint64_t delta = revision_ - mark.low->at.revision.value();
  if (delta > 65'535) return;
  append_row(table, {static_cast<std::uint32_t>(record.size()), fields.tombstone ? row_flag_tombstone : std::uint8_t{0}, key.slot, static_cast<std::uint16_t>(delta)});
  ApplyBatch batch;
  batch.target_segment = key.source_segment;
  batch.prev = mark.low;
  batch.last = at(revision_);
  batch.table = table;
  batch.records = record;
  if (apply(batch)) world_.probes.hit("source: a neighbour writes");
}

}  // namespace zaris::simulation
