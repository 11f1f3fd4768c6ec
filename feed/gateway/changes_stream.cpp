// GET /v1/changes as a stream: HTTP chunks round the lines of ChangesStream.
#include <utility>

#include "feed/gateway/gateway.hpp"
#include "feed/gateway/stream.hpp"
#include "feed/session/changes.hpp"
#include "feed/transport/http.hpp"

namespace zaris::feed {
namespace {

class LineStream final : public Stream {
 public:
  LineStream(Principal principal, std::unique_ptr<ChangesStream> changes) : principal_(std::move(principal)), changes_(std::move(changes)) {}

  Transport transport() const override { return Transport::ndjson; }
  void on_dirty(std::span<const SegmentId> segments) override { changes_->on_dirty(segments); }
  void on_authority() override {}
  void on_tick(Now) override {}

  std::optional<std::size_t> next(std::string& out, Now now) override {
    if (ended_) return std::nullopt;
    out.resize(http::chunk_header_room);
    if (!changes_->next(out, now)) return std::nullopt;
    return http::put_chunk_header(out);
  }
  // Nothing more is expected from the peer; what comes is not kept.
  Result<void> on_bytes(std::string_view, Now) override { return {}; }
  void go_away(std::string_view, std::uint32_t) override {}
  void end(EndReason reason, std::string_view text) override {
    if (!ended_) ended_ = SessionEnd{std::string(name(reason)), std::string(text), false};
  }
  std::optional<SessionEnd> ended() const override {
    if (ended_) return ended_;
    if (const auto over = changes_->ended()) return SessionEnd{over->code, over->what, false};
    return std::nullopt;
  }
  std::string farewell(const std::optional<SessionEnd>&) override {
    std::string lines;
    changes_->finish(lines);
    return (lines.empty() ? std::string() : http::chunk(lines)) + std::string(http::last_chunk);
  }
  bool introduced() const override { return true; }
  void describe(SessionInfo& to) const override {
    to.principal = principal_.name;
    to.transport = "ndjson";
    to.scope = changes_->scope().id();
    to.records_sent = changes_->counters().records;
  }
  SourceCounters counters() const override { return changes_->counters(); }
  std::uint64_t held_bytes() const override { return 0; }

 private:
  const Principal principal_;
  std::unique_ptr<ChangesStream> changes_;
  std::optional<SessionEnd> ended_;
};

}  // namespace

Result<std::unique_ptr<Stream>> make_changes_stream(const StreamSetting& setting, const Principal& principal, const std::vector<std::pair<std::string, std::string>>& query, Now now) {
  const auto request = parse_changes_request(query);
  if (!request) return tl::unexpected(request.error());
  auto changes = ChangesStream::open(setting.store, principal, *request, now);
  if (!changes) return tl::unexpected(changes.error());
  return std::unique_ptr<Stream>(std::make_unique<LineStream>(principal, std::move(*changes)));
}

}  // namespace zaris::feed
