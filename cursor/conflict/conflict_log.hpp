// What was taken away: a file per link beside the cursors that keeps every value that a range, a repair or a one-way
// conflict replaced or removed in the target, with key, both records, position and time. Design page follower, "What is
// durable". Bytes: docs/formats/cursor.md, "The conflict log".
//
// Blocks are appended and synced; each carries a sum over its place and its content. A tail that a crash tore is cut when
// the log is opened; a block that rotted in the middle is passed over and what follows it is kept.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cluster/base/result.hpp"
#include "cluster/record/position.hpp"

namespace zaris::cursor {

struct Conflict {
  WallMicros at_us = 0;             // when the follower wrote it down
  SegmentId segment;                // of the source
  std::string key;
  std::string target_record;        // what was there, whole; empty: nothing
  std::string source_record;        // what came instead; empty: nothing (a removal)
  NamedPosition as_of;              // the source position that the change stems from
  friend bool operator==(const Conflict&, const Conflict&) = default;
};

// One thread at a time; append blocks for an fdatasync. The file is locked against a second writer.
class ConflictLog {
 public:
  // Opens or creates; reads the file once from end to end. bytes_max: the file never grows beyond it.
  // Errors: `conflict_log_damaged` (its head is not that of a conflict log), `conflict_log_format_newer`,
  // `conflict_log_locked`, `conflict_log_disk_full`, `conflict_log_io`. The file is left as it is.
  [[nodiscard]] static Result<std::unique_ptr<ConflictLog>> open(const std::string& path, std::uint64_t bytes_max);
  ~ConflictLog();
  ConflictLog(const ConflictLog&) = delete;
  ConflictLog& operator=(const ConflictLog&) = delete;

  // All of them or none, synced before it returns. Errors: `conflict_log_full` (bytes_max), `conflict_log_disk_full`,
  // `conflict_log_io`; after each of them the log is as it was, and the call may be repeated.
  [[nodiscard]] Result<void> append(const std::vector<Conflict>& conflicts);

  [[nodiscard]] std::uint64_t bytes() const { return end_; }
  [[nodiscard]] std::uint64_t records() const { return records_; }
  [[nodiscard]] std::uint64_t torn_bytes_cut() const { return torn_; }      // at open
  [[nodiscard]] std::uint64_t damaged_bytes() const { return damaged_; }    // found at open, passed over, kept

 private:
  ConflictLog(int fd, std::string path, std::uint64_t bytes_max) : fd_(fd), path_(std::move(path)), bytes_max_(bytes_max) {}
  int fd_;
  std::string path_;
  std::uint64_t bytes_max_;
  std::uint64_t end_ = 0, records_ = 0, torn_ = 0, damaged_ = 0;
};

// Reads a log from its beginning, also while a follower appends to it.
class ConflictReader {
 public:
  // Errors: `conflict_log_absent`, `conflict_log_damaged`, `conflict_log_format_newer`, `conflict_log_io`.
  [[nodiscard]] static Result<std::unique_ptr<ConflictReader>> open(const std::string& path);
  ~ConflictReader();
  ConflictReader(const ConflictReader&) = delete;
  ConflictReader& operator=(const ConflictReader&) = delete;

  // The next one; empty: the last whole block has been read. Damaged stretches are passed over and counted.
  // Errors: `conflict_log_io`.
  [[nodiscard]] Result<std::optional<Conflict>> next();

  [[nodiscard]] std::uint64_t damaged_bytes() const { return damaged_; }

 private:
  ConflictReader(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  int fd_;
  std::string path_;
  std::uint64_t at_ = 0, damaged_ = 0;
  std::vector<Conflict> block_;     // of the block read last
  std::size_t given_ = 0;
};

}  // namespace zaris::cursor
