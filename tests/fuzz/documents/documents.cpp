// Any bytes as each of the values that a region keeps in etcd: read or refused, without memory out of proportion, and what was read is
// written and read again as the same. The documents under zstd are tried both as they come and as the text inside.
#include <zstd.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "../allocation/peak.hpp"
#include "cluster/ownership/compressed_document.hpp"
#include "cluster/ownership/ownership.hpp"
#include "cluster/ownership/partition_map.hpp"
#include "cluster/region/register_document.hpp"
#include "cluster/region/rows.hpp"

namespace {

using namespace zaris;
using region::encode;  // of a Generation, which lives elsewhere

// A value of a few bytes of JSON costs a node of a tree, in containers that double.
constexpr std::size_t base_bytes = 64u << 10, factor = 256;

template <class Decode>
void try_one(std::string_view bytes, std::size_t input_bytes, Decode decode, std::size_t base = base_bytes) {
  const fuzz::PeakAllocation peak;
  const auto read = decode(bytes);
  peak.check(input_bytes, base, factor);
  if (!read) return;
  const std::string written = encode(*read);
  const auto again = decode(written);
  if (!again || encode(*again) != written) std::abort();
}

// A frame says how long its text is, and is taken at its word up to the limit.
void try_frame(std::string_view frame, std::size_t input_bytes, std::size_t base) {
  try_one(frame, input_bytes, ownership::decode_partition_map, base);
  try_one(frame, input_bytes, ownership::decode_ownership, base);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try_one(bytes, size, region::decode_settings);
  try_one(bytes, size, region::decode_member);
  try_one(bytes, size, region::decode_leader);
  try_one(bytes, size, region::decode_beacon);
  try_one(bytes, size, region::decode_generation);
  try_one(bytes, size, ownership::decode_synchronised_set);
  try_one(bytes, size, region::decode_register);
  try_frame(bytes, size, base_bytes + ownership::document_text_bytes_max);
  std::string frame(ZSTD_compressBound(size), '\0');
  frame.resize(ZSTD_compress(frame.data(), frame.size(), data, size, 1));
  try_frame(frame, size, base_bytes);
  return 0;
}
