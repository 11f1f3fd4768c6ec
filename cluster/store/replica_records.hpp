// What a replica checks of a record before it keeps it as it is: the store reads its own records without looking, so one that
// comes from another node must have exactly the form that this store writes.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "cluster/record/record_table.hpp"
#include "cluster/store/store_impl.hpp"

namespace zaris::store {

struct ReplicaRecord {
  KeyPlace at;
  RecordView view;
  Block block;
};

// The limits that a record must keep to.
struct ReplicaLimits {
  SegmentId segment;
  unsigned segment_shift = 0;
  std::size_t key_bytes_max = 0;
  std::size_t value_bytes_max = 0;
};

// Empty: good. `out` views into `bytes`; its block is not made.
[[nodiscard]] std::string read_replica_record(std::string_view bytes, const RecordRow& row, const ReplicaLimits& limits, ReplicaRecord& out);

// The record's bytes in a block of its own.
void make_block(ReplicaRecord& record);

}  // namespace zaris::store
