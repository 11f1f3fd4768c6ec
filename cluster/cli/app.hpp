// The program `zaris`: parses, does what the verb says, returns the exit status (docs/reference/cli.md).
#pragma once
#include "cluster/cli/context.hpp"

namespace zaris::cli {

[[nodiscard]] int run(int argc, char** argv, const BuildInfo& build);

}  // namespace zaris::cli
