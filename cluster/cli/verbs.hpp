// The groups of verbs. Each adds its commands to the tree; a parsed one leaves its action in the context.
#pragma once
#include <optional>
#include <string>

#include "cluster/cli/context.hpp"

namespace CLI {
class App;
}

namespace zaris::cli {

void add_kv(CLI::App& app, Context& context);
void add_transfer(CLI::App& kv, Context& context);   // kv export, kv import
void add_digest(CLI::App& app, Context& context);
void add_status(CLI::App& app, Context& context);
void add_link(CLI::App& app, Context& context);
void add_wait(CLI::App& app, Context& context);
void add_node(CLI::App& app, Context& context);
void add_store(CLI::App& app, Context& context);
void add_store_verify(CLI::App& store, Context& context);
void add_verify(CLI::App& app, Context& context);
void add_tls(CLI::App& app, Context& context);
void add_explain(CLI::App& app, Context& context);
void add_version(CLI::App& app, Context& context);
void add_feed(CLI::App& app, Context& context);      // followers, drop; the rest is zaris-feed's
void add_cursor(CLI::App& app, Context& context);    // zaris-cursor's

// `zaris cursor …` and what is not ours of `zaris feed …`: becomes that program and does not return, or its exit status when it is
// missing. Empty: it is for this program. Before parsing, since those programs have options of their own.
[[nodiscard]] std::optional<int> hand_over_if_others(int argc, char** argv);

// A command with its examples, which its help shows first.
CLI::App* add_verb(CLI::App& parent, const std::string& name, const std::string& description, const std::string& examples);

}  // namespace zaris::cli
