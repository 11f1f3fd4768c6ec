// conflicts list, show, export: what was taken away at the target, from the conflict logs beside the cursors.
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <ostream>

#include "cluster/base/base64.hpp"
#include "cluster/record/record.hpp"
#include "cursor/cli/commands.hpp"
#include "cursor/conflict/conflict_log.hpp"

namespace zaris::cursor::cli {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view suffix = ".conflicts";

std::string path_of(const Options& options) { return (std::filesystem::path(options.path) / (options.link + std::string(suffix))).string(); }

bool is_asked_for(const Options& options, const Conflict& conflict) {
  if (!options.key.empty() && conflict.key != options.key) return false;
  return options.segments.empty() || std::find(options.segments.begin(), options.segments.end(), conflict.segment.value()) != options.segments.end();
}

// Calls `take` with each conflict that is asked for, the oldest first, until it says no. The bytes that could not be read.
template <class Take>
Result<std::uint64_t> read(const Options& options, Take take) {
  auto reader = ConflictReader::open(path_of(options));
  if (!reader) return tl::unexpected(reader.error());
  for (;;) {
    auto next = (*reader)->next();
    if (!next) return tl::unexpected(next.error());
    if (!*next) return (*reader)->damaged_bytes();
    if (is_asked_for(options, **next)) take(**next);
  }
}

void say_damaged(const Environment& environment, const std::string& path, std::uint64_t bytes) {
  if (bytes > 0) environment.err << fmt::format("{}: {} bytes are damaged and were passed over\n", printable(path, 4096), bytes);
}

std::string in_short(const std::string& record) {
  if (record.empty()) return "-";
  const auto view = parse_record(record);
  if (!view) return "unreadable";
  return view->live() ? printable(view->value, 40) : "deleted";
}

ordered_json record_json(const std::string& record) {
  if (record.empty()) return nullptr;
  const auto view = parse_record(record);
  if (!view) return {{"unreadable", to_base64(record)}};
  ordered_json out;
  out["deleted"] = !view->live();
  out["value"] = view->live() ? ordered_json(to_base64(view->value)) : ordered_json(nullptr);
  out["item_version"] = view->item_version;
  out["expires_us"] = view->expires_us;
  out["time"] = moment(view->timestamp_us);
  out["position"] = to_string(view->position());
  out["origin"] = view->origin ? ordered_json{{"cluster_id", hex16(view->origin->cluster.value())}, {"position", to_string(view->origin->at)}} : ordered_json(nullptr);
  return out;
}

ordered_json conflict_json(const Conflict& conflict) {
  ordered_json out;
  out["time"] = moment(conflict.at_us);
  out["segment"] = conflict.segment.value();
  out["key"] = to_base64(conflict.key);
  out["as_of"] = to_string(conflict.as_of.at);
  out["target"] = record_json(conflict.target_record);
  out["source"] = record_json(conflict.source_record);
  out["key_text"] = printable(conflict.key, 64);
  out["target_text"] = in_short(conflict.target_record);
  out["source_text"] = in_short(conflict.source_record);
  return out;
}

}  // namespace

int list_conflicts(const Options& options, const Environment& environment) {
  auto rows = ordered_json::array();
  std::error_code why;
  std::vector<std::string> links;
  for (const auto& entry : std::filesystem::directory_iterator(options.path, why)) {
    const std::string name = entry.path().filename().string();
    if (name.size() > suffix.size() && name.ends_with(suffix)) links.push_back(name.substr(0, name.size() - suffix.size()));
  }
  if (why) return fail(environment, {"cursor_absent", fmt::format("{}: {}", printable(options.path, 4096), why.message()), "is that the follower's cursor.path?"});
  std::sort(links.begin(), links.end());
  for (const std::string& link : links) {
    Options one = options;
    one.link = link;
    std::uint64_t records = 0;
    WallMicros oldest = 0, newest = 0;
    const auto damaged = read(one, [&](const Conflict& conflict) {
      if (records++ == 0) oldest = conflict.at_us;
      newest = conflict.at_us;
    });
    if (!damaged) return fail(environment, damaged.error());
    say_damaged(environment, path_of(one), *damaged);
    rows.push_back({{"link", printable(link)}, {"records", records}, {"bytes", std::filesystem::file_size(path_of(one), why)}, {"oldest", moment(oldest)}, {"newest", moment(newest)}, {"damaged_bytes", *damaged}});
  }
  print(environment.out, options.format, {{"LINK", "/link"}, {"RECORDS", "/records"}, {"BYTES", "/bytes"}, {"OLDEST", "/oldest"}, {"NEWEST", "/newest"}, {"DAMAGED", "/damaged_bytes", true}},
        "/link", rows, {{"path", printable(options.path, 4096)}, {"links", rows}});
  return exit_ok;
}

int show_conflicts(const Options& options, const Environment& environment) {
  std::deque<Conflict> kept;
  const auto damaged = read(options, [&](const Conflict& conflict) {
    kept.push_back(conflict);
    if (options.limit != 0 && kept.size() > options.limit) kept.pop_front();
  });
  if (!damaged) return fail(environment, damaged.error());
  auto rows = ordered_json::array();
  for (const Conflict& conflict : kept) rows.push_back(conflict_json(conflict));
  say_damaged(environment, path_of(options), *damaged);
  print(environment.out, options.format,
        {{"TIME", "/time"}, {"SEGMENT", "/segment"}, {"KEY", "/key_text"}, {"STOOD THERE", "/target_text"}, {"CAME INSTEAD", "/source_text"}, {"AS OF", "/as_of"},
         {"WRITTEN", "/target/time", true}, {"AT", "/target/position", true}},
        "/key_text", rows, {{"link", printable(options.link)}, {"conflicts", rows}});
  return exit_ok;
}

int export_conflicts(const Options& options, const Environment& environment) {
  std::uint64_t lines = 0, nothing = 0;
  const auto damaged = read(options, [&](const Conflict& conflict) {
    const auto view = parse_record(conflict.target_record);
    if (!view) {  // nothing stood there
      ++nothing;
      return;
    }
    std::string line = "{\"key\":\"";
    append_base64(line, conflict.key);
    if (view->live()) {
      line += "\",\"value\":\"";
      append_base64(line, view->value);
      line += fmt::format("\",\"item_version\":{},\"expires_us\":{}}}\n", view->item_version, view->expires_us);
    } else {
      line += "\",\"deleted\":true}\n";
    }
    environment.out << line;
    ++lines;
  });
  if (!damaged) return fail(environment, damaged.error());
  say_damaged(environment, path_of(options), *damaged);
  environment.err << fmt::format("exported {} records that stood at the target{}\n", lines, nothing == 0 ? "" : fmt::format("; {} entries name none", nothing));
  return exit_ok;
}

}  // namespace zaris::cursor::cli
