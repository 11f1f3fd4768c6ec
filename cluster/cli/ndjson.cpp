#include "cluster/cli/ndjson.hpp"

#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "cluster/base/base64.hpp"

namespace zaris::cli {
namespace {

// The form that export writes, read without a JSON library: most of an import's time otherwise.
bool read_own_form(std::string_view line, InputRow& out) {
  const auto take = [&line](std::string_view text) {
    if (!line.starts_with(text)) return false;
    line.remove_prefix(text.size());
    return true;
  };
  const auto text_until_quote = [&line](std::string_view& text) {
    const auto quote = line.find('"');
    if (quote == std::string_view::npos) return false;
    text = line.substr(0, quote);
    line.remove_prefix(quote + 1);
    return true;
  };
  const auto number = [&line](std::uint64_t& value) {
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value);
    if (error != std::errc{}) return false;
    line.remove_prefix(static_cast<std::size_t>(end - line.data()));
    return true;
  };
  std::string_view key, value;
  std::uint64_t version = 0;
  out.deleted = false;
  return take(R"({"key":")") && text_until_quote(key) && take(R"(,"value":")") && text_until_quote(value) && take(R"(,"item_version":)") &&
         number(version) && take(R"(,"expires_us":)") && number(out.expires_us) && line == "}" && from_base64(key, out.key) &&
         from_base64(value, out.value);
}

}  // namespace

void append_line(std::string& out, const RecordView& record) {
  char number[24];
  const auto put = [&](std::uint64_t value) { out.append(number, std::to_chars(number, number + sizeof number, value).ptr); };
  out += R"({"key":")";
  append_base64(out, record.key);
  out += R"(","value":")";
  append_base64(out, record.value);
  out += R"(","item_version":)";
  put(record.item_version);
  out += R"(,"expires_us":)";
  put(record.expires_us);
  out += "}\n";
}

Result<InputRow> read_line(std::string_view line) {
  InputRow row;
  if (read_own_form(line, row)) return row;
  row = {};
  // The library keeps the last of two members of one name, and which of them was meant nobody knows.
  std::set<std::string> names;
  std::optional<std::string> twice;
  const auto look = [&](int depth, nlohmann::json::parse_event_t event, const nlohmann::json& parsed) {
    if (event == nlohmann::json::parse_event_t::key && depth == 1 && !names.insert(parsed.get<std::string>()).second) twice = parsed.get<std::string>();
    return true;
  };
  const auto json = nlohmann::json::parse(line.begin(), line.end(), look, false);
  const auto bad = [](std::string what) {
    return failure("input_invalid", std::move(what), R"(one object a line: {"key":"<base64>","value":"<base64>","expires_us":0})");
  };
  if (!json.is_object()) return bad("not a JSON object");
  if (twice) return bad("member '" + printable(*twice) + "' twice");
  bool has_key = false, has_value = false;
  for (const auto& [name, value] : json.items()) {
    if (name == "key" || name == "value") {
      std::string& into = name == "key" ? row.key : row.value;
      if (!value.is_string() || !from_base64(value.get_ref<const std::string&>(), into)) return bad(name + " is not base64");
      (name == "key" ? has_key : has_value) = true;
    } else if (name == "expires_us") {
      if (!value.is_number_unsigned()) return bad("expires_us is no number of microseconds");
      row.expires_us = value.get<std::uint64_t>();
    } else if (name == "deleted") {
      if (!value.is_boolean()) return bad("deleted is neither true nor false");
      row.deleted = value.get<bool>();
    } else if (name != "item_version") {
      return bad("unknown member '" + printable(name) + "'");
    }
  }
  if (!has_key) return bad("no key");
  if (has_value == row.deleted) return bad(row.deleted ? "a value, and deleted" : "no value");
  return row;
}

}  // namespace zaris::cli
