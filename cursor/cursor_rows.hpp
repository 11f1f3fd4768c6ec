// The bytes of keys and rows of the cursor store: docs/formats/cursor.md. No I/O.
#pragma once
#include <string>
#include <string_view>

#include "cursor/cursor_store.hpp"

namespace zaris::cursor {

// 'L' name · 'C' u8 length of the name, name, source cluster, target cluster, scope id (u64 each), segment (u16), all big
// endian, so that the rows of a link lie together in segment order.
[[nodiscard]] std::string link_key(std::string_view link);
[[nodiscard]] std::string cursor_key(const CursorKey& key);
[[nodiscard]] std::string cursor_prefix(std::string_view link);
[[nodiscard]] bool parse_link_key(std::string_view bytes, std::string& link);
[[nodiscard]] bool parse_cursor_key(std::string_view bytes, CursorKey& key);

// Positional MessagePack arrays that begin with the row's format.
[[nodiscard]] std::string encode(const LinkRow& row);
[[nodiscard]] std::string encode(const CursorRow& row);
// Errors: `cursor_format_newer`, `cursor_damaged` (not such a row, though its sum fits).
[[nodiscard]] Result<LinkRow> decode_link(std::string_view bytes);
[[nodiscard]] Result<CursorRow> decode_cursor(std::string_view bytes);

}  // namespace zaris::cursor
