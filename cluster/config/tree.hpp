// What was written, before anybody asks what it means: a tree of maps, lists and scalars in which every node knows where
// it comes from. Files, environment and flags end up in one tree; the later one wins key by key.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/base/result.hpp"

namespace zaris::config {

struct Origin {
  std::string source;   // a file's name as given, "--set", "environment variable ZARIS_REGION", "default"
  int line = 0;         // from 1; 0: the source has no lines
  int column = 0;
  [[nodiscard]] std::string text() const;  // "node.yaml:3:5"
};

struct Mistake {
  Origin where;
  std::string key;      // dotted path; empty: the source as a whole
  std::string message;  // what is wrong, and what would be right
  [[nodiscard]] std::string text() const;
};

struct Node {
  enum class Kind : std::uint8_t { scalar, list, map } kind = Kind::scalar;
  Origin where;              // of the value
  std::string text;          // scalar
  bool quoted = false;       // scalar: written in quotes
  bool null = false;         // scalar: nothing written
  struct Member {
    std::string key;
    Origin where;            // of the key
    std::unique_ptr<Node> value;
  };
  std::vector<Member> members;                  // map, in the order written
  std::vector<std::unique_ptr<Node>> elements;  // list

  [[nodiscard]] Node* find(std::string_view key) const;
};

inline constexpr std::size_t file_bytes_max = 1u << 20;

// Reads one YAML document. Mistakes (syntax, duplicate keys, anchors, several documents) are appended; null: nothing usable.
[[nodiscard]] std::unique_ptr<Node> parse_yaml(const std::string& text, const std::string& source, std::vector<Mistake>& mistakes);
[[nodiscard]] std::unique_ptr<Node> read_yaml_file(const std::string& path, std::vector<Mistake>& mistakes);

// Puts `from` over `into`: maps key by key, everything else whole.
void merge(Node& into, std::unique_ptr<Node> from);

// `path` is dotted; a number in brackets or between dots is a place in a list ("links[0].name", "links.0.name"; one past
// the end appends). A value in brackets is a list of texts divided by commas, quoted where they hold one; one that holds
// maps, further lists or a backslash is read as YAML; anything else is a scalar as it stands, and so is every value of a key that
// takes `one` text only, such as [::1]:7861.
void set_path(Node& root, std::string_view path, const std::string& value, bool one, const std::string& source, std::vector<Mistake>& mistakes);

}  // namespace zaris::config
