#include "cluster/lmdb/child_reader.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <lmdb.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "cluster/lmdb/row_bytes.hpp"

namespace zaris::lmdb {
namespace {

// Bytes to the parent, buffered; a parent that is gone ends the child by SIGPIPE.
class Out {
 public:
  explicit Out(int fd) : fd_(fd) {}
  void put(std::string_view bytes) {
    buffer_.append(bytes);
    if (buffer_.size() > 65536) flush();
  }
  void row(std::string_view key, std::string_view value) {
    put("R");
    put(fixed32(static_cast<std::uint32_t>(key.size())));
    put(fixed32(static_cast<std::uint32_t>(value.size())));
    put(key);
    put(value);
  }
  [[noreturn]] void verdict(Verdict verdict, std::string_view why, std::uint64_t id = 0, std::uint64_t commits = 0) {
    put("V");
    put(std::string(1, static_cast<char>(verdict)));
    put(fixed64(id));
    put(fixed64(commits));
    put(fixed32(static_cast<std::uint32_t>(why.size())));
    put(why);
    flush();
    ::_exit(0);
  }

 private:
  void flush() {
    std::size_t done = 0;
    while (done < buffer_.size()) {
      const ssize_t n = ::write(fd_, buffer_.data() + done, buffer_.size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) ::_exit(1);
      done += static_cast<std::size_t>(n);
    }
    buffer_.clear();
  }
  int fd_;
  std::string buffer_;
};

void become_harmless(int pipe) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (int signal = 1; signal < 32; ++signal) ::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  // Nothing of the parent's: no listener, no lock that would outlive it. LMDB's last words go nowhere.
  if (pipe > 3) ::syscall(SYS_close_range, 3u, static_cast<unsigned>(pipe - 1), 0u);
  ::syscall(SYS_close_range, static_cast<unsigned>(std::max(pipe + 1, 3)), ~0u, 0u);
  const int nowhere = ::open("/dev/null", O_RDWR);
  if (nowhere >= 0) {
    for (const int standard : {0, 1, 2}) {
      if (standard != pipe) ::dup2(nowhere, standard);
    }
  }
}

std::string_view as_view(const MDB_val& val) { return {static_cast<const char*>(val.mv_data), val.mv_size}; }
MDB_val as_val(const std::string& bytes) { return {bytes.size(), const_cast<char*>(bytes.data())}; }

// The data file's version by both of its meta pages: LMDB's own newer format only if they agree. Anything else that has
// a wrong version is a changed byte.
bool newer_lmdb(const std::string& file) {
  const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  std::uint32_t words[2][2] = {};
  const long page = ::sysconf(_SC_PAGESIZE);
  const bool read = ::pread(fd, words[0], 8, 16) == 8 && ::pread(fd, words[1], 8, page + 16) == 8;
  ::close(fd);
  return read && words[0][0] == 0xBEEFC0DE && words[1][0] == 0xBEEFC0DE && words[0][1] == words[1][1] && words[0][1] > 1;
}

// Every list of free pages: ids inside the file, descending, none twice. What LMDB itself would trust blindly when it
// next writes.
bool free_pages_sound(MDB_txn* txn, std::size_t last_page) {
  MDB_cursor* cursor = nullptr;
  if (mdb_cursor_open(txn, 0, &cursor) != 0) return false;
  std::vector<bool> seen(last_page + 1);
  MDB_val key, value;
  bool sound = true;
  int rc = mdb_cursor_get(cursor, &key, &value, MDB_FIRST);
  for (; sound && rc == 0; rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) {
    std::size_t count = 0;
    if (key.mv_size != sizeof(std::size_t) || value.mv_size < sizeof(std::size_t)) return false;
    std::memcpy(&count, value.mv_data, sizeof(count));
    if (count > value.mv_size / sizeof(std::size_t) - 1) return false;
    std::size_t before = last_page + 1;
    for (std::size_t i = 1; sound && i <= count; ++i) {
      std::size_t page = 0;
      std::memcpy(&page, static_cast<const char*>(value.mv_data) + i * sizeof(page), sizeof(page));
      sound = page >= 2 && page < before && !seen[page];
      if (sound) seen[page] = true;
      before = page;
    }
  }
  mdb_cursor_close(cursor);
  return sound && rc == MDB_NOTFOUND;
}

// Rewrites every row and drops the transaction: nothing reaches the file, but whatever would kill a writer kills the child.
int try_writing(MDB_env* env, const std::vector<Row>& rows) {
  MDB_txn* txn = nullptr;
  MDB_dbi dbi = 0;
  int rc = mdb_txn_begin(env, nullptr, 0, &txn);
  if (rc) return rc;
  rc = mdb_dbi_open(txn, nullptr, 0, &dbi);
  for (std::size_t i = 0; !rc && i < rows.size(); ++i) {
    const std::string bytes = with_sum(rows[i].key, rows[i].value);
    MDB_val key = as_val(rows[i].key), value = as_val(bytes);
    rc = mdb_put(txn, dbi, &key, &value, 0);
  }
  mdb_txn_abort(txn);
  return rc == MDB_MAP_FULL ? 0 : rc;
}

struct Opened {
  MDB_env* env = nullptr;
  MDB_txn* txn = nullptr;
  MDB_dbi dbi = 0;
  int rc = 0;
};

Opened open_for_reading(const ExamineOptions& options) {
  Opened out;
  if ((out.rc = mdb_env_create(&out.env))) return out;
  // The owner's child: nobody else writes, so no lock is needed, and the trial write must be possible.
  // A reader makes no table of readers where none is: there is no writer then, and it would be made with holes
  // (checked_lmdb.cpp) and by the wrong user.
  const bool has_table = ::access((options.file + "-lock").c_str(), F_OK) == 0;
  const unsigned flags = options.owner ? MDB_NOSUBDIR | MDB_NOLOCK : MDB_NOSUBDIR | MDB_RDONLY | (has_table ? 0u : MDB_NOLOCK);
  if (options.owner) {
    struct stat found {};
    if (::stat(options.file.c_str(), &found) == 0) {
      // Room for the trial write, which is dropped: every row once more and the pages on the way.
      mdb_env_set_mapsize(out.env, (static_cast<std::size_t>(found.st_size) * 2 + (16u << 20)) / 4096 * 4096);
    }
  }
  if ((out.rc = mdb_env_open(out.env, options.file.c_str(), flags, 0640))) return out;
  for (int attempt = 0; attempt < 5; ++attempt) {
    out.rc = mdb_txn_begin(out.env, nullptr, MDB_RDONLY, &out.txn);
    if (out.rc == MDB_MAP_RESIZED) {          // the owner has grown it meanwhile
      mdb_env_set_mapsize(out.env, 0);
    } else if (out.rc == MDB_READERS_FULL) {  // by readers that were killed
      int dead = 0;
      mdb_reader_check(out.env, &dead);
      if (dead == 0) break;
    } else {
      break;
    }
  }
  if (!out.rc) out.rc = mdb_dbi_open(out.txn, nullptr, 0, &out.dbi);
  return out;
}

}  // namespace

void child_read(const ExamineOptions& options, int pipe) {
  become_harmless(pipe);
  Out out(pipe);
  Opened db = open_for_reading(options);
  if (db.rc) {
    const std::string text = mdb_strerror(db.rc);
    if (db.rc == EACCES || db.rc == EPERM || db.rc == EROFS || db.rc == EMFILE || db.rc == ENFILE || db.rc == MDB_READERS_FULL) {
      out.verdict(Verdict::unreadable, text);
    }
    if (db.rc == MDB_VERSION_MISMATCH && newer_lmdb(options.file)) {
      out.verdict(Verdict::format_newer, "it was written by a newer LMDB: " + text);
    }
    out.verdict(Verdict::damaged, "LMDB does not open it: " + text);
  }
  MDB_stat stat{};
  MDB_envinfo info{};
  mdb_stat(db.txn, db.dbi, &stat);
  mdb_env_info(db.env, &info);
  if (stat.ms_entries == 0) out.verdict(Verdict::damaged, "it holds nothing at all");

  MDB_val key, value;
  const std::string format_name = format_key(), id_name = id_key(), manifest_name = manifest_key();
  key = as_val(format_name);
  const auto format_row = mdb_get(db.txn, db.dbi, &key, &value) == 0 ? without_sum(format_name, as_view(value)) : std::nullopt;
  if (!format_row || format_row->size() != 4) out.verdict(Verdict::damaged, "its format row is missing or has a wrong sum");
  const auto format = static_cast<std::uint32_t>(read_fixed(*format_row));
  if (format != options.format) {
    out.verdict(format > options.format ? Verdict::format_newer : Verdict::format_older,
                fmt::format("it has format {}, this program reads format {}", format, options.format));
  }

  std::vector<Row> kept;
  std::optional<Manifest> manifest;
  Manifest counted;
  std::uint64_t id = 0;
  std::string last;
  MDB_cursor* cursor = nullptr;
  int rc = mdb_cursor_open(db.txn, db.dbi, &cursor);
  if (!rc) rc = mdb_cursor_get(cursor, &key, &value, MDB_FIRST);
  // Keys that ascend end, whatever the pages say; the count is a second end.
  std::uint64_t seen = 0;
  for (; rc == 0; rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) {
    const auto name = as_view(key);
    if (++seen > stat.ms_entries) out.verdict(Verdict::damaged, "it has more rows than it says");
    if (seen > 1 && std::string_view(last) >= name) out.verdict(Verdict::damaged, "its rows are out of order");
    last = name;
    const auto content = without_sum(name, as_view(value));
    if (!content) out.verdict(Verdict::damaged, "the row " + printable(name) + " has a wrong sum");
    if (name == manifest_name) {
      manifest = parse_manifest(name, as_view(value));
      continue;
    }
    ++counted.rows;
    counted.sums ^= trailing_sum(as_view(value));
    if (name == id_name) id = read_fixed(content->substr(0, 8));
    if (name.empty() || name[0] != '\0') {
      out.row(name, *content);
      if (options.owner) kept.push_back({std::string(name), std::string(*content)});
    }
  }
  if (rc != MDB_NOTFOUND) out.verdict(Verdict::damaged, std::string("LMDB cannot walk it: ") + mdb_strerror(rc));
  if (!manifest) out.verdict(Verdict::damaged, "its manifest is missing or malformed");
  if (manifest->rows != counted.rows || manifest->sums != counted.sums) {
    out.verdict(Verdict::damaged, fmt::format("its manifest names {} rows with sum {}, found were {} with {}", manifest->rows,
                                              hex16(manifest->sums), counted.rows, hex16(counted.sums)));
  }
  mdb_cursor_close(cursor);
  if (options.owner) {
    if (!free_pages_sound(db.txn, info.me_last_pgno)) out.verdict(Verdict::damaged, "its list of free pages is broken");
    mdb_txn_abort(db.txn);
    if ((rc = try_writing(db.env, kept)) != 0) {
      out.verdict(Verdict::damaged, std::string("it cannot be written to: ") + mdb_strerror(rc));
    }
  }
  out.verdict(Verdict::sound, "", id, manifest->commits);
}

}  // namespace zaris::lmdb
