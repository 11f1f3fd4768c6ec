// The raw log of what followers ask for and acknowledge, at level debug: the evidence that tests and support look at.
#pragma once
#include <string>
#include <string_view>

#include "feed/session/source.hpp"

namespace zaris::feed {

// Decodes a follower's message again and logs it if it is a Subscribe or an Ack; nothing unless debug is enabled.
//   {"event":"feed_subscribe",…,"principal":"b","link":"ab","segments":[{"segment":3,"low":"7:12","high":"7:12","walk":null}]}
//   {"event":"feed_ack",…,"segments":[{"segment":3,"position":"7:40"}]}
void log_follower_message(std::string_view bytes, const Principal& principal, const std::string& link);

}  // namespace zaris::feed
