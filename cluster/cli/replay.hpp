// `zaris replay`: an empty region becomes a copy of another one, from its feed.
#pragma once

namespace CLI {
class App;
}

namespace zaris::cli {

struct Context;
void add_replay(CLI::App& app, Context& context);

}  // namespace zaris::cli
