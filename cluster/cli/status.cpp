// status: one screen of regions and links, and whether they are in step.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "cluster/cli/link_json.hpp"
#include "cluster/cli/region_words.hpp"
#include "cluster/cli/verbs.hpp"

namespace zaris::cli {
namespace {

using nlohmann::ordered_json;
using protocol::StatusAnswer;

ordered_json to_json(const std::string& url, const StatusAnswer& s) {
  return {{"url", url},
          {"region", s.region},
          {"store", s.store},
          {"node", s.node},
          {"version", s.version},
          {"cluster_id", hex16(s.cluster.value())},
          {"history_id", hex16(s.history.value())},
          {"role", s.role},
          {"state", s.state},
          {"state_reason", s.state_reason},
          {"segments", s.segments},
          {"live_keys", s.live_keys},
          {"live_bytes", s.live_bytes},
          {"tombstones", s.tombstones},
          {"digest", s.digest.hex()},
          {"commits", s.commits},
          {"generation", s.generation.value()},
          {"site_epoch", s.site_epoch.value()},
          {"memory", {{"used_bytes", s.memory_used}, {"max_bytes", s.memory_max}, {"resident_bytes", s.memory_resident}}},
          {"log", {{"bytes", s.log_bytes}, {"budget_bytes", s.log_budget}, {"pinned_bytes", s.log_pinned}, {"reach_seconds", static_cast<double>(s.log_reach_us) / 1e6}}},
          {"limits", {{"key_bytes", s.key_bytes_max}, {"value_bytes", s.value_bytes_max}}},
          {"links", s.links},
          {"pins", s.pins},
          {"connections", s.connections},
          {"closed_time_us", s.closed_time_us},
          {"uptime_seconds", static_cast<double>(s.uptime_us) / 1e6},
          {"insecure", s.insecure},
          {"feed_address", s.feed_address},
          {"admin_address", s.admin_address}};
}

void show_region(const ordered_json& r) {
  const auto text = [&](const char* name) { return r[name].get<std::string>(); };
  const auto number = [](const ordered_json& v) { return v.get<std::uint64_t>(); };
  write_out(fmt::format("region {}   {}{}, {}   store {}   cluster {}\n", text("region"), text("state"), text("state_reason").empty() ? "" : " (" + text("state_reason") + ")",
                        text("role"), text("store"), text("cluster_id")));
  if (r["insecure"].get<bool>()) write_out("  INSECURE: TLS or client certificates are switched off\n");
  write_out(fmt::format("  keys {}   {}   digest {}\n", show_count(number(r["live_keys"])), show_bytes(number(r["live_bytes"])), text("digest")));
  const auto used = number(r["memory"]["used_bytes"]), most = number(r["memory"]["max_bytes"]);
  write_out(fmt::format("  memory {} of {}{}   log {} of {}{}\n", show_bytes(used), show_bytes(most), most > 0 ? fmt::format(" ({} %)", used * 100 / most) : "",
                        show_bytes(number(r["log"]["bytes"])), show_bytes(number(r["log"]["budget_bytes"])),
                        number(r["pins"]) > 0 ? fmt::format(", {} pinned by {} followers", show_bytes(number(r["log"]["pinned_bytes"])), number(r["pins"])) : ""));
  write_out(fmt::format("  node {} {}   up {}   generation {}   {} segments   {} links in   {} connections\n", text("node"), text("version"),
                        show_seconds(r["uptime_seconds"].get<double>()), number(r["generation"]), number(r["segments"]), number(r["links"]), number(r["connections"])));
}

// A region of several nodes: the answer first, then who is who.
void show_several(const ordered_json& r) {
  const ordered_json& c = r["cluster"];
  const auto text = [](const ordered_json& v) { return v.is_string() ? printable(v.get<std::string>()) : std::string(); };
  const auto number = [](const ordered_json& v) { return v.is_number() ? v.get<std::uint64_t>() : std::uint64_t{0}; };
  write_out(fmt::format("region {}   {}   {} of {} nodes up   leader {}   {}, {}   store {}   cluster {}\n", text(r["region"]), c["healthy"].get<bool>() ? "healthy" : "NOT HEALTHY",
                        number(c["nodes_up"]), number(c["nodes_all"]), text(c["leader"]).empty() ? "none" : text(c["leader"]), text(r["state"]), text(r["role"]), text(r["store"]), text(r["cluster_id"])));
  if (r["insecure"].get<bool>()) write_out("  INSECURE: TLS or client certificates are switched off\n");
  for (const auto& fault : c["faults"]) write_out("  ! " + text(fault) + "\n");
  write_out(fmt::format("  map {}, ownership {}, {}   {}   {} copies, ack {}   worst lag {} revisions\n", number(c["map_version"]), number(c["ownership_version"]),
                        c["converged"].get<bool>() ? "converged" : "not converged", c["etcd_answers"].get<bool>() ? "etcd answers" : "etcd is silent",
                        number(c["replication"]["factor"]), text(c["replication"]["ack"]), show_count(number(c["lag_revisions_max"]))));
  if (!text(c["waiting_for"]).empty()) write_out("  waits: " + text(c["waiting_for"]) + "\n");
  for (const auto& wish : c["accepted"]) write_out("  accepted as lost: " + text(wish) + "\n");
  for (const auto& one : c["settings_differ"]) write_out("  settings differ: " + text(one) + "\n");
  std::map<std::string, std::uint64_t> states;
  for (const auto& partition : c["partitions"]) ++states[text(partition["state"])];
  std::string partitions;
  for (const auto& [state, count] : states) partitions += fmt::format("{}{} {}", partitions.empty() ? "" : ", ", count, state);
  write_out(fmt::format("  partitions: {}   {} segments   generation {}\n", partitions.empty() ? "none yet" : partitions, number(r["segments"]), number(r["generation"])));
  const bool whole = !text(r["digest"]).empty();
  write_out(fmt::format("  keys {}{}   {}   digest {}\n", show_count(number(r["live_keys"])), whole ? "" : " at the owners that answer", show_bytes(number(r["live_bytes"])), whole ? text(r["digest"]) : "not known: not every owner answers"));
  write_out(fmt::format("  memory {}   log {}{}   {} links in   {} connections\n", show_bytes(number(r["memory"]["used_bytes"])), show_bytes(number(r["log"]["bytes"])),
                        number(r["pins"]) > 0 ? fmt::format(", {} pinned by {} followers", show_bytes(number(r["log"]["pinned_bytes"])), number(r["pins"])) : "", number(r["links"]), number(r["connections"])));
  for (const auto& node : c["nodes"]) {
    write_out(fmt::format("  node {:<12} {:<10} owns {:<3} replica of {:<3}{}{}{}\n", text(node["name"]), text(node["state"]), number(node["owns"]), number(node["replica_of"]),
                          node.contains("uptime_seconds") ? " up " + show_seconds(node["uptime_seconds"].get<double>()) + "   " + text(node["version"]) : "",
                          node["draining"].get<bool>() ? "   drained on request" : "", node["registered"].get<bool>() ? "" : "   not registered"));
  }
}

void show_link(const ordered_json& l) {
  const auto text = [&](const char* name) { return l.contains(name) && l[name].is_string() ? l[name].get<std::string>() : std::string(); };
  const auto number = [&](const char* path) {
    const ordered_json::json_pointer at{std::string(path)};
    return l.contains(at) && l.at(at).is_number() ? l.at(at).get<double>() : 0.0;
  };
  const auto count = [&](const char* path) { return show_count(static_cast<std::uint64_t>(number(path))); };
  const bool listening = l.contains("backlog_revisions") && l["backlog_revisions"].is_number();
  const std::string backlog = listening ? fmt::format("{} revisions, {}", count("/backlog_revisions"), show_bytes(static_cast<std::uint64_t>(number("/backlog_bytes"))))
                                        : "not known: the source is not heard";
  write_out(fmt::format("link {}   {}{}   staleness {}   backlog {}{}\n", text("name"), text("state"), text("reason").empty() ? "" : " (" + text("reason") + ")",
                        show_seconds(number("/staleness_seconds")), backlog, l.value("caught_up", false) ? "   caught up" : ""));
  if (number("/bootstrap/segments_total") > number("/bootstrap/segments_done")) {
    const auto eta = number("/bootstrap/eta_seconds");
    write_out(fmt::format("  copying: {} of {} segments, {} keys{}\n", count("/bootstrap/segments_done"), count("/bootstrap/segments_total"), count("/bootstrap/records"),
                          eta > 0 ? ", about " + show_seconds(eta) + " left" : ""));
  }
  if (!text("next_step").empty()) write_out("  next: " + text("next_step") + "\n");
}

// What is wrong with it; empty: nothing. Paused is somebody's wish, a copy takes its time, and who is behind catches up.
std::string fault_of_region(const ordered_json& r) {
  const auto state = r["state"].get<std::string>();
  if (state == "serving") return "";
  const auto reason = r["state_reason"].get<std::string>();
  return fmt::format("node {} of region {} is {}{}", r["node"].get<std::string>(), r["region"].get<std::string>(), state, reason.empty() ? "" : ": " + reason);
}

std::string fault_of_link(const ordered_json& l) {
  const auto text = [&](const char* name) { return l.contains(name) && l[name].is_string() ? l[name].get<std::string>() : std::string(); };
  static constexpr std::string_view well[] = {"running", "bootstrap", "repair", "paused"};
  const std::string state = text("state");
  if (std::find(std::begin(well), std::end(well), state) != std::end(well)) return "";
  return fmt::format("link {} is {}{}", printable(text("name")), state.empty() ? "in no known state" : printable(state), text("reason").empty() ? "" : ": " + printable(text("reason")));
}

// Some answered and others did not: what cannot be reached is a fault of what was looked at, anything else one of the question.
int status_of_unanswered(const Error& first) {
  const int code = exit_code_of(first);
  return code == exit_unreachable || code == exit_timed_out ? exit_no : exit_partly;
}

int status(const Context& context) {
  ordered_json regions = ordered_json::array(), links = ordered_json::array(), errors = ordered_json::array();
  std::optional<Error> first;
  const auto failed = [&](const std::string& where, const Error& error) {
    errors.push_back({{"where", where}, {"code", error.code}, {"what", error.what}});
    if (!first) first = error;
  };
  for (std::size_t i = 0; i < context.urls.size(); ++i) {
    const auto client = connect_to_nodes(context, i);
    if (!client) {
      failed(context.urls[i], client.error());
      continue;
    }
    const RegionWords words = ask_nodes(**client);
    if (words.several) {
      const auto view = view_of(words.words);
      const RegionSum sum = sum_of(words.words, view);
      ordered_json region = to_json(context.urls[i], sum.status);
      if (!sum.whole) region["digest"] = "";
      region["cluster"] = view;
      regions.push_back(std::move(region));
      continue;
    }
    for (const NodeWord& word : words.words) {
      if (word.status) regions.push_back(to_json(context.urls[i], *word.status));
      else failed(context.urls[i], *word.error);
    }
  }
  const auto timeout = context.timeout(std::chrono::milliseconds(5000));
  if (!timeout) return fail(timeout.error());
  for (const std::string& admin : context.admins) {
    const auto all = links_of(admin, *timeout);
    if (all) {
      for (const auto& link : *all) links.push_back(link);
    } else if (context.admins_given) {
      failed(admin, all.error());  // nobody asked for the default one
    }
  }
  // Digests speak for all that a region holds, once every owner has answered.
  ordered_json in_step = nullptr;
  if (context.urls.size() == 2 && regions.size() == 2 && regions[0]["digest"] != "" && regions[1]["digest"] != "")
    in_step = regions[0]["digest"] == regions[1]["digest"] && regions[0]["live_keys"] == regions[1]["live_keys"];

  std::vector<std::string> faults;
  for (const auto& region : regions) {
    if (!region.contains("cluster")) {
      faults.push_back(fault_of_region(region));
      continue;
    }
    for (const auto& fault : region["cluster"]["faults"]) faults.push_back(fmt::format("region {}: {}", region["region"].get<std::string>(), printable(fault.get<std::string>())));
  }
  for (const auto& link : links) faults.push_back(fault_of_link(link));
  std::erase(faults, "");

  if (context.format == Format::table || context.format == Format::wide) {
    for (const auto& region : regions) {
      region.contains("cluster") ? show_several(region) : show_region(region);
      write_out("\n");
    }
    for (const auto& link : links) {
      show_link(link);
      write_out("\n");
    }
    if (in_step.is_boolean())
      write_out(in_step.get<bool>() ? fmt::format("in step: both regions hold the same {} keys\n", show_count(regions[0]["live_keys"].get<std::uint64_t>()))
                                    : fmt::format("not in step now: {} keys and {} keys\n", show_count(regions[0]["live_keys"].get<std::uint64_t>()),
                                                  show_count(regions[1]["live_keys"].get<std::uint64_t>())));
  } else if (context.format == Format::name) {
    print_rows(context.format, {{}, "/region"}, regions);
  } else {
    print_document(context.format, {{"regions", regions}, {"links", links}, {"in_step", in_step}, {"healthy", faults.empty() && !first}, {"faults", faults}, {"errors", errors}});
  }
  (void)flush_out();
  for (const std::string& fault : faults) note(context, "not healthy: " + fault);
  if (!first) return faults.empty() ? exit_ok : exit_no;
  const int code = fail(*first);
  return regions.empty() && links.empty() ? code : status_of_unanswered(*first);
}

}  // namespace

void add_status(CLI::App& app, Context& context) {
  CLI::App* sub = add_verb(app, "status", "regions, links, and whether they are in step, on one screen (exit 1 when one of them is not healthy)",
                           "zaris status\nzaris status --url zaris://a:7861/main --url zaris://b:7861/main --admin http://f:7891");
  sub->callback([&context] { context.action = [&context] { return status(context); }; });
}

}  // namespace zaris::cli
