// Opt-in: a client on a program's own io_context. Includes Asio; everything else of the client does not.
#pragma once
#include <boost/asio/io_context.hpp>
#include <memory>

#include "cluster/client/loop.hpp"

namespace zaris::client {

// `io` must outlive the Loop and every connection on it, and be run by one thread.
[[nodiscard]] std::shared_ptr<Loop> loop_on(boost::asio::io_context& io);

}  // namespace zaris::client
