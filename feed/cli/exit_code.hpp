// Exit statuses of zaris-feed: the same table as zaris' (docs/reference/cli.md).
#pragma once
#include "cluster/base/result.hpp"

namespace zaris::feed::cli {

inline constexpr int exit_ok = 0, exit_usage = 2, exit_configuration = 3, exit_unreachable = 4, exit_authentication = 5, exit_not_allowed = 6, exit_refused = 7,
                     exit_position_gone = 10, exit_bug = 70;

[[nodiscard]] int exit_code_of(const Error& error);

}  // namespace zaris::feed::cli
