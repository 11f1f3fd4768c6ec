// list and show.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>
#include <set>

#include "cursor/cli/commands.hpp"

namespace zaris::cursor::cli {
namespace {

using nlohmann::ordered_json;

std::string scope_shown(const LinkRow& row) { return row.scope.value() == 0 ? "full" : printable(row.scope_text); }

bool of_link_now(const LinkRow& row, const CursorKey& key) {
  return key.source_cluster == row.source_cluster && key.target_cluster == row.target_cluster && key.scope == row.scope;
}

std::string state_of(const LinkRow& row) {
  std::string out;
  if (row.paused) out = "paused";
  if (row.rewind) out += std::string(out.empty() ? "" : ", ") + "rewind";
  return out.empty() ? "-" : out;
}

ordered_json link_json(const std::string& name, const LinkRow& row, const CursorSnapshot& store) {
  ordered_json out;
  out["name"] = printable(name);
  out["follower"] = printable(row.follower);
  out["source"] = {{"cluster_id", hex16(row.source_cluster.value())}, {"segments", row.source_segments}};
  out["target"] = {{"cluster_id", hex16(row.target_cluster.value())}};
  out["scope_id"] = hex16(row.scope.value());
  out["scope"] = scope_shown(row);
  std::uint64_t cursors = 0, bootstrap = 0, records = 0, bytes = 0;
  WallMicros oldest = 0, newest = 0, source_oldest = 0;
  for (const auto& [key, cursor] : store.cursors) {
    if (key.link != name || !of_link_now(row, key)) continue;
    if (cursors == 0 || cursor.persisted_us < oldest) oldest = cursor.persisted_us;
    if (cursors == 0 || cursor.source_time_us < source_oldest) source_oldest = cursor.source_time_us;
    newest = std::max(newest, cursor.persisted_us);
    ++cursors;
    records += cursor.records_applied;
    bytes += cursor.bytes_applied;
    if (cursor.phase != Phase::stream) ++bootstrap;
  }
  out["cursors"] = cursors;
  out["not_in_stream"] = bootstrap;
  out["records_applied"] = records;
  out["bytes_applied"] = bytes;
  out["source_time"] = moment(source_oldest);
  out["persisted"] = moment(newest);
  out["persisted_oldest"] = moment(oldest);
  out["state"] = state_of(row);
  out["paused"] = row.paused;
  out["paused_reason"] = printable(row.paused_reason);
  out["rewind"] = row.rewind;
  out["rewind_to"] = row.rewind_to ? ordered_json(to_string(*row.rewind_to)) : ordered_json();
  out["rewind_segments"] = ordered_json::array();
  for (const auto segment : row.rewind_segments) out["rewind_segments"].push_back(segment.value());
  return out;
}

ordered_json store_json(const Options& options, const CursorSnapshot& store) {
  ordered_json out;
  out["path"] = printable(options.path, 4096);
  out["store_id"] = hex16(store.store_id);
  out["commits"] = store.commits;
  out["held_by"] = store.holder ? ordered_json(*store.holder) : ordered_json();
  return out;
}

ordered_json cursor_json(const CursorKey& key, const CursorRow& row, bool now) {
  ordered_json out;
  out["segment"] = key.segment.value();
  out["phase"] = std::string(name(row.phase));
  out["position"] = to_string(row.position.at);
  out["generation"] = row.position.at.generation.value();
  out["revision"] = row.position.at.revision.value();
  out["generation_id"] = hex16(row.position.generation_id);
  out["history_id"] = hex16(row.history.value());
  out["source_time"] = moment(row.source_time_us);
  out["persisted"] = moment(row.persisted_us);
  out["records_applied"] = row.records_applied;
  out["bytes_applied"] = row.bytes_applied;
  out["bootstraps"] = row.bootstraps;
  out["source"] = hex16(key.source_cluster.value());
  out["target"] = hex16(key.target_cluster.value());
  out["scope_id"] = hex16(key.scope.value());
  out["current"] = now;
  return out;
}

}  // namespace

int list(const Options& options, const Environment& environment) {
  const auto store = read_cursor_store(options.path);
  if (!store) return fail(environment, store.error());
  auto rows = ordered_json::array();
  for (const auto& [name, row] : store->links) rows.push_back(link_json(name, row, *store));
  ordered_json document = store_json(options, *store);
  document["links"] = rows;
  if (store->holder) environment.err << "in use by " << *store->holder << '\n';
  print(environment.out, options.format,
        {{"LINK", "/name"}, {"FOLLOWER", "/follower", true}, {"SOURCE", "/source/cluster_id"}, {"TARGET", "/target/cluster_id"},
         {"SCOPE", "/scope"}, {"SCOPE ID", "/scope_id", true}, {"SEGMENTS", "/source/segments"}, {"CURSORS", "/cursors"},
         {"NOT IN STREAM", "/not_in_stream"}, {"STATE", "/state"}, {"PERSISTED", "/persisted"}, {"SOURCE TIME", "/source_time", true},
         {"RECORDS", "/records_applied", true}, {"BYTES", "/bytes_applied", true}},
        "/name", rows, document);
  return exit_ok;
}

int show(const Options& options, const Environment& environment) {
  const auto store = read_cursor_store(options.path);
  if (!store) return fail(environment, store.error());
  const auto link = std::find_if(store->links.begin(), store->links.end(), [&](const auto& row) { return row.first == options.link; });
  if (link == store->links.end()) {
    return fail(environment, {"cursor_link_unknown", "the cursor store " + options.path + " has no link " + printable(options.link),
                              "zaris-cursor list names those that it has"});
  }
  const std::set<std::uint16_t> wanted(options.segments.begin(), options.segments.end());
  auto rows = ordered_json::array();
  for (const auto& [key, row] : store->cursors) {
    if (key.link != options.link || (!wanted.empty() && !wanted.contains(key.segment.value()))) continue;
    rows.push_back(cursor_json(key, row, of_link_now(link->second, key)));
  }
  ordered_json document = store_json(options, *store);
  document["link"] = link_json(link->first, link->second, *store);
  document["cursors"] = rows;
  if (store->holder) environment.err << "in use by " << *store->holder << '\n';
  print(environment.out, options.format,
        {{"SEGMENT", "/segment"}, {"PHASE", "/phase"}, {"POSITION", "/position"}, {"SOURCE TIME", "/source_time"}, {"PERSISTED", "/persisted"},
         {"RECORDS", "/records_applied"}, {"BYTES", "/bytes_applied"}, {"BOOTSTRAPS", "/bootstraps"}, {"HISTORY", "/history_id", true},
         {"GENERATION ID", "/generation_id", true}, {"SOURCE", "/source", true}, {"TARGET", "/target", true}, {"SCOPE ID", "/scope_id", true},
         {"CURRENT", "/current", true}},
        "/segment", rows, document);
  return exit_ok;
}

}  // namespace zaris::cursor::cli
