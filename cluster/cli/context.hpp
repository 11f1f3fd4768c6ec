// What every verb of `zaris` has: where to connect, how to print, whom to ask. One per process.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cluster/base/result.hpp"
#include "cluster/cli/exit_code.hpp"
#include "cluster/cli/output.hpp"
#include "cluster/client/client.hpp"

namespace zaris::cli {

struct BuildInfo {
  std::string version, revision;
};

struct Context {
  BuildInfo build;
  std::string program;                     // own path as it was started
  // ---- options that every verb has
  std::vector<std::string> urls;           // --url, or ZARIS_URL; never empty after parsing
  std::vector<std::string> admins;         // --admin, or ZARIS_ADMIN; never empty after parsing
  bool urls_given = false, admins_given = false;
  std::string format_text = "table";
  Format format = Format::table;
  std::string timeout_text;
  bool yes = false, dry_run = false, no_input = false, quiet = false;

  // What the parsed verb does; its exit status.
  std::function<int()> action;

  // ---- for the verbs
  [[nodiscard]] Result<client::ClientOptions> url_options(std::size_t index = 0) const;
  [[nodiscard]] Result<std::unique_ptr<client::Client>> connect(std::size_t index = 0) const;
  [[nodiscard]] Result<std::chrono::milliseconds> timeout(std::chrono::milliseconds otherwise) const;
  // Asks on the terminal; without one `--yes` is needed. `what` is a whole sentence that names the effect.
  [[nodiscard]] Result<void> confirm(const std::string& what) const;
};

// "zaris: CODE: what" and what to try, on stderr; the exit status that goes with it.
int fail(const Error& error);
// A line for people, on stderr; nothing with --quiet.
void note(const Context& context, const std::string& text);
[[nodiscard]] bool stderr_is_terminal();

// A line that is drawn over on a terminal; on a pipe only its last state is printed.
class Progress {
 public:
  explicit Progress(const Context& context);
  void show(const std::string& text);      // at most five times a second
  void done(const std::string& text);

 private:
  bool terminal_, quiet_;
  std::size_t drawn_ = 0;
  std::chrono::steady_clock::time_point next_{};
};

// Waits this long, or for a signal.
void pause_for(std::chrono::milliseconds time);

}  // namespace zaris::cli
