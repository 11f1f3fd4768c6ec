// key → slot → segment. Exactly Redis Cluster's slots (CRC16/XMODEM of the hash tag, modulo 16384).
#pragma once
#include <cstdint>
#include <string_view>

#include "cluster/record/position.hpp"

namespace zaris {

inline constexpr std::uint32_t slot_count = 16384;

[[nodiscard]] std::uint16_t crc16_xmodem(std::string_view bytes);

// The part of a key that is hashed: what stands between the first `{` and the next `}` when that is at least one byte,
// else the whole key.
[[nodiscard]] std::string_view hash_tag(std::string_view key);
[[nodiscard]] Slot slot_of(std::string_view key);

// A power of two from 1 to 16384, fixed for a cluster's life, so that the segments of two clusters nest.
[[nodiscard]] bool valid_segment_count(std::uint32_t segments);
[[nodiscard]] inline SegmentId segment_of(Slot slot, std::uint32_t segments) {
  return SegmentId{static_cast<std::uint16_t>(static_cast<std::uint64_t>(slot.value()) * segments / slot_count)};
}
[[nodiscard]] inline Slot first_slot(SegmentId segment, std::uint32_t segments) {
  return Slot{static_cast<std::uint16_t>(static_cast<std::uint32_t>(segment.value()) * (slot_count / segments))};
}
[[nodiscard]] inline std::uint32_t slots_per_segment(std::uint32_t segments) { return slot_count / segments; }

}  // namespace zaris
