// Proves a store's file before anybody maps it. A truncated file kills the process that touches the missing page, so the
// reading is done by a child process (plain fork, nothing inherited but a pipe); what it read comes back over the pipe,
// and its death by a signal is an answer.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "cluster/base/result.hpp"
#include "cluster/lmdb/checked_lmdb.hpp"

namespace zaris::lmdb {

enum class Verdict : std::uint8_t {
  absent,         // neither file nor twin: a new store may be made
  sound,
  damaged,        // a sum, the structure, the reader's death, the file gone or empty while the twin stands
  format_older,   // written by a version that this one does not know how to read
  format_newer,
  unreadable,     // permissions, descriptors: nothing is known about the content
};
[[nodiscard]] std::string_view name(Verdict verdict);

struct Findings {
  Verdict verdict = Verdict::unreadable;
  std::string why;                  // for people; empty for `sound` and `absent`
  std::uint64_t store_id = 0;       // sound
  std::vector<Row> rows;            // sound: in key order, without the reserved rows
  std::uint64_t commits = 0;
  bool twin_missing = false;        // sound, but the twin file is gone or unreadable: to be written again
};

struct ExamineOptions {
  std::string file;
  std::string twin;                 // the small file that says that a store was once created here
  std::uint32_t format = 1;         // what this build reads
  // The owner (it holds the process lock, nobody writes): besides reading, a write of every row is tried and dropped, so
  // that a broken list of free pages kills the child and not the owner. False: a reader beside a running owner.
  bool owner = false;
  unsigned deadline_seconds = 60;   // a child that has not finished by then counts as damaged
};

// Starts and ends one child process. Callable from any thread, best before others are started.
[[nodiscard]] Findings examine(const ExamineOptions& options);

// The twin: written once, when the store is created. Errors: code `code`.
[[nodiscard]] Result<void> write_twin(const std::string& path, std::uint64_t store_id, const std::string& code);

// 64 random bits, never 0.
[[nodiscard]] std::uint64_t random_id();

}  // namespace zaris::lmdb
