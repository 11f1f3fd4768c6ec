// explain CODE: offline.
#include "cluster/cli/explain.hpp"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cluster/cli/suggest.hpp"
#include "cluster/cli/verbs.hpp"

namespace zaris::cli {
namespace {

// "# unreachable: no connection came about" -> "no connection came about"
std::string title_of(std::string_view text) {
  std::string line(text.substr(0, text.find('\n')));
  const auto colon = line.find(": ");
  return colon == std::string::npos ? line : line.substr(colon + 2);
}

int explain(const Context& context, const std::string& code) {
  const auto pages = error_pages();
  if (code.empty()) {
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (const ErrorPage& page : pages) rows.push_back({{"code", page.code}, {"about", title_of(page.text)}});
    print_rows(context.format, {{{"CODE", "/code"}, {"ABOUT", "/about"}}, "/code"}, rows);
    return exit_ok;
  }
  std::vector<std::string> codes;
  for (const ErrorPage& page : pages) {
    if (page.code == code) {
      if (context.format == Format::json || context.format == Format::yaml || context.format == Format::ndjson) {
        print_document(context.format, {{"code", page.code}, {"text", page.text}});
      } else {
        write_out(page.text);
      }
      return exit_ok;
    }
    codes.emplace_back(page.code);
  }
  const std::string near = nearest(code, codes);
  return fail({"code_unknown", "no page about '" + printable(code) + "'", near.empty() ? "`zaris explain` lists all codes" : "zaris explain " + near});
}

}  // namespace

void add_explain(CLI::App& app, Context& context) {
  auto code = std::make_shared<std::string>();
  CLI::App* sub = add_verb(app, "explain", "what an error code means and what to do; without one, all of them", "zaris explain target_changed");
  sub->add_option("CODE", *code, "as an error shows it");
  sub->callback([&context, code] { context.action = [&context, code] { return explain(context, *code); }; });
}

}  // namespace zaris::cli
