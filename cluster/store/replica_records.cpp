#include "cluster/store/replica_records.hpp"

#include <cstring>
#include <fmt/format.h>

namespace zaris::store {

std::string read_replica_record(std::string_view bytes, const RecordRow& row, const ReplicaLimits& limits, ReplicaRecord& out) {
  auto parsed = parse_record(bytes);
  if (!parsed) return std::move(parsed.error().what);
  out.view = *parsed;
  const RecordView& r = out.view;
  // Seven places, an entry of at most fifteen, and the header at a fixed distance from the end (block.hpp, Trailer).
  const std::size_t trailer = r.origin ? trailer_foreign : trailer_own;
  if (static_cast<std::uint8_t>(bytes[0]) != 0x97 || (static_cast<std::uint8_t>(r.entry[0]) & 0xf0) != 0x90 ||
      1 + r.entry.size() + trailer != bytes.size()) {
    return "not in the form in which records are kept";
  }
  const Slot slot = slot_of(r.key);
  out.at = KeyPlace{r.key, hash_of(r.key), slot, SegmentId{static_cast<std::uint16_t>(slot.value() >> limits.segment_shift)}};
  if (slot != row.slot || out.at.segment != limits.segment) {
    return fmt::format("its key belongs into slot {} of segment {}", slot.value(), out.at.segment.value());
  }
  if (((row.flags & row_flag_tombstone) != 0) == r.live()) return "its row says otherwise whether it is a tombstone";
  if (r.key.size() > limits.key_bytes_max || r.value.size() > limits.value_bytes_max) {
    return fmt::format("key of {} and value of {} bytes; the limits here are {} and {}", r.key.size(), r.value.size(), limits.key_bytes_max,
                       limits.value_bytes_max);
  }
  return {};
}

void make_block(ReplicaRecord& record) {
  record.block = Block(record.view.bytes.size());
  std::memcpy(record.block.data(), record.view.bytes.data(), record.view.bytes.size());
}

}  // namespace zaris::store
