// digest [--prefix] [--by segment|slot]; with two --url: are they equal?
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <map>
#include <nlohmann/json.hpp>

#include "cluster/cli/verbs.hpp"

namespace zaris::cli {
namespace {

using nlohmann::ordered_json;
using protocol::DigestBy;
using protocol::DigestRow;

struct DigestOptions {
  std::vector<std::string> prefixes;
  std::string by = "total";
};

Result<std::vector<DigestRow>> rows_of(const Context& context, std::size_t index, const Scope& scope, DigestBy by) {
  const auto client = context.connect(index);
  if (!client) return tl::unexpected(client.error());
  return (*client)->digest(scope, by).get();
}

const Sheet sheet{{{"ID", "/id"}, {"KEYS", "/count", Column::Kind::count}, {"DIGEST", "/digest"}}, "/digest"};

ordered_json row_json(const DigestRow& row) { return {{"id", row.id}, {"count", row.count}, {"digest", row.digest.hex()}}; }

int compare(const Context& context, const Scope& scope, DigestBy by) {
  std::vector<std::map<std::uint32_t, DigestRow>> sides;
  for (std::size_t i = 0; i < 2; ++i) {
    const auto rows = rows_of(context, i, scope, by);
    if (!rows) return fail(rows.error());
    auto& side = sides.emplace_back();
    for (const auto& row : *rows) side[row.id] = row;
  }
  ordered_json differing = ordered_json::array();
  std::uint64_t keys = 0;
  for (const auto& [id, row] : sides[0]) {
    keys += row.count;
    const auto other = sides[1].find(id);
    if (other == sides[1].end() || other->second.count != row.count || other->second.digest != row.digest)
      differing.push_back({{"id", id}, {"a", row_json(row)}, {"b", other == sides[1].end() ? ordered_json(nullptr) : row_json(other->second)}});
  }
  for (const auto& [id, row] : sides[1])
    if (!sides[0].contains(id)) differing.push_back({{"id", id}, {"a", nullptr}, {"b", row_json(row)}});
  if (context.format == Format::table || context.format == Format::wide || context.format == Format::name) {
    if (differing.empty()) {
      write_out(fmt::format("equal: {} keys{}\n", show_count(keys), by == DigestBy::total && !sides[0].empty() ? ", digest " + sides[0].begin()->second.digest.hex() : ""));
    } else {
      print_rows(context.format, {{{"ID", "/id"}, {"KEYS A", "/a/count", Column::Kind::count}, {"KEYS B", "/b/count", Column::Kind::count}, {"DIGEST A", "/a/digest"}, {"DIGEST B", "/b/digest"}}, "/id"},
                 differing);
    }
  } else {
    print_document(context.format, {{"equal", differing.empty()}, {"keys", keys}, {"differing", differing}});
  }
  return differing.empty() ? exit_ok : exit_no;
}

int digest(const Context& context, const DigestOptions& o) {
  const DigestBy by = o.by == "segment" ? DigestBy::segment : o.by == "slot" ? DigestBy::slot : DigestBy::total;
  const auto scope = o.prefixes.empty() ? Result<Scope>(Scope{}) : Scope::make(o.prefixes);
  if (!scope) return fail(scope.error());
  if (context.urls.size() > 2) return fail({"usage", "more than two --url", "one to show, two to compare"});
  if (context.urls.size() == 2) return compare(context, *scope, by);
  const auto rows = rows_of(context, 0, *scope, by);
  if (!rows) return fail(rows.error());
  ordered_json json = ordered_json::array();
  for (const auto& row : *rows) json.push_back(row_json(row));
  if (by == DigestBy::total) {
    json[0].erase("id");
    print_one(context.format, {{{"keys", "/count", Column::Kind::count}, {"digest", "/digest"}}, "/digest"}, json[0]);
  } else {
    print_rows(context.format, sheet, json);
  }
  return exit_ok;
}

}  // namespace

void add_digest(CLI::App& app, Context& context) {
  auto o = std::make_shared<DigestOptions>();
  CLI::App* sub = add_verb(app, "digest", "what a region holds in 128 bits; with two --url, whether both hold the same (exit 0 or 1)",
                           "zaris digest\nzaris digest --url zaris://a/main --url zaris://b/main --by slot\nzaris digest --prefix t1:");
  sub->add_option("--prefix", o->prefixes, "only keys that begin so (repeatable); these are walked");
  sub->add_option("--by", o->by, "one row for all, per segment or per slot")->check(CLI::IsMember({"total", "segment", "slot"}));
  sub->callback([&context, o] { context.action = [&context, o] { return digest(context, *o); }; });
}

}  // namespace zaris::cli
