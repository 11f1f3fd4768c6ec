#include "cluster/config/load.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "cluster/config/cross_checks.hpp"
#include "cluster/config/units.hpp"
#include "cluster/config/value.hpp"

extern char** environ;

namespace zaris::config {

std::string environment_name(const std::string& key) {
  std::string out = "ZARIS_";
  for (const char c : key) out += c == '.' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return out;
}

namespace {

const Node* find_path(const Node& root, std::string_view path) {
  const Node* at = &root;
  while (true) {
    const auto dot = path.find('.');
    at = at->find(path.substr(0, dot));
    if (!at || dot == std::string_view::npos) return at;
    path.remove_prefix(dot + 1);
  }
}

class Reader {
 public:
  Reader(std::vector<Mistake>& mistakes, std::vector<Setting>& settings) : mistakes_(mistakes), settings_(settings) {}

  // Every row of `rows` out of `root` into `object`; `prefix` is "" or "links[0].".
  void read_rows(const std::vector<KeyRow>& rows, const Node& root, const std::string& prefix, void* object, const Origin& object_at, bool reload) {
    for (const KeyRow& row : rows) {
      const std::string path = prefix + row.key;
      const Node* node = find_path(root, row.key);
      const bool given = node != nullptr && !(node->kind == Node::Kind::scalar && node->null);
      if (!given) {
        if (row.required) {
          mistakes_.push_back({object_at, path, fmt::format("is missing: {}", describe(row))});
          continue;
        }
        const Value value = default_value(row);
        row.set(object, value);
        settings_.push_back({path, show_value(row, value), {"default"}, row.reload || reload});
        continue;
      }
      if (const auto value = read_value(row, path, *node, mistakes_)) {
        if (row.required && value->text.empty() && value->list.empty()) {
          mistakes_.push_back({node->where, path, fmt::format("must not be empty: {}", describe(row))});
          continue;
        }
        row.set(object, *value);
        settings_.push_back({path, show_value(row, *value), node->where, row.reload || reload});
      }
    }
  }

  // Everything in `at` that no row and no group names.
  void refuse_unknown(const Node& at, const std::string& path, const std::string& prefix, const std::vector<KeyRow>& rows,
                      const std::vector<ListGroup>& groups) {
    for (const Node::Member& member : at.members) {
      const std::string key = path.empty() ? member.key : path + "." + member.key;
      const auto is_row = [&](const auto& row) { return row.key == key; };
      if (std::any_of(rows.begin(), rows.end(), is_row) || std::any_of(groups.begin(), groups.end(), is_row)) continue;
      const auto is_under = [&](const auto& row) { return row.key.starts_with(key + "."); };
      if (std::any_of(rows.begin(), rows.end(), is_under) || std::any_of(groups.begin(), groups.end(), is_under)) {
        if (member.value->kind == Node::Kind::map) {
          refuse_unknown(*member.value, key, prefix, rows, groups);
        } else if (!member.value->null) {
          mistakes_.push_back({member.value->where, prefix + key, "is a group of keys, not a value"});
        }
        continue;
      }
      std::vector<std::string> known;
      for (const KeyRow& row : rows) {
        known.push_back(row.key);
        for (auto dot = row.key.find('.'); dot != std::string::npos; dot = row.key.find('.', dot + 1)) known.push_back(row.key.substr(0, dot));
      }
      for (const ListGroup& group : groups) known.push_back(group.key);
      std::string near = nearest(key, known);
      // The right word in the wrong place: another key that ends the same way.
      for (const std::string& candidate : known) {
        if (near.empty() && candidate.ends_with("." + member.key)) near = candidate;
      }
      mistakes_.push_back({member.where, prefix + key, near.empty() ? "unknown key" : fmt::format("unknown key; did you mean {}{}?", prefix, near)});
    }
  }

  void read_table(const KeyTable& table, const Node& root, const Origin& whole, void* config) {
    refuse_unknown(root, "", "", table.rows, table.groups);
    read_rows(table.rows, root, "", config, whole, false);
    for (const ListGroup& group : table.groups) {
      const Node* list = find_path(root, group.key);
      if (!list || (list->kind == Node::Kind::scalar && list->null)) continue;
      if (list->kind != Node::Kind::list) {
        mistakes_.push_back({list->where, group.key, "must be a list of maps (- name: …)"});
        continue;
      }
      for (std::size_t i = 0; i < list->elements.size(); ++i) {
        const Node& element = *list->elements[i];
        const std::string prefix = fmt::format("{}[{}].", group.key, i);
        if (element.kind != Node::Kind::map) {
          mistakes_.push_back({element.where, fmt::format("{}[{}]", group.key, i), "must be a map of keys"});
          continue;
        }
        refuse_unknown(element, "", prefix, group.rows, {});
        read_rows(group.rows, element, prefix, group.append(config), element.where, group.reload);
      }
    }
  }

 private:
  std::vector<Mistake>& mistakes_;
  std::vector<Setting>& settings_;
};

// "ZARIS_LINKS_0_NAME" → "links[0].name"; empty: no such key.
std::string key_of_environment(const KeyTable& table, const std::string& name) {
  for (const KeyRow& row : table.rows) {
    if (environment_name(row.key) == name) return row.key;
  }
  for (const ListGroup& group : table.groups) {
    const std::string stem = environment_name(group.key);
    if (name == stem) return group.key;
    if (!name.starts_with(stem + "_")) continue;
    const std::string rest = name.substr(stem.size() + 1);
    const auto digits = rest.find_first_not_of("0123456789");
    if (digits == 0 || digits == std::string::npos) continue;
    for (const KeyRow& row : group.rows) {
      if ("ZARIS" + rest.substr(digits) == environment_name(row.key)) return fmt::format("{}[{}].{}", group.key, rest.substr(0, digits), row.key);
    }
  }
  return {};
}

// Does the key take one text and no list? "links[0].name" and "links.0.name" are the same key.
bool takes_one(const KeyTable& table, const std::string& key) {
  const auto among = [](const std::vector<KeyRow>& rows, std::string_view name) {
    return std::ranges::any_of(rows, [&](const KeyRow& row) { return row.key == name && row.kind != Kind::text_list && row.kind != Kind::slot_list; });
  };
  if (among(table.rows, key)) return true;
  return std::ranges::any_of(table.groups, [&](const ListGroup& group) {
    if (!key.starts_with(group.key)) return false;
    std::string_view rest = std::string_view(key).substr(group.key.size());
    const auto begin = rest.find_first_of("0123456789"), end = rest.find_first_not_of("[.0123456789]");
    return begin == 1 && end != std::string_view::npos && among(group.rows, rest.substr(end));
  });
}

template <class T>
Loaded<T> load(const KeyTable& table, const Sources& sources, void (*cross_check)(T&, const std::vector<Setting>&, std::vector<Mistake>&, std::vector<std::string>&)) {
  Loaded<T> out;
  Node root;
  root.kind = Node::Kind::map;
  for (const std::string& file : sources.files) {
    if (auto tree = read_yaml_file(file, out.mistakes)) merge(root, std::move(tree));
  }
  auto environment = sources.environment;
  std::sort(environment.begin(), environment.end());
  for (const auto& [name, value] : environment) {
    if (!name.starts_with("ZARIS_")) continue;
    const std::string key = key_of_environment(table, name);
    if (key.empty()) {
      // A warning, not a mistake: Kubernetes puts ZARIS_PORT and the like into every pod beside a Service called zaris.
      out.warnings.push_back(fmt::format("environment variable {} names no key of {} and is ignored", name, table.title));
      continue;
    }
    set_path(root, key, value, takes_one(table, key), "environment variable " + name, out.mistakes);
  }
  for (const Sources::Flag& flag : sources.flags) set_path(root, flag.key, flag.value, takes_one(table, flag.key), flag.flag, out.mistakes);

  const Origin whole{sources.files.empty() ? "configuration" : sources.files.back()};
  Reader(out.mistakes, out.settings).read_table(table, root, whole, &out.config);
  if (out.mistakes.empty()) cross_check(out.config, out.settings, out.mistakes, out.warnings);
  return out;
}

}  // namespace

Loaded<NodeConfig> load_node_config(const Sources& sources) {
  auto out = load<NodeConfig>(node_keys(), sources, check_node);
  // Needed by a region of one process only; said together with all other mistakes.
  if (out.config.standalone && out.config.node.data_dir.empty()) {
    out.mistakes.push_back({Origin{sources.files.empty() ? "configuration" : sources.files.back()}, "node.data_dir", "is missing, and has no default"});
  }
  // A region of several never serves its emptiness: whoever asks for it must not believe that it is so.
  for (const Setting& setting : out.settings) {
    if (out.config.standalone || setting.key != "node.on_empty_start" || setting.value != "serve" || setting.where.source == "default") continue;
    out.mistakes.push_back({setting.where, setting.key, "serve is for standalone: true; what a region of several lost is served only after zaris node accept-empty: leave this out"});
  }
  return out;
}
Loaded<FollowerConfig> load_follower_config(const Sources& sources) {
  return load<FollowerConfig>(follower_keys(), sources, check_follower);
}

Loaded<GatewayConfig> load_gateway_config(const Sources& sources) { return load<GatewayConfig>(gateway_keys(), sources, check_gateway); }

void refuse(const std::vector<Setting>& settings, std::vector<Mistake>& mistakes, const std::string& key, const Error& error) {
  const auto at = std::ranges::find(settings, key, &Setting::key);
  mistakes.push_back({at != settings.end() ? at->where : Origin{"configuration"}, key, error.text()});
}

std::vector<std::pair<std::string, std::string>> process_environment() {
  std::vector<std::pair<std::string, std::string>> out;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const auto equals = text.find('=');
    if (equals != std::string_view::npos) out.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return out;
}

std::string show(const std::vector<Mistake>& mistakes) {
  std::string out;
  for (const Mistake& mistake : mistakes) out += mistake.text() + "\n";
  return out;
}

std::string settings_hash(const std::vector<Setting>& settings) {
  std::string text;
  for (const Setting& setting : settings) text += fmt::format("{}={}\n", setting.key, setting.value);
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  EVP_Digest(text.data(), text.size(), digest, &size, EVP_sha256(), nullptr);
  std::string out;
  for (int i = 0; i < 6; ++i) out += fmt::format("{:02x}", digest[i]);
  return out;
}

Difference difference(const std::vector<Setting>& now, const std::vector<Setting>& next) {
  Difference out;
  std::set<std::string> seen;
  const auto note = [&](const Setting& setting) {
    if (seen.insert(setting.key).second) (setting.reload ? out.reloadable : out.restart).push_back(setting.key);
  };
  const auto has = [](const std::vector<Setting>& in, const Setting& setting) {
    return std::any_of(in.begin(), in.end(), [&](const Setting& s) { return s.key == setting.key && s.value == setting.value; });
  };
  for (const Setting& setting : next) {
    if (!has(now, setting)) note(setting);
  }
  for (const Setting& setting : now) {
    if (!has(next, setting)) note(setting);
  }
  return out;
}

std::optional<HostPort> parse_address(std::string_view text) {
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  std::string_view host = text.substr(0, colon);
  const std::string_view port_text = text.substr(colon + 1);
  unsigned port = 0;
  const auto [end, error] = std::from_chars(port_text.data(), port_text.data() + port_text.size(), port);
  if (error != std::errc{} || end != port_text.data() + port_text.size() || port_text.empty() || port > 65535) return std::nullopt;
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return std::nullopt;
  }
  if (host.empty() || host.find_first_of(" /@[]") != std::string_view::npos) return std::nullopt;
  return HostPort{std::string(host), static_cast<std::uint16_t>(port)};
}

bool loopback(const std::string& host) {
  if (host == "localhost") return true;
  in_addr v4{};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  in6_addr v6{};
  if (inet_pton(AF_INET6, host.c_str(), &v6) == 1) return IN6_IS_ADDR_LOOPBACK(&v6);
  return false;
}

}  // namespace zaris::config
