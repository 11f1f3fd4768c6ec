#include "follower/shell/client_loop.hpp"

#include "cluster/client/asio.hpp"
#include "feed/transport/asio_loop.hpp"

namespace zaris::follower {

std::shared_ptr<client::Loop> client_loop_on(feed::Loop& loop) { return client::loop_on(feed::io_context_of(loop)); }

}  // namespace zaris::follower
