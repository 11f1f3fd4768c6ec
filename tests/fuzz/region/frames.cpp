// Whatever bytes come as a frame from another node of the region: read or refused, without memory out of proportion, and what was read
// survives a second trip.
#include <cstdint>
#include <cstdlib>

#include "../../unit/replication/examples.hpp"
#include "../allocation/peak.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using zaris::replication::trip;
  const zaris::fuzz::PeakAllocation peak;
  const auto once = trip({reinterpret_cast<const char*>(data), size});
  // An element of a few bytes becomes a struct of up to two hundred, in a vector that doubles.
  peak.check(size, 64u << 10, 512);
  if (!once) return 0;
  const auto twice = trip(*once);
  if (!twice || *twice != *once) std::abort();
  return 0;
}
