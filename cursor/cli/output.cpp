#include "cursor/cli/output.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>

namespace zaris::cursor::cli {
namespace {

using nlohmann::ordered_json;

std::string cell(const ordered_json& row, const std::string& path) {
  const auto pointer = ordered_json::json_pointer(path);
  if (!row.contains(pointer)) return "-";
  const auto& value = row.at(pointer);
  if (value.is_null()) return "-";
  if (value.is_string()) return value.get<std::string>().empty() ? "-" : value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  return value.dump();
}

// Characters on a terminal, not bytes.
std::size_t width(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

void print_table(std::ostream& out, const std::vector<Column>& columns, bool wide, const ordered_json& rows) {
  std::vector<std::vector<std::string>> lines(1);
  std::vector<bool> numbers;
  for (const auto& column : columns) {
    if (column.wide && !wide) continue;
    lines[0].push_back(column.title);
    numbers.push_back(!rows.empty() && rows[0].contains(ordered_json::json_pointer(column.path)) &&
                      rows[0].at(ordered_json::json_pointer(column.path)).is_number());
  }
  for (const auto& row : rows) {
    auto& line = lines.emplace_back();
    for (const auto& column : columns) {
      if (!column.wide || wide) line.push_back(cell(row, column.path));
    }
  }
  std::vector<std::size_t> widths(lines[0].size());
  for (const auto& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], width(line[i]));
  }
  for (const auto& line : lines) {
    std::string text;
    for (std::size_t i = 0; i < line.size(); ++i) {
      const std::string pad(widths[i] - width(line[i]), ' ');
      text += (i ? "  " : "") + (numbers[i] ? pad + line[i] : line[i] + pad);
    }
    while (!text.empty() && text.back() == ' ') text.pop_back();
    out << text << '\n';
  }
}

// Strings and keys as JSON writes them, which YAML reads as they are meant.
void print_yaml(std::ostream& out, const ordered_json& value, int depth, bool in_list) {
  const std::string indent(static_cast<std::size_t>(depth) * 2, ' ');
  bool first = in_list;
  if (value.is_object() && !value.empty()) {
    for (const auto& [key, item] : value.items()) {
      out << (first ? "" : indent) << key << ':';
      first = false;
      if (item.is_structured() && !item.empty()) {
        out << '\n';
        print_yaml(out, item, depth + 1, false);
      } else {
        out << ' ' << item.dump() << '\n';
      }
    }
  } else if (value.is_array() && !value.empty()) {
    for (const auto& item : value) {
      out << indent << "- ";
      if (item.is_structured() && !item.empty()) {
        print_yaml(out, item, depth + 1, true);
      } else {
        out << item.dump() << '\n';
      }
    }
  } else {
    out << value.dump() << '\n';
  }
}

}  // namespace

std::optional<Format> parse_format(std::string_view text) {
  static constexpr std::pair<std::string_view, Format> names[] = {{"table", Format::table}, {"wide", Format::wide},     {"json", Format::json},
                                                                  {"yaml", Format::yaml},   {"ndjson", Format::ndjson}, {"name", Format::name}};
  for (const auto& [name, format] : names) {
    if (name == text) return format;
  }
  return std::nullopt;
}

void print(std::ostream& out, Format format, const std::vector<Column>& columns, const std::string& name_path, const ordered_json& rows,
           const ordered_json& document) {
  switch (format) {
    case Format::table:
    case Format::wide:
      print_table(out, columns, format == Format::wide, rows);
      break;
    case Format::json:
      out << document.dump(2) << '\n';
      break;
    case Format::yaml:
      print_yaml(out, document, 0, false);
      break;
    case Format::ndjson:
      for (const auto& row : rows) out << row.dump() << '\n';
      break;
    case Format::name:
      for (const auto& row : rows) out << cell(row, name_path) << '\n';
      break;
  }
  out.flush();
}

}  // namespace zaris::cursor::cli
