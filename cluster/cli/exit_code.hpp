// What the program's exit status says. Stable; docs/reference/cli.md has the table.
#pragma once
#include "cluster/base/result.hpp"

namespace zaris::cli {

enum ExitCode : int {
  exit_ok = 0,            // yes, done, equal, healthy
  exit_no = 1,            // the answer is no
  exit_usage = 2,
  exit_configuration = 3,
  exit_unreachable = 4,
  exit_authentication = 5,  // TLS or authentication
  exit_not_allowed = 6,
  exit_refused = 7,       // the server answered with an error
  exit_timed_out = 8,     // the outcome may be unknown
  exit_conflict = 9,      // precondition, state
  exit_position_gone = 10,  // a full copy is needed
  exit_partly = 11,
  exit_bug = 70,
};

// By the error's code; a code that is not listed was a server's word: exit_refused.
[[nodiscard]] ExitCode exit_code_of(const Error& error);

}  // namespace zaris::cli
