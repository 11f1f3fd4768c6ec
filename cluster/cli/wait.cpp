// wait ready, wait link NAME --caught-up
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cluster/cli/link_json.hpp"
#include "cluster/cli/region_words.hpp"
#include "cluster/cli/verbs.hpp"

namespace zaris::cli {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds poll_every{50};
constexpr milliseconds one_request{5000}, last_request{250};

struct WaitOptions {
  std::string name;
  bool caught_up = false;
  std::string staleness;      // a length of time; a bare number is seconds
  std::string state;
};

// Asks until it is so. `check` returns an empty text when it is, else what is missing; an error when waiting cannot help. 8 when the
// time is over.
int wait_for(const Context& context, const std::string& what, const std::function<Result<std::string>(milliseconds left)>& check) {
  const auto timeout = context.timeout(milliseconds(60'000));
  if (!timeout) return fail(timeout.error());
  const auto deadline = Clock::now() + *timeout;
  Progress progress(context);
  while (true) {
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
    // The last question gets time for an answer too, or it would be all that is told.
    const auto answer = check(std::clamp(left, last_request, one_request));
    if (!answer) return fail(answer.error());
    const std::string& missing = *answer;
    if (missing.empty()) {
      progress.done(what);
      return exit_ok;
    }
    if (Clock::now() + poll_every >= deadline)
      return fail({"timed_out", fmt::format("not so after {}: {}", show_seconds(static_cast<double>(timeout->count()) / 1e3), missing), ""});
    progress.show("waiting: " + missing);
    pause_for(poll_every);
  }
}

// 0: none was given.
Result<double> seconds_of(const std::string& text) {
  if (text.empty()) return 0.0;
  const auto time = client::parse_duration(text);
  if (!time) return tl::unexpected(time.error());
  if (time->count() == 0) return failure("usage", "--staleness " + printable(text) + " is never so", "at least 1ms");
  return static_cast<double>(time->count()) / 1e3;
}

// Caught up means: in stream everywhere, and at or above the head that a Ping sent **after this question** brought back. A
// staleness shorter than the time since the question says just that.
int wait_link(const Context& context, const WaitOptions& o) {
  const auto most = seconds_of(o.staleness);
  if (!most) return fail(most.error());
  const auto asked = Clock::now();
  return wait_for(context, fmt::format("link {}: {}", o.name, o.caught_up ? "caught up" : "as wanted"), [&](milliseconds left) -> Result<std::string> {
    const auto link = link_of(context.admins[0], o.name, left);
    if (!link) {
      if (link.error().code == "url_invalid" || link.error().code == "link_unknown") return tl::unexpected(link.error());
      return link.error().what;
    }
    const std::string state = link->value("state", "unknown");
    const double staleness = link->value("staleness_seconds", 1e12);
    const auto stands = [&] {
      const std::string reason = link->value("reason", "");
      const auto backlog = link->find("backlog_revisions");
      const bool known = backlog != link->end() && backlog->is_number();  // null: the source is not heard
      return fmt::format("{}{}, staleness {}, backlog {}", state, reason.empty() ? "" : " (" + reason + ")", show_seconds(staleness),
                         known ? show_count(backlog->get<std::uint64_t>()) + " revisions" : "not known");
    };
    if (o.caught_up) {
      const double since = std::chrono::duration<double>(Clock::now() - asked).count();
      if (!link->value("caught_up", false) || staleness >= since) return stands();
    }
    if (*most > 0 && staleness >= *most) return stands();
    if (!o.state.empty() && state != o.state) return stands();
    return std::string();
  });
}

int wait_ready(const Context& context, const std::vector<std::string>& without) {
  return wait_for(context, "ready", [&](milliseconds) -> Result<std::string> {
    for (std::size_t i = 0; i < context.urls.size(); ++i) {
      auto options = context.url_options(i);
      if (!options) return tl::unexpected(options.error());
      options->timeout = std::min(options->timeout, one_request);
      const auto client = client::Client::connect(std::move(*options));
      if (!client) {
        // A certificate or an identity does not put itself right.
        if (client.error().code != "unreachable" && client.error().code != "connection_lost" && client.error().code != "timed_out")
          return tl::unexpected(client.error());
        return client.error().what;
      }
      // A region of several serves without some of its nodes; one that does not serve at all is not connected to.
      const RegionWords words = ask_nodes(**client);
      if (words.several) {
        const auto view = view_of(words.words);
        const RegionSum sum = sum_of(words.words, view);
        if (sum.status.state != "serving") return fmt::format("the region of {}: {}", context.urls[i], sum.status.state_reason);
        if (const std::string lacks = lacks_copies(view, without); !lacks.empty()) return fmt::format("the region of {}: {}", context.urls[i], lacks);
        continue;
      }
      if (words.words.empty()) return context.urls[i] + " has no map yet";
      const NodeWord& node = words.words.front();
      if (!node.status) return node.error ? node.error->what : "no answer";
      if (node.status->state != "serving") return context.urls[i] + " is " + node.status->state + (node.status->state_reason.empty() ? "" : ": " + node.status->state_reason);
    }
    return std::string();
  });
}

}  // namespace

void add_wait(CLI::App& app, Context& context) {
  CLI::App* group = add_verb(app, "wait", "wait until something is so (exit 8 when the time is over)", "zaris wait ready --timeout 30s\nzaris wait link a-to-b --caught-up --timeout 60s");
  group->require_subcommand(1);
  {
    auto without = std::make_shared<std::vector<std::string>>();
    CLI::App* sub = add_verb(*group, "ready", "until every --url serves; of a region of several nodes, until each node is there, every partition is served and every copy is in step",
                             "zaris wait ready --url zaris://a/main --url zaris://b/main\nzaris wait ready --without n3");
    sub->add_option("--without", *without, "a node of a region of several that is not waited for while it is not there; repeatable");
    sub->callback([&context, without] { context.action = [&context, without] { return wait_ready(context, *without); }; });
  }
  {
    auto o = std::make_shared<WaitOptions>();
    CLI::App* sub = add_verb(*group, "link", "until a link is caught up, fresh enough, or in a state",
                             "zaris wait link a-to-b --caught-up --timeout 60s\nzaris wait link a-to-b --state running\nzaris wait link a-to-b --staleness 1.5s");
    sub->add_option("NAME", o->name, "the link")->required();
    sub->add_flag("--caught-up", o->caught_up, "everything that the source held when this was asked is in the target");
    sub->add_option("--staleness", o->staleness, "less than this (500ms, 1.5s, 2m; a bare number is seconds)");
    sub->add_option("--state", o->state, "in this state")->check(CLI::IsMember({"running", "bootstrap", "repair", "held", "paused", "backoff", "failed", "stuck"}));
    sub->callback([&context, o] {
      context.action = [&context, o] {
        if (!o->caught_up && o->staleness.empty() && o->state.empty()) o->caught_up = true;
        return wait_link(context, *o);
      };
    });
  }
}

}  // namespace zaris::cli
