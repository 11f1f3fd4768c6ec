#include "feed/message/batch_writer.hpp"

#include "cluster/base/assert.hpp"
#include "feed/message/message.hpp"
#include "feed/message/packer.hpp"

namespace zaris::feed {
namespace {

void patch(std::string& out, std::size_t at, std::uint64_t value, unsigned bytes) {
  for (unsigned i = 0; i < bytes; ++i) out[at + i] = static_cast<char>(value >> (8 * (bytes - 1 - i)));
}

// Widths that do not depend on the value, since it is filled in later: 0xdc + 2, 0xc6 + 4.
std::size_t reserve_array16(std::string& out) {
  out.append("\xdc\0\0", 3);
  return out.size() - 2;
}
std::size_t reserve_bin32(std::string& out) {
  out.append("\xc6\0\0\0\0", 5);
  return out.size() - 4;
}

}  // namespace

BatchWriter::BatchWriter(std::string& out) : out_(out), start_(out.size()) {
  Packer pack(out_);
  pack.array(2);
  pack.number(static_cast<std::uint64_t>(MessageType::batch));
  count_at_ = reserve_array16(out_);
}

void BatchWriter::begin_run(SegmentId segment, Position prev, Generation generation) {
  ZARIS_ASSERT(runs_ < runs_max, runs_);
  Packer pack(out_);
  pack.array(8);
  pack.number(segment.value());
  pack.array(2);
  pack.number(prev.generation.value());
  pack.number(prev.revision.value());
  pack.number(generation.value());
  pack.fixed(0);
  last_at_ = out_.size() - 8;
  pack.fixed(0);
  flags_at_ = out_.size();
  pack.number(0);
  table_at_ = reserve_bin32(out_);
}

void BatchWriter::begin_records() {
  patch(out_, table_at_, out_.size() - (table_at_ + 4), 4);
  records_at_ = reserve_bin32(out_);
}

void BatchWriter::end_run(Revision last, WallMicros commit_time_us) {
  patch(out_, records_at_, out_.size() - (records_at_ + 4), 4);
  patch(out_, last_at_, last.value(), 8);
  patch(out_, last_at_ + 9, commit_time_us, 8);
  ++runs_;
}

void BatchWriter::empty_run(SegmentId segment, Position prev, Position last, WallMicros commit_time_us) {
  begin_run(segment, prev, last.generation);
  begin_records();
  end_run(last.revision, commit_time_us);
}

void BatchWriter::mark_reaches_head() { out_[flags_at_] = 1; }

bool BatchWriter::finish() {
  if (runs_ == 0) {
    out_.resize(start_);
    return false;
  }
  patch(out_, count_at_, runs_, 2);
  return true;
}

}  // namespace zaris::feed
