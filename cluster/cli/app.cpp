#include "cluster/cli/app.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "cluster/cli/replay.hpp"
#include "cluster/cli/suggest.hpp"
#include "cluster/cli/verbs.hpp"

namespace zaris::cli {
namespace {

// Examples before options: what most who ask for help came for.
class ExamplesFirst : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override {
    if (mode == CLI::AppFormatMode::Sub) return CLI::Formatter::make_help(app, std::move(name), mode);
    std::string out = make_description(app);
    if (!app->get_footer().empty()) {
      out += "\nExamples:\n";
      std::istringstream lines(app->get_footer());
      for (std::string line; std::getline(lines, line);) out += "  " + line + "\n";
    }
    out += "\n" + make_usage(app, std::move(name));
    out += make_positionals(app);
    out += make_groups(app, mode);
    out += make_subcommands(app, mode);
    return out;
  }
  std::string make_subcommand(const CLI::App* sub) const override {
    return fmt::format("  {:<16}{}\n", sub->get_name(), sub->get_description());
  }
};

void split_words(const char* text, std::vector<std::string>& out) {
  std::istringstream words(text);
  for (std::string word; words >> word;) out.push_back(word);
}

// What was probably meant, looked for where the parser stopped.
std::string meant(const CLI::App& app, const std::string& given) {
  const CLI::App* deepest = &app;
  std::vector<std::string> known;
  const auto add_options = [&known](const CLI::App* of) {
    for (const CLI::Option* option : of->get_options())
      for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  };
  const bool option = given.starts_with("-");
  if (option) add_options(deepest);
  while (!deepest->get_subcommands().empty()) {
    deepest = deepest->get_subcommands().front();
    if (option) add_options(deepest);
  }
  if (!option)
    for (const CLI::App* sub : deepest->get_subcommands([](const CLI::App*) { return true; })) known.push_back(sub->get_name());
  return nearest(given.substr(0, given.find('=')), known);
}

int usage_error(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* deepest = &app;
  std::string path = "zaris";
  while (!deepest->get_subcommands().empty()) {
    deepest = deepest->get_subcommands().front();
    path += " " + deepest->get_name();
  }
  std::string what = error.what(), hint;
  std::vector<std::string> extra = app.remaining(true);
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr && !extra.empty()) {
    what = fmt::format("'{}' is not known to `{}`", printable(extra.front()), path);
    hint = meant(app, extra.front());
    if (!hint.empty()) hint = fmt::format("did you mean '{}'?", hint);
  } else if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr && !extra.empty()) {
    // "A subcommand is required" while an unknown word stands there.
    what = fmt::format("'{}' is not known to `{}`", printable(extra.front()), path);
    hint = meant(app, extra.front());
    if (!hint.empty()) hint = fmt::format("did you mean '{}'?", hint);
  }
  if (hint.empty()) hint = path + " --help";
  return fail({"usage", what, hint});
}

void on_signal(int signal) { ::_exit(128 + signal); }

}  // namespace

CLI::App* add_verb(CLI::App& parent, const std::string& name, const std::string& description, const std::string& examples) {
  CLI::App* sub = parent.add_subcommand(name, description);
  sub->footer(examples);
  sub->fallthrough();  // the common options may stand anywhere
  return sub;
}

int run(int argc, char** argv, const BuildInfo& build) {
  // At once, whatever is under way; nothing here needs tidying up. SIGPIPE keeps its default: the reader has seen enough.
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
  try {
    if (const auto other = hand_over_if_others(argc, argv)) return *other;
    Context context;
    context.build = build;
    context.program = argc > 0 ? argv[0] : "zaris";
    CLI::App app("zaris: regions of an in-memory key/value cluster, kept in step over a change feed", "zaris");
    app.formatter(std::make_shared<ExamplesFirst>());
    app.footer("zaris status --url zaris://a:7861/main --url zaris://b:7861/main\nzaris kv put greeting hello\nzaris link list\nzaris explain target_changed");
    app.require_subcommand(1);
    app.set_version_flag("--version", fmt::format("zaris {} ({})", build.version, build.revision));
    app.add_option("--url", context.urls, "a region's connection string (repeatable; else ZARIS_URL, else zaris://127.0.0.1:7861)")->allow_extra_args(false);
    app.add_option("--admin", context.admins, "a follower's admin address (repeatable; else ZARIS_ADMIN, else http://127.0.0.1:7891)")->allow_extra_args(false);
    app.add_option("-o,--output", context.format_text, "table, wide, json, yaml, ndjson or name")
        ->check(CLI::IsMember({"table", "wide", "json", "yaml", "ndjson", "name"}));
    app.add_option("--timeout", context.timeout_text, "of the whole operation (500ms, 10s, 2m)");
    app.add_flag("-y,--yes", context.yes, "do not ask");
    app.add_flag("--dry-run", context.dry_run, "say what would be done, do nothing");
    app.add_flag("--no-input", context.no_input, "never ask; fail where --yes is needed");
    app.add_flag("-q,--quiet", context.quiet, "no words on stderr but errors");
    add_status(app, context);
    add_kv(app, context);
    add_digest(app, context);
    add_link(app, context);
    add_feed(app, context);
    add_cursor(app, context);
    add_wait(app, context);
    add_verify(app, context);
    add_replay(app, context);
    add_node(app, context);
    add_store(app, context);
    add_tls(app, context);
    add_explain(app, context);
    add_version(app, context);

    try {
      app.parse(argc, argv);
    } catch (const CLI::Success& asked) {  // --help, --version
      return app.exit(asked, std::cout, std::cerr);
    } catch (const CLI::ParseError& error) {
      return usage_error(app, error);
    }
    static constexpr std::pair<std::string_view, Format> formats[] = {{"table", Format::table}, {"wide", Format::wide}, {"json", Format::json},
                                                                      {"yaml", Format::yaml},   {"ndjson", Format::ndjson}, {"name", Format::name}};
    for (const auto& [name, format] : formats)
      if (context.format_text == name) context.format = format;
    context.admins_given = !context.admins.empty();
    if (const char* urls = std::getenv("ZARIS_URL"); context.urls.empty() && urls != nullptr) split_words(urls, context.urls);
    if (const char* admins = std::getenv("ZARIS_ADMIN"); context.admins.empty() && admins != nullptr) {
      split_words(admins, context.admins);
      context.admins_given = !context.admins.empty();
    }
    context.urls_given = !context.urls.empty();
    if (context.urls.empty()) context.urls.push_back("zaris://127.0.0.1:7861");
    if (context.admins.empty()) context.admins.push_back("http://127.0.0.1:7891");
    const int code = context.action ? context.action() : exit_usage;
    if (!flush_out() && code == exit_ok) return fail({"file_unreadable", "the output could not be written", "is the disk full?"});
    return code;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "zaris: bug: %s\n", error.what());
    return exit_bug;
  }
}

}  // namespace zaris::cli
