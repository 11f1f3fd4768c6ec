// The commands behind command_line.hpp. Internal to cursor/cli.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cursor/cli/command_line.hpp"
#include "cursor/cli/output.hpp"
#include "cursor/lmdb_cursor_store.hpp"

namespace zaris::cursor::cli {

struct Options {
  std::string path;
  Format format = Format::table;
  bool yes = false, dry_run = false;
  std::string link;                      // show, export, rewind
  std::vector<std::uint16_t> segments;   // show, rewind
  std::string file = "-";                // export, import
  std::string to = "start";              // rewind
  std::string key;                       // conflicts show: only this one
  std::size_t limit = 0;                 // conflicts show: the newest so many; 0: all
};

[[nodiscard]] int list(const Options& options, const Environment& environment);
[[nodiscard]] int show(const Options& options, const Environment& environment);
[[nodiscard]] int export_rows(const Options& options, const Environment& environment);
[[nodiscard]] int import_rows(const Options& options, const Environment& environment);
[[nodiscard]] int rewind(const Options& options, const Environment& environment);
[[nodiscard]] int list_conflicts(const Options& options, const Environment& environment);
[[nodiscard]] int show_conflicts(const Options& options, const Environment& environment);
[[nodiscard]] int export_conflicts(const Options& options, const Environment& environment);

// "zaris-cursor: CODE: what" and what to try; the exit status that goes with the code.
int fail(const Environment& environment, const Error& error);
// Yes by --yes or by an answer on the terminal; Error `confirmation_needed` where there is none to ask.
[[nodiscard]] Result<bool> confirmed(const Options& options, const Environment& environment, const std::string& question);

// Opens the store to change it: it must be sound and nobody may run on it; a damaged one is reported, never set aside.
[[nodiscard]] Result<std::unique_ptr<LmdbCursorStore>> open_to_change(const std::string& path, bool may_create);

// One line of JSON in PATH/cursor.audit, synced: who did what to which link, before and after.
[[nodiscard]] Result<void> audit(const std::string& path, const nlohmann::ordered_json& entry);

// "2026-11-30T02:41:00.123Z"; "-" for 0.
[[nodiscard]] std::string moment(WallMicros when);

}  // namespace zaris::cursor::cli
