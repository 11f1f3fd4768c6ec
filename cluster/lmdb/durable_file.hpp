// Small files and names that must survive a power cut, and the moments in their names.
#pragma once
#include <ctime>
#include <string>
#include <string_view>

#include "cluster/base/result.hpp"

namespace zaris::lmdb {

// "2026-11-30T02:41:00Z"
[[nodiscard]] std::string utc_text(std::time_t when);

// Makes the directory and its parents (0750 for new ones). Errors: code `code`.
[[nodiscard]] Result<void> make_directories(const std::string& path, const std::string& code);

// After a rename, a creation or a removal: the name itself is on the disk. Errors: code `code`.
[[nodiscard]] Result<void> sync_directory(const std::string& path, const std::string& code);

// Replaces `path` as a whole or not at all, synced with its name. Errors: code `code`.
[[nodiscard]] Result<void> write_whole_file(const std::string& path, std::string_view text, const std::string& code);

// Renames `path` to `path.<word>-YYYYMMDD-HHMMSS` (UTC; "-2", "-3"… where that is taken), synced. Whatever stands there
// (file, directory, dangling link) keeps its content. Returns the new name. Errors: code `code`.
[[nodiscard]] Result<std::string> set_aside(const std::string& path, const std::string& word, std::time_t when,
                                            const std::string& code);

}  // namespace zaris::lmdb
