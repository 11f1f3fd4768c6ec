// Opt-in: what a Loop is in terms of Asio, for a program that runs other I/O on the same thread. Source files only.
#pragma once
#include <boost/asio/io_context.hpp>

#include "feed/transport/loop.hpp"

namespace zaris::feed {

// Of a loop that Loop::create made; lives as long as the loop.
[[nodiscard]] boost::asio::io_context& io_context_of(Loop& loop);

}  // namespace zaris::feed
