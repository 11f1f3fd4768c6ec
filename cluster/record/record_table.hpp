// The table that travels with every stretch of records (feed Batch and Chunk, ApplyBatch), so that nobody has to decode
// a record to route it. One row is 8 bytes, little endian:
//
//   bits 0–23 length of the record in bytes · 24–31 flags · 32–47 slot · 48–63 revision delta
//
// The delta is to the revision before it in the run (the first row's to the run's previous revision); a run whose next
// delta would pass 65,535 ends before it. In a Chunk the deltas are 0.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "cluster/record/position.hpp"

namespace zaris {

inline constexpr std::size_t record_row_bytes = 8;
inline constexpr std::uint32_t record_length_max = (1u << 24) - 1;
inline constexpr std::uint8_t row_flag_tombstone = 1;

struct RecordRow {
  std::uint32_t length = 0;  // 24 bits
  std::uint8_t flags = 0;
  Slot slot;
  std::uint16_t revision_delta = 0;
  friend bool operator==(const RecordRow&, const RecordRow&) = default;
};

void append_row(std::string& table, const RecordRow& row);
[[nodiscard]] RecordRow read_row(std::string_view table, std::size_t index);
[[nodiscard]] inline std::size_t row_count(std::string_view table) { return table.size() / record_row_bytes; }

// True when the table's size is a multiple of a row, every slot is below 16,384 and the lengths add up to `records_bytes`.
[[nodiscard]] bool table_fits(std::string_view table, std::size_t records_bytes);

}  // namespace zaris
