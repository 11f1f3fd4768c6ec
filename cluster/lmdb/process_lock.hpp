// One process at a time: a lock file that names its holder. The lock is the kernel's (an open-file-description lock), so
// it falls with its holder however that ends; the text in the file is only for people.
#pragma once
#include <optional>
#include <string>

#include "cluster/base/result.hpp"

namespace zaris::lmdb {

class ProcessLock {
 public:
  // Creates `path` where it is missing (its directory must be there), takes the lock or fails at once, then writes
  // "PID HOST STARTED" into it. Errors: `<code_prefix>_locked` (the text names the holder), `<code_prefix>_unreadable`.
  // `subject` stands in the text: "the cursor store /var/lib/… is in use by process 17 on host a".
  [[nodiscard]] static Result<ProcessLock> take(const std::string& path, const std::string& code_prefix,
                                                const std::string& subject);

  // Who holds it now: "process 17 on host a since 2026-01-02T03:04:05Z"; empty: nobody. Takes no lock itself, so a look
  // never stands in the way of an owner that starts.
  [[nodiscard]] static std::optional<std::string> holder(const std::string& path);

  ProcessLock(ProcessLock&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  ProcessLock& operator=(ProcessLock&& other) noexcept;
  ProcessLock(const ProcessLock&) = delete;
  ProcessLock& operator=(const ProcessLock&) = delete;
  ~ProcessLock();

 private:
  explicit ProcessLock(int fd) : fd_(fd) {}
  int fd_ = -1;
};

}  // namespace zaris::lmdb
