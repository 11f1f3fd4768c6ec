#include "cluster/lmdb/examine.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>

#include "cluster/lmdb/child_reader.hpp"
#include "cluster/lmdb/durable_file.hpp"
#include "cluster/lmdb/row_bytes.hpp"

namespace zaris::lmdb {
namespace {

constexpr std::string_view twin_first_line = "zaris-store-twin 1\n";
// A follower with every segment of a hundred links is a few MiB; what is far beyond is no store of ours.
constexpr std::size_t answer_bytes_max = 512u << 20;

Findings finding(Verdict verdict, std::string why) {
  Findings out;
  out.verdict = verdict;
  out.why = std::move(why);
  return out;
}

std::int64_t monotonic_ms() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

struct Twin {
  bool present = false;    // something stands there
  std::uint64_t id = 0;    // 0: it cannot be read as a twin
};

Twin read_twin(const std::string& path) {
  Twin out;
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0) return out;
  out.present = true;
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return out;
  char text[200];
  const ssize_t n = ::read(fd, text, sizeof(text));
  ::close(fd);
  const std::string_view content(text, n > 0 ? static_cast<std::size_t>(n) : 0);
  if (content.substr(0, twin_first_line.size()) != twin_first_line) return out;
  const auto rest = content.substr(twin_first_line.size());
  if (rest.size() < 20 || rest.substr(0, 3) != "id " || rest[19] != '\n') return out;
  std::uint64_t id = 0;
  for (const char c : rest.substr(3, 16)) {
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (digit < 0) return out;
    id = id << 4 | static_cast<std::uint64_t>(digit);
  }
  out.id = id;
  return out;
}

// Everything the child said, or what became of it.
struct ChildAnswer {
  std::string bytes;
  bool late = false, too_much = false, started = false;
  int status = 0;
};

ChildAnswer run_child(const ExamineOptions& options) {
  ChildAnswer out;
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return out;
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
    child_read(options, ends[1]);
  }
  ::close(ends[1]);
  if (child < 0) {
    ::close(ends[0]);
    return out;
  }
  out.started = true;
  const std::int64_t deadline = monotonic_ms() + std::int64_t{options.deadline_seconds} * 1000;
  std::string chunk(1 << 16, '\0');
  for (;;) {
    const std::int64_t left = deadline - monotonic_ms();
    pollfd wait{ends[0], POLLIN, 0};
    const int ready = left <= 0 ? 0 : ::poll(&wait, 1, static_cast<int>(left));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) {
      out.late = true;
      break;
    }
    const ssize_t n = ::read(ends[0], chunk.data(), chunk.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    out.bytes.append(chunk.data(), static_cast<std::size_t>(n));
    if (out.bytes.size() > answer_bytes_max) {
      out.too_much = true;
      break;
    }
  }
  ::close(ends[0]);
  if (out.late || out.too_much) ::kill(child, SIGKILL);
  while (::waitpid(child, &out.status, 0) < 0 && errno == EINTR) {
  }
  return out;
}

// Our own child's words, but it may have died in the middle of one.
bool parse_answer(std::string_view bytes, Findings& out) {
  const auto take = [&](std::size_t n, std::string_view& part) {
    if (bytes.size() < n) return false;
    part = bytes.substr(0, n);
    bytes.remove_prefix(n);
    return true;
  };
  std::string_view kind, head, part;
  while (take(1, kind)) {
    if (kind == "R") {
      Row row;
      if (!take(8, head) || !take(read_fixed(head.substr(0, 4)), part)) return false;
      row.key = part;
      if (!take(read_fixed(head.substr(4, 4)), part)) return false;
      row.value = part;
      out.rows.push_back(std::move(row));
    } else {
      if (kind != "V" || !take(1 + 8 + 8 + 4, head)) return false;
      out.verdict = static_cast<Verdict>(head[0]);
      out.store_id = read_fixed(head.substr(1, 8));
      out.commits = read_fixed(head.substr(9, 8));
      if (!take(read_fixed(head.substr(17, 4)), part)) return false;
      out.why = part;
      return true;
    }
  }
  return false;
}

}  // namespace

std::string_view name(Verdict verdict) {
  switch (verdict) {
    case Verdict::absent: return "absent";
    case Verdict::sound: return "sound";
    case Verdict::damaged: return "damaged";
    case Verdict::format_older: return "format_older";
    case Verdict::format_newer: return "format_newer";
    case Verdict::unreadable: return "unreadable";
  }
  return "unknown";
}

Findings examine(const ExamineOptions& options) {
  const Twin twin = read_twin(options.twin);
  struct stat found {};
  if (::lstat(options.file.c_str(), &found) != 0) {
    if (errno != ENOENT) return finding(Verdict::unreadable, std::strerror(errno));
    if (!twin.present) return finding(Verdict::absent, "");
    return finding(Verdict::damaged, "it is gone, though " + options.twin + " says that one was created here");
  }
  if (!S_ISREG(found.st_mode)) {
    return finding(Verdict::damaged, S_ISDIR(found.st_mode) ? "a directory stands in its place" : "it is not a regular file");
  }
  if (found.st_size == 0) {
    return finding(Verdict::damaged, twin.present ? "it has no bytes, though a store was created here" : "it has no bytes");
  }
  const int fd = ::open(options.file.c_str(), (options.owner ? O_RDWR : O_RDONLY) | O_CLOEXEC);
  if (fd < 0) return finding(Verdict::unreadable, std::strerror(errno));
  ::close(fd);

  const ChildAnswer answer = run_child(options);
  if (!answer.started) return finding(Verdict::unreadable, std::string("no process could be started to read it: ") + std::strerror(errno));
  Findings out;
  if (answer.late) return finding(Verdict::damaged, "reading it did not end in time");
  if (answer.too_much) return finding(Verdict::damaged, "it holds more than any store of ours");
  if (!parse_answer(answer.bytes, out)) {
    return finding(Verdict::damaged, WIFSIGNALED(answer.status)
                                         ? fmt::format("reading it ends by signal {} ({})", WTERMSIG(answer.status),
                                                       ::strsignal(WTERMSIG(answer.status)))
                                         : std::string("its reader ended without an answer"));
  }
  if (out.verdict != Verdict::sound) {
    out.rows.clear();
    return out;
  }
  if (twin.id != 0 && twin.id != out.store_id) {
    return finding(Verdict::damaged, fmt::format("it is store {}, but {} names store {}", hex16(out.store_id), options.twin,
                                                 hex16(twin.id)));
  }
  out.twin_missing = twin.id == 0;
  return out;
}

Result<void> write_twin(const std::string& path, std::uint64_t store_id, const std::string& code) {
  const std::string text = std::string(twin_first_line) + "id " + hex16(store_id) + "\ncreated " + utc_text(std::time(nullptr)) +
                           "\nThis file says that a store was created beside it, so that an empty one is not taken for new.\n";
  return write_whole_file(path, text, code);
}

std::uint64_t random_id() {
  std::uint64_t id = 0;
  while (id == 0) {
    if (::getrandom(&id, sizeof(id), 0) != sizeof(id)) id = 0;
  }
  return id;
}

}  // namespace zaris::lmdb
