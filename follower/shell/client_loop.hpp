// The target's connections on the feed's thread: a change goes from the source's socket to the target's without changing
// threads.
#pragma once
#include <memory>

#include "cluster/client/loop.hpp"
#include "feed/transport/loop.hpp"

namespace zaris::follower {

// `loop` must outlive the result and every connection on it.
[[nodiscard]] std::shared_ptr<client::Loop> client_loop_on(feed::Loop& loop);

}  // namespace zaris::follower
