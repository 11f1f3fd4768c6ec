#include "cluster/cli/context.hpp"

#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>

namespace zaris::cli {

Result<client::ClientOptions> Context::url_options(std::size_t index) const {
  auto options = client::parse_url(urls.at(index));
  if (!options) return options;
  options->program = "zaris " + build.version;
  options->role = protocol::PeerRole::tool;
  if (!timeout_text.empty()) {
    const auto given = client::parse_duration(timeout_text);
    if (!given) return tl::unexpected(given.error());
    options->timeout = *given;
    options->connect_timeout = std::min(options->connect_timeout, *given);
  }
  return options;
}

Result<std::unique_ptr<client::Client>> Context::connect(std::size_t index) const {
  auto options = url_options(index);
  if (!options) return tl::unexpected(options.error());
  return client::Client::connect(std::move(*options));
}

Result<std::chrono::milliseconds> Context::timeout(std::chrono::milliseconds otherwise) const {
  if (timeout_text.empty()) return otherwise;
  return client::parse_duration(timeout_text);
}

Result<void> Context::confirm(const std::string& what) const {
  if (yes) return {};
  if (no_input || ::isatty(STDIN_FILENO) == 0 || ::isatty(STDERR_FILENO) == 0)
    return failure("confirmation_needed", what, "repeat it with --yes, or look first with --dry-run");
  std::fprintf(stderr, "%s\nGo on? [y/N] ", what.c_str());
  std::string answer;
  if (std::getline(std::cin, answer) && (answer == "y" || answer == "Y" || answer == "yes")) return {};
  return failure("confirmation_needed", "not confirmed; nothing was done", "");
}

int fail(const Error& error) {
  (void)flush_out();
  std::fprintf(stderr, "zaris: %s: %s\n", error.code.c_str(), error.what.c_str());
  if (!error.hint.empty()) std::fprintf(stderr, "  try: %s\n", error.hint.c_str());
  return exit_code_of(error);
}

void note(const Context& context, const std::string& text) {
  if (!context.quiet) std::fprintf(stderr, "%s\n", text.c_str());
}

bool stderr_is_terminal() { return ::isatty(STDERR_FILENO) != 0; }

Progress::Progress(const Context& context) : terminal_(stderr_is_terminal()), quiet_(context.quiet) {}

void Progress::show(const std::string& text) {
  if (!terminal_ || quiet_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now < next_) return;
  next_ = now + std::chrono::milliseconds(200);
  std::fprintf(stderr, "\r%s%s", text.c_str(), drawn_ > text.size() ? std::string(drawn_ - text.size(), ' ').c_str() : "");
  drawn_ = text.size();
}

void Progress::done(const std::string& text) {
  if (quiet_) return;
  std::fprintf(stderr, "%s%s%s\n", terminal_ ? "\r" : "", text.c_str(), terminal_ && drawn_ > text.size() ? std::string(drawn_ - text.size(), ' ').c_str() : "");
}

void pause_for(std::chrono::milliseconds time) { (void)::poll(nullptr, 0, static_cast<int>(time.count())); }

}  // namespace zaris::cli
