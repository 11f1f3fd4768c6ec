// The core of GET /v1/changes: a log as lines of JSON, for readers that want no client of ours. Lines, resume tokens and
// answers: docs/formats/feed.md. No sockets, clocks or threads; the shell pulls when its socket can take bytes, as it does
// with a SourceSession. It keeps no pin: how far back a token reaches is the log's budget. One thread at a time.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cluster/base/result.hpp"
#include "feed/session/source.hpp"

namespace zaris::feed {

struct ChangesRequest {
  std::string prefix;                         // bytes; empty: every key
  std::vector<SegmentId> segments;            // ascending, each once; empty: all, or those of the token
  std::string since;                          // a resume token; empty: from now on; "oldest": all that the log holds
  MonoMicros heartbeat_us = 5'000'000;        // a line at least so often
};

// From the query of the request, names and values already percent-decoded. Unknown names are errors, as is a name given
// twice. Error: `changes_invalid`.
[[nodiscard]] Result<ChangesRequest> parse_changes_request(const std::vector<std::pair<std::string, std::string>>& query);

// 400 changes_invalid, 403 unauthorised, 404 feed_of_one_node, 410 position_gone, 503 source_unavailable, 500 for anything else.
[[nodiscard]] unsigned changes_http_status(std::string_view error_code);

class ChangesStream {
 public:
  // Everything that can be refused is refused here, before the first byte. `store` outlives the stream.
  [[nodiscard]] static Result<std::unique_ptr<ChangesStream>> open(store::Store& store, const Principal& principal, const ChangesRequest& request,
                                                                   Now now);
  virtual ~ChangesStream() = default;

  // Level-triggered, as in SourceSession.
  virtual void on_dirty(std::span<const SegmentId> segments) = 0;
  // Appends whole lines, about 64 KiB at the most. False: nothing to say now; ask again after on_dirty and at every tick.
  virtual bool next(std::string& out, Now now) = 0;
  // The stream is about to be closed: one last token line.
  virtual void finish(std::string& out) = 0;
  // Set when the log has left the reader behind; the line that says so has been given out.
  [[nodiscard]] virtual std::optional<Error> ended() const = 0;
  [[nodiscard]] virtual std::string resume_token() const = 0;
  [[nodiscard]] virtual const Scope& scope() const = 0;
  [[nodiscard]] virtual SourceCounters counters() const = 0;
};

}  // namespace zaris::feed
