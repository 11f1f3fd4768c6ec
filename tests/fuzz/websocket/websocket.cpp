// Whatever bytes come over an open WebSocket: messages, or a refusal, the same however they are cut, within the bound.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "feed/transport/websocket.hpp"

namespace {

using namespace zaris::feed::websocket;

constexpr std::uint64_t message_max = 2048;

std::vector<std::string> read_all(Side side, bool trust_length, std::string_view input, std::size_t step, bool direct) {
  Reader reader(side, message_max, trust_length);
  std::vector<std::string> out;
  const auto note = [&](const Reader::Event& event) {
    if (event.bytes->size() > message_max) std::abort();
    out.push_back(std::to_string(static_cast<int>(event.kind)) + *event.bytes);
  };
  while (!input.empty()) {
    if (const auto room = direct ? reader.direct() : Reader::Room{}; room.size != 0) {
      const std::size_t n = std::min({room.size, step, input.size()});
      std::memcpy(room.at, input.data(), n);
      input.remove_prefix(n);
      if (const auto event = reader.committed(n)) note(*event);
      continue;
    }
    std::string_view piece = input.substr(0, step);
    input.remove_prefix(piece.size());
    while (!piece.empty()) {
      const auto event = reader.take(piece);
      if (!event) {
        out.push_back(event.error().code);
        return out;
      }
      if (*event) note(**event);
    }
    if (reader.held_bytes() > 4 * message_max) std::abort();
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t step = data[0] % 64 + 1;
  const std::string_view input(reinterpret_cast<const char*>(data + 1), size - 1);
  for (const Side side : {Side::server, Side::client}) {
    const auto whole = read_all(side, side == Side::client, input, SIZE_MAX, false);
    if (read_all(side, side == Side::client, input, step, false) != whole) std::abort();
    if (side == Side::client && read_all(side, true, input, step * 100, true) != whole) std::abort();
    // What was read as messages survives being framed again.
    for (const auto& one : whole) {
      if (one.empty() || one.front() != '0') continue;
      const std::string payload = one.substr(1);
      const auto again = side == Side::server ? masked_frame(Opcode::binary, payload, 0x01020304) : frame(Opcode::binary, payload);
      if (read_all(side, side == Side::client, again, step, false) != std::vector<std::string>{one}) std::abort();
    }
  }
  return 0;
}
