// node list, show, drain, accept-empty; store show: what the nodes of a region are and own.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "cluster/cli/region_words.hpp"
#include "cluster/cli/verbs.hpp"

namespace zaris::cli {
namespace {

using nlohmann::ordered_json;
using Kind = Column::Kind;

const Sheet node_sheet{{{"NAME", "/name"},
                        {"ADDRESS", "/address"},
                        {"STATE", "/state"},
                        {"LEADER", "/leader", Kind::boolean},
                        {"MEMBER", "/member_state"},
                        {"DRAINING", "/draining", Kind::boolean},
                        {"OWNS", "/owns", Kind::count},
                        {"SERVES", "/serves", Kind::count},
                        {"REPLICA OF", "/replica_of", Kind::count},
                        {"LAG", "/lag_revisions", Kind::count},
                        {"KEYS", "/live_keys", Kind::count},
                        {"CLOCK", "/clock_text"},
                        {"MEMORY", "/memory_used_bytes", Kind::bytes, true},
                        {"UP", "/uptime_seconds", Kind::seconds, true},
                        {"MAP", "/map_version", Kind::count, true},
                        {"OWNERSHIP", "/ownership_version", Kind::count, true},
                        {"ETCD SILENT", "/etcd/silence_seconds", Kind::seconds, true},
                        {"VERSION", "/version"}},
                       "/name"};

const Sheet partition_sheet{{{"SEGMENTS", "/segments"},
                             {"OWNER", "/owner"},
                             {"STATE", "/state"},
                             {"REPLICAS", "/in_step_text"},
                             {"NOT IN STEP", "/not_in_step_text"},
                             {"GENERATION", "/generation", Kind::count},
                             {"LAG", "/lag_revisions", Kind::count},
                             {"ROLE", "/role", Kind::text, true},
                             {"SERVES BY", "/serves_by", Kind::text, true},
                             {"PRIMARY", "/primary", Kind::text, true},
                             {"ACCEPTED", "/accepted", Kind::boolean, true},
                             {"ID", "/id", Kind::text, true},
                             {"WHY", "/reason"}},
                            "/id"};

bool for_people(Format format) { return format == Format::table || format == Format::wide; }

// With its sign; what scripts read stays a number.
ordered_json with_clock(ordered_json node) {
  const auto& skew = node["clock_skew_seconds"];
  node["clock_text"] = skew.is_number() ? ordered_json(fmt::format("{:+.3f} s", skew.get<double>())) : ordered_json(nullptr);
  return node;
}

ordered_json with_clocks(ordered_json nodes) {
  for (auto& row : nodes) row = with_clock(std::move(row));
  return nodes;
}

// Names side by side for a table; what scripts read stays lists: `replicas` and `primary` by the map, `synchronised` as was written last.
ordered_json with_texts(ordered_json partitions) {
  for (auto& row : partitions) {
    // Only an owner that is heard knows who is in step now.
    const bool known = row["owner"] != "" && row["state"] != "unavailable" && row["state"] != "not_heard";
    std::string in_step, others;
    for (const auto& name : row["synchronised"]) in_step += (in_step.empty() ? "" : ",") + name.get<std::string>();
    ordered_json members = row["replicas"];
    members.insert(members.begin(), row["primary"]);
    for (std::size_t i = 0; i < members.size(); ++i) {
      const auto& name = members[i];
      const bool before = std::find(members.begin(), members.begin() + static_cast<std::ptrdiff_t>(i), name) != members.begin() + static_cast<std::ptrdiff_t>(i);
      const bool counted = known && std::find(row["synchronised"].begin(), row["synchronised"].end(), name) != row["synchronised"].end();
      if (before || counted || name == row["owner"]) continue;
      others += (others.empty() ? "" : ",") + name.get<std::string>();
    }
    row["in_step_text"] = !known ? "not known" : in_step.empty() ? "none" : in_step;
    row["not_in_step_text"] = others.empty() ? "none" : others;
    if (row["owner"] == "") row["owner"] = "nobody";
  }
  return partitions;
}

void note_accepted(const Context& context, const ordered_json& view) {
  for (const auto& text : view.value("accepted", ordered_json::array())) note(context, "accepted as lost: " + text.get<std::string>());
  for (const auto& text : view.value("settings_differ", ordered_json::array())) note(context, "settings differ: " + text.get<std::string>());
}

void print_partitions(Format format, const ordered_json& partitions) { print_rows(format, partition_sheet, for_people(format) ? with_texts(partitions) : partitions); }

// Nodes that do not answer are in the rows; they are named on stderr too, and the exit status says so.
int exit_of(const Context& context, const RegionWords& words) {
  bool all = true;
  for (const NodeWord& word : words.words) {
    if (!word.error) continue;
    all = false;
    note(context, fmt::format("node {} ({}) does not answer: {}", word.name, word.address, word.error->text()));
  }
  return all ? exit_ok : exit_no;
}

int list(const Context& context) {
  const auto client = connect_to_nodes(context);
  if (!client) return fail(client.error());
  const RegionWords words = ask_nodes(**client);
  const auto view = view_of(words.words);
  const ordered_json& nodes = view["nodes"];
  print_rows(context.format, node_sheet, for_people(context.format) ? with_clocks(nodes) : nodes);
  (void)flush_out();
  note_accepted(context, view);
  return exit_of(context, words);
}

int show(const Context& context, const std::string& name) {
  const auto client = connect_to_nodes(context);
  if (!client) return fail(client.error());
  const RegionWords words = ask_nodes(**client);
  const auto view = view_of(words.words);
  ordered_json node, partitions = ordered_json::array();
  for (const auto& row : view["nodes"]) {
    if (row["name"] == name) node = row;
  }
  if (node.is_null()) return fail({"not_found", fmt::format("no node of this region has the name {}", printable(name)), "zaris node list"});
  // Its own word about each of its partitions.
  const auto word = std::find_if(words.words.begin(), words.words.end(), [&](const NodeWord& w) { return w.name == name; });
  for (auto row : view["partitions"]) {
    const auto& replicas = row["replicas"];
    if (row["owner"] != name && row["primary"] != name && std::find(replicas.begin(), replicas.end(), ordered_json(name)) == replicas.end()) continue;
    row["role"] = row["role_reason"] = row["serves_by"] = nullptr;
    if (word->region) {
      for (const auto& own : word->region->partitions) {
        if (own.id != row["id"]) continue;
        row["role"] = own.role;
        row["role_reason"] = own.role_reason;
        row["serves_by"] = own.serves_by;
      }
    }
    partitions.push_back(std::move(row));
  }
  if (for_people(context.format)) {
    Sheet lines = node_sheet;
    for (Column& column : lines.columns) {
      column.wide = false;
      std::transform(column.title.begin(), column.title.end(), column.title.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    }
    print_one(Format::table, lines, with_clock(node));
    write_out("\n");
    print_partitions(Format::wide, partitions);
  } else {
    node["partitions"] = partitions;
    print_one(context.format, node_sheet, node);
  }
  (void)flush_out();
  if (word->error) {
    note(context, fmt::format("node {} does not answer: {}", name, word->error->text()));
    return exit_no;
  }
  return exit_ok;
}

struct DrainOptions {
  std::string name;
  bool undo = false, wait = false;
};

std::uint64_t owned_by(const ordered_json& view, const std::string& name) {
  return static_cast<std::uint64_t>(std::count_if(view["partitions"].begin(), view["partitions"].end(), [&](const auto& row) { return row["owner"] == name; }));
}

// What keeps a node from owning nothing, partition by partition; of many the first few.
std::string kept_by(const ordered_json& view, const std::string& name) {
  constexpr std::size_t shown = 3;
  if (view.value("leader", "").empty()) return "the region has no leader now, and nobody else hands over";
  if (!view.value("etcd_answers", true)) return "etcd does not answer every node, and a change of owners is written there";
  std::string out;
  std::size_t count = 0;
  for (const auto& row : view["partitions"]) {
    if (row["owner"] != name || ++count > shown) continue;
    const std::string waits = row["waits_for"], reason = row["reason"], state = row["state"];
    const std::string why = !waits.empty() ? waits : state != "healthy" ? fmt::format("{}: {}", state, reason) : "the leader has not begun yet";
    out += fmt::format("{}segments {}: {}", out.empty() ? "" : "; ", row["segments"].get<std::string>(), why);
  }
  return count > shown ? fmt::format("{}; and {} more", out, count - shown) : out;
}

// Until nothing is owned by it any more.
int wait_drained(const Context& context, client::Client& client, const std::string& name) {
  const auto within = context.timeout(std::chrono::milliseconds(60'000));
  if (!within) return fail(within.error());
  const auto deadline = std::chrono::steady_clock::now() + *within;
  Progress progress(context);
  while (true) {
    const auto view = view_of(ask_nodes(client).words);
    const std::uint64_t left = owned_by(view, name);
    if (left == 0 && !view["partitions"].empty()) {
      progress.done(fmt::format("{} owns nothing any more", name));
      return exit_ok;
    }
    const std::string waiting = view["partitions"].empty() ? "no node says who owns what" : kept_by(view, name);
    progress.show(fmt::format("{} owns {} partitions: {}", name, left, waiting));
    if (std::chrono::steady_clock::now() >= deadline) {
      return fail({"timed_out", fmt::format("{} still owns {} partitions: {}", name, left, waiting),
                   "the wish stands and is fulfilled when it can be; zaris store show says what each partition waits for"});
    }
    pause_for(std::chrono::milliseconds(100));
  }
}

int drain(const Context& context, const DrainOptions& o) {
  const auto client = connect_to_nodes(context);
  if (!client) return fail(client.error());
  if (!o.undo && !context.dry_run) {
    const auto sure = context.confirm(fmt::format("What node {} owns goes to other nodes, and nothing comes to it until --undo.", o.name));
    if (!sure) return fail(sure.error());
  }
  // Any node writes the wish; one that is gone or does not reach etcd is no reason to fail.
  std::optional<Error> last;
  std::optional<protocol::DrainNodeAnswer> answer;
  for (std::size_t node = 0; node < (*client)->node_count() && !answer; ++node) {
    auto given = (*client)->drain_node({o.name, o.undo, context.dry_run}, node).get();
    if (given) answer = *given;
    else last = given.error();
    if (last && (last->code == "unsupported" || last->code == "invalid_argument" || last->code == "unauthorized")) break;
  }
  if (!answer) return fail(last ? *last : Error{"unreachable", "no node answers", {}});
  const char* would = context.dry_run ? "would be " : "";
  if (!answer->changed) note(context, o.undo ? fmt::format("{} was not being drained", o.name) : fmt::format("{} is being drained already", o.name));
  else note(context, o.undo ? fmt::format("the drain of {} {}taken back", o.name, context.dry_run ? "would be " : "is ") : fmt::format("{} {}drained", o.name, *would != '\0' ? would : "is being "));
  if (context.dry_run || o.undo || !o.wait) return exit_ok;
  return wait_drained(context, **client, o.name);
}

// Any node writes it; one that is gone or does not reach etcd is no reason to fail.
Result<protocol::AcceptEmptyAnswer> tell_accepted(client::Client& client, bool undo) {
  Error last{"unreachable", "no node answers", {}};
  for (std::size_t node = 0; node < client.node_count(); ++node) {
    const auto answer = client.accept_empty({undo}, node).get();
    if (answer) return *answer;
    last = answer.error();
  }
  return tl::unexpected(last);
}

int take_back_accepted(const Context& context, client::Client& client, const ordered_json& view) {
  const std::size_t pending = view.value("accepted", ordered_json::array()).size();
  if (context.dry_run) {
    note(context, pending == 0 ? "nothing that was accepted waits" : fmt::format("what was accepted of {} partitions would be taken back", pending));
    return exit_ok;
  }
  const auto answer = tell_accepted(client, true);
  if (!answer) return fail(answer.error());
  note(context, answer->was_holding ? "taken back; who has begun already stays" : "nothing that was accepted waits");
  return exit_ok;
}

int accept_empty(const Context& context, bool undo) {
  const auto client = connect_to_nodes(context);
  if (!client) return fail(client.error());
  const RegionWords words = ask_nodes(**client);
  if (undo) return take_back_accepted(context, **client, view_of(words.words));
  if (!words.several) {
    if (context.dry_run) {
      const auto status = (*client)->status().get();
      if (!status) return fail(status.error());
      note(context, fmt::format("region {} is {}{}", status->region, status->state, status->state == "holding" ? "; it would serve, empty" : "; nothing would change"));
      return exit_ok;
    }
    if (const auto sure = context.confirm(fmt::format("{} came back without the data that it had. Accepting lets it serve as it is.", context.urls[0])); !sure)
      return fail(sure.error());
    const auto answer = (*client)->accept_empty().get();
    if (!answer) return fail(answer.error());
    note(context, answer->was_holding ? "accepted; it serves" : "it was serving already");
    return exit_ok;
  }
  ordered_json lost = ordered_json::array();
  std::string which;
  const auto view = view_of(words.words);
  for (const auto& row : view["partitions"]) {
    const bool served = row["role"] == "serving";
    if (served || (row["state"] != "unavailable" && row["state"] != "recovering")) continue;
    lost.push_back(row);
    which += (which.empty() ? "" : ", ") + row["segments"].get<std::string>();
  }
  if (context.format != Format::table || context.dry_run) print_partitions(context.format, lost);
  if (lost.empty()) {
    // Just after all of them died nothing is decided yet: nobody may take that for done.
    const RegionSum sum = sum_of(words.words, view);
    if (sum.status.state != "serving")
      return fail({"unavailable", sum.status.state_reason + "; the leader has not given up any of them yet", "ask again in some seconds; `zaris status` says what they wait for"});
    note(context, "every partition has an owner; nothing would change");
    return exit_ok;
  }
  bool waits = false;
  const auto say_what_comes = [&] {
    for (const auto& row : lost) {
      note(context, what_becomes_of(row, view.value("leader", "")));
      waits = waits || row["may_take"].empty();
    }
  };
  if (context.dry_run) {
    say_what_comes();
    return exit_ok;
  }
  const auto sure = context.confirm(fmt::format("Segments {} are not served by anybody. Accepting gives them to whoever lives and may hold them by the map, with what is left: what only the missing nodes hold is lost for good.", which));
  if (!sure) return fail(sure.error());
  const auto answer = tell_accepted(**client, false);
  if (!answer) return fail(answer.error());
  if (!answer->was_holding) {
    note(context, "every partition has an owner by now; nothing was changed");
    return exit_ok;
  }
  note(context, "accepted:");
  say_what_comes();
  if (waits) note(context, "until then: zaris node accept-empty --undo takes it back, zaris status shows it");
  return exit_ok;
}

int show_store(const Context& context) {
  const auto client = connect_to_nodes(context);
  if (!client) return fail(client.error());
  const RegionWords words = ask_nodes(**client);
  const auto view = view_of(words.words);
  if (context.format == Format::json || context.format == Format::yaml) {
    print_document(context.format, {{"store", (*client)->welcome().store},
                                    {"region", (*client)->welcome().region},
                                    {"cluster_id", hex16((*client)->welcome().cluster.value())},
                                    {"segments", (*client)->welcome().segments},
                                    {"map_version", view["map_version"]},
                                    {"ownership_version", view["ownership_version"]},
                                    {"converged", view["converged"]},
                                    {"leader", view["leader"]},
                                    {"replication", view["replication"]},
                                    {"partitions", view["partitions"]}});
  } else {
    print_partitions(context.format, view["partitions"]);
  }
  (void)flush_out();
  note_accepted(context, view);
  return exit_of(context, words);
}

}  // namespace

void add_node(CLI::App& app, Context& context) {
  CLI::App* group = add_verb(app, "node", "the nodes of a region", "zaris node list\nzaris node drain n2 --wait --yes\nzaris node accept-empty --url zaris://a/main");
  group->require_subcommand(1);
  CLI::App* sub = add_verb(*group, "list", "every node: whether it answers, what it owns, how far its replicas are behind (exit 1 when one does not answer)",
                           "zaris node list\nzaris node list -o wide --url zaris://a1,a2,a3/main");
  sub->callback([&context] { context.action = [&context] { return list(context); }; });

  auto name = std::make_shared<std::string>();
  sub = add_verb(*group, "show", "one node and its partitions", "zaris node show n1\nzaris node show n1 -o json");
  sub->add_option("NAME", *name, "as in the roster")->required();
  sub->callback([&context, name] { context.action = [&context, name] { return show(context, *name); }; });

  auto o = std::make_shared<DrainOptions>();
  sub = add_verb(*group, "drain", "hand over what a node owns, and keep it from owning anything until --undo", "zaris node drain n2 --wait --yes\nzaris node drain n2 --undo");
  sub->add_option("NAME", o->name, "as in the roster")->required();
  sub->add_flag("--undo", o->undo, "it may own again");
  sub->add_flag("--wait", o->wait, "until it owns nothing (--timeout: 60s)");
  sub->callback([&context, o] { context.action = [&context, o] { return drain(context, *o); }; });

  sub = add_verb(*group, "accept-empty", "let a node serve that holds because it came back empty, or give partitions that nobody holds any more to whoever lives",
                 "zaris node accept-empty --dry-run\nzaris node accept-empty --yes\nzaris node accept-empty --undo");
  auto undo = std::make_shared<bool>(false);
  sub->add_flag("--undo", *undo, "take back what was accepted and nobody has begun yet");
  sub->callback([&context, undo] { context.action = [&context, undo] { return accept_empty(context, *undo); }; });
}

void add_store(CLI::App& app, Context& context) {
  CLI::App* group = add_verb(app, "store", "how a region's store is spread over its nodes", "zaris store show\nzaris store verify");
  group->require_subcommand(1);
  CLI::App* sub = add_verb(*group, "show", "the partitions: segments, owner, replicas and how they are", "zaris store show\nzaris store show -o wide\nzaris store show -o json");
  sub->callback([&context] { context.action = [&context] { return show_store(context); }; });
  add_store_verify(*group, context);
}

}  // namespace zaris::cli
