// The program `zaris-feed`: looks at a region's change feed from outside. `zaris feed tail|segments` hands over to it
// (`zaris feed followers|drop` ask the node itself and are verbs of `zaris`).
#pragma once
#include <iosfwd>
#include <string>

namespace zaris::feed::cli {

struct Environment {
  std::ostream& out;            // data
  std::ostream& err;            // everything else
  std::string version;
  std::string url, ca, cert, key;   // ZARIS_FEED_URL, ZARIS_FEED_CA, ZARIS_FEED_CERT, ZARIS_FEED_KEY; may be empty
};

// The exit status (docs/reference/cli.md).
[[nodiscard]] int run(int argc, char** argv, const Environment& environment);

// Any thread, also a signal handler: what runs ends soon and returns 128 + signal.
void interrupt(int signal) noexcept;

}  // namespace zaris::feed::cli
