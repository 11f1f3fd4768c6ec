#include "cluster/record/record_table.hpp"

#include <cstring>

#include "cluster/base/assert.hpp"

namespace zaris {
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "rows are stored as the machine holds them");

void append_row(std::string& table, const RecordRow& row) {
  ZARIS_ASSERT(row.length <= record_length_max, row.length);
  const std::uint64_t packed = row.length | std::uint64_t{row.flags} << 24 | std::uint64_t{row.slot.value()} << 32 |
                               std::uint64_t{row.revision_delta} << 48;
  char bytes[record_row_bytes];
  std::memcpy(bytes, &packed, sizeof bytes);
  table.append(bytes, sizeof bytes);
}

RecordRow read_row(std::string_view table, std::size_t index) {
  ZARIS_ASSERT(index < row_count(table), index, table.size());
  std::uint64_t packed;
  std::memcpy(&packed, table.data() + index * record_row_bytes, sizeof packed);
  return {static_cast<std::uint32_t>(packed & record_length_max), static_cast<std::uint8_t>(packed >> 24),
          Slot{static_cast<std::uint16_t>(packed >> 32)}, static_cast<std::uint16_t>(packed >> 48)};
}

bool table_fits(std::string_view table, std::size_t records_bytes) {
  if (table.size() % record_row_bytes != 0) return false;
  std::size_t sum = 0;
  for (std::size_t i = 0; i < row_count(table); ++i) {
    const RecordRow row = read_row(table, i);
    if (row.slot.value() >= 16384) return false;
    sum += row.length;
  }
  return sum == records_bytes;
}

}  // namespace zaris
