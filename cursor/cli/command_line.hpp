// `zaris-cursor list|show|export|import|rewind`: what an operator asks of a follower's cursors. Data goes to `out`,
// everything else to `err`. Exit statuses: docs/reference/cli.md, design page operations.
#pragma once
#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include "cluster/base/result.hpp"

namespace zaris::cursor::cli {

enum ExitCode : int {
  exit_ok = 0,
  exit_no = 1,               // no such link; not confirmed
  exit_usage = 2,
  exit_configuration = 3,    // the cursor directory: absent, unreadable, damaged, another format, no room
  exit_conflict = 9,         // the follower runs; an import would lower or contradict what is there
  exit_bug = 70,
};

struct Environment {
  std::istream& in;
  std::ostream& out;
  std::ostream& err;
  bool in_is_terminal = false;
  std::string version;
  std::string path;                                                           // ZARIS_CURSOR_PATH, may be empty
  // cursor.path as the follower's configuration files say it; may be empty (then --config is refused).
  std::function<Result<std::string>(const std::vector<std::string>& files)> path_from_config;
};

// Starts child processes to read stores; to be called before threads are started.
[[nodiscard]] int run(int argc, const char* const* argv, const Environment& environment);

}  // namespace zaris::cursor::cli
