// How data leaves the program: one set of JSON rows, shown as a table, as JSON, YAML, lines of JSON, or names.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace zaris::cli {

enum class Format { table, wide, json, yaml, ndjson, name };

// One column of a table. `path` is a JSON pointer into the row ("/source/cluster_id").
struct Column {
  std::string title;
  std::string path;
  enum class Kind { text, count, bytes, seconds, boolean } kind = Kind::text;
  bool wide = false;          // only with -o wide
};
struct Sheet {
  std::vector<Column> columns;
  std::string name_path = "/name";   // what -o name prints
};

// Rows of a list on stdout.
void print_rows(Format format, const Sheet& sheet, const nlohmann::ordered_json& rows);
// One thing: json, yaml, ndjson print it as it is; table prints "title  value" lines of the sheet's columns.
void print_one(Format format, const Sheet& sheet, const nlohmann::ordered_json& one);
void print_document(Format format, const nlohmann::ordered_json& document);  // json, yaml, ndjson only

[[nodiscard]] std::string show_count(std::uint64_t n);      // 1,234,567
[[nodiscard]] std::string show_bytes(std::uint64_t bytes);  // 1.5 GiB
[[nodiscard]] std::string show_seconds(double seconds);     // 0.21 s, 3 min 5 s, 2 d 4 h

// stdout, buffered by the C library; false once a write failed (a full disk). A closed pipe ends the program quietly.
void write_out(std::string_view bytes);
[[nodiscard]] bool flush_out();

}  // namespace zaris::cli
