// Whatever bytes come from a follower: read or refused, and what was read survives a second trip.
#include <cstdint>
#include <cstdlib>

#include "feed/message/message.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace zaris::feed;
  const auto message = decode_from_follower({reinterpret_cast<const char*>(data), size});
  if (!message || !*message) return 0;
  const std::string again = encode(**message);
  const auto second = decode_from_follower(again);
  if (!second || !*second || encode(**second) != again) std::abort();
  return 0;
}
