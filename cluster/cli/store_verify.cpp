// store verify: do all copies of a region hold the same?
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cluster/cli/copies_view.hpp"
#include "cluster/cli/region_words.hpp"
#include "cluster/cli/verbs.hpp"

namespace zaris::cli {
namespace {

using nlohmann::ordered_json;
using Kind = Column::Kind;
using State = CopyPair::State;

const Sheet pair_sheet{{{"SEGMENT", "/segment"},
                        {"COPY", "/node"},
                        {"IS", "/state"},
                        {"AT", "/at"},
                        {"KEYS", "/keys", Kind::count},
                        {"DIGEST", "/digest"},
                        {"OWNER", "/owner"},
                        {"OWNER AT", "/owner_at"},
                        {"OWNER KEYS", "/owner_keys", Kind::count},
                        {"OWNER DIGEST", "/owner_digest"}},
                       "/segment"};

ordered_json row_json(const CopyPair& pair) {
  return {{"segment", pair.segment.value()}, {"node", pair.node}, {"state", word_of(pair.state)},
          {"at", to_string(pair.of_node.at)}, {"keys", pair.of_node.count}, {"digest", pair.of_node.digest.hex()},
          {"owner", pair.owner}, {"owner_at", to_string(pair.of_owner.at)}, {"owner_keys", pair.of_owner.count}, {"owner_digest", pair.of_owner.digest.hex()}};
}

struct Silent {
  std::string node, why;
};

// From every node that answers, side by side; the open segments lie between the first and the last of them.
std::vector<Silent> ask(client::Client& client, SegmentId first, SegmentId last, CopiesView& view) {
  const protocol::MapAnswer map = client.map();
  std::vector<client::Future<protocol::CopiesAnswer>> answers;
  for (std::size_t node = 0; node < map.nodes.size(); ++node) answers.push_back(client.copies({first, last}, node));
  std::map<std::string, std::vector<protocol::CopyRow>> by_node;
  std::vector<Silent> silent;
  for (std::size_t node = 0; node < map.nodes.size(); ++node) {
    auto answer = answers[node].get();
    if (answer) by_node.emplace(map.nodes[node].id, std::move(answer->rows));
    else silent.push_back({map.nodes[node].id, answer.error().text()});
  }
  view.take(by_node);
  return silent;
}

int verify(const Context& context) {
  const auto within = context.timeout(std::chrono::milliseconds(10'000));
  if (!within) return fail(within.error());
  const auto client = connect_to_nodes(context);
  if (!client) return fail(client.error());
  const std::uint32_t segments = (*client)->welcome().segments;
  const auto deadline = std::chrono::steady_clock::now() + *within;
  CopiesView view;
  Progress progress(context);
  SegmentId first{0}, last{static_cast<std::uint16_t>(segments - 1)};
  std::vector<Silent> silent;
  // A copy is compared when it was asked at the place at which its owner was: where there are writes that takes a few questions.
  while (true) {
    silent = ask(**client, first, last, view);
    const auto open = view.open();
    if (open.empty() || !view.in(State::differs).empty() || std::chrono::steady_clock::now() >= deadline) break;
    first = open.front();
    last = open.back();
    progress.show(fmt::format("{} of {} segments have a copy that is behind or moves", open.size(), segments));
    pause_for(std::chrono::milliseconds(50));
  }
  const auto differing = view.in(State::differs);
  ordered_json rows = ordered_json::array();
  for (const State state : {State::differs, State::copying, State::elsewhere, State::no_owner}) {
    for (const CopyPair& pair : view.in(state)) rows.push_back(row_json(pair));
  }
  const bool spoken = view.segments() == segments;
  const bool equal = rows.empty() && silent.empty() && spoken;
  if (context.format == Format::json || context.format == Format::yaml) {
    ordered_json quiet = ordered_json::array();
    for (const Silent& one : silent) quiet.push_back({{"node", one.node}, {"error", one.why}});
    print_document(context.format, {{"equal", equal}, {"segments", view.segments()}, {"copies", view.copies()}, {"keys", view.keys()}, {"not_equal", rows}, {"silent", quiet}});
  } else if (!rows.empty()) {
    print_rows(context.format, pair_sheet, rows);
  } else if (equal) {
    write_out(view.copies() == 0 ? fmt::format("one copy of everything, nothing to compare: {} keys\n", show_count(view.keys()))
                                 : fmt::format("equal: {} keys, {} segments, {} copies beside their owners'\n", show_count(view.keys()), view.segments(), view.copies()));
  }
  (void)flush_out();
  for (const Silent& one : silent) note(context, fmt::format("node {} does not answer: {}", one.node, one.why));
  if (!differing.empty())
    return fail({"copies_differ", fmt::format("{} copies hold something else than their owner at the same place of the log", differing.size()),
                 "see `zaris explain copies_differ`"});
  if (!rows.empty())
    return fail({"timed_out", fmt::format("{} copies were not found at their owner's place in time", rows.size()),
                 "zaris store show says how far replicas are behind; under constant writes a longer --timeout finds more"});
  if (!spoken) note(context, fmt::format("of {} segments nobody who answers is the owner", segments - view.segments()));
  return equal ? exit_ok : exit_no;
}

}  // namespace

void add_store_verify(CLI::App& group, Context& context) {
  CLI::App* sub = add_verb(group, "verify", "compare what every node holds of every segment with what its owner holds (exit 1 when something differs or does not answer)",
                           "zaris store verify\nzaris store verify --timeout 60s -o json --url zaris://a1,a2,a3/main");
  sub->callback([&context] { context.action = [&context] { return verify(context); }; });
}

}  // namespace zaris::cli
