#include "tests/simulation/history.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>

namespace zaris::simulation {

std::uint64_t entry_hash(std::string_view entry) { return XXH3_64bits(entry.data(), entry.size()); }

History::History(World& world, const Keys& keys, ClusterId cluster, Generation generation, std::uint32_t segments)
    : world_(world), keys_(keys), cluster_(cluster), generation_(generation), ids_(segments), segments_(segments), by_key_(keys.size()) {}

bool History::names(HistoryId id) const { return std::find(ids_.begin(), ids_.end(), id) != ids_.end(); }

void History::absorb(const store::Store& store, SegmentId id) {
  Segment& segment = segments_[id.value()];
  for (;;) {
    store::LogStretch stretch;
    const auto read = store.read_log(id, Revision{segment.log.size()}, 1u << 20, stretch);
    if (read == store::LogRead::at_head) break;
    if (read == store::LogRead::trimmed || read == store::LogRead::fetching) {
      world_.broken("log_trimmed_at_commit", fmt::format("segment {}: revision {} is gone from the log right after its commit",
                                                         id.value(), segment.log.size() + 1));
      return;
    }
    if (stretch.first.value() != segment.log.size() + 1 || stretch.index.empty()) {
      world_.broken("log_contiguous", fmt::format("segment {}: asked for what follows {}, got a stretch from {} of {} records", id.value(),
                                                  segment.log.size(), stretch.first.value(), stretch.index.size()));
      return;
    }
    for (std::size_t i = 0; i < stretch.index.size(); ++i) {
      Version version;
      version.at = {stretch.generation, Revision{segment.log.size() + 1}};
      version.when = world_.now();
      if (stretch.index[i].flags & store::log_flag_generation) {
        auto record = parse_generation_record(stretch.record(i));
        if (!record) return world_.broken("log_record", record.error().text());
        segment.generation_id = record->id;
        ids_[id.value()] = record->history;
      } else {
        auto record = parse_record(stretch.record(i));
        if (!record) return world_.broken("log_record", record.error().text());
        const std::uint32_t* key = keys_.find(record->key);
        if (!key || record->position() != version.at || keys_[*key].source_segment != id) {
          return world_.broken("log_record", fmt::format("segment {}: a record of {} at {} where {} was due", id.value(),
                                                         printable(record->key), to_string(record->position()), to_string(version.at)));
        }
        version.key = *key;
        version.deleted = record->deleted;
        version.item_version = record->item_version;
        version.timestamp_us = record->timestamp_us;
        version.entry_hash = entry_hash(record->entry);
        // What another region committed keeps its time, and neither order nor closed time speak of it (page record).
        if (!record->origin && segment.own_us > version.timestamp_us) {
          return world_.broken("timestamps_fall", fmt::format("segment {} at {}", id.value(), to_string(version.at)));
        }
        if (!record->origin && version.timestamp_us <= closed_us_) {
          return world_.broken("closed", fmt::format("segment {} at {}: committed with {}, closed was {}", id.value(), to_string(version.at),
                                                     version.timestamp_us, closed_us_));
        }
        if (!record->origin) segment.own_us = version.timestamp_us;
        by_key_[*key].push_back(version.at.revision.value());
        if (keys_[*key].in_scope) segment.in_scope.push_back(version.at.revision.value());
      }
      segment.log.push_back(version);
    }
  }
}

Position History::head(SegmentId segment) const {
  const auto& log = segments_[segment.value()].log;
  return log.empty() ? Position{generation_, Revision{0}} : log.back().at;
}

const Version* History::record(SegmentId segment, Revision revision) const {
  const auto& log = segments_[segment.value()].log;
  return revision.value() == 0 || revision.value() > log.size() ? nullptr : &log[revision.value() - 1];
}

const Version* History::at(std::uint32_t key, Revision revision) const {
  const auto& revisions = by_key_[key];
  auto after = std::upper_bound(revisions.begin(), revisions.end(), revision.value());
  if (after == revisions.begin()) return nullptr;
  return record(keys_[key].source_segment, Revision{*std::prev(after)});
}

const Version* History::newest(std::uint32_t key) const {
  return by_key_[key].empty() ? nullptr : record(keys_[key].source_segment, Revision{by_key_[key].back()});
}

const Version* History::first_in_scope_after(SegmentId segment, Revision after) const {
  const auto& revisions = segments_[segment.value()].in_scope;
  auto found = std::upper_bound(revisions.begin(), revisions.end(), after.value());
  return found == revisions.end() ? nullptr : record(segment, Revision{*found});
}

}  // namespace zaris::simulation
