// rewind: through the link's row, so that the follower takes the bootstrap path; no position is ever lowered here.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>
#include <set>

#include "cursor/cli/commands.hpp"

namespace zaris::cursor::cli {
namespace {

using nlohmann::ordered_json;

template <class T>
bool parse_number(std::string_view text, T& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

// "start", or "GENERATION:REVISION".
Result<std::optional<Position>> parse_to(const std::string& text) {
  if (text == "start") return std::optional<Position>();
  const auto colon = text.find(':');
  std::uint32_t generation = 0;
  std::uint64_t revision = 0;
  if (colon == std::string::npos || !parse_number(std::string_view(text).substr(0, colon), generation) ||
      !parse_number(std::string_view(text).substr(colon + 1), revision)) {
    return failure("usage", "--to wants `start` or GENERATION:REVISION, not " + printable(text));
  }
  return std::optional<Position>(Position{Generation{generation}, Revision{revision}});
}

struct Plan {
  LinkRow after;
  ordered_json rows = ordered_json::array();        // segment, from, to, changes
  std::uint64_t changes = 0;
  bool every = false;
};

// What a rewind would do, or why it cannot be.
Result<Plan> plan_of(const Options& options, const CursorSnapshot& store) {
  const auto to = parse_to(options.to);
  if (!to) return tl::unexpected(to.error());
  const auto link = std::find_if(store.links.begin(), store.links.end(), [&](const auto& row) { return row.first == options.link; });
  if (link == store.links.end()) {
    return failure("cursor_link_unknown", "the cursor store " + options.path + " has no link " + printable(options.link), "zaris-cursor list names those that it has");
  }
  const LinkRow& before = link->second;
  std::map<std::uint16_t, CursorRow> cursors;
  for (const auto& [key, row] : store.cursors) {
    if (key.link == options.link && key.source_cluster == before.source_cluster && key.target_cluster == before.target_cluster && key.scope == before.scope) {
      cursors.emplace(key.segment.value(), row);
    }
  }
  Plan plan;
  std::set<std::uint16_t> wanted(options.segments.begin(), options.segments.end());
  for (const auto segment : wanted) {
    if (segment >= before.source_segments) {
      return failure("usage", fmt::format("segment {} does not exist: the source has segments 0 to {}", segment, before.source_segments - 1));
    }
  }
  if (*to && wanted.size() != 1) return failure("usage", "positions differ from segment to segment: --to GENERATION:REVISION needs exactly one --segment");
  plan.every = wanted.empty();
  for (std::uint32_t s = 0; s < before.source_segments && plan.every; ++s) wanted.insert(static_cast<std::uint16_t>(s));
  for (const auto segment : wanted) {
    const auto at = cursors.find(segment);
    ordered_json row;
    row["segment"] = segment;
    if (at == cursors.end()) {
      if (*to) return failure("usage", fmt::format("segment {} has no cursor yet: it is copied from the start anyway", segment));
      row["from"] = nullptr;
    } else {
      const Position from = at->second.position.at;
      row["from"] = to_string(from);
      if (*to && **to > from) {
        return failure("cursor_rewind_forward", fmt::format("segment {} stands at {}, and {} lies ahead of it: a rewind only goes back", segment, to_string(from), to_string(**to)),
                       "skipping changes would leave the regions different; let the follower catch up");
      }
      const std::uint64_t down_to = *to ? (*to)->revision.value() : 0;
      const std::uint64_t changes = from.revision.value() - std::min(down_to, from.revision.value());
      plan.changes += changes;
      row["changes"] = changes;
    }
    row["to"] = *to ? to_string(**to) : "start";
    plan.rows.push_back(row);
  }
  plan.after = before;
  plan.after.rewind = true;
  plan.after.rewind_to = *to;
  ++plan.after.rows_version;
  // A rewind that is already asked for stays: the union of both.
  if (before.rewind && before.rewind_segments.empty()) plan.every = true;
  plan.after.rewind_segments.clear();
  if (!plan.every) {
    for (const auto& segment : before.rewind ? before.rewind_segments : std::vector<SegmentId>()) wanted.insert(segment.value());
    for (const auto segment : wanted) plan.after.rewind_segments.emplace_back(segment);
  }
  return plan;
}

}  // namespace

int rewind(const Options& options, const Environment& environment) {
  auto store = read_cursor_store(options.path);
  if (!store) return fail(environment, store.error());
  auto plan = plan_of(options, *store);
  if (!plan) return fail(environment, plan.error());

  ordered_json document;
  document["link"] = printable(options.link);
  document["dry_run"] = options.dry_run;
  document["segments"] = plan->rows;
  document["changes"] = plan->changes;
  document["held_by"] = store->holder ? ordered_json(*store->holder) : ordered_json();
  print(environment.out, options.format, {{"SEGMENT", "/segment"}, {"FROM", "/from"}, {"TO", "/to"}, {"CHANGES", "/changes"}}, "/segment", plan->rows, document);
  environment.err << fmt::format(
      "\nlink {}: {} of {} segments, {} changes.\n"
      "At its next start the follower copies these segments again, range by range, and compares as it goes: what is equal stays,\n"
      "what differs becomes what the source has now, what only the target has is removed and kept in the conflict log. Readers\n"
      "never see an empty store. Nothing is applied a second time, and no cursor or mark is set back by hand.\n",
      printable(options.link), plan->rows.size(), plan->after.source_segments, plan->changes);
  if (store->holder) {
    return fail(environment, {"cursor_locked", "the cursor store " + options.path + " is in use by " + *store->holder,
                              "stop the follower, rewind, start it again"});
  }
  if (options.dry_run) return exit_ok;
  const auto yes = confirmed(options, environment, fmt::format("Rewind link {}?", printable(options.link)));
  if (!yes) return fail(environment, yes.error());
  if (!*yes) {
    environment.err << "nothing was changed\n";
    return exit_no;
  }
  auto opened = open_to_change(options.path, false);
  if (!opened) return fail(environment, opened.error());
  // The follower may have run between the look and the lock.
  store = read_cursor_store(options.path);
  if (!store) return fail(environment, store.error());
  const auto again = plan_of(options, *store);
  if (!again) return fail(environment, again.error());
  if (again->rows != plan->rows) {
    return fail(environment, {"cursor_changed", "the cursors have moved since they were shown", "look again, then rewind"});
  }
  // The word first: what is done without a trace is worse than a trace of what was not done.
  ordered_json entry = {{"act", "rewind"}, {"link", printable(options.link)}, {"segments", plan->rows}};
  if (auto written = audit(options.path, entry); !written) return fail(environment, written.error());
  CursorCommit commit;
  commit.links.emplace_back(options.link, again->after);
  if (auto done = (*opened)->commit(commit); !done) return fail(environment, done.error());
  environment.err << "asked for; the follower does it at its next start\n";
  return exit_ok;
}

}  // namespace zaris::cursor::cli
