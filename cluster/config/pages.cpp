// What is made from the key tables: --print-config, the reference page, the JSON Schema.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "cluster/config/load.hpp"
#include "cluster/config/units.hpp"
#include "cluster/config/value.hpp"

namespace zaris::config {
namespace {

using Json = nlohmann::ordered_json;

// ---- --print-config -----------------------------------------------------------------------------------------------

struct Branch {
  std::string name;
  const Setting* leaf = nullptr;
  std::vector<std::unique_ptr<Branch>> below;
  Branch& at(const std::string& word) {
    for (auto& branch : below) {
      if (branch->name == word) return *branch;
    }
    below.push_back(std::make_unique<Branch>());
    below.back()->name = word;
    return *below.back();
  }
};

void emit(const Branch& branch, const std::string& indent, std::string& out) {
  bool first_in_element = !indent.empty() && indent.ends_with("- ");
  for (const auto& below : branch.below) {
    const std::string lead = first_in_element ? indent : std::string(indent.size(), ' ');
    first_in_element = false;
    if (below->leaf) {
      out += fmt::format("{}{}: {}  # {}\n", lead, below->name, below->leaf->value, below->leaf->where.text());
    } else if (!below->below.empty() && below->below.front()->name.starts_with("[")) {
      out += fmt::format("{}{}:\n", lead, below->name);
      for (const auto& element : below->below) emit(*element, std::string(lead.size(), ' ') + "  - ", out);
    } else {
      out += fmt::format("{}{}:\n", lead, below->name);
      emit(*below, std::string(lead.size(), ' ') + "  ", out);
    }
  }
}

// ---- JSON Schema --------------------------------------------------------------------------------------------------

constexpr const char* duration_pattern = R"(^(0|([0-9]+(\.[0-9]+)?(d|h|m|s|ms|us))+)$)";
constexpr const char* size_pattern = R"(^(0|[0-9]+(\.[0-9]+)?(B|KiB|MiB|GiB|TiB|kB|MB|GB|TB))$)";

Json schema_of(const KeyRow& row) {
  Json out;
  switch (row.kind) {
    case Kind::boolean: out["type"] = "boolean"; break;
    case Kind::integer:
      out["type"] = "integer";
      out["minimum"] = row.min;
      if (row.max < (1ull << 53)) out["maximum"] = row.max;
      break;
    case Kind::duration:
      out["type"] = {"string", "integer"};
      out["pattern"] = duration_pattern;
      out["maximum"] = 0;
      break;
    case Kind::size:
      out["type"] = {"string", "integer"};
      out["pattern"] = size_pattern;
      out["maximum"] = 0;
      break;
    case Kind::ratio:
      out["type"] = {"string", "number"};
      out["pattern"] = R"(^[0-9]+(\.[0-9]+)?%$|^[01]\.[0-9]+$)";
      out["minimum"] = 0;
      out["maximum"] = 1;
      break;
    case Kind::choice: out["enum"] = row.choices; break;
    case Kind::address:
      out["type"] = "string";
      out["pattern"] = R"(^(off|auto||[^ /@]+:[0-9]{1,5})$)";
      break;
    case Kind::url:
      out["type"] = "string";
      out["pattern"] = R"(^[a-z]+://.+$)";
      break;
    case Kind::id:
      out["type"] = "string";
      out["pattern"] = "^([0-9a-f]{16})?$";
      break;
    case Kind::text_list:
      out["type"] = {"array", "string"};
      out["items"] = {{"type", "string"}};
      break;
    case Kind::slot_list:
      out["type"] = {"array", "string", "integer"};
      out["items"] = {{"type", {"string", "integer"}}, {"pattern", "^[0-9]{1,5}(-[0-9]{1,5})?$"}};
      break;
    default: out["type"] = {"string", "number"};  // YAML reads `region: 1` as a number
  }
  out["description"] = row.doc;
  if (!row.fallback.empty()) out["default"] = row.fallback;
  return out;
}

void place(Json& root, const std::string& key, Json leaf, bool must) {
  Json* at = &root;
  std::string rest = key;
  while (true) {
    const auto dot = rest.find('.');
    const std::string word = rest.substr(0, dot);
    if (must) {
      auto& list = (*at)["required"];
      if (list.is_null()) list = Json::array();
      if (std::find(list.begin(), list.end(), word) == list.end()) list.push_back(word);
    }
    Json& next = (*at)["properties"][word];
    if (dot == std::string::npos) {
      next = std::move(leaf);
      return;
    }
    if (next.is_null()) next = {{"type", "object"}, {"additionalProperties", false}};
    at = &next;
    rest = rest.substr(dot + 1);
  }
}

// A file need not hold everything: environment and flags may bring the rest, so nothing is required at the top.
Json object_of(const std::vector<KeyRow>& rows, bool with_required) {
  Json out = {{"type", "object"}, {"additionalProperties", false}};
  for (const KeyRow& row : rows) place(out, row.key, schema_of(row), with_required && row.required);
  return out;
}

// ---- the reference page -------------------------------------------------------------------------------------------

std::string range_of(const KeyRow& row) {
  if (row.kind == Kind::choice) return fmt::format("{}", fmt::join(row.choices, " \\| "));
  const auto show = [&](std::uint64_t n) {
    return row.kind == Kind::size ? show_size(n) : row.kind == Kind::duration ? show_duration(n) : std::to_string(n);
  };
  switch (row.kind) {
    case Kind::integer:
    case Kind::size:
    case Kind::duration: return fmt::format("{} to {}", show(row.min), show(row.max));
    default: return "";
  }
}

std::string_view kind_name(Kind kind) {
  switch (kind) {
    case Kind::text: return "text";
    case Kind::boolean: return "boolean";
    case Kind::integer: return "number";
    case Kind::duration: return "duration";
    case Kind::size: return "size";
    case Kind::ratio: return "ratio";
    case Kind::choice: return "choice";
    case Kind::file: return "file";
    case Kind::path: return "path";
    case Kind::address: return "address";
    case Kind::url: return "URL";
    case Kind::id: return "id";
    case Kind::text_list: return "list of texts";
    case Kind::slot_list: return "list of slot ranges";
  }
  return "";
}

void add_rows(std::string& out, const std::vector<KeyRow>& rows, const std::string& prefix, bool reload) {
  out += "| key | kind | default | range | reload | meaning |\n|---|---|---|---|---|---|\n";
  for (const KeyRow& row : rows) {
    const std::string fallback = row.required ? "**required**" : row.fallback.empty() ? "–" : "`" + row.fallback + "`";
    const std::string range = range_of(row);
    out += fmt::format("| `{}{}` | {} | {} | {} | {} | {} |\n", prefix, row.key, kind_name(row.kind), fallback, range.empty() ? "–" : range,
                       row.reload || reload ? "yes" : row.kind == Kind::file ? "content" : "restart", row.doc);
  }
}

void add_table(std::string& out, const KeyTable& table) {
  out += fmt::format("\n## {}\n\n", table.title);
  add_rows(out, table.rows, "", false);
  for (const ListGroup& group : table.groups) {
    out += fmt::format("\n### {}: `{}[]`\n\n{}\n\n", table.title, group.key, group.doc);
    add_rows(out, group.rows, group.key + "[].", group.reload);
  }
}

}  // namespace

std::string print_settings(const std::vector<Setting>& settings) {
  Branch root;
  for (const Setting& setting : settings) {
    Branch* at = &root;
    std::string word;
    for (const char c : setting.key + ".") {
      if (c == '.' || c == '[') {
        if (!word.empty()) at = &at->at(word);
        word = c == '[' ? "[" : "";
      } else {
        word += c;
      }
    }
    at->leaf = &setting;
  }
  std::string out;
  emit(root, "", out);
  return out;
}

std::string json_schema(const KeyTable& table) {
  Json out = {{"$schema", "http://json-schema.org/draft-07/schema#"}, {"title", table.title + " configuration"}};
  out.update(object_of(table.rows, false));
  for (const ListGroup& group : table.groups) {
    Json list = {{"type", "array"}, {"description", group.doc}};
    list["items"] = object_of(group.rows, true);
    place(out, group.key, std::move(list), false);
  }
  return out.dump(2) + "\n";
}

std::string reference_page() {
  std::string out =
      "# Configuration\n\n"
      "<!-- Made from the key tables in cluster/config by tests/unit/config/regenerate; a test fails when it is stale. -->\n\n"
      "`zarisd`, `zaris-follower` and `zaris-gateway` read YAML files (`--config FILE`, more than once: later ones win key by key), environment\n"
      "variables and flags. **Flags win over the environment, the environment over files, files over defaults.**\n\n"
      "- A flag: `--set memory.max_bytes=4GiB`. Places in a list: `--set links[0].name=eu-us`; a whole list: `--set 'links[0].scope.prefixes=[t1:, t2:]'`.\n"
      "- A variable: `ZARIS_` and the key in capitals, dots as underscores: `ZARIS_MEMORY_MAX_BYTES=4GiB`, `ZARIS_LINKS_0_NAME=eu-us`.\n"
      "  A variable that begins with `ZARIS_` and names no key is a warning, not a mistake: Kubernetes makes such variables by itself.\n"
      "- Durations and sizes carry their unit (`us ms s m h d`, `B KiB MiB GiB TiB kB MB GB TB`); a bare number is refused, `0` excepted.\n"
      "- Unknown keys, keys written twice, anchors and aliases are mistakes. All mistakes are reported at once, each with file, line and column.\n"
      "- Keys and passwords are never values: only names of files that hold them.\n"
      "- `--check-config` reads and checks everything, starts nothing, and ends with 0 or 3. `--print-config` prints what is in force and where each value comes from.\n"
      "- SIGHUP reads the files and the environment again. If anything is wrong, or a key that needs a restart has changed, nothing is taken over and the log says why.\n"
      "- The column reload: `yes` is taken over by SIGHUP; `restart` needs one; of files the `content` is read again on SIGHUP and by itself within\n"
      "  10 s of a change (also when a symbolic link is swapped), the name is not.\n"
      "- For editors: `deploy/schema/zarisd.schema.json`, `zaris-follower.schema.json` and `zaris-gateway.schema.json` "
      "(`# yaml-language-server: $schema=…` as the first line of a file).\n";
  add_table(out, node_keys());
  add_table(out, follower_keys());
  add_table(out, gateway_keys());
  return out;
}

}  // namespace zaris::config
