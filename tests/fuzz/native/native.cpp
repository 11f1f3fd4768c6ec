// Whatever bytes come as a frame, from a client or from a server: read or refused, and what was read survives a second trip.
#include <cstdint>
#include <cstdlib>

#include "../../unit/protocol/trip.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes{reinterpret_cast<const char*>(data), size};
  using namespace zaris::protocol;
  if (!steady(Side::request, bytes) || !steady(Side::answer, bytes)) std::abort();
  return 0;
}
