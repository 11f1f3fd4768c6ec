// link list|show|pause|resume|accept-source|accept-target|accept-removal (the follower's), drop-scope and drop (the target's)
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "cluster/cli/http.hpp"
#include "cluster/cli/link_json.hpp"
#include "cluster/cli/region_words.hpp"
#include "cluster/cli/removal.hpp"
#include "cluster/cli/verbs.hpp"

namespace zaris::cli {

using nlohmann::ordered_json;
using std::chrono::milliseconds;

Result<ordered_json> ask_admin(const std::string& method, const std::string& admin, const std::string& target, milliseconds timeout) {
  const auto answer = http(method, admin, target, "", timeout);
  if (!answer) return tl::unexpected(answer.error());
  auto json = ordered_json::parse(answer->body, nullptr, false);
  if (answer->status >= 200 && answer->status < 300) {
    if (json.is_discarded()) return failure("protocol_malformed", admin + target + " did not answer in JSON", "is this the admin port of a follower?");
    return json;
  }
  if (json.is_object() && json.contains("code") && json["code"].is_string()) {
    const auto text = [&](const char* name) { return json.contains(name) && json[name].is_string() ? json[name].get<std::string>() : std::string(); };
    return failure(text("code"), text("message"), text("hint"));
  }
  return failure("server_error", fmt::format("{}{} answered {}", admin, target, answer->status), "");
}

Result<ordered_json> links_of(const std::string& admin, milliseconds timeout) {
  auto json = ask_admin("GET", admin, "/v1/links", timeout);
  if (!json) return json;
  if (json->is_object() && json->contains("links")) *json = ordered_json((*json)["links"]);
  if (!json->is_array()) return failure("protocol_malformed", admin + "/v1/links is no list", "is this the admin port of a follower?");
  return json;
}

Result<ordered_json> link_of(const std::string& admin, const std::string& name, milliseconds timeout) {
  return ask_admin("GET", admin, "/v1/links/" + url_encoded(name), timeout);
}

namespace {

using Kind = Column::Kind;

struct LinkOptions {
  std::string name, reason;
};

constexpr milliseconds default_timeout{10'000};

const Sheet list_sheet{{{"NAME", "/name"},
                        {"STATE", "/state"},
                        {"STALENESS", "/staleness_seconds", Kind::seconds},
                        {"BACKLOG", "/backlog_revisions", Kind::count},
                        {"BYTES", "/backlog_bytes", Kind::bytes},
                        {"CAUGHT UP", "/caught_up", Kind::boolean},
                        {"HEADS AGE", "/heads_age_seconds", Kind::seconds, true},
                        {"SOURCE", "/source/cluster_id", Kind::text, true},
                        {"TARGET", "/target/cluster_id", Kind::text, true},
                        {"SCOPE", "/scope_id", Kind::text, true},
                        {"CURSOR AGE", "/cursor_age_seconds", Kind::seconds, true},
                        {"REASON", "/reason"}}};

const Sheet show_sheet{{{"name", "/name"},
                        {"state", "/state"},
                        {"reason", "/reason"},
                        {"next step", "/next_step"},
                        {"caught up", "/caught_up", Kind::boolean},
                        {"staleness", "/staleness_seconds", Kind::seconds},
                        {"heads age", "/heads_age_seconds", Kind::seconds},
                        {"backlog", "/backlog_revisions", Kind::count},
                        {"backlog bytes", "/backlog_bytes", Kind::bytes},
                        {"source", "/source/cluster_id"},
                        {"source keys", "/source/live_keys", Kind::count},
                        {"target", "/target/cluster_id"},
                        {"target keys", "/target/live_keys", Kind::count},
                        {"scope", "/scope_id"},
                        {"bootstrap done", "/bootstrap/segments_done", Kind::count},
                        {"bootstrap of", "/bootstrap/segments_total", Kind::count},
                        {"bootstrap keys", "/bootstrap/records", Kind::count},
                        {"bootstrap left", "/bootstrap/eta_seconds", Kind::seconds},
                        {"applied", "/applied_total", Kind::count},
                        {"conflicts", "/conflicts_total", Kind::count},
                        {"rolled back", "/rolled_back_total", Kind::count},
                        {"rounds equal", "/verify/rounds_total/equal", Kind::count},
                        {"keys that differ", "/verify/divergent_keys", Kind::count},
                        {"cursor age", "/cursor_age_seconds", Kind::seconds}}};

const Sheet segment_sheet{{{"SEGMENT", "/id"}, {"PHASE", "/phase"}, {"MARK", "/mark"}, {"CURSOR", "/cursor"}, {"HEAD", "/head"}, {"FLOOR", "/floor"}, {"STOPPED", "/stopped_reason"}}, "/id"};

int list(const Context& context, const LinkOptions&) {
  const auto timeout = context.timeout(default_timeout);
  if (!timeout) return fail(timeout.error());
  ordered_json all = ordered_json::array();
  int worst = exit_ok;
  for (const std::string& admin : context.admins) {
    const auto links = links_of(admin, *timeout);
    if (!links) {
      worst = fail(links.error());
      continue;
    }
    for (const auto& link : *links) all.push_back(link);
  }
  if (worst != exit_ok && all.empty()) return worst;
  print_rows(context.format, list_sheet, all);
  return worst == exit_ok ? exit_ok : exit_partly;
}

// For people: with what the segments say about a removal that waits for a word. JSON shows the segments themselves.
void print_link(Format format, ordered_json link) {
  Sheet sheet = show_sheet;
  const Removal waiting = removal_of(link);
  if (waiting.segments > 0 && (format == Format::table || format == Format::wide)) {
    link["would_remove"] = fmt::format("at least {} keys of the target, in {} segment{}", show_count(waiting.keys), show_count(waiting.segments), waiting.segments == 1 ? "" : "s");
    sheet.columns.insert(sheet.columns.begin() + 3, {"would remove", "/would_remove"});
  }
  print_one(format, sheet, link);
}

int show(const Context& context, const LinkOptions& o) {
  const auto timeout = context.timeout(default_timeout);
  if (!timeout) return fail(timeout.error());
  const auto link = link_of(context.admins[0], o.name, *timeout);
  if (!link) return fail(link.error());
  print_link(context.format, *link);
  if (context.format == Format::wide && link->contains("segments")) {
    write_out("\n");
    print_rows(Format::table, segment_sheet, (*link)["segments"]);
  }
  return exit_ok;
}

struct Verb {
  const char* name;
  std::string_view accepts;   // codes of a hold that it answers, by spaces
  const char* description;
  const char* done;
  const char* question;  // null: nothing is lost by it
};
constexpr Verb verbs[] = {
    {"pause", "", "stop following; the place is kept", "paused; the source keeps its log for it within log.pin_bytes and log.pin_age", nullptr},
    {"resume", "", "go on", "resumed", nullptr},
    {"accept-source", "source_reset wrong_cluster ahead_of_source source_changed source_standby", "held(source_reset): make the target what the source is now", "accepted; the target becomes what the source is",
     "The source lost its data, is another one than before, or holds what another link brought there. Accepting replaces the target's content in this link's scope by what the source holds now."},
    {"accept-target", "target_changed", "held(target_changed): take the target as it is, and begin anew", "accepted; the link begins anew",
     "The target is another cluster than before. Accepting drops the positions that were kept for the old one and copies everything anew."},
    {"accept-removal", "large_removal", "held(large_removal): let it remove that many keys, this once", "accepted; it goes on",
     "The link is about to remove or roll back more keys of the target than links[].max_removal allows. Accepting lets it, this once."},
};

// What the follower would answer to this verb, by the link's status; as in follower/link/link_words.cpp.
Result<void> would_be_done(const ordered_json& link, const Verb& verb) {
  const std::string name = link.value("name", ""), state = link.value("state", ""), reason = link.value("reason", "");
  if (verb.name == std::string_view("resume") && state != "paused") return failure("link_not_paused", "link " + name + " is not paused");
  if (verb.accepts.empty()) return {};
  const std::string code = reason.substr(0, reason.find(':'));
  if (verb.accepts == "large_removal" && removal_of(link).segments > 0 && state != "paused" && (state != "held" || code == "large_removal")) return {};
  if (state == "held" && (' ' + std::string(verb.accepts) + ' ').find(' ' + code + ' ') != std::string::npos) return {};
  if (state == "paused") return failure("nothing_to_accept", fmt::format("link {} is paused; whether it is held does not show meanwhile", name), "zaris link resume " + name);
  return failure("nothing_to_accept", fmt::format("link {} is {}{}: that is nothing for {}", name, state, reason.empty() ? "" : " (" + printable(reason) + ")", verb.name), "zaris link show " + name);
}

int dry_run(const Context& context, const LinkOptions& o, const Verb& verb, milliseconds timeout) {
  const auto link = link_of(context.admins[0], o.name, timeout);
  if (!link) return fail(link.error());
  if (const auto would = would_be_done(*link, verb); !would) return fail(would.error());
  note(context, fmt::format("would {} link {}, which stands so:", verb.name, o.name));
  print_link(context.format, *link);
  return exit_ok;
}

int act(const Context& context, const LinkOptions& o, const Verb& verb) {
  const auto timeout = context.timeout(default_timeout);
  if (!timeout) return fail(timeout.error());
  if (context.dry_run) return dry_run(context, o, verb, *timeout);
  if (verb.question != nullptr)
    if (const auto sure = context.confirm(fmt::format("Link {}: {}", o.name, verb.question)); !sure) return fail(sure.error());
  const std::string query = o.reason.empty() ? "" : "?reason=" + url_encoded(o.reason);
  const auto done = ask_admin("POST", context.admins[0], "/v1/links/" + url_encoded(o.name) + "/" + verb.name + query, *timeout);
  if (!done) return fail(done.error());
  note(context, fmt::format("link {}: {}", o.name, verb.done));
  if (context.format == Format::json || context.format == Format::yaml || context.format == Format::ndjson) print_document(context.format, *done);
  return exit_ok;
}

// `zaris link list` asks a follower; the links of a target are its own register's.
Error with_registered(client::Client& client, Error error) {
  const auto links = client.list_links().get();
  if (!links) return error;
  std::string names;
  for (const auto& link : links->links) names += (names.empty() ? "" : ", ") + printable(link.link);
  error.hint = names.empty() ? "no link is registered at this region; is it the target? `zaris status --url URL`" : "registered there: " + names;
  return error;
}

// The first node of the region that answers.
template <class Ask>
auto ask_any(client::Client& client, Ask ask) -> decltype(ask(std::size_t{0}).get()) {
  const std::size_t nodes = client.map().nodes.size();
  for (std::size_t node = 0;; ++node) {
    auto answer = ask(node).get();
    if (answer || node + 1 >= nodes || (answer.error().code != "unreachable" && answer.error().code != "connection_lost" && answer.error().code != "timed_out")) return answer;
  }
}

// The target's own register: links that nobody runs any more.
int drop(const Context& context, const LinkOptions& o) {
  const auto client = connect_to_nodes(context);
  if (!client) return fail(client.error());
  const auto ask = [&](bool dry_run) { return ask_any(**client, [&](std::size_t node) { return (*client)->drop_link(o.name, dry_run, node); }); };
  const auto would = ask(true);
  if (!would) return fail(would.error().code == "not_found" ? with_registered(**client, would.error()) : would.error());
  const std::string what = fmt::format("link {} and its marks; its scope is no standby any more, its data stay", o.name);
  if (context.dry_run) {
    note(context, "would drop " + what);
    return exit_ok;
  }
  if (const auto sure = context.confirm(fmt::format("This drops from {} {}.", context.urls[0], what)); !sure) return fail(sure.error());
  const auto done = ask(false);
  if (!done) return fail(done.error());
  note(context, fmt::format("dropped link {}", o.name));
  return exit_ok;
}

// The nodes that own something: a node that is gone does not matter once others have taken over what it owned.
Result<std::vector<std::size_t>> owners_of(const protocol::MapAnswer& map) {
  std::set<std::size_t> out;
  std::uint32_t next = 0;
  for (const protocol::MapRun& run : map.runs) {
    if (run.first.value() != next) break;
    next = run.last.value() + 1u;
    out.insert(run.node);
  }
  if (next != map.segments) return failure("unavailable", fmt::format("nobody serves segment {} now", next), "`zaris status`; again when everything is served");
  return std::vector<std::size_t>(out.begin(), out.end());
}

// And what left a link's scope: each owner of the region drops what it owns, the last one takes it out of the register.
int drop_scope(const Context& context, const LinkOptions& o) {
  const auto client = context.connect();
  if (!client) return fail(client.error());
  const protocol::MapAnswer map = (*client)->map();
  const auto served = owners_of(map);
  if (!served) return fail(served.error());
  const std::vector<std::size_t>& owners = *served;
  bool begun = false;
  const auto ask_all = [&](bool dry_run) -> Result<protocol::DropAnswer> {
    protocol::DropAnswer all;
    for (std::size_t i = 0; i < owners.size(); ++i) {
      auto one = (*client)->drop_scope({o.name, dry_run, i + 1 < owners.size()}, owners[i]).get();
      if (!one && begun) return failure("partly_done", fmt::format("node {}: {}", map.nodes[owners[i]].id, one.error().text()), "again when it answers, or others have taken over: what is dropped stays dropped");
      if (!one) return tl::unexpected(one.error());
      begun = begun || !dry_run;
      all.count += one->count;
      all.kept += one->kept;
    }
    return all;
  };
  const auto would = ask_all(true);
  if (!would) return fail(would.error().code == "not_found" ? with_registered(**client, would.error()) : would.error());
  const auto kept = [](const protocol::DropAnswer& answer) {
    return answer.kept == 0 ? std::string() : fmt::format("; {} there stay: they are as this region wrote them, not as the link brought them", show_count(answer.kept));
  };
  const std::string what = fmt::format("{} keys that left the scope of link {}{}", show_count(would->count), o.name, kept(*would));
  if (context.dry_run) {
    note(context, "would drop " + what);
    return exit_ok;
  }
  if (const auto sure = context.confirm(fmt::format("This drops from {} {}.", context.urls[0], what)); !sure) return fail(sure.error());
  const auto done = ask_all(false);
  if (!done) return fail(done.error());
  note(context, fmt::format("dropped {} keys{}", show_count(done->count), kept(*done)));
  return exit_ok;
}

}  // namespace

void add_link(CLI::App& app, Context& context) {
  CLI::App* group = add_verb(app, "link", "the links of a follower", "zaris link list\nzaris link show a-to-b -o json\nzaris link pause a-to-b --reason maintenance");
  group->require_subcommand(1);
  const auto verb = [&](const std::string& name, const std::string& description, const std::string& examples, bool named, auto run) {
    auto o = std::make_shared<LinkOptions>();
    CLI::App* sub = add_verb(*group, name, description, examples);
    if (named) sub->add_option("NAME", o->name, "the link")->required();
    sub->callback([&context, o, run] { context.action = [&context, o, run] { return run(context, *o); }; });
    return std::pair{sub, o};
  };
  verb("list", "all links of the follower at --admin", "zaris link list -o wide\nzaris link list --admin http://10.0.0.7:7891", false, [](auto& c, auto& o) { return list(c, o); });
  verb("show", "one link: state, lag, positions (-o wide, json: per segment)", "zaris link show a-to-b\nzaris link show a-to-b -o json", true,
       [](auto& c, auto& o) { return show(c, o); });
  for (const Verb& one : verbs) {
    auto [sub, o] = verb(one.name, one.description, fmt::format("zaris link {} a-to-b", one.name), true, [&one](auto& c, auto& options) { return act(c, options, one); });
    if (std::string_view(one.name) == "pause") sub->add_option("--reason", o->reason, "why, for whoever looks next");
  }
  verb("drop-scope", "at the target (--url): delete what left the link's scope and is as the link brought it", "zaris link drop-scope a-to-b --url zaris://b/main --dry-run", true,
       [](auto& c, auto& o) { return drop_scope(c, o); });
  verb("drop", "at the target (--url): forget a link and its marks; data stay", "zaris link drop a-to-b --url zaris://b/main --yes", true,
       [](auto& c, auto& o) { return drop(c, o); });
  // For the help alone: whoever says it is handed over before this is asked (hand_over_if_others).
  add_verb(*group, "conflicts", "beside the follower's cursors (--path): what was taken away at the target: list, show, export (zaris-cursor)",
           "zaris link conflicts show a-to-b --path /var/lib/zaris/cursors");
}

}  // namespace zaris::cli
