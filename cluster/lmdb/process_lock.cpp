#include "cluster/lmdb/process_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>

#include "cluster/lmdb/durable_file.hpp"

namespace zaris::lmdb {
namespace {

struct flock whole_file(short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  return lock;  // l_len 0: to the end, l_pid 0: as open-file-description locks demand
}

std::string read_holder(int fd) {
  char text[300];
  const ssize_t n = ::pread(fd, text, sizeof(text), 0);
  std::string line(text, n > 0 ? static_cast<std::size_t>(n) : 0);
  if (const auto end = line.find('\n'); end != std::string::npos) line.resize(end);
  const auto pid_end = line.find(' ');
  const auto host_end = pid_end == std::string::npos ? std::string::npos : line.find(' ', pid_end + 1);
  if (host_end == std::string::npos) return "another process (it has not written its name yet)";
  return "process " + printable(line.substr(0, pid_end)) + " on host " +
         printable(line.substr(pid_end + 1, host_end - pid_end - 1)) + " since " + printable(line.substr(host_end + 1));
}

}  // namespace

Result<ProcessLock> ProcessLock::take(const std::string& path, const std::string& code_prefix,
                                      const std::string& subject) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (fd < 0) {
    return failure(code_prefix + "_unreadable", subject + ": its lock file " + path + " cannot be opened: " +
                   std::strerror(errno), "see that this user owns the directory and may write in it");
  }
  ProcessLock lock(fd);
  auto wanted = whole_file(F_WRLCK);
  if (::fcntl(fd, F_OFD_SETLK, &wanted) != 0) {
    if (errno == EAGAIN || errno == EACCES) {
      return failure(code_prefix + "_locked", subject + " is in use by " + read_holder(fd),
                     "stop that process first, or give this one a directory of its own");
    }
    return failure(code_prefix + "_unreadable", subject + ": " + path + " cannot be locked: " + std::strerror(errno),
                   "keep it on a local file system");
  }
  char host[256] = "unknown";
  ::gethostname(host, sizeof(host) - 1);
  const std::string text = std::to_string(::getpid()) + " " + host + " " + utc_text(std::time(nullptr)) + "\n";
  // The name is for people only: a full disk must not keep the owner from starting.
  if (::ftruncate(fd, 0) == 0) [[maybe_unused]] const auto n = ::pwrite(fd, text.data(), text.size(), 0);
  return lock;
}

std::optional<std::string> ProcessLock::holder(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  auto asked = whole_file(F_WRLCK);
  std::optional<std::string> found;
  if (::fcntl(fd, F_OFD_GETLK, &asked) == 0 && asked.l_type != F_UNLCK) found = read_holder(fd);
  ::close(fd);
  return found;
}

ProcessLock& ProcessLock::operator=(ProcessLock&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = other.fd_;
    other.fd_ = -1;
  }
  return *this;
}

ProcessLock::~ProcessLock() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace zaris::lmdb
