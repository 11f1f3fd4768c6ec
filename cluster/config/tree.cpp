#include "cluster/config/tree.hpp"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <charconv>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>

namespace zaris::config {

std::string Origin::text() const { return line > 0 ? fmt::format("{}:{}:{}", source, line, column) : source; }

std::string Mistake::text() const {
  return key.empty() ? fmt::format("{}: {}", where.text(), message) : fmt::format("{}: {}: {}", where.text(), key, message);
}

Node* Node::find(std::string_view key) const {
  for (const Member& member : members) {
    if (member.key == key) return member.value.get();
  }
  return nullptr;
}

namespace {

// Builds our tree from yaml-cpp's events rather than from its nodes: they drop duplicate keys in silence.
class Builder : public YAML::EventHandler {
 public:
  Builder(std::string source, std::vector<Mistake>& mistakes) : source_(std::move(source)), mistakes_(mistakes) {}

  std::unique_ptr<Node> take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    refuse_anchor(mark, anchor);
    auto node = make(mark, Node::Kind::scalar);
    node->null = true;
    put(std::move(node));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    mistakes_.push_back({origin(mark), "", "aliases are not supported: write the value out"});
    put(make(mark, Node::Kind::scalar));
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, const std::string& value) override {
    refuse_anchor(mark, anchor);
    auto node = make(mark, Node::Kind::scalar);
    node->text = value;
    node->quoted = tag == "!";
    put(std::move(node));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor, YAML::EmitterStyle::value) override {
    refuse_anchor(mark, anchor);
    open(make(mark, Node::Kind::list));
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor, YAML::EmitterStyle::value) override {
    refuse_anchor(mark, anchor);
    open(make(mark, Node::Kind::map));
  }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    Node* node;
    std::optional<Node::Member> key;  // of a map: read, its value not yet
    std::map<std::string, Origin> seen;
  };

  Origin origin(const YAML::Mark& mark) const { return {source_, mark.line + 1, mark.column + 1}; }
  std::unique_ptr<Node> make(const YAML::Mark& mark, Node::Kind kind) const {
    auto node = std::make_unique<Node>();
    node->kind = kind;
    node->where = origin(mark);
    return node;
  }
  void refuse_anchor(const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (anchor != 0) mistakes_.push_back({origin(mark), "", "anchors are not supported: write the value out"});
  }

  // Returns where the node stands now; null when it was a key, or is not kept.
  Node* put(std::unique_ptr<Node> node) {
    Node* const raw = node.get();
    if (stack_.empty()) {
      root_ = std::move(node);
      return raw;
    }
    Open& top = stack_.back();
    if (top.node->kind == Node::Kind::list) {
      top.node->elements.push_back(std::move(node));
      return raw;
    }
    if (!top.key) {
      if (node->kind != Node::Kind::scalar || node->null) {
        mistakes_.push_back({node->where, "", "a key must be a plain word"});
        spare_.push_back(std::move(node));
        top.key = Node::Member{"", raw->where, nullptr};
        return raw;
      }
      top.key = Node::Member{node->text, node->where, nullptr};
      return nullptr;
    }
    Node::Member member = std::move(*top.key);
    top.key.reset();
    const auto [earlier, fresh] = top.seen.emplace(member.key, member.where);
    if (!fresh) {
      mistakes_.push_back({member.where, member.key, fmt::format("written twice; first at line {}, column {}", earlier->second.line, earlier->second.column)});
      spare_.push_back(std::move(node));
      return raw;
    }
    member.value = std::move(node);
    top.node->members.push_back(std::move(member));
    return raw;
  }
  void open(std::unique_ptr<Node> node) {
    Node* raw = node.get();
    put(std::move(node));
    stack_.push_back({raw, std::nullopt, {}});
  }
  void close() { stack_.pop_back(); }

  std::string source_;
  std::vector<Mistake>& mistakes_;
  std::unique_ptr<Node> root_;
  std::vector<Open> stack_;
  std::vector<std::unique_ptr<Node>> spare_;  // refused, but still being filled
};

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos && text.size() < 6;
}

// "links[0].scope.prefixes" → links, 0, scope, prefixes
std::vector<std::string> split_path(std::string_view path) {
  std::vector<std::string> parts(1);
  for (const char c : path) {
    if (c == '.' || c == '[') {
      parts.emplace_back();
    } else if (c != ']') {
      parts.back() += c;
    }
  }
  return parts;
}

// "[t1:, 'a, b']" on a command line. Not YAML, which reads "t1:" as the key of a map: prefixes end that way.
std::unique_ptr<Node> parse_list(std::string_view text, const Origin& where) {
  auto list = std::make_unique<Node>();
  list->kind = Node::Kind::list;
  list->where = where;
  text = text.substr(1, text.size() - 2);
  for (std::size_t at = 0; at <= text.size();) {
    const auto word = text.find_first_not_of(" \t", at);
    if (word == std::string_view::npos) break;
    auto element = std::make_unique<Node>();
    element->where = where;
    std::size_t end = 0;
    if (text[word] == '"' || text[word] == '\'') {
      const auto close = text.find(text[word], word + 1);
      if (close == std::string_view::npos) return nullptr;
      element->text = text.substr(word + 1, close - word - 1);
      element->quoted = true;
      end = std::min(text.find_first_not_of(" \t", close + 1), text.size());
      if (end < text.size() && text[end] != ',') return nullptr;
    } else {
      end = std::min(text.find(',', word), text.size());
      const std::string_view plain = text.substr(word, end - word);
      element->text = plain.substr(0, plain.find_last_not_of(" \t") + 1);
    }
    list->elements.push_back(std::move(element));
    at = end + 1;
  }
  return list;
}

}  // namespace

std::unique_ptr<Node> parse_yaml(const std::string& text, const std::string& source, std::vector<Mistake>& mistakes) {
  if (text.size() > file_bytes_max) {
    mistakes.push_back({{source}, "", fmt::format("larger than {} bytes: this is not a configuration file", file_bytes_max)});
    return nullptr;
  }
  std::istringstream in(text);
  Builder builder(source, mistakes);
  try {
    YAML::Parser parser(in);
    if (!parser.HandleNextDocument(builder)) {
      auto empty = std::make_unique<Node>();  // an empty file says nothing, which is allowed
      empty->kind = Node::Kind::map;
      empty->where = {source, 1, 1};
      return empty;
    }
    auto root = builder.take();
    std::vector<Mistake> ignored;
    Builder second(source, ignored);
    if (parser.HandleNextDocument(second)) {
      mistakes.push_back({{source}, "", "holds more than one YAML document; use several files instead"});
    }
    if (root && root->kind == Node::Kind::scalar && root->null) root->kind = Node::Kind::map;
    return root;
  } catch (const YAML::Exception& error) {
    mistakes.push_back({{source, error.mark.line + 1, error.mark.column + 1}, "", fmt::format("not readable as YAML: {}", error.msg)});
    return nullptr;
  }
}

std::unique_ptr<Node> read_yaml_file(const std::string& path, std::vector<Mistake>& mistakes) {
  std::ifstream in(path, std::ios::binary);
  std::string text(file_bytes_max + 1, '\0');
  if (!in || !(in.read(text.data(), static_cast<std::streamsize>(text.size())) || in.eof())) {
    mistakes.push_back({{path}, "", "cannot be read: check the name and the permissions"});
    return nullptr;
  }
  text.resize(static_cast<std::size_t>(in.gcount()));
  auto root = parse_yaml(text, path, mistakes);
  if (root && root->kind != Node::Kind::map) {
    mistakes.push_back({root->where, "", "a configuration file is a map of keys (region: eu, node: …)"});
    return nullptr;
  }
  return root;
}

void merge(Node& into, std::unique_ptr<Node> from) {
  if (into.kind != Node::Kind::map || from->kind != Node::Kind::map) {
    into = std::move(*from);
    return;
  }
  for (Node::Member& member : from->members) {
    if (Node* here = into.find(member.key)) {
      merge(*here, std::move(member.value));
      for (Node::Member& mine : into.members) {
        if (mine.key == member.key) mine.where = member.where;
      }
    } else {
      into.members.push_back(std::move(member));
    }
  }
}

void set_path(Node& root, std::string_view path, const std::string& value, bool one, const std::string& source, std::vector<Mistake>& mistakes) {
  const Origin where{source};
  std::unique_ptr<Node> leaf;
  if (!one && value.size() >= 2 && value.front() == '[' && value.back() == ']' && value.find_first_of("[{\\", 1) == std::string::npos) {
    leaf = parse_list(value, where);
    if (!leaf) {
      mistakes.push_back({where, std::string(path), "not a list: a quote that is not closed, or something behind one"});
      return;
    }
  } else if (!one && !value.empty() && (value[0] == '[' || value[0] == '{')) {
    leaf = parse_yaml(value, source, mistakes);
    if (!leaf) return;
  } else {
    leaf = std::make_unique<Node>();
    leaf->text = value;
    leaf->where = where;
  }
  const std::vector<std::string> parts = split_path(path);
  Node* at = &root;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string& part = parts[i];
    const bool last = i + 1 == parts.size();
    if (part.empty()) {
      mistakes.push_back({where, std::string(path), "not a key: an empty word between dots"});
      return;
    }
    std::unique_ptr<Node>* next = nullptr;
    if (is_number(part) && i > 0) {
      if (at->kind != Node::Kind::list) {
        *at = Node{};
        at->kind = Node::Kind::list;
        at->where = where;
      }
      std::size_t index = 0;
      std::from_chars(part.data(), part.data() + part.size(), index);
      if (index > at->elements.size()) {
        mistakes.push_back({where, std::string(path), fmt::format("the list has {} elements; the next one is number {}", at->elements.size(), at->elements.size())});
        return;
      }
      if (index == at->elements.size()) at->elements.push_back(nullptr);
      next = &at->elements[index];
    } else {
      if (at->kind != Node::Kind::map) {
        *at = Node{};
        at->kind = Node::Kind::map;
        at->where = where;
      }
      for (Node::Member& member : at->members) {
        if (member.key == part) {
          next = &member.value;
          if (last) member.where = where;
        }
      }
      if (!next) {
        at->members.push_back({part, where, nullptr});
        next = &at->members.back().value;
      }
    }
    if (last) {
      *next = std::move(leaf);
      return;
    }
    if (!*next) {
      *next = std::make_unique<Node>();
      (*next)->kind = Node::Kind::map;
      (*next)->where = where;
    }
    at = next->get();
  }
}

}  // namespace zaris::config
