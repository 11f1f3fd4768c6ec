// verify: do the two ends of a link hold the same? The follower reads and compares (follower/link/link_verify.cpp); this asks it to, waits, and says
// what came of it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cluster/cli/http.hpp"
#include "cluster/cli/link_json.hpp"
#include "cluster/cli/verbs.hpp"

namespace zaris::cli {
namespace {

using nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;
using Kind = Column::Kind;
using std::chrono::milliseconds;

constexpr milliseconds poll_every{100}, one_request{5000}, default_timeout{600'000};

const Sheet round_sheet{{{"link", "/link"},
                         {"result", "/result"},
                         {"records compared", "/last_records", Kind::count},
                         {"took", "/last_seconds", Kind::seconds},
                         {"keys that differ", "/divergent_keys", Kind::count},
                         {"repaired in it", "/last_repaired", Kind::count},
                         {"repaired so far", "/repaired_total", Kind::count},
                         {"segments left out", "/left_out", Kind::count}},
                        "/link"};
const Sheet key_sheet{{{"SEGMENT", "/segment"}, {"KEY", "/key"}, {"AT THE TARGET", "/how"}, {"AS OF", "/as_of"}}, "/key"};

std::uint64_t rounds(const ordered_json& verify, const char* result) { return verify.at("rounds_total").value(result, std::uint64_t{0}); }
std::uint64_t rounds(const ordered_json& verify) {
  return rounds(verify, "equal") + rounds(verify, "repaired") + rounds(verify, "different") + rounds(verify, "incomplete");
}

int report(const Context& context, const std::string& link, ordered_json verify) {
  const std::string result = verify.value("last_result", "");
  ordered_json out{{"link", link}, {"result", result}};
  for (auto& [key, value] : verify.items()) out[key] = value;
  print_one(context.format, round_sheet, out);
  if ((context.format == Format::table || context.format == Format::wide) && !out["keys"].empty()) {
    write_out("\n");
    print_rows(Format::table, key_sheet, out["keys"]);
  }
  if (result == "equal") return exit_ok;
  return result == "incomplete" ? exit_partly : exit_no;
}

int verify(const Context& context, const std::string& name) {
  const auto timeout = context.timeout(default_timeout);
  if (!timeout) return fail(timeout.error());
  const auto deadline = Clock::now() + *timeout;
  const auto link = link_of(context.admins[0], name, std::min(*timeout, one_request));
  if (!link) return fail(link.error());
  const ordered_json before = link->at("verify");
  if (context.dry_run) {
    note(context, fmt::format("would read and compare everything that link {} has copied", name));
    return exit_ok;
  }
  // One that has begun already says nothing of what was written since: it is waited for, and the next one counts. Rounds may follow each other without a rest.
  const bool one_runs = before.value("running", false);
  if (one_runs) note(context, "a round is running already; the one after it counts");
  const std::uint64_t wanted = rounds(before) + (one_runs ? 2 : 1);
  const auto begun = ask_admin("POST", context.admins[0], "/v1/links/" + url_encoded(name) + "/verify", std::min(*timeout, one_request));
  if (!begun) return fail(begun.error());
  Progress progress(context);
  std::string stands = "no answer";
  while (Clock::now() < deadline) {
    const auto now = link_of(context.admins[0], name, one_request);
    if (now) {
      const ordered_json& verify = now->at("verify");
      if (rounds(verify) < wanted) {
        stands = fmt::format("{} of {} segments, {} keys differ; the link is {}", verify.value("lanes_done", 0), verify.value("lanes", 0), verify.value("divergent_keys", 0), now->value("state", "unknown"));
        progress.show("comparing: " + stands);
      } else {
        progress.done("compared");
        return report(context, name, verify);
      }
    } else {
      stands = now.error().what;
    }
    pause_for(poll_every);
  }
  return fail({"timed_out", fmt::format("not through in time: {}", stands), "a longer --timeout; links[].verify.rate says how fast it may read. The round goes on: `zaris link show " + name + "`"});
}

}  // namespace

void add_verify(CLI::App& app, Context& context) {
  auto name = std::make_shared<std::string>();
  CLI::App* sub = add_verb(app, "verify", "read everything that a link has copied at both ends and compare it, beside all traffic (exit 0 equal, 1 different or repaired, 8 not through in time, 11 equal as far as it could be looked at)",
                           "zaris verify a-to-b\nzaris verify a-to-b --timeout 2h -o json\nzaris verify a-to-b --admin http://10.0.0.7:7891");
  sub->add_option("NAME", *name, "the link")->required();
  sub->callback([&context, name] { context.action = [&context, name] { return verify(context, *name); }; });
}

}  // namespace zaris::cli
