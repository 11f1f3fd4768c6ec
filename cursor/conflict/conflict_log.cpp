#include "cursor/conflict/conflict_log.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "cursor/conflict/conflict_bytes.hpp"

namespace zaris::cursor {
namespace {

tl::unexpected<Error> failed(const std::string& path, const std::string& doing, int why) {
  const bool full = why == ENOSPC || why == EDQUOT || why == EFBIG;
  return failure(full ? "conflict_log_disk_full" : "conflict_log_io",
                 fmt::format("the conflict log {} failed while {}: {}", path, doing, std::strerror(why)),
                 full ? "make room on the disk; the segment goes on by itself" : "look at the disk and the kernel's log");
}

tl::unexpected<Error> not_a_log(const std::string& path, HeadVerdict verdict) {
  if (verdict == HeadVerdict::newer) {
    return failure("conflict_log_format_newer", "the conflict log " + path + " was written by a newer version", "run that version, or a newer one");
  }
  return failure("conflict_log_damaged", path + " does not begin like a conflict log", "move it away; a new one is begun");
}

// Reads up to `n` bytes at `place`; fewer only at the end of the file. False: errno says why.
bool read_at(int fd, std::uint64_t place, std::size_t n, std::string& out) {
  out.resize(n);
  std::size_t got = 0;
  while (got < n) {
    const ssize_t k = ::pread(fd, out.data() + got, n - got, static_cast<off_t>(place + got));
    if (k < 0 && errno == EINTR) continue;
    if (k < 0) return false;
    if (k == 0) break;
    got += static_cast<std::size_t>(k);
  }
  out.resize(got);
  return true;
}

struct FoundBlock {
  bool found = false;
  std::uint64_t place = 0, next = 0;
  BlockHead head;
  std::string content;
};

// The first whole block at or after `place`. What is passed over on the way is damage, or a tail that is not finished.
Result<FoundBlock> next_block(int fd, const std::string& path, std::uint64_t place) {
  FoundBlock out;
  struct stat found {};
  if (::fstat(fd, &found) != 0) return failed(path, "reading", errno);
  const auto size = static_cast<std::uint64_t>(found.st_size);
  constexpr std::size_t window = 1u << 16;
  std::string bytes;
  while (place + block_head_bytes <= size) {
    if (!read_at(fd, place, window, bytes)) return failed(path, "reading", errno);
    std::size_t at = bytes.find(block_mark);
    if (at == std::string::npos) {
      if (bytes.size() < block_mark.size()) break;
      place += bytes.size() - (block_mark.size() - 1);
      continue;
    }
    place += at;
    if (!read_at(fd, place, block_head_bytes, bytes)) return failed(path, "reading", errno);
    if (parse_block_head(bytes, out.head) && out.head.content_bytes <= size - place - block_head_bytes) {
      if (!read_at(fd, place + block_head_bytes, out.head.content_bytes, out.content)) return failed(path, "reading", errno);
      if (sum_fits(out.head, place, out.content)) {
        out.found = true;
        out.place = place;
        out.next = place + block_head_bytes + out.head.content_bytes;
        return out;
      }
    }
    place += 1;
  }
  return out;
}

}  // namespace

Result<std::unique_ptr<ConflictLog>> ConflictLog::open(const std::string& path, std::uint64_t bytes_max) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0640);
  if (fd < 0) return failed(path, "being opened", errno);
  std::unique_ptr<ConflictLog> log(new ConflictLog(fd, path, bytes_max));
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    return failure("conflict_log_locked", "the conflict log " + path + " is in use by another process", "one follower runs a link at a time");
  }
  struct stat found {};
  if (::fstat(fd, &found) != 0) return failed(path, "being opened", errno);
  if (!S_ISREG(found.st_mode)) return not_a_log(path, HeadVerdict::not_a_log);
  const auto size = static_cast<std::uint64_t>(found.st_size);
  const std::string head = log_head();
  std::string bytes;
  if (!read_at(fd, 0, head_bytes, bytes)) return failed(path, "being read", errno);
  // A creation that was cut off left a part of the head, or zeros where the blocks had not been written yet.
  const bool cut_off = size < head_bytes && (head.starts_with(bytes) || bytes == std::string(bytes.size(), '\0'));
  if (cut_off) {
    if (::ftruncate(fd, 0) != 0) return failed(path, "being begun", errno);
    for (std::size_t done = 0; done < head.size();) {
      const ssize_t n = ::pwrite(fd, head.data() + done, head.size() - done, static_cast<off_t>(done));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return failed(path, "being begun", n < 0 ? errno : ENOSPC);
      done += static_cast<std::size_t>(n);
    }
    if (::fsync(fd) != 0) return failed(path, "being begun", errno);
    const auto slash = path.find_last_of('/');
    const int directory = ::open(slash == std::string::npos ? "." : path.substr(0, slash + 1).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool synced = directory >= 0 && ::fsync(directory) == 0;
    const int why = errno;
    if (directory >= 0) ::close(directory);
    if (!synced) return failed(path, "being begun", why);
    log->end_ = head_bytes;
    return log;
  }
  if (const auto verdict = check_head(bytes); verdict != HeadVerdict::good) return not_a_log(path, verdict);
  log->end_ = head_bytes;
  for (;;) {
    auto block = next_block(fd, path, log->end_);
    if (!block) return tl::unexpected(block.error());
    if (!block->found) break;
    log->damaged_ += block->place - log->end_;
    log->end_ = block->next;
    log->records_ += block->head.records;
  }
  // Nothing whole follows: the last append was torn, and nobody was told that it stands.
  if (log->end_ < size) {
    log->torn_ = size - log->end_;
    if (::ftruncate(fd, static_cast<off_t>(log->end_)) != 0) return failed(path, "its torn tail being cut", errno);
    if (::fdatasync(fd) != 0) return failed(path, "its torn tail being cut", errno);
  }
  return log;
}

ConflictLog::~ConflictLog() { ::close(fd_); }

Result<void> ConflictLog::append(const std::vector<Conflict>& conflicts) {
  if (conflicts.empty()) return {};
  const std::string blocks = encode_blocks(conflicts, end_);
  if (blocks.size() > bytes_max_ || end_ > bytes_max_ - blocks.size()) {
    return failure("conflict_log_full",
                   fmt::format("the conflict log {} holds {} bytes, {} more would pass its limit of {}", path_, end_, blocks.size(), bytes_max_),
                   "read what was taken away, then move the file away while the follower is stopped, or raise conflict_bytes");
  }
  const auto undo = [this](const char* doing, int why) {
    // What reached the file is no whole block to a reader; should the cut fail too, the next append writes over it.
    [[maybe_unused]] const int rc = ::ftruncate(fd_, static_cast<off_t>(end_));
    return failed(path_, doing, why);
  };
  for (std::size_t done = 0; done < blocks.size();) {
    const ssize_t n = ::pwrite(fd_, blocks.data() + done, blocks.size() - done, static_cast<off_t>(end_ + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return undo("appending", n < 0 ? errno : ENOSPC);
    done += static_cast<std::size_t>(n);
  }
  if (::fdatasync(fd_) != 0) return undo("syncing", errno);
  end_ += blocks.size();
  records_ += conflicts.size();
  return {};
}

Result<std::unique_ptr<ConflictReader>> ConflictReader::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT) return failure("conflict_log_absent", "there is no conflict log " + path + ": nothing was taken away");
  if (fd < 0) return failed(path, "being opened", errno);
  std::unique_ptr<ConflictReader> reader(new ConflictReader(fd, path));
  std::string head;
  if (!read_at(fd, 0, head_bytes, head)) return failed(path, "being read", errno);
  if (const auto verdict = check_head(head); verdict != HeadVerdict::good) return not_a_log(path, verdict);
  reader->at_ = head_bytes;
  return reader;
}

ConflictReader::~ConflictReader() { ::close(fd_); }

Result<std::optional<Conflict>> ConflictReader::next() {
  while (given_ == block_.size()) {
    auto block = next_block(fd_, path_, at_);
    if (!block) return tl::unexpected(block.error());
    if (!block->found) return std::nullopt;
    damaged_ += block->place - at_;
    at_ = block->next;
    given_ = 0;
    if (!decode_content(block->head, block->content, block_)) {
      block_.clear();
      damaged_ += block->next - block->place;
    }
  }
  return std::move(block_[given_++]);
}

}  // namespace zaris::cursor
