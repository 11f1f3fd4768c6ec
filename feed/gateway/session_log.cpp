#include "feed/gateway/session_log.hpp"

#include <fmt/format.h>

#include <iterator>

#include "cluster/logging/event_log.hpp"
#include "feed/message/message.hpp"

namespace zaris::feed {
namespace {

std::string place(const std::optional<NamedPosition>& p) { return p ? fmt::format("\"{}\"", to_string(p->at)) : std::string("null"); }

std::string rows(const Subscribe& message) {
  std::string out = "[";
  for (const auto& s : message.segments) {
    fmt::format_to(std::back_inserter(out), R"({}{{"segment":{},"history":{},"low":{},"high":{},"walk":{}}})", out.size() == 1 ? "" : ",", s.segment.value(),
                   s.history ? fmt::format("\"{}\"", hex16(s.history->value())) : "null", place(s.low), place(s.high),
                   !s.walk ? "null" : !s.walk->from ? "\"start\"" : fmt::format("\"slot {}\"", s.walk->from->slot.value()));
  }
  return out + "]";
}

std::string rows(const Ack& message) {
  std::string out = "[";
  for (const auto& s : message.segments) {
    fmt::format_to(std::back_inserter(out), R"({}{{"segment":{},"position":"{}"}})", out.size() == 1 ? "" : ",", s.segment.value(), to_string(s.position));
  }
  return out + "]";
}

}  // namespace

void log_follower_message(std::string_view bytes, const Principal& principal, const std::string& link) {
  if (!logging::enabled(logging::Level::debug)) return;
  const auto message = decode_from_follower(bytes);
  if (!message || !*message) return;
  if (const auto* subscribe = std::get_if<Subscribe>(&**message)) {
    logging::write(logging::Level::debug, "feed_subscribe", "a follower subscribes",
                   {{"principal", printable(principal.name)}, {"link", printable(link)}, {"segments", rows(*subscribe), true}});
  } else if (const auto* ack = std::get_if<Ack>(&**message)) {
    logging::write(logging::Level::debug, "feed_ack", "a follower acknowledges",
                   {{"principal", printable(principal.name)}, {"link", printable(link)}, {"segments", rows(*ack), true}});
  }
}

}  // namespace zaris::feed
