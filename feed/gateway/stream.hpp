// What a connection carries once it has been asked for something that goes on: a feed session or GET /v1/changes. Both pull
// from the store when the socket can take bytes. Internal to feed/gateway.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "feed/gateway/counters.hpp"
#include "feed/session/source.hpp"

namespace zaris::feed {

struct SessionInfo;

class Stream {
 public:
  virtual ~Stream() = default;
  [[nodiscard]] virtual Transport transport() const = 0;
  // It writes its HTTP head itself, once it knows which it is.
  [[nodiscard]] virtual bool answers_itself() const { return false; }
  virtual void on_dirty(std::span<const SegmentId> segments) = 0;
  virtual void on_authority() = 0;
  virtual void on_tick(Now now) = 0;
  // Puts what is next, framed, into `out`, whose content is replaced; returns where it starts within it, empty: nothing now.
  virtual std::optional<std::size_t> next(std::string& out, Now now) = 0;
  // Bytes from the peer. An error ends the connection; `farewell` is sent last.
  virtual Result<void> on_bytes(std::string_view bytes, Now now) = 0;
  virtual void go_away(std::string_view text, std::uint32_t within_ms) = 0;
  virtual void end(EndReason reason, std::string_view text) = 0;
  // Set once nothing more will come of it.
  [[nodiscard]] virtual std::optional<SessionEnd> ended() const = 0;
  // What is sent last.
  [[nodiscard]] virtual std::string farewell(const std::optional<SessionEnd>& why) = 0;
  [[nodiscard]] virtual bool introduced() const = 0;     // the peer has said who it is (Hello)
  virtual void describe(SessionInfo& to) const = 0;
  [[nodiscard]] virtual SourceCounters counters() const = 0;
  [[nodiscard]] virtual std::uint64_t held_bytes() const = 0;
};

struct StreamSetting {
  store::Store& store;
  const SourceOptions& options;
  std::uint64_t message_bytes_max = 0;
  std::function<bool()> confirm;
  SegmentAuthority authority = {};
};
// The close frame that says why a feed session is over.
[[nodiscard]] std::string websocket_farewell(const std::optional<SessionEnd>& why);
[[nodiscard]] std::unique_ptr<Stream> make_feed_stream(const StreamSetting& setting, const Principal& principal);
// Errors: those of parse_changes_request and ChangesStream::open (feed/session/changes.hpp).
[[nodiscard]] Result<std::unique_ptr<Stream>> make_changes_stream(const StreamSetting& setting, const Principal& principal,
                                                                  const std::vector<std::pair<std::string, std::string>>& query, Now now);

}  // namespace zaris::feed
