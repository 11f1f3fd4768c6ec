// feed followers|drop: the pins of a region. Every other verb of `zaris feed` and all of `zaris cursor` belong to programs of
// their own, which take over this process, as git's subcommands do.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "cluster/cli/region_words.hpp"
#include "cluster/cli/verbs.hpp"

namespace zaris::cli {
namespace {

using nlohmann::ordered_json;
using Kind = Column::Kind;

// Beside the own binary first, so that a build tree and an installation each use their own.
int hand_over(const std::string& program, const std::vector<std::string>& arguments, const Context& context) {
  std::error_code ignored;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", ignored);
  const std::string beside = (self.parent_path() / program).string();
  std::vector<std::string> all{program};
  all.insert(all.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& one : all) argv.push_back(one.data());
  argv.push_back(nullptr);
  // The common options were taken here; those programs know them by the environment.
  if (!context.urls.empty()) ::setenv("ZARIS_URL", context.urls[0].c_str(), 1);
  if (!context.admins.empty()) ::setenv("ZARIS_ADMIN", context.admins[0].c_str(), 1);
  (void)flush_out();
  ::execv(beside.c_str(), argv.data());
  if (errno == ENOENT) ::execvp(program.c_str(), argv.data());
  return fail({"program_missing", fmt::format("cannot run {}: {}", program, std::strerror(errno)), "it comes with the package, beside zaris"});
}

const Sheet pin_sheet{{{"NODE", "/node"},
                       {"PRINCIPAL", "/principal"},
                       {"LINK", "/link"},
                       {"TARGET", "/target_cluster_id"},
                       {"SCOPE", "/scope_id"},
                       {"ATTACHED", "/attached", Kind::boolean},
                       {"MOVED", "/idle_seconds", Kind::seconds},
                       {"HELD", "/held_bytes", Kind::bytes},
                       {"RECORDS", "/held_records", Kind::count, true},
                       {"BOUND", "/bound_bytes", Kind::bytes},
                       {"TIME LEFT", "/seconds_left", Kind::seconds},
                       {"AGE", "/age_seconds", Kind::seconds, true},
                       {"SEGMENTS", "/segments", Kind::count, true},
                       {"LOST", "/lost", Kind::boolean}},
                      "/link"};

ordered_json to_json(const std::string& node, const protocol::PinRow& pin) {
  const auto seconds = [](std::uint64_t us) { return static_cast<double>(us) / 1e6; };
  return {{"node", node},
          {"principal", pin.principal},
          {"link", pin.link},
          {"target_cluster_id", hex16(pin.target.value())},
          {"scope_id", hex16(pin.scope.value())},
          {"scope", printable(pin.scope_text, 4096)},
          {"attached", pin.attached},
          {"age_seconds", seconds(pin.age_us)},
          {"idle_seconds", seconds(pin.idle_us)},
          {"held_bytes", pin.held_bytes},
          {"held_records", pin.held_records},
          {"bound_bytes", pin.bytes_max},
          {"bound_seconds", seconds(pin.age_max_us)},
          {"seconds_left", pin.left_us ? ordered_json(seconds(*pin.left_us)) : ordered_json(nullptr)},
          {"segments", pin.segments},
          {"lost", pin.lost}};
}

// The pins of one node, or why they are not known.
struct NodePins {
  std::string name;
  std::vector<protocol::PinRow> pins;
  std::optional<Error> error;
};

// What nodes hold for each other's replicas is the region's own affair: it is bound to the region's own cluster id as its target.
bool holds_for_replica(const client::Client& client, const protocol::PinRow& pin) { return pin.target == client.welcome().cluster; }

// Every node is asked at once: each holds its own log, and a pin is a thing of each.
std::vector<NodePins> ask_pins(client::Client& client, bool replicas) {
  const protocol::MapAnswer map = client.map();
  std::vector<client::Future<protocol::ListPinsAnswer>> answers;
  for (std::size_t node = 0; node < map.nodes.size(); ++node) answers.push_back(client.list_pins(node));
  std::vector<NodePins> out;
  for (std::size_t node = 0; node < map.nodes.size(); ++node) {
    NodePins& of = out.emplace_back();
    of.name = map.nodes[node].id;
    auto answer = answers[node].get();
    if (!answer) {
      of.error = answer.error();
      continue;
    }
    of.pins = std::move(answer->pins);
    if (!replicas) std::erase_if(of.pins, [&](const protocol::PinRow& pin) { return holds_for_replica(client, pin); });
  }
  return out;
}

// Names on stderr who did not answer. True: somebody.
bool note_silent(const Context& context, const std::vector<NodePins>& nodes) {
  bool silent = false;
  for (const NodePins& node : nodes) {
    if (!node.error) continue;
    silent = true;
    note(context, fmt::format("node {} does not answer: {}", node.name, node.error->text()));
  }
  return silent;
}

int followers(const Context& context, bool replicas) {
  const auto client = connect_to_nodes(context);
  if (!client) return fail(client.error());
  const std::vector<NodePins> nodes = ask_pins(**client, replicas);
  if (nodes.size() == 1 && nodes[0].error) return fail(*nodes[0].error);
  ordered_json rows = ordered_json::array();
  for (const NodePins& node : nodes)
    for (const auto& pin : node.pins) rows.push_back(to_json(node.name, pin));
  print_rows(context.format, pin_sheet, rows);
  (void)flush_out();
  return note_silent(context, nodes) ? exit_no : exit_ok;
}

struct DropOptions {
  std::string link, principal;
};

int drop(const Context& context, const DropOptions& o) {
  const auto client = connect_to_nodes(context);
  if (!client) return fail(client.error());
  std::vector<NodePins> nodes = ask_pins(**client, false);
  if (nodes.size() == 1 && nodes[0].error) return fail(*nodes[0].error);
  std::uint64_t bytes = 0, found = 0, holders = 0;
  for (NodePins& node : nodes) {
    std::erase_if(node.pins, [&](const protocol::PinRow& pin) { return pin.link != o.link || (!o.principal.empty() && pin.principal != o.principal); });
    for (const auto& pin : node.pins) bytes += pin.held_bytes;
    found += node.pins.size();
    holders += node.pins.empty() ? 0 : 1;
  }
  bool silent = note_silent(context, nodes);
  if (found == 0) {
    const Error none{"not_found", "no follower has a pin for link " + printable(o.link), "`zaris feed followers` lists them"};
    return silent ? fail({"partly_done", none.what + " at the nodes that answer", "again when the others do: a pin that one of them has stays"}) : fail(none);
  }
  const std::string what = fmt::format("{} pin{} of link {}{}, which hold{} {} of log", found, found == 1 ? "" : "s", o.link, nodes.size() == 1 ? "" : fmt::format(" at {} of {} nodes", holders, nodes.size()),
                                       found == 1 ? "s" : "", show_bytes(bytes));
  if (context.dry_run) {
    note(context, "would drop " + what);
    return silent ? exit_no : exit_ok;
  }
  if (const auto sure = context.confirm("This drops " + what + ". That follower will need a full copy where the log no longer reaches its place."); !sure) return fail(sure.error());
  std::size_t dropped = 0;
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    for (const auto& pin : nodes[node].pins) {
      const auto done = (*client)->drop_pin({pin.principal, pin.link, pin.scope, pin.target}, node).get();
      if (done) {
        dropped += done->dropped ? 1 : 0;
        continue;
      }
      if (nodes.size() == 1) return fail(done.error());
      note(context, fmt::format("node {}: {}", nodes[node].name, done.error().text()));
      silent = true;
    }
  }
  note(context, fmt::format("dropped {} of {}", dropped, what));
  if (silent) return fail({"partly_done", "not every node has been told", "again when all answer: a pin that one of them has stays, and may come back with it"});
  return exit_ok;
}

}  // namespace

void add_feed(CLI::App& app, Context& context) {
  CLI::App* group = add_verb(app, "feed", "the change feed: who follows it, and what it says (zaris-feed)",
                             "zaris feed followers\nzaris feed tail --help\nzaris feed drop a-to-b --dry-run");
  {
    CLI::App* sub = add_verb(*group, "followers", "who holds the log back at each node: bytes, bound, time left (exit 1 when a node does not answer)", "zaris feed followers -o wide\nzaris feed followers --replicas");
    auto replicas = std::make_shared<bool>(false);
    sub->add_flag("--replicas", *replicas, "what nodes hold for each other's replicas too");
    sub->callback([&context, replicas] { context.action = [&context, replicas] { return followers(context, *replicas); }; });
  }
  {
    auto o = std::make_shared<DropOptions>();
    CLI::App* sub = add_verb(*group, "drop", "drop a follower's pin at every node, so that the log may be trimmed", "zaris feed drop a-to-b --yes");
    sub->add_option("LINK", o->link, "the link, as `zaris feed followers` names it")->required();
    sub->add_option("--principal", o->principal, "only that of this principal");
    sub->callback([&context, o] { context.action = [&context, o] { return drop(context, *o); }; });
  }
  group->require_subcommand(1);
}

void add_cursor(CLI::App& app, Context&) {
  add_verb(app, "cursor", "what a follower keeps beside it: list, show, export, import, rewind, conflicts (zaris-cursor)", "zaris cursor list\nzaris cursor --help");
}

std::optional<int> hand_over_if_others(int argc, char** argv) {
  Context context;
  int at = 1;
  for (; at < argc; ++at) {
    const std::string word = argv[at];
    if (!word.starts_with("-")) break;
    const bool inline_value = word.find('=') != std::string::npos;
    const std::string name = word.substr(0, word.find('='));
    const bool takes_value = name == "--url" || name == "--admin" || name == "-o" || name == "--output" || name == "--timeout";
    if (takes_value && !inline_value && at + 1 < argc) ++at;
    if (name == "--url") context.urls.push_back(inline_value ? word.substr(name.size() + 1) : argv[at]);
    if (name == "--admin") context.admins.push_back(inline_value ? word.substr(name.size() + 1) : argv[at]);
  }
  if (at >= argc) return std::nullopt;
  const std::string verb = argv[at];
  const std::vector<std::string> rest(argv + at + 1, argv + argc);
  if (verb == "cursor" || (verb == "link" && !rest.empty() && rest.front() == "conflicts")) return hand_over("zaris-cursor", rest, context);
  if (verb != "feed" || rest.empty()) return std::nullopt;
  // Options of every verb may stand before `followers` and `drop`; a word that is neither is the other program's.
  for (const std::string& word : rest) {
    if (word == "followers" || word == "drop" || word == "-h" || word == "--help") return std::nullopt;
    if (!word.starts_with("-")) break;
  }
  return hand_over("zaris-feed", rest, context);
}

}  // namespace zaris::cli
