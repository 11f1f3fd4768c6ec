// zaris-feed tail: GET /v1/changes, line by line, across reconnects.
#pragma once
#include <atomic>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/base/result.hpp"
#include "feed/client/endpoint.hpp"

namespace zaris::feed::cli {

struct TailOptions {
  FeedEndpoint endpoint;
  std::string prefix, segments, since, heartbeat;
  bool table = false;
  bool once = false;            // end with the first connection
  std::uint64_t count = 0;      // end after so many changes; 0: go on
};

// The request's target: /v1/changes with what was given, and `since` replaced by a newer token.
[[nodiscard]] std::string changes_target(const TailOptions& options, const std::string& since);

// Cuts a stream of bytes into lines; keeps what is not complete yet.
class Lines {
 public:
  template <class F>
  void add(std::string_view bytes, F&& each) {
    for (auto end = bytes.find('\n'); end != std::string_view::npos; end = bytes.find('\n')) {
      rest_.append(bytes.substr(0, end));
      bytes.remove_prefix(end + 1);
      each(std::string_view(rest_));
      rest_.clear();
    }
    rest_.append(bytes);
  }
  void clear() { rest_.clear(); }

 private:
  std::string rest_;
};

// What one line of the stream means.
struct TailLine {
  enum class Kind : std::uint8_t { change, resume, heartbeat, error, other } kind = Kind::other;
  std::string resume;           // token
  Error error;
  std::string row;              // of the table
};
[[nodiscard]] TailLine read_line(std::string_view line, bool table);
[[nodiscard]] std::string table_head();

// Until `stop` is set (returns 128 + its value), the count is reached, or an error that trying again cannot mend. A lost connection is
// opened again at the last token, 100 ms to 10 s apart; the first one must succeed.
[[nodiscard]] int tail(const TailOptions& options, std::ostream& out, std::ostream& err, const std::atomic<int>& stop);

}  // namespace zaris::feed::cli
