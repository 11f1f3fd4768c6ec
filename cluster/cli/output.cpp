#include "cluster/cli/output.hpp"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cluster/base/result.hpp"

namespace zaris::cli {
namespace {

using nlohmann::ordered_json;

std::string cell(const Column& column, const ordered_json& row) {
  const ordered_json::json_pointer path(column.path);
  if (!row.contains(path)) return "-";
  const ordered_json& value = row.at(path);
  if (value.is_null()) return "-";
  switch (column.kind) {
    case Column::Kind::count: return value.is_number() ? show_count(value.get<std::uint64_t>()) : value.dump();
    case Column::Kind::bytes: return value.is_number() ? show_bytes(value.get<std::uint64_t>()) : value.dump();
    case Column::Kind::seconds: return value.is_number() ? show_seconds(value.get<double>()) : value.dump();
    case Column::Kind::boolean: return value.is_boolean() ? (value.get<bool>() ? "yes" : "no") : value.dump();
    case Column::Kind::text: break;
  }
  if (!value.is_string()) return value.dump();
  // What another process says must not move the cursor of somebody's terminal.
  auto text = value.get<std::string>();
  std::replace_if(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, '?');
  return text;
}

// How many columns of a terminal a text takes: code points, which is right for what this program prints.
std::size_t width(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

void put_yaml(YAML::Emitter& out, const ordered_json& value) {
  if (value.is_object()) {
    out << YAML::BeginMap;
    for (const auto& [key, inner] : value.items()) {
      out << YAML::Key << key << YAML::Value;
      put_yaml(out, inner);
    }
    out << YAML::EndMap;
  } else if (value.is_array()) {
    out << YAML::BeginSeq;
    for (const auto& inner : value) put_yaml(out, inner);
    out << YAML::EndSeq;
  } else if (value.is_string()) {
    // Quoted where YAML would take it for something else; yaml-cpp does not see "1e3" or "null" coming.
    const auto& text = value.get_ref<const std::string&>();
    const bool plain = !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-'; }) &&
                       text != "null" && text != "true" && text != "false" && text != "yes" && text != "no" && text != "on" && text != "off";
    if (!plain) out << YAML::DoubleQuoted;
    out << text;
  } else if (value.is_null()) {
    out << YAML::Null;
  } else if (value.is_boolean()) {
    out << value.get<bool>();
  } else {
    out << YAML::Auto << value.dump();
  }
}

std::string dump(const ordered_json& value, int indent) { return value.dump(indent, ' ', false, ordered_json::error_handler_t::replace); }

std::vector<const Column*> shown(Format format, const Sheet& sheet) {
  std::vector<const Column*> out;
  for (const Column& column : sheet.columns)
    if (!column.wide || format == Format::wide) out.push_back(&column);
  return out;
}

}  // namespace

std::string show_count(std::uint64_t n) {
  std::string digits = std::to_string(n);
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3) digits.insert(static_cast<std::size_t>(at), ",");
  return digits;
}

std::string show_bytes(std::uint64_t bytes) {
  static constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(units)) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.{}f} {}", value, value < 100 ? 1 : 0, units[unit]);
}

std::string show_seconds(double seconds) {
  if (seconds < 100) return fmt::format("{:.2f} s", seconds);
  const auto whole = static_cast<std::uint64_t>(seconds);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  if (whole < 86'400) return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
  return fmt::format("{} d {} h", whole / 86'400, whole % 86'400 / 3600);
}

namespace {
bool out_failed = false;
}

void write_out(std::string_view bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), stdout) != bytes.size()) out_failed = true;
}

bool flush_out() {
  if (std::fflush(stdout) != 0) out_failed = true;
  return !out_failed;
}

void print_document(Format format, const ordered_json& document) {
  if (format == Format::yaml) {
    YAML::Emitter out;
    put_yaml(out, document);
    write_out(std::string(out.c_str()) + "\n");
    return;
  }
  write_out(dump(document, format == Format::ndjson ? -1 : 2) + "\n");
}

void print_rows(Format format, const Sheet& sheet, const ordered_json& rows) {
  switch (format) {
    case Format::json:
    case Format::yaml:
      return print_document(format, rows);
    case Format::ndjson:
      for (const auto& row : rows) print_document(format, row);
      return;
    case Format::name:
      for (const auto& row : rows) write_out(cell({"", sheet.name_path}, row) + "\n");
      return;
    case Format::table:
    case Format::wide:
      break;
  }
  const auto columns = shown(format, sheet);
  std::vector<std::size_t> widths;
  for (const Column* column : columns) widths.push_back(width(column->title));
  std::vector<std::vector<std::string>> cells;
  for (const auto& row : rows) {
    auto& line = cells.emplace_back();
    for (std::size_t i = 0; i < columns.size(); ++i) {
      line.push_back(cell(*columns[i], row));
      widths[i] = std::max(widths[i], width(line[i]));
    }
  }
  const auto put = [&](std::size_t i, const std::string& text, bool right) {
    const std::string pad(widths[i] - width(text), ' ');
    const bool last = i + 1 == columns.size();
    write_out(right ? pad + text : last ? text : text + pad);
    write_out(last ? "\n" : "  ");
  };
  const auto right = [&](std::size_t i) { return columns[i]->kind != Column::Kind::text && columns[i]->kind != Column::Kind::boolean; };
  for (std::size_t i = 0; i < columns.size(); ++i) put(i, columns[i]->title, right(i));
  for (const auto& line : cells)
    for (std::size_t i = 0; i < columns.size(); ++i) put(i, line[i], right(i));
}

void print_one(Format format, const Sheet& sheet, const ordered_json& one) {
  if (format == Format::json || format == Format::yaml || format == Format::ndjson) return print_document(format, one);
  if (format == Format::name) return write_out(cell({"", sheet.name_path}, one) + "\n");
  std::size_t widest = 0;
  const auto columns = shown(format, sheet);
  for (const Column* column : columns) widest = std::max(widest, width(column->title));
  for (const Column* column : columns) {
    const std::string text = cell(*column, one);
    if (text.empty()) continue;
    write_out(column->title + std::string(widest - width(column->title) + 2, ' ') + text + "\n");
  }
}

}  // namespace zaris::cli
