#include "cursor/cli/command_line.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <ctime>
#include <iostream>

#include "cursor/cli/commands.hpp"

namespace zaris::cursor::cli {
namespace {

constexpr const char* footer = R"(
Examples:
  zaris-cursor --path /var/lib/zaris/cursors list
  zaris-cursor --config /etc/zaris/follower.yaml show a-to-b -o json
  zaris-cursor --path DIR export > cursors.ndjson
  zaris-cursor --path OTHER import cursors.ndjson --dry-run
  zaris-cursor --path DIR rewind a-to-b --segment 17
  zaris-cursor --path DIR conflicts show a-to-b --limit 20
  zaris-cursor --path DIR conflicts export a-to-b > taken-away.ndjson

Reading works while the follower runs; import and rewind need it stopped.
Exit status: 0 done, 1 no, 2 usage, 3 the cursor directory (absent, damaged, unreadable, another format, no room),
9 the follower runs or the state forbids it, 70 or 134 a bug.)";

int exit_code_of(const std::string& code) {
  if (code == "usage" || code == "import_invalid" || code == "confirmation_needed") return exit_usage;
  if (code == "cursor_link_unknown" || code == "conflict_log_absent") return exit_no;
  if (code == "cursor_locked" || code == "cursor_import_conflict" || code == "cursor_rewind_forward" || code == "cursor_changed") return exit_conflict;
  return exit_configuration;
}

// Run by root, act as the follower: a file of root's in the directory would keep the follower from starting.
bool become_owner_of(const std::string& path) {
  struct stat found {};
  if (::geteuid() != 0 || ::stat(path.c_str(), &found) != 0 || found.st_uid == 0) return true;
  return ::setgid(found.st_gid) == 0 && ::setuid(found.st_uid) == 0;
}

}  // namespace

int fail(const Environment& environment, const Error& error) {
  environment.err << "zaris-cursor: " << error.code << ": " << error.what << '\n';
  if (!error.hint.empty()) environment.err << "  try: " << error.hint << '\n';
  return exit_code_of(error.code);
}

Result<bool> confirmed(const Options& options, const Environment& environment, const std::string& question) {
  if (options.yes) return true;
  if (!environment.in_is_terminal) return failure("confirmation_needed", "this changes the cursor store, and there is no terminal to ask on", "add --yes");
  environment.err << question << " [y/N] " << std::flush;
  std::string answer;
  std::getline(environment.in, answer);
  return answer == "y" || answer == "Y" || answer == "yes";
}

Result<std::unique_ptr<LmdbCursorStore>> open_to_change(const std::string& path, bool may_create) {
  // A look first: opening as the owner would set a damaged file aside, and that is the follower's to do.
  const auto seen = read_cursor_store(path);
  if (!seen && !(may_create && seen.error().code == "cursor_absent")) return tl::unexpected(seen.error());
  LmdbCursorStoreOptions options;
  options.path = path;
  auto opened = LmdbCursorStore::open(options);
  if (!opened) return tl::unexpected(opened.error());
  return std::move(opened->store);
}

std::string moment(WallMicros when) {
  if (when == 0) return "-";
  const auto seconds = static_cast<std::time_t>(when / 1'000'000);
  std::tm parts{};
  if (!::gmtime_r(&seconds, &parts) || parts.tm_year > 8099) return std::to_string(when);
  char text[40];
  const auto n = std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &parts);
  return fmt::format("{}.{:03}Z", std::string_view(text, n), when / 1000 % 1000);
}

namespace {

int act(int argc, const char* const* argv, const Environment& environment) {
  Options options;
  options.path = environment.path;
  std::vector<std::string> files;
  std::string format = "table";
  CLI::App app("Shows and changes what a follower keeps beside it: cursors, and what was taken away at the target.", "zaris-cursor");
  app.footer(footer);
  app.fallthrough();
  app.require_subcommand(1);
  app.set_version_flag("--version", "zaris-cursor " + environment.version);
  app.add_option("--path", options.path, "the follower's cursor.path (or ZARIS_CURSOR_PATH)");
  app.add_option("--config", files, "the follower's configuration file, to take cursor.path from it")->allow_extra_args(false);
  app.add_option("-o,--output", format, "table, wide, json, yaml, ndjson or name")->check([](const std::string& text) {
    return parse_format(text) ? std::string() : "one of table, wide, json, yaml, ndjson, name";
  });

  auto* list_command = app.add_subcommand("list", "The links and how far each has come");
  auto* show_command = app.add_subcommand("show", "One link's cursors, segment by segment");
  show_command->add_option("LINK", options.link, "the link's name")->required();
  show_command->add_option("--segment", options.segments, "only these segments")->check(CLI::Range(0, 16383))->delimiter(',')->allow_extra_args(false);
  auto* export_command = app.add_subcommand("export", "Everything as lines of JSON");
  export_command->add_option("LINK", options.link, "only this link");
  export_command->add_option("--file", options.file, "write to this file, whole or not at all (-: standard output)");
  auto* import_command = app.add_subcommand("import", "Takes an export in; never lowers a cursor");
  import_command->add_option("FILE", options.file, "what export wrote (-: standard input)");
  auto* rewind_command = app.add_subcommand("rewind", "Has segments copied again at the follower's next start");
  rewind_command->add_option("LINK", options.link, "the link's name")->required();
  rewind_command->add_option("--segment", options.segments, "only these segments (default: all)")
      ->check(CLI::Range(0, 16383))->delimiter(',')->allow_extra_args(false);
  rewind_command->add_option("--to", options.to, "start, or with one segment GENERATION:REVISION, kept for the record")->capture_default_str();
  auto* conflicts_command = app.add_subcommand("conflicts", "What was taken away at the target, and kept");
  conflicts_command->require_subcommand(1);
  auto* list_conflicts_command = conflicts_command->add_subcommand("list", "The links that have a conflict log, and how much is in it");
  auto* show_conflicts_command = conflicts_command->add_subcommand("show", "One link's: key, what stood there, what came instead, when");
  auto* export_conflicts_command = conflicts_command->add_subcommand("export", "What stood there, as lines of JSON that `zaris kv import` takes");
  for (auto* command : {show_conflicts_command, export_conflicts_command}) {
    command->add_option("LINK", options.link, "the link's name")->required();
    command->add_option("--segment", options.segments, "only these segments of the source")->check(CLI::Range(0, 16383))->delimiter(',')->allow_extra_args(false);
    command->add_option("--key", options.key, "only this key, as bytes");
  }
  show_conflicts_command->add_option("--limit", options.limit, "only the newest so many")->check(CLI::PositiveNumber);
  for (auto* command : {import_command, rewind_command}) {
    command->add_flag("--dry-run", options.dry_run, "say what would happen and change nothing");
    command->add_flag("--yes", options.yes, "do not ask");
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& e) {
    environment.out << app.help();
    return exit_ok;
  } catch (const CLI::CallForVersion&) {
    environment.out << "zaris-cursor " << environment.version << '\n';
    return exit_ok;
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e, environment.out, environment.err);
    environment.err << "zaris-cursor: usage: " << e.what() << "\n  try: zaris-cursor --help\n";
    return exit_usage;
  }
  options.format = *parse_format(format);
  if (!files.empty()) {
    if (!environment.path_from_config) return fail(environment, {"usage", "--config is not known here", "give --path"});
    const auto path = environment.path_from_config(files);
    if (!path) return fail(environment, path.error());
    options.path = *path;
  }
  if (options.path.empty()) return fail(environment, {"usage", "which cursor directory?", "give --path DIR or --config FILE, or set ZARIS_CURSOR_PATH"});
  if (!become_owner_of(options.path)) return fail(environment, {"cursor_unreadable", "the owner of " + options.path + " cannot be impersonated", "run this as the follower's user"});
  if (*list_command) return list(options, environment);
  if (*show_command) return show(options, environment);
  if (*export_command) return export_rows(options, environment);
  if (*import_command) return import_rows(options, environment);
  if (*list_conflicts_command) return list_conflicts(options, environment);
  if (*show_conflicts_command) return show_conflicts(options, environment);
  if (*export_conflicts_command) return export_conflicts(options, environment);
  return rewind(options, environment);
}

}  // namespace

int run(int argc, const char* const* argv, const Environment& environment) {
  const int code = act(argc, argv, environment);
  environment.out.flush();
  if (environment.out.good() || code != exit_ok) return code;
  environment.err << "zaris-cursor: the output could not be written\n  try: is the disk full?\n";
  return exit_configuration;
}

}  // namespace zaris::cursor::cli
