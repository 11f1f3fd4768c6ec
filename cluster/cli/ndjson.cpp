#include "cluster/cli/ndjson.hpp"

#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

namespace zaris::cli {
namespace {

constexpr std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

constexpr std::array<std::int8_t, 256> make_reverse() {
  std::array<std::int8_t, 256> table{};
  for (auto& one : table) one = -1;
  for (std::size_t i = 0; i < alphabet.size(); ++i) table[static_cast<unsigned char>(alphabet[i])] = static_cast<std::int8_t>(i);
  return table;
}
constexpr auto reverse = make_reverse();

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
         number(version) && take(R"(,"expires_us":)") && number(out.expires_us) && line == "}" && read_base64(key, out.key) &&
         read_base64(value, out.value);
}

}  // namespace

void append_base64(std::string& out, std::string_view bytes) {
  const std::size_t at = out.size();
  out.resize(at + (bytes.size() + 2) / 3 * 4);
  char* to = out.data() + at;
  const auto* from = reinterpret_cast<const unsigned char*>(bytes.data());
  std::size_t left = bytes.size();
  for (; left >= 3; left -= 3, from += 3) {
    const unsigned v = static_cast<unsigned>(from[0]) << 16 | static_cast<unsigned>(from[1]) << 8 | from[2];
    *to++ = alphabet[v >> 18];
    *to++ = alphabet[v >> 12 & 63];
    *to++ = alphabet[v >> 6 & 63];
    *to++ = alphabet[v & 63];
  }
  if (left > 0) {
    const unsigned v = static_cast<unsigned>(from[0]) << 16 | (left > 1 ? static_cast<unsigned>(from[1]) << 8 : 0);
    *to++ = alphabet[v >> 18];
    *to++ = alphabet[v >> 12 & 63];
    *to++ = left > 1 ? alphabet[v >> 6 & 63] : '=';
    *to++ = '=';
  }
}

bool read_base64(std::string_view text, std::string& out) {
  out.clear();
  if (text.size() % 4 != 0) return false;
  std::size_t padding = 0;
  while (padding < 2 && padding < text.size() && text[text.size() - 1 - padding] == '=') ++padding;
  out.resize(text.size() / 4 * 3);
  char* to = out.data();
  for (std::size_t i = 0; i < text.size(); i += 4) {
    unsigned v = 0;
    const bool last = i + 4 == text.size();
    for (std::size_t k = 0; k < 4; ++k) {
      const bool padded = last && k >= 4 - padding;
      const std::int8_t six = padded ? std::int8_t{0} : reverse[static_cast<unsigned char>(text[i + k])];
      if (six < 0) return false;
      v = v << 6 | static_cast<unsigned>(six);
    }
    if (last && ((padding == 1 && (v & 0xff) != 0) || (padding == 2 && (v & 0xffff) != 0))) return false;  // bits that would be lost
    *to++ = static_cast<char>(v >> 16);
    *to++ = static_cast<char>(v >> 8);
    *to++ = static_cast<char>(v);
  }
  out.resize(out.size() - padding);
  return true;
}

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
      if (!value.is_string() || !read_base64(value.get_ref<const std::string&>(), into)) return bad(name + " is not base64");
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
