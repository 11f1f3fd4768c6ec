// The bytes of a conflict log: docs/formats/cursor.md. Internal to cursor/conflict.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cursor/conflict/conflict_log.hpp"

namespace zaris::cursor {

//   head   = "ZARISCFL", u32 format, u32 0, u64 XXH3-64 of these 16 bytes
//   block  = "ZCB1", u32 bytes of the content, u32 records, u64 XXH3-64 over (u64 place of the block in the file, the two
//            numbers, the content), content = one MessagePack array per record
// All numbers little endian.
inline constexpr std::uint32_t log_format = 1;
inline constexpr std::size_t head_bytes = 24;
inline constexpr std::size_t block_head_bytes = 20;
inline constexpr std::size_t block_content_wanted = 1u << 20;  // a block ends with the first record past it
inline constexpr std::size_t block_content_max = 1u << 30;
inline constexpr std::string_view block_mark = "ZCB1";

[[nodiscard]] std::string log_head();
enum class HeadVerdict : std::uint8_t { good, newer, not_a_log };
[[nodiscard]] HeadVerdict check_head(std::string_view head);

// The blocks that hold `conflicts`, to be written at `place`.
[[nodiscard]] std::string encode_blocks(const std::vector<Conflict>& conflicts, std::uint64_t place);

struct BlockHead {
  std::uint32_t content_bytes = 0;
  std::uint32_t records = 0;
  std::uint64_t sum = 0;
};
// `bytes` begins with a block's head. False: no mark there, or a length that no block has.
[[nodiscard]] bool parse_block_head(std::string_view bytes, BlockHead& out);
[[nodiscard]] bool sum_fits(const BlockHead& head, std::uint64_t place, std::string_view content);
// False: not what a block holds, though its sum fits.
[[nodiscard]] bool decode_content(const BlockHead& head, std::string_view content, std::vector<Conflict>& out);

}  // namespace zaris::cursor
