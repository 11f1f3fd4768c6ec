// What runs in the child of an examination, and the messages that it sends back. Internal to cluster/lmdb.
#pragma once
#include "cluster/lmdb/examine.hpp"

namespace zaris::lmdb {

// Reads the file from end to end and writes to `pipe`: per row 'R' u32 key length, u32 value length, key, value (without
// its sum); at the end 'V' u8 verdict, u64 store id, u64 commits, u32 length, text. Never returns. The caller has forked;
// every descriptor but `pipe` is closed, signals go back to their defaults, no core is written.
[[noreturn]] void child_read(const ExamineOptions& options, int pipe);

}  // namespace zaris::lmdb
