// What came over a link above a position, found by walking the log back. Design page protocol, ListRolledBack.
#include <fmt/format.h>

#include "cluster/record/record_table.hpp"
#include "cluster/store/store_impl.hpp"

namespace zaris::store {
namespace {

constexpr std::size_t chunks_at_once = 32;  // what one call goes through at most, matching or not

}  // namespace

RolledBackPage StoreImpl::list_rolled_back(const RolledBackRequest& request) const {
  RolledBackPage out;
  const auto refuse = [&](Status status, std::string reason) {
    out.status = status;
    out.reason = std::move(reason);
    return out;
  };
  const auto links = links_.table();
  const LinkRegistration* link = find_link(*links, request.link);
  if (link == nullptr) return refuse(Status::mark_gap, "the link is not open here");
  if (link->scope.id() != request.scope) return refuse(Status::scope_mismatch, "the link was opened with another scope");
  if (request.target_segment.value() >= options_.segments) return refuse(Status::invalid_argument, "no such segment here");
  const std::uint32_t theirs = request.source_segments == 0 ? options_.segments : request.source_segments;
  if (!valid_segment_count(theirs) || request.source_segment.value() >= theirs) {
    return refuse(Status::invalid_argument, fmt::format("segment {} of a source with {} segments", request.source_segment.value(), theirs));
  }
  const Segment& s = segment(request.target_segment);
  const std::uint32_t begins = first_slot(request.source_segment, theirs).value();
  const auto from_there = [&](Slot slot) { return slot.value() >= begins && slot.value() < begins + slots_per_segment(theirs); };

  std::vector<std::shared_ptr<const LogChunk>> chunks;  // newest first
  Revision floor;
  {
    const std::lock_guard hold(s.lock);
    if (!s.owned()) return refuse(write_refused(s), "the segment is not owned here");
    const auto mark = s.marks.find(MarkKey{request.link, request.scope, request.source_segment});
    if (mark == s.marks.end() || mark->second.mark.token != request.token) return refuse(Status::mark_gap, "the mark has another token");
    floor = s.log.memory_floor();  // what has left memory is not gone through
    const auto& all = s.log.chunks();
    for (auto chunk = all.rbegin(); chunk != all.rend() && chunks.size() < chunks_at_once; ++chunk) {
      if (!request.below || (*chunk)->first < *request.below) chunks.push_back(*chunk);
    }
  }
  Revision at = request.below ? Revision{request.below->value() - 1} : s.log.head();
  for (const auto& chunk : chunks) {
    for (; at >= chunk->first && at >= floor; at = Revision{at.value() - 1}) {
      const LogIndex& index = chunk->index[at.value() - chunk->first.value()];
      if ((index.flags & log_flag_foreign) == 0 || !from_there(index.slot)) continue;
      const std::string_view bytes(chunk->bytes + index.offset, index.length);
      const RecordView record = trusted_record(bytes);
      if (record.origin->cluster != link->source_cluster || !link->scope.has(index.slot, record.key)) continue;
      if (record.origin->at <= request.surviving) return out;  // applied in the source's order: nothing above it lies below here
      if (out.records.size() + bytes.size() > request.bytes_max && !out.records.empty()) {
        out.below = at.next();
        return out;
      }
      append_row(out.table, {index.length, (index.flags & log_flag_tombstone) != 0 ? row_flag_tombstone : std::uint8_t{0}, index.slot, 0});
      out.records.append(bytes);
    }
  }
  if (at >= floor) {
    out.below = at.next();  // another page, however few of these were the link's
  } else if (floor > Revision{1}) {
    out.table.clear();
    out.records.clear();
    return refuse(Status::list_gone, fmt::format("the log begins at {}, behind the first record that came after {}", floor.value(), to_string(request.surviving)));
  }
  return out;
}

}  // namespace zaris::store
