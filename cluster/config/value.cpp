#include "cluster/config/value.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "cluster/base/assert.hpp"
#include "cluster/config/load.hpp"
#include "cluster/config/units.hpp"

namespace zaris::config {
namespace {

std::optional<std::uint64_t> parse_integer(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return number;
}

std::optional<std::uint64_t> parse_id(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, 16);
  if (error != std::errc{} || end != text.data() + text.size() || text.size() != 16) return std::nullopt;
  return number;
}

std::optional<std::pair<Slot, Slot>> parse_slots(std::string_view text) {
  const auto dash = text.find('-');
  const auto first = parse_integer(text.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : parse_integer(text.substr(dash + 1));
  if (!first || !last || *first > *last || *last > 16383) return std::nullopt;
  return std::pair{Slot{static_cast<std::uint16_t>(*first)}, Slot{static_cast<std::uint16_t>(*last)}};
}

bool is_url(std::string_view text) {
  const auto scheme = text.find("://");
  return scheme != std::string_view::npos && scheme > 0 && text.size() > scheme + 3;
}

std::string show_number(const KeyRow& row, std::uint64_t number) {
  if (row.kind == Kind::size) return show_size(number);
  if (row.kind == Kind::duration) return show_duration(number);
  return std::to_string(number);
}

// Reads a scalar; empty with `wrong` set when the text is not of the kind.
std::optional<Value> read_scalar(const KeyRow& row, const std::string& text, std::string& wrong) {
  Value value;
  value.text = text;
  const auto number = [&](std::optional<std::uint64_t> parsed) -> std::optional<Value> {
    if (!parsed) return std::nullopt;
    if (*parsed < row.min || *parsed > row.max) {
      wrong = fmt::format("{} is out of range: {} to {}", text, show_number(row, row.min), show_number(row, row.max));
      return std::nullopt;
    }
    value.number = *parsed;
    return value;
  };
  switch (row.kind) {
    case Kind::text:
    case Kind::path:
      return value;
    case Kind::boolean:
      if (text != "true" && text != "false") return std::nullopt;
      value.boolean = text == "true";
      return value;
    case Kind::integer: return number(parse_integer(text));
    case Kind::duration: return number(parse_duration(text));
    case Kind::size: return number(parse_size(text));
    case Kind::ratio: {
      const auto ratio = parse_ratio(text);
      if (!ratio) return std::nullopt;
      value.ratio = *ratio;
      return value;
    }
    case Kind::choice: {
      if (std::find(row.choices.begin(), row.choices.end(), text) != row.choices.end()) return value;
      const std::string near = nearest(text, row.choices);
      if (!near.empty()) wrong = fmt::format("\"{}\" is not one of {}; did you mean {}?", printable(text), fmt::join(row.choices, ", "), near);
      return std::nullopt;
    }
    case Kind::file:
      if (!text.empty() && ::access(text.c_str(), R_OK) != 0) {
        wrong = fmt::format("{} cannot be read: check the name and the permissions", printable(text));
        return std::nullopt;
      }
      return value;
    case Kind::address:
      if (text == "off") value.text.clear();
      else if (!text.empty() && text != "auto" && !parse_address(text)) return std::nullopt;
      return value;
    case Kind::url:
      if (!text.empty() && !is_url(text)) return std::nullopt;
      return value;
    case Kind::id: {
      if (text.empty()) return value;
      const auto id = parse_id(text);
      if (!id) return std::nullopt;
      value.number = *id;
      return value;
    }
    case Kind::text_list:
    case Kind::slot_list: break;
  }
  return std::nullopt;
}

}  // namespace

std::string describe(const KeyRow& row) {
  switch (row.kind) {
    case Kind::text: return "a text";
    case Kind::boolean: return "true or false";
    case Kind::integer: return "a whole number";
    case Kind::duration: return "a duration with its unit (200ms, 5s, 24h)";
    case Kind::size: return "a size with its unit (64KiB, 1GiB)";
    case Kind::ratio: return "a percentage (10%) or a fraction with a point (0.1)";
    case Kind::choice: return fmt::format("one of {}", fmt::join(row.choices, ", "));
    case Kind::file: return "the name of a readable file";
    case Kind::path: return "a file or folder name";
    case Kind::address: return "host:port, [IPv6]:port, or off";
    case Kind::url: return "a URL (zaris://host:port, zariss://host:port)";
    case Kind::id: return "16 hexadecimal digits";
    case Kind::text_list: return "a list of texts";
    case Kind::slot_list: return "a list of slot ranges (0-8191) within 0 to 16383";
  }
  return {};
}

std::optional<Value> read_value(const KeyRow& row, const std::string& path, const Node& node, std::vector<Mistake>& mistakes) {
  const auto wrong = [&](const Origin& where, std::string message) {
    mistakes.push_back({where, path, std::move(message)});
    return std::nullopt;
  };
  if (row.kind == Kind::text_list || row.kind == Kind::slot_list) {
    if (node.kind == Node::Kind::map) return wrong(node.where, "must be " + describe(row));
    std::vector<const Node*> elements;
    if (node.kind == Node::Kind::list) {
      for (const auto& element : node.elements) elements.push_back(element.get());
    } else {
      elements.push_back(&node);
    }
    Value value;
    bool good = true;
    for (const Node* element : elements) {
      if (element->kind != Node::Kind::scalar) {
        good = false;
        mistakes.push_back({element->where, path, "must be " + describe(row) + "; one that ends with a colon needs quotes"});
      } else if (row.kind == Kind::text_list) {
        value.list.push_back(element->text);
      } else if (const auto slots = parse_slots(element->text)) {
        value.slots.push_back(*slots);
      } else {
        good = false;
        mistakes.push_back({element->where, path, fmt::format("must be {}, not \"{}\"", describe(row), printable(element->text))});
      }
    }
    if (!good) return std::nullopt;
    return value;
  }
  if (node.kind != Node::Kind::scalar) return wrong(node.where, "must be " + describe(row));
  std::string message;
  auto value = read_scalar(row, node.text, message);
  if (!value) {
    if (message.empty()) message = fmt::format("must be {}, not \"{}\"", describe(row), printable(node.text));
    return wrong(node.where, message);
  }
  return value;
}

Value default_value(const KeyRow& row) {
  if (row.kind == Kind::text_list || row.kind == Kind::slot_list) return {};
  std::string message;
  const auto value = read_scalar(row, row.fallback, message);
  ZARIS_ASSERT(value.has_value(), row.key, row.fallback, message);
  return *value;
}

std::string quote(const std::string& text, bool always) {
  static constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./%-";
  const bool simple = !text.empty() && text.find_first_not_of(plain) == std::string::npos && std::isalpha(static_cast<unsigned char>(text[0]));
  std::string lower = text;
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const bool word = lower == "true" || lower == "false" || lower == "null" || lower == "yes" || lower == "no" || lower == "on" || lower == "off";
  if (simple && !always && !word) return text;
  std::string out = "\"";
  for (const char c : text) {
    const auto u = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (u < 0x20 || u == 0x7f) {
      out += fmt::format("\\u{:04x}", u);
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string show_value(const KeyRow& row, const Value& value) {
  switch (row.kind) {
    case Kind::boolean: return value.boolean ? "true" : "false";
    case Kind::integer:
    case Kind::duration:
    case Kind::size: return show_number(row, value.number);
    case Kind::ratio: return fmt::format("{}%", value.ratio * 100);
    case Kind::address: return value.text.empty() ? "\"off\"" : quote(value.text);
    case Kind::text_list: {
      std::vector<std::string> parts;
      for (const auto& text : value.list) parts.push_back(quote(text, true));
      return fmt::format("[{}]", fmt::join(parts, ", "));
    }
    case Kind::slot_list: {
      std::vector<std::string> parts;
      for (const auto& [first, last] : value.slots) parts.push_back(fmt::format("\"{}-{}\"", first.value(), last.value()));
      return fmt::format("[{}]", fmt::join(parts, ", "));
    }
    default: return quote(value.text);
  }
}

}  // namespace zaris::config
