// Rows of JSON as a table, JSON, YAML, lines of JSON, or names: the same forms as `zaris`.
#pragma once
#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace zaris::cursor::cli {

enum class Format { table, wide, json, yaml, ndjson, name };
[[nodiscard]] std::optional<Format> parse_format(std::string_view text);

struct Column {
  std::string title;
  std::string path;        // JSON pointer into the row
  bool wide = false;       // only with -o wide
};

// table and wide: the rows. name: `name_path` of each row. ndjson: a line per row. json and yaml: `document`.
void print(std::ostream& out, Format format, const std::vector<Column>& columns, const std::string& name_path,
           const nlohmann::ordered_json& rows, const nlohmann::ordered_json& document);

}  // namespace zaris::cursor::cli
