// Writes one Batch message straight into its buffer: no run, row or record is ever held anywhere else. Bytes:
// docs/formats/feed.md, "Batch". The caller appends rows and records to the same buffer between the calls:
//
//   BatchWriter w(out);
//   w.begin_run(segment, prev, generation);   // then append rows (record_table.hpp) to out
//   w.begin_records();                        // then append the records' bytes to out
//   w.end_run(last, commit_time);
//   w.finish();
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "cluster/record/position.hpp"

namespace zaris::feed {

class BatchWriter {
 public:
  static constexpr std::uint32_t runs_max = 65'535;

  explicit BatchWriter(std::string& out);  // appends the message's head to what is in `out` already

  void begin_run(SegmentId segment, Position prev, Generation generation);
  void begin_records();
  void end_run(Revision last, WallMicros commit_time_us);
  // A run without records: covers (prev, last] of one generation.
  void empty_run(SegmentId segment, Position prev, Position last, WallMicros commit_time_us);
  // The run that ended last reaches its segment's head.
  void mark_reaches_head();
  // Without a run in it: takes the head off `out` again and returns false.
  bool finish();

  [[nodiscard]] std::uint32_t runs() const { return runs_; }

 private:
  std::string& out_;
  std::size_t start_;
  std::size_t count_at_;
  std::size_t last_at_ = 0;     // of the current run: where its fixed-width places are
  std::size_t flags_at_ = 0;
  std::size_t table_at_ = 0;    // the table's length
  std::size_t records_at_ = 0;  // the records' length
  std::uint32_t runs_ = 0;
};

}  // namespace zaris::feed
