// What the source sends: nothing out of scope, every record as it stood, every chunk whole as of its position.
#include <fmt/format.h>

#include <map>

#include "cluster/record/record_table.hpp"
#include "tests/simulation/checker.hpp"

namespace zaris::simulation {
namespace {

[[nodiscard]] bool in_range(const SlotKey& key, const std::optional<SlotKey>& from, const std::optional<SlotKey>& to) {
  return (!from || *from < key) && (!to || key <= *to);
}

}  // namespace

void Checker::check_records(std::string_view kind, SegmentId segment, std::string_view table, std::string_view records) {
  if (!table_fits(table, records.size())) return world_.broken("feed_table", fmt::format("{}: the table does not fit the bytes", kind));
  std::size_t offset = 0;
  for (std::size_t i = 0; i < row_count(table); ++i) {
    const RecordRow row = read_row(table, i);
    const auto record = parse_record(records.substr(offset, row.length));
    offset += row.length;
    if (!record) return world_.broken("feed_record", fmt::format("{}: {}", kind, record.error().text()));
    if (!keys_.scope().has(slot_of(record->key), record->key)) {
      return world_.broken("scope", fmt::format("{}: key {} is out of the scope", kind, printable(record->key)));
    }
    const std::uint32_t* key = keys_.find(record->key);
    const History* life = source_->life(record->generation);
    const Version* version = life ? life->record(segment, record->revision) : nullptr;
    if (!key || !version || version->key != *key || version->entry_hash != entry_hash(record->entry) || version->item_version != record->item_version ||
        version->deleted != record->deleted || row.slot != keys_[*key].slot || record->origin.has_value() != keys_[*key].neighbours || (record->origin && kind == "batch")) {
      return world_.broken("feed_record", fmt::format("{}: the record of {} at {} is not what was committed there", kind, printable(record->key),
                                                      to_string(record->position())));
    }
  }
}

void Checker::check_chunk(const feed::Chunk& chunk) {
  const History* life = source_->life(chunk.as_of.at.generation);
  if (!life || !life->record(chunk.segment, chunk.as_of.at.revision) || life->generation_id(chunk.segment) != chunk.as_of.generation_id) {
    return world_.broken("chunk_as_of", fmt::format("a chunk as of {}, which never was", to_string(chunk.as_of.at)));
  }
  std::map<SlotKey, Position> sent;
  std::size_t offset = 0;
  Digest digest;
  for (std::size_t i = 0; i < row_count(chunk.table); ++i) {
    const RecordRow row = read_row(chunk.table, i);
    const auto record = parse_record(chunk.records.substr(offset, row.length));
    offset += row.length;
    if (!record) return;  // check_records has said so
    SlotKey key{row.slot, std::string(record->key)};
    if (!record->live() || !in_range(key, chunk.from, chunk.to) || (!sent.empty() && key <= sent.rbegin()->first)) {
      return world_.broken("chunk_range", fmt::format("key {} is dead, out of range or out of order", printable(record->key)));
    }
    digest += record_digest(record->entry, record->item_version);
    sent.emplace(std::move(key), record->position());
  }
  if (digest != chunk.digest || sent.size() != chunk.count) return world_.broken("chunk_digest", "digest or count is not that of the records");
  std::uint64_t others = 0;
  for (std::uint32_t i = 0; i < keys_.size(); ++i) {
    const Key& key = keys_[i];
    if (key.source_segment != chunk.segment || !key.in_scope) continue;
    SlotKey place{key.slot, key.bytes};
    if (!in_range(place, chunk.from, chunk.to)) continue;
    const Version* version = life->at(i, chunk.as_of.at.revision);
    const auto found = sent.find(place);
    const bool live = version && version->live();
    if (live && chunk.others && found == sent.end()) {  // which of them may be left out is for the target to find out
      ++others;
      continue;
    }
    if (live != (found != sent.end()) || (live && found->second != version->at)) {
      return world_.broken("chunk_whole", fmt::format("segment {} as of {}: key {} is {}, the source had {}", chunk.segment.value(), to_string(chunk.as_of.at),
                                                      printable(key.bytes, 32), found == sent.end() ? "left out" : to_string(found->second),
                                                      live ? to_string(version->at) : "none"));
    }
  }
  if (chunk.others && others != chunk.others->count) {
    return world_.broken("chunk_others", fmt::format("segment {} as of {}: {} keys are said not to have changed, the source had {} more than were sent",
                                                     chunk.segment.value(), to_string(chunk.as_of.at), chunk.others->count, others));
  }
  if (chunk.others) world_.probes.hit(chunk.others->names.empty() ? "chunk: what changed" : "chunk: what changed, and names");
  // Probe: the walk stands inside one slot, and that slot got a key since its last page.
  std::optional<SlotKey>& at = walks_[chunk.segment.value()];
  if (chunk.from && at && *chunk.from == *at && chunk.to && chunk.from->slot == chunk.to->slot) {
    world_.probes.hit("walk: inside one slot");
    for (const auto& [key, position] : sent) {
      const Version* record = life->record(chunk.segment, position.revision);
      if (record && record->item_version == 1 && world_.now() - record->when < 500'000) {
        world_.probes.hit("walk: a key came while it was in the slot");
        break;
      }
    }
  }
  at = chunk.to;
}

void Checker::from_source(std::string_view bytes) {
  if (keys_.scope().full() == false && bytes.find(foreign_mark) != std::string_view::npos) {
    return world_.broken("scope", "bytes of a value out of the scope cross the link");
  }
  const auto decoded = feed::decode_from_gateway(bytes);
  if (!decoded) return world_.broken("message", decoded.error().text());
  if (!*decoded) return;
  const feed::GatewayMessage& message = **decoded;
  if (const auto* batch = std::get_if<feed::Batch>(&message)) {
    for (const feed::Run& run : batch->runs) check_records("batch", run.segment, run.table, run.records);
  } else if (const auto* chunk = std::get_if<feed::Chunk>(&message)) {
    check_records("chunk", chunk->segment, chunk->table, chunk->records);
    if (!world_.failure) check_chunk(*chunk);
    world_.probes.hit("feed: chunks");
  } else if (const auto* records = std::get_if<feed::Records>(&message)) {
    check_records("records", records->segment, records->table, records->records);
  } else if (std::holds_alternative<feed::Part>(message)) {
    world_.probes.hit("feed: parts");
  } else if (const auto* end = std::get_if<feed::StreamEnd>(&message)) {
    world_.probes.hit(fmt::format("stream end: {}", name(end->reason)));
    world_.note("stream end", [&] { return fmt::format("segment {} {} {}", end->segment.value(), name(end->reason), end->text); }, end->segment.value(),
                static_cast<int>(end->reason));
  } else if (const auto* progress = std::get_if<feed::Progress>(&message)) {
    source_->announced_closed(progress->closed_time_us);
    for (const auto& row : progress->rows) {
      if (row.head > source_->history().head(row.segment) || row.position > row.head) {
        world_.broken("progress", fmt::format("segment {}: position {} head {}, the head is {}", row.segment.value(), to_string(row.position),
                                              to_string(row.head), to_string(source_->history().head(row.segment))));
      }
    }
  }
}

}  // namespace zaris::simulation
