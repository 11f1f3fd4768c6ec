// tls dev-ca, version
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cluster/cli/verbs.hpp"
#include "cluster/protocol/frame.hpp"
#include "cluster/tls/dev_ca.hpp"

namespace zaris::cli {

void add_tls(CLI::App& app, Context& context) {
  CLI::App* group = add_verb(app, "tls", "certificates", "zaris tls dev-ca --dir certificates --client follower");
  group->require_subcommand(1);
  auto request = std::make_shared<tls::DevCaRequest>();
  auto names = std::make_shared<std::vector<std::string>>();
  auto clients = std::make_shared<std::vector<std::string>>();
  auto servers = std::make_shared<std::vector<std::string>>();
  CLI::App* sub = add_verb(*group, "dev-ca", "make a certificate authority and certificates for development and tests, never for anything else",
                           "zaris tls dev-ca --dir certificates --client follower\nzaris tls dev-ca --dir certificates --server node1 --name node1.example --client tenant1");
  sub->add_option("--dir", request->directory, "where to; a certificate authority that is there already is used")->required();
  sub->add_option("--server", *servers, "a server certificate of this file name (repeatable; without one: server)");
  sub->add_option("--name", *names, "a further host name or address in every server certificate (repeatable)");
  sub->add_option("--client", *clients, "a client certificate with this subject (repeatable)");
  sub->add_option("--days", request->days, "how long they are good for")->check(CLI::Range(0u, 36'500u));
  sub->callback([&context, request, names, clients, servers] {
    context.action = [&context, request, names, clients, servers] {
      request->servers.clear();
      if (servers->empty()) servers->push_back("server");
      for (const std::string& name : *servers) request->servers.push_back({name, *names});
      for (const std::string& name : *clients) request->clients.push_back({name, {}});
      const auto written = tls::make_dev_ca(*request);
      if (!written) return fail(written.error());
      nlohmann::ordered_json rows = nlohmann::ordered_json::array();
      for (const std::string& path : *written) rows.push_back({{"file", path}});
      print_rows(context.format == Format::table ? Format::name : context.format, {{{"FILE", "/file"}}, "/file"}, rows);
      return static_cast<int>(exit_ok);
    };
  });
}

void add_version(CLI::App& app, Context& context) {
  CLI::App* sub = add_verb(app, "version", "version of this program and of the protocol it speaks", "zaris version\nzaris version -o json");
  sub->callback([&context] {
    context.action = [&context] {
      const nlohmann::ordered_json row{{"version", context.build.version}, {"revision", context.build.revision}, {"protocol", protocol::protocol_version}};
      if (context.format == Format::table) {
        write_out(fmt::format("zaris {} ({})\n", context.build.version, context.build.revision));
      } else {
        print_one(context.format, {{{"version", "/version"}, {"revision", "/revision"}, {"protocol", "/protocol"}}, "/version"}, row);
      }
      return static_cast<int>(exit_ok);
    };
  });
}

}  // namespace zaris::cli
