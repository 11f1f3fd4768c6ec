// One key's text to its value, by the row's kind. Internal to cluster/config.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "cluster/config/keys.hpp"
#include "cluster/config/tree.hpp"

namespace zaris::config {

// What a value of this kind looks like, for messages and the reference page: "a size with its unit (64KiB, 1GiB)".
[[nodiscard]] std::string describe(const KeyRow& row);

// Reads `node` as the row says. Empty: `mistakes` has grown. `path` is the full key for messages.
[[nodiscard]] std::optional<Value> read_value(const KeyRow& row, const std::string& path, const Node& node, std::vector<Mistake>& mistakes);
// The row's default; asserts that it is a legal value.
[[nodiscard]] Value default_value(const KeyRow& row);
// As it would be written in a file.
[[nodiscard]] std::string show_value(const KeyRow& row, const Value& value);
// A text as a YAML (and JSON) scalar: quoted where it has to be.
[[nodiscard]] std::string quote(const std::string& text, bool always = false);

}  // namespace zaris::config
