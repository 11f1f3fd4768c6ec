// export and import: cursors as lines of JSON (docs/formats/cursor.md, "The exported form").
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "cluster/lmdb/durable_file.hpp"
#include "cursor/cli/commands.hpp"

namespace zaris::cursor::cli {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t line_bytes_max = 8u << 20;
constexpr std::size_t mistakes_max = 20;
constexpr std::size_t rows_max = 4'000'000;

// ---- bytes and ids in JSON ----------------------------------------------------------------------------------------

bool is_utf8(const std::string& bytes) {
  try {
    (void)ordered_json(bytes).dump();
    return true;
  } catch (const ordered_json::exception&) {
    return false;
  }
}
// Text as text; what is not UTF-8 as KEY_hex.
void put_bytes(ordered_json& out, const std::string& key, const std::string& bytes) {
  if (is_utf8(bytes)) {
    out[key] = bytes;
    return;
  }
  std::string hex;
  for (const char c : bytes) hex += fmt::format("{:02x}", static_cast<unsigned char>(c));
  out[key + "_hex"] = hex;
}

// Everything that a line can be wrong in, thrown and caught per line.
struct LineMistake {
  std::string what;
};

int hex_digit(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }

const ordered_json& member(const ordered_json& line, const std::string& key) {
  const auto found = line.find(key);
  if (found == line.end()) throw LineMistake{"\"" + key + "\" is missing"};
  return *found;
}
std::string text_of(const ordered_json& line, const std::string& key) {
  const auto& value = member(line, key);
  if (!value.is_string()) throw LineMistake{"\"" + key + "\" must be a string"};
  return value.get<std::string>();
}
std::string bytes_of(const ordered_json& line, const std::string& key) {
  if (line.contains(key)) return text_of(line, key);
  const std::string hex = text_of(line, key + "_hex");
  std::string out;
  for (std::size_t i = 0; i + 1 < hex.size() + 1; i += 2) {
    const int high = hex_digit(hex[i]), low = i + 1 < hex.size() ? hex_digit(hex[i + 1]) : -1;
    if (high < 0 || low < 0) throw LineMistake{"\"" + key + "_hex\" must be pairs of hex digits"};
    out += static_cast<char>(high * 16 + low);
  }
  return out;
}
std::uint64_t number_of(const ordered_json& line, const std::string& key, std::uint64_t most = ~0ull) {
  const auto& value = member(line, key);
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > most) {
    throw LineMistake{fmt::format("\"{}\" must be a whole number from 0 to {}", key, most)};
  }
  return value.get<std::uint64_t>();
}
std::uint64_t id_in(const std::string& text, const std::string& key) {
  std::uint64_t out = 0;
  bool good = text.size() == 16;
  for (const char c : text) {
    const int digit = hex_digit(c);
    good = good && digit >= 0;
    out = out << 4 | static_cast<std::uint64_t>(digit & 15);
  }
  if (!good) throw LineMistake{"\"" + key + "\" must be 16 lower-case hex digits"};
  return out;
}
std::uint64_t id_of(const ordered_json& line, const std::string& key) { return id_in(text_of(line, key), key); }
bool flag_of(const ordered_json& line, const std::string& key) {
  const auto& value = member(line, key);
  if (!value.is_boolean()) throw LineMistake{"\"" + key + "\" must be true or false"};
  return value.get<bool>();
}
const ordered_json& list_of(const ordered_json& line, const std::string& key) {
  const auto& value = member(line, key);
  if (!value.is_array() || value.size() > 16384) throw LineMistake{"\"" + key + "\" must be a list of at most 16384"};
  return value;
}

// ---- rows ---------------------------------------------------------------------------------------------------------

ordered_json line_of(const std::string& name, const LinkRow& row) {
  ordered_json out;
  out["kind"] = "link";
  put_bytes(out, "link", name);
  put_bytes(out, "follower", row.follower);
  out["source"] = hex16(row.source_cluster.value());
  out["target"] = hex16(row.target_cluster.value());
  out["scope_id"] = hex16(row.scope.value());
  put_bytes(out, "scope", row.scope_text);
  out["source_segments"] = row.source_segments;
  out["accepted"] = nullptr;
  if (row.accepted) out["accepted"] = {hex16(row.accepted->first.value()), hex16(row.accepted->second.value())};
  out["accepted_histories"] = ordered_json::array();
  for (const auto history : row.accepted_histories) out["accepted_histories"].push_back(hex16(history.value()));
  out["rewind"] = row.rewind;
  out["rewind_to"] = nullptr;
  if (row.rewind_to) out["rewind_to"] = {row.rewind_to->generation.value(), row.rewind_to->revision.value()};
  out["rewind_segments"] = ordered_json::array();
  for (const auto segment : row.rewind_segments) out["rewind_segments"].push_back(segment.value());
  out["paused"] = row.paused;
  put_bytes(out, "paused_reason", row.paused_reason);
  out["version"] = row.rows_version;
  return out;
}

ordered_json line_of(const CursorKey& key, const CursorRow& row) {
  ordered_json out;
  out["kind"] = "cursor";
  put_bytes(out, "link", key.link);
  out["source"] = hex16(key.source_cluster.value());
  out["target"] = hex16(key.target_cluster.value());
  out["scope_id"] = hex16(key.scope.value());
  out["segment"] = key.segment.value();
  out["history"] = hex16(row.history.value());
  out["generation"] = row.position.at.generation.value();
  out["revision"] = row.position.at.revision.value();
  out["generation_id"] = hex16(row.position.generation_id);
  out["phase"] = std::string(name(row.phase));
  out["source_time_us"] = row.source_time_us;
  out["persisted_us"] = row.persisted_us;
  out["records_applied"] = row.records_applied;
  out["bytes_applied"] = row.bytes_applied;
  out["bootstraps"] = row.bootstraps;
  return out;
}

std::string link_name_of(const ordered_json& line) {
  auto name = bytes_of(line, "link");
  if (name.empty() || name.size() > link_name_bytes_max) throw LineMistake{"a link's name has 1 to 255 bytes"};
  return name;
}

LinkRow link_in(const ordered_json& line) {
  LinkRow row;
  row.follower = bytes_of(line, "follower");
  row.source_cluster = ClusterId{id_of(line, "source")};
  row.target_cluster = ClusterId{id_of(line, "target")};
  row.scope = ScopeId{id_of(line, "scope_id")};
  row.scope_text = bytes_of(line, "scope");
  row.source_segments = static_cast<std::uint32_t>(number_of(line, "source_segments", 16384));
  if (const auto& accepted = member(line, "accepted"); !accepted.is_null()) {
    if (!accepted.is_array() || accepted.size() != 2 || !accepted[0].is_string() || !accepted[1].is_string()) {
      throw LineMistake{"\"accepted\" must be null or two ids"};
    }
    row.accepted = {ClusterId{id_in(accepted[0].get<std::string>(), "accepted")}, HistoryId{id_in(accepted[1].get<std::string>(), "accepted")}};
  }
  for (const auto& history : list_of(line, "accepted_histories")) {
    if (!history.is_string()) throw LineMistake{"\"accepted_histories\" must be a list of ids"};
    row.accepted_histories.emplace_back(id_in(history.get<std::string>(), "accepted_histories"));
  }
  row.rewind = flag_of(line, "rewind");
  if (const auto& to = member(line, "rewind_to"); !to.is_null()) {
    if (!to.is_array() || to.size() != 2 || !to[0].is_number_unsigned() || !to[1].is_number_unsigned() || to[0].get<std::uint64_t>() > 0xffffffffu) {
      throw LineMistake{"\"rewind_to\" must be null or [generation, revision]"};
    }
    row.rewind_to = Position{Generation{to[0].get<std::uint32_t>()}, Revision{to[1].get<std::uint64_t>()}};
  }
  for (const auto& segment : list_of(line, "rewind_segments")) {
    if (!segment.is_number_unsigned() || segment.get<std::uint64_t>() > 16383) throw LineMistake{"\"rewind_segments\" must be a list of segments"};
    row.rewind_segments.emplace_back(segment.get<std::uint16_t>());
  }
  row.paused = flag_of(line, "paused");
  row.paused_reason = bytes_of(line, "paused_reason");
  row.rows_version = number_of(line, "version");
  return row;
}

std::pair<CursorKey, CursorRow> cursor_in(const ordered_json& line) {
  CursorKey key;
  CursorRow row;
  key.link = link_name_of(line);
  key.source_cluster = ClusterId{id_of(line, "source")};
  key.target_cluster = ClusterId{id_of(line, "target")};
  key.scope = ScopeId{id_of(line, "scope_id")};
  key.segment = SegmentId{static_cast<std::uint16_t>(number_of(line, "segment", 16383))};
  row.history = HistoryId{id_of(line, "history")};
  row.position.at = {Generation{static_cast<std::uint32_t>(number_of(line, "generation", 0xffffffffu))}, Revision{number_of(line, "revision")}};
  row.position.generation_id = id_of(line, "generation_id");
  const auto phase = text_of(line, "phase");
  bool known = false;
  for (const auto p : {Phase::bootstrap, Phase::stream, Phase::repair}) {
    if (phase != name(p)) continue;
    row.phase = p;
    known = true;
  }
  if (!known) throw LineMistake{"\"phase\" must be bootstrap, stream or repair"};
  row.source_time_us = number_of(line, "source_time_us");
  row.persisted_us = number_of(line, "persisted_us");
  row.records_applied = number_of(line, "records_applied");
  row.bytes_applied = number_of(line, "bytes_applied");
  row.bootstraps = number_of(line, "bootstraps");
  return {std::move(key), row};
}

// ---- a file of lines ----------------------------------------------------------------------------------------------

struct Lines {
  std::map<std::string, LinkRow> links;
  std::map<CursorKey, CursorRow> cursors;
};

bool next_line(std::istream& in, std::string& line) {
  line.clear();
  for (int c = in.get(); c != std::istream::traits_type::eof(); c = in.get()) {
    if (c == '\n') return true;
    line += static_cast<char>(c);
    if (line.size() > line_bytes_max) throw LineMistake{"the line is longer than 8 MiB"};
  }
  return !line.empty();
}

// All mistakes at once.
Result<Lines> read_lines(std::istream& in) {
  Lines out;
  std::string mistakes, text;
  std::size_t wrong = 0, number = 0;
  bool begun = false, ended = false;
  const auto mistake = [&](const std::string& what) {
    if (++wrong <= mistakes_max) mistakes += fmt::format("\n  line {}: {}", number, what);
  };
  for (;;) {
    ++number;
    try {
      if (!next_line(in, text)) break;
      if (text.empty()) continue;
      ordered_json line;
      try {
        line = ordered_json::parse(text, [](int depth, ordered_json::parse_event_t, ordered_json&) {
          if (depth > 8) throw LineMistake{"it is nested too deeply"};
          return true;
        });
      } catch (const ordered_json::exception&) {
        throw LineMistake{"it is not JSON"};
      }
      if (!line.is_object()) throw LineMistake{"it is not a JSON object"};
      const auto kind = text_of(line, "kind");
      if (kind == "store") {
        if (number_of(line, "format") > 1) throw LineMistake{"it was exported by a newer version"};
        begun = true;
      } else if (kind == "link") {
        const auto name = link_name_of(line);
        if (!out.links.emplace(name, link_in(line)).second) throw LineMistake{"link " + printable(name) + " is there twice"};
      } else if (kind == "cursor") {
        auto [key, row] = cursor_in(line);
        if (!out.cursors.emplace(key, row).second) throw LineMistake{fmt::format("segment {} of link {} is there twice", key.segment.value(), printable(key.link))};
      } else if (kind == "end") {
        if (number_of(line, "links") != out.links.size() || number_of(line, "cursors") != out.cursors.size()) {
          throw LineMistake{"it names another number of rows than came before it"};
        }
        ended = true;
      } else {
        throw LineMistake{"\"kind\" must be store, link, cursor or end"};
      }
      if (out.links.size() + out.cursors.size() > rows_max) return failure("import_invalid", "there are more rows than any follower has");
    } catch (const LineMistake& m) {
      mistake(m.what);
      if (text.size() > line_bytes_max) break;
    }
  }
  if (wrong == 0 && !begun) mistake("the first line, of kind store, is missing: is this an export?");
  if (wrong == 0 && !ended) mistake("the last line, of kind end, is missing: the export was cut off");
  for (const auto& [key, row] : out.cursors) {
    if (wrong == 0 && !out.links.contains(key.link)) mistake("there are cursors of link " + printable(key.link) + ", but not the link");
  }
  if (wrong == 0) return out;
  if (wrong > mistakes_max) mistakes += fmt::format("\n  and {} more", wrong - mistakes_max);
  return failure("import_invalid", "nothing was imported:" + mistakes);
}

// What an import brings, and why it may not.
struct Merge {
  CursorCommit commit;
  std::size_t same = 0;
  std::vector<std::string> refused;
};

Merge merge(const Lines& lines, const CursorSnapshot& store) {
  Merge out;
  const std::map<std::string, LinkRow> links(store.links.begin(), store.links.end());
  const std::map<CursorKey, CursorRow> cursors(store.cursors.begin(), store.cursors.end());
  for (const auto& [name, row] : lines.links) {
    const auto at = links.find(name);
    if (at == links.end()) {
      out.commit.links.emplace_back(name, row);
    } else if (at->second.source_cluster != row.source_cluster || at->second.target_cluster != row.target_cluster || at->second.scope != row.scope) {
      out.refused.push_back("link " + printable(name) + " has another source, target or scope here");
    } else {
      ++out.same;  // what an operator told the link here stays
    }
  }
  for (const auto& [key, row] : lines.cursors) {
    const auto at = cursors.find(key);
    const auto place = fmt::format("segment {} of link {}", key.segment.value(), printable(key.link));
    if (at == cursors.end()) {
      out.commit.cursors.emplace_back(key, row);
    } else if (at->second.history != row.history) {
      out.refused.push_back(place + " is of another history here");
    } else if (row.position.at < at->second.position.at) {
      out.refused.push_back(fmt::format("{} stands at {} here, the import has {}", place, to_string(at->second.position.at), to_string(row.position.at)));
    } else if (row.position == at->second.position) {
      ++out.same;
    } else {
      out.commit.cursors.emplace_back(key, row);
    }
  }
  return out;
}

}  // namespace

int export_rows(const Options& options, const Environment& environment) {
  const auto store = read_cursor_store(options.path);
  if (!store) return fail(environment, store.error());
  const bool known = options.link.empty() || std::any_of(store->links.begin(), store->links.end(), [&](const auto& row) { return row.first == options.link; });
  if (!known) {
    return fail(environment, {"cursor_link_unknown", "the cursor store " + options.path + " has no link " + printable(options.link), "zaris-cursor list names those that it has"});
  }
  std::string text;
  std::size_t links = 0, cursors = 0;
  ordered_json head = {{"kind", "store"}, {"format", 1}, {"store_id", hex16(store->store_id)}, {"exported", lmdb::utc_text(std::time(nullptr))}};
  text += head.dump() + "\n";
  for (const auto& [name, row] : store->links) {
    if (!options.link.empty() && name != options.link) continue;
    text += line_of(name, row).dump() + "\n";
    ++links;
  }
  for (const auto& [key, row] : store->cursors) {
    if (!options.link.empty() && key.link != options.link) continue;
    text += line_of(key, row).dump() + "\n";
    ++cursors;
  }
  ordered_json end = {{"kind", "end"}, {"links", links}, {"cursors", cursors}};
  text += end.dump() + "\n";
  if (options.file == "-") {
    environment.out << text << std::flush;
    if (!environment.out) return fail(environment, {"cursor_io", "the export could not be written", ""});
  } else if (auto written = lmdb::write_whole_file(options.file, text, "cursor_io"); !written) {
    return fail(environment, written.error());
  }
  environment.err << fmt::format("exported {} links, {} cursors\n", links, cursors);
  return exit_ok;
}

int import_rows(const Options& options, const Environment& environment) {
  std::ifstream file;
  if (options.file != "-") {
    file.open(options.file, std::ios::binary);
    if (!file) return fail(environment, {"usage", printable(options.file, 4096) + " cannot be read", ""});
  }
  const auto lines = read_lines(options.file == "-" ? environment.in : file);
  if (!lines) return fail(environment, lines.error());
  auto store = read_cursor_store(options.path);
  if (!store && store.error().code != "cursor_absent") return fail(environment, store.error());
  const bool absent = !store;
  const auto merged = merge(*lines, absent ? CursorSnapshot{} : *store);
  if (!merged.refused.empty()) {
    std::string what = "nothing was imported:";
    for (std::size_t i = 0; i < merged.refused.size() && i < mistakes_max; ++i) what += "\n  " + merged.refused[i];
    if (merged.refused.size() > mistakes_max) what += fmt::format("\n  and {} more", merged.refused.size() - mistakes_max);
    return fail(environment, {"cursor_import_conflict", what, "cursors never go back by an import; to copy a segment again: zaris-cursor rewind"});
  }
  environment.err << fmt::format("{} links and {} cursors are new or higher, {} are there already{}\n", merged.commit.links.size(),
                                 merged.commit.cursors.size(), merged.same, absent ? "; the store will be created" : "");
  if (!absent && store->holder) {
    return fail(environment, {"cursor_locked", "the cursor store " + options.path + " is in use by " + *store->holder, "stop the follower, import, start it again"});
  }
  if (options.dry_run || (merged.commit.links.empty() && merged.commit.cursors.empty())) return exit_ok;
  if (options.file == "-" && !options.yes) return fail(environment, {"confirmation_needed", "the rows come from standard input, so nobody can be asked", "add --yes"});
  const auto yes = confirmed(options, environment, "Import them into " + options.path + "?");
  if (!yes) return fail(environment, yes.error());
  if (!*yes) {
    environment.err << "nothing was changed\n";
    return exit_no;
  }
  auto opened = open_to_change(options.path, absent);
  if (!opened) return fail(environment, opened.error());
  store = read_cursor_store(options.path);
  if (!store) return fail(environment, store.error());
  const auto again = merge(*lines, *store);
  if (!again.refused.empty()) return fail(environment, {"cursor_changed", "the cursors have moved since they were read", "look again, then import"});
  ordered_json entry = {{"act", "import"}, {"links", again.commit.links.size()}, {"cursors", again.commit.cursors.size()}};
  if (auto written = audit(options.path, entry); !written) return fail(environment, written.error());
  if (auto done = (*opened)->commit(again.commit); !done) return fail(environment, done.error());
  environment.err << "imported; where a cursor and the target's mark disagree, the mark decides\n";
  return exit_ok;
}

}  // namespace zaris::cursor::cli
