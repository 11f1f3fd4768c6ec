#include "feed/cli/command_line.hpp"

#include <CLI/CLI.hpp>
#include <atomic>
#include <ostream>

#include "feed/cli/exit_code.hpp"
#include "feed/cli/segments.hpp"
#include "feed/cli/tail.hpp"

namespace zaris::feed::cli {
namespace {

std::atomic<int> interrupted{0};

struct Connection { std::string url, ca, cert, key; };

void add_connection(CLI::App& app, Connection& c) {
  app.add_option("--feed", c.url, "the feed: zariss://HOST:7871, zaris://HOST:7871 without TLS [ZARIS_FEED_URL]")->capture_default_str();
  app.add_option("--ca", c.ca, "authorities that the source is checked against (PEM) [ZARIS_FEED_CA]");
  app.add_option("--cert", c.cert, "our certificate (PEM) [ZARIS_FEED_CERT]");
  app.add_option("--key", c.key, "its key [ZARIS_FEED_KEY]");
}

Result<FeedEndpoint> endpoint_of(const Connection& c) {
  auto url = parse_feed_url(c.url);
  if (!url) return tl::unexpected(url.error());
  FeedEndpoint out;
  out.host = url->host;
  out.port = url->port;
  if (url->tls) {
    auto context = tls::Context::client({c.ca, c.cert, c.key, tls::MinVersion::tls13, false});
    if (!context) return tl::unexpected(context.error());
    out.tls = *context;
  }
  return out;
}

// "--output: json not in {table,ndjson}" is the parser's form; a person reads which formats there are.
std::string usage_text(const CLI::ParseError& error) {
  std::string text = printable(error.what(), 1024);
  const auto braces = text.find(" not in {");
  const auto colon = text.find(": ");
  if (braces == std::string::npos || colon == std::string::npos || text.back() != '}') return text;
  std::string known = text.substr(braces + 9, text.size() - braces - 10);
  for (auto comma = known.find(','); comma != std::string::npos; comma = known.find(',', comma + 2)) known.insert(comma + 1, " ");
  return text.substr(0, colon) + " '" + text.substr(colon + 2, braces - colon - 2) + "' is not known here; it is one of: " + known;
}

int act(int argc, char** argv, const Environment& environment) {
  CLI::App app{"Looks at a region's change feed. `zaris feed followers` and `zaris feed drop` show and change who holds its log back.", "zaris-feed"};
  app.set_version_flag("--version", "zaris-feed " + environment.version);
  app.require_subcommand(1);
  app.footer("Examples:\n"
             "  zaris-feed tail --feed zariss://localhost:7871 --ca certs/ca.crt --cert certs/follower.crt --key certs/follower.key\n"
             "  zaris-feed tail --prefix t1: -o ndjson\n"
             "  zaris-feed segments");
  Connection connection{environment.url.empty() ? "zariss://127.0.0.1:7871" : environment.url, environment.ca, environment.cert, environment.key};

  TailOptions options;
  std::string tail_format = "table", segments_format = "table";
  CLI::App* tail_verb = app.add_subcommand("tail", "print changes as they happen");
  add_connection(*tail_verb, connection);
  tail_verb->add_option("--prefix", options.prefix, "only keys that begin with this");
  tail_verb->add_option("--segments", options.segments, "only these, as 1,4-9");
  tail_verb->add_option("--since", options.since, "a resume token, or `oldest`: all that the log still holds; else from now on");
  tail_verb->add_option("--heartbeat", options.heartbeat, "a sign of life at least so often, as 5s (ndjson shows it)");
  tail_verb->add_option("-o,--output", tail_format, "table or ndjson")->check(CLI::IsMember({"table", "ndjson"}))->capture_default_str();
  tail_verb->add_option("--count", options.count, "end after so many changes")->check(CLI::PositiveNumber);
  tail_verb->add_flag("--once", options.once, "end with the connection instead of opening it again");
  tail_verb->footer("Lines of -o ndjson: docs/formats/feed.md. A lost connection is opened again where it broke off; changes may come twice.");

  CLI::App* segments_verb = app.add_subcommand("segments", "heads and floors of the segments that are served there");
  add_connection(*segments_verb, connection);
  segments_verb->add_option("-o,--output", segments_format, "table, json or ndjson")->check(CLI::IsMember({"table", "json", "ndjson"}))->capture_default_str();

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e, environment.out, environment.err);
    const std::string verb = tail_verb->parsed() ? " tail" : segments_verb->parsed() ? " segments" : "";
    environment.err << "zaris-feed: usage: " << usage_text(e) << "\n  try: zaris-feed" << verb << " --help\n";
    return exit_usage;
  }
  auto endpoint = endpoint_of(connection);
  if (!endpoint) {
    environment.err << "zaris-feed: " << endpoint.error().text() << '\n';
    return exit_code_of(endpoint.error());
  }
  if (segments_verb->parsed()) return show_segments(*endpoint, segments_format, environment.out, environment.err);
  options.endpoint = std::move(*endpoint);
  options.table = tail_format == "table";
  return tail(options, environment.out, environment.err, interrupted);
}

}  // namespace

void interrupt(int signal) noexcept { interrupted = signal; }

int run(int argc, char** argv, const Environment& environment) {
  const int code = act(argc, argv, environment);
  environment.out.flush();
  if (environment.out.good()) return code;
  environment.err << "zaris-feed: the output could not be written\n  try: is the disk full?\n";
  return code == exit_ok ? exit_configuration : code;
}

}  // namespace zaris::feed::cli
