// A chunk of the log as it lies outside memory: a head that names it, its index, its bytes, and a checksum over all of them
// (docs/formats/record.md, "Spilled chunks"). Written and read by one process in its own byte order.
#pragma once
#include <memory>
#include <string>

#include "cluster/base/result.hpp"
#include "cluster/store/segment_log.hpp"

namespace zaris::store {

// The chunk takes no more records.
[[nodiscard]] std::string spill_image(SegmentId segment, const LogChunk& chunk);

// Errors: `spill_damaged`: it is not this chunk of this segment, or its bytes are not those that were written.
[[nodiscard]] Result<std::shared_ptr<const LogChunk>> chunk_from_image(std::string image, SegmentId segment, const SpilledChunk& expected);

}  // namespace zaris::store
