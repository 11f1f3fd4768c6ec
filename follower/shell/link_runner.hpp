// Performs one link's actions: its feed sessions, the target's connections, the disk. Decides nothing (follower/link does).
// Everything runs on the loop's thread but what is named.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "cluster/client/url.hpp"
#include "cursor/cursor_store.hpp"
#include "feed/client/connection.hpp"
#include "feed/client/http_stream.hpp"
#include "follower/link/link.hpp"
#include "follower/shell/disk_thread.hpp"
#include "follower/shell/target.hpp"

namespace zaris::follower {

struct LinkRunnerOptions {
  LinkConfig link;
  feed::FeedEndpoint source;
  client::ClientOptions target;
  std::uint32_t workers = 2;
  std::string conflict_file;
  std::uint64_t conflict_bytes = 1u << 30;
};

class LinkRunner {
 public:
  // Loop, disk thread and store outlive the runner. Reads the link's rows from the store: errors as CursorStore's.
  [[nodiscard]] static Result<std::unique_ptr<LinkRunner>> create(feed::Loop& loop, std::shared_ptr<client::Loop> client_loop,
                                                                  DiskThread& disk, cursor::CursorStore& store, LinkRunnerOptions options);
  virtual ~LinkRunner() = default;

  virtual void start() = 0;
  virtual void stop() = 0;                       // finish, persist, acknowledge; then stopped()
  [[nodiscard]] virtual bool stopped() const = 0;
  [[nodiscard]] virtual LinkStatus status(bool with_segments) const = 0;

  // An operator's words (Link's). Said at once; a word counts once it is on the disk.
  [[nodiscard]] virtual Result<void> pause(std::string reason) = 0;
  [[nodiscard]] virtual Result<void> resume() = 0;
  [[nodiscard]] virtual Result<void> accept_source() = 0;
  [[nodiscard]] virtual Result<void> accept_target() = 0;
  [[nodiscard]] virtual Result<void> accept_removal() = 0;
  [[nodiscard]] virtual Result<void> verify() = 0;
  // Calls back, perhaps at once, when every word said so far counts; with the cursor store's error if the disk refused them
  // (they are tried again and count then). Not called any more once the runner is gone.
  virtual void when_persisted(std::function<void(Result<void>)> handler) = 0;
};

}  // namespace zaris::follower
