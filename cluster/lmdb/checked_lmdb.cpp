#include "cluster/lmdb/checked_lmdb.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <lmdb.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <mutex>

#include "cluster/base/assert.hpp"
#include "cluster/lmdb/durable_file.hpp"
#include "cluster/lmdb/row_bytes.hpp"

namespace zaris::lmdb {

std::string format_key() { return std::string("\0f", 2); }
std::string id_key() { return std::string("\0i", 2); }
std::string manifest_key() { return std::string("\0m", 2); }

std::uint64_t row_sum(std::string_view key, std::string_view value) {
  std::string both;
  both.reserve(key.size() + value.size());
  both.append(key).append(value);
  return XXH3_64bits(both.data(), both.size());
}

namespace {

constexpr std::size_t map_step = 1u << 20;
constexpr off_t reader_table_bytes = 16384;  // about 250 readers

MDB_val as_val(std::string_view bytes) { return {bytes.size(), const_cast<char*>(bytes.data())}; }
std::string_view as_view(const MDB_val& val) { return {static_cast<const char*>(val.mv_data), val.mv_size}; }

// A write past the file size limit, or one that was cut short (LMDB calls that EIO), is a full disk; other EIO is not.
bool no_room(int rc, const std::string& file) {
  if (rc == MDB_MAP_FULL || rc == ENOSPC || rc == EDQUOT || rc == EFBIG) return true;
  if (rc != EIO) return false;
  struct statvfs disk {};
  if (::statvfs(file.c_str(), &disk) == 0 && disk.f_bavail * disk.f_frsize < (1u << 20)) return true;
  struct stat found {};
  rlimit limit{};
  return ::stat(file.c_str(), &found) == 0 && ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
         static_cast<rlim_t>(found.st_size) + (1u << 20) > limit.rlim_cur;
}

}  // namespace

struct CheckedLmdb::Impl {
  StoreOptions options;
  mutable std::mutex mutex;
  MDB_env* env = nullptr;
  MDB_dbi dbi = 0;
  std::size_t map_bytes = 0;
  Manifest manifest;                 // as of the last commit that stands
  bool reopen = false;               // an I/O error may have left the environment unusable
  unsigned stale_cleared = 0;

  tl::unexpected<Error> fail(int rc, const std::string& doing) const {
    if (no_room(rc, options.file)) {
      if (rc == MDB_MAP_FULL) {
        return failure(options.code_prefix + "_disk_full",
                       fmt::format("{} {} has reached its limit of {} bytes while {}", options.subject, options.file,
                                   options.map_bytes_max, doing),
                       "nothing is lost; raise the limit or remove what is no longer needed");
      }
      return failure(options.code_prefix + "_disk_full",
                     fmt::format("there is no room on the disk for {} {} while {} ({})", options.subject, options.file, doing,
                                 mdb_strerror(rc)),
                     "nothing is lost; make room, it goes on by itself");
    }
    if (rc == MDB_CORRUPTED || rc == MDB_PAGE_NOTFOUND || rc == MDB_INVALID || rc == MDB_BAD_TXN || rc == MDB_BAD_VALSIZE) {
      return damaged(fmt::format("while {}: {}", doing, mdb_strerror(rc)));
    }
    return failure(options.code_prefix + "_io",
                   fmt::format("{} {} failed while {}: {}", options.subject, options.file, doing, mdb_strerror(rc)),
                   "look at the disk and the kernel's log");
  }

  tl::unexpected<Error> damaged(const std::string& why) const {
    return failure(options.code_prefix + "_damaged", fmt::format("{} {} is damaged: {}", options.subject, options.file, why),
                   "restart the process: it examines the file and says what it does with it");
  }

  void close() {
    if (env) mdb_env_close(env);
    env = nullptr;
  }

  // LMDB makes its table of readers as a file with holes and maps it: on a full disk, the first touch of a hole kills the
  // process. So its blocks are taken beforehand. (A larger file than LMDB asks for is a larger table.)
  int allocate_reader_table() const {
    const int fd = ::open((options.file + "-lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0640);
    if (fd < 0) return errno;
    const int rc = ::posix_fallocate(fd, 0, reader_table_bytes);
    ::close(fd);
    return rc == EOPNOTSUPP || rc == EINVAL ? 0 : rc;
  }

  Result<void> open(unsigned flags) {
    close();
    if (const int why = allocate_reader_table(); why != 0) return fail(why, "making its table of readers");
    struct stat found {};
    const std::size_t size = ::stat(options.file.c_str(), &found) == 0 ? static_cast<std::size_t>(found.st_size) : 0;
    map_bytes = std::max({options.map_bytes, map_bytes, (size + map_step - 1) / map_step * map_step});
    int rc = mdb_env_create(&env);
    if (rc) return fail(rc, "making an environment");
    mdb_env_set_mapsize(env, map_bytes);
    rc = mdb_env_open(env, options.file.c_str(), MDB_NOSUBDIR | MDB_NOTLS | flags, 0640);
    if (rc) {
      auto error = fail(rc, "opening");
      close();
      return error;
    }
    MDB_txn* txn = nullptr;
    rc = mdb_txn_begin(env, nullptr, MDB_RDONLY, &txn);
    if (rc) {
      auto error = fail(rc, "opening");
      close();
      return error;
    }
    rc = mdb_dbi_open(txn, nullptr, 0, &dbi);
    if (rc) {
      mdb_txn_abort(txn);
      auto error = fail(rc, "opening");
      close();
      return error;
    }
    MDB_val key, value;
    const std::string name = manifest_key();
    key = as_val(name);
    rc = mdb_get(txn, dbi, &key, &value);
    Result<void> answer;
    if (rc == 0) {
      const auto read = parse_manifest(name, as_view(value));
      if (read) {
        manifest = *read;
      } else {
        answer = damaged("its manifest has a wrong sum");
      }
    } else if (rc != MDB_NOTFOUND) {
      answer = fail(rc, "reading the manifest");
    }
    mdb_txn_commit(txn);
    if (!answer) {
      close();
      return answer;
    }
    clear_stale_readers();
    reopen = false;
    return {};
  }

  void clear_stale_readers() {
    int dead = 0;
    if (mdb_reader_check(env, &dead) == 0) stale_cleared += static_cast<unsigned>(dead);
  }

  // Grows by doubling up to the limit. False: it stands at the limit. The limit is for commits that bring rows: changing
  // and removing rows takes pages for a moment too (copy on write), and has as much again for it.
  bool grow(bool adds_rows) {
    const std::size_t limit = adds_rows ? options.map_bytes_max : options.map_bytes_max * 2;
    if (map_bytes >= limit) return false;
    const std::size_t wanted = std::min(limit, map_bytes * 2);
    if (mdb_env_set_mapsize(env, wanted) != 0) return false;
    map_bytes = wanted;
    return true;
  }

  // More new keys than removed ones?
  bool brings_rows(const std::vector<Row>& puts, const std::vector<std::string>& removed) const {
    MDB_txn* txn = nullptr;
    if (mdb_txn_begin(env, nullptr, MDB_RDONLY, &txn) != 0) return true;
    const auto present = [&](std::string_view name) {
      MDB_val key = as_val(name), value;
      return mdb_get(txn, dbi, &key, &value) == 0;
    };
    std::int64_t more = 0;
    for (const auto& row : puts) more += present(row.key) ? 0 : 1;
    for (const auto& name : removed) more -= present(name) ? 1 : 0;
    mdb_txn_abort(txn);
    return more > 0;
  }

  // One attempt. `next` is the manifest as it stands when the attempt succeeds.
  int write(const std::vector<Row>& puts, const std::vector<std::string>& removed, Manifest& next) {
    next = manifest;
    ++next.commits;
    MDB_txn* txn = nullptr;
    int rc = mdb_txn_begin(env, nullptr, 0, &txn);
    if (rc) return rc;
    // The sum of what stands there now leaves the manifest. (Its value is not believed here, only subtracted: a row that
    // rotted on the disk makes the manifest disagree, which the next examination reports.)
    const auto forget = [&](MDB_val* key) {
      MDB_val old;
      const int found = mdb_get(txn, dbi, key, &old);
      if (found == MDB_NOTFOUND) return 0;
      if (found) return found;
      next.sums ^= trailing_sum(as_view(old));
      --next.rows;
      return 0;
    };
    const auto put = [&](const std::string& name, std::string_view content) {
      const std::string bytes = with_sum(name, content);
      MDB_val key = as_val(name), value = as_val(bytes);
      return mdb_put(txn, dbi, &key, &value, 0);
    };
    for (const auto& name : removed) {
      MDB_val key = as_val(name);
      if ((rc = forget(&key))) break;
      rc = mdb_del(txn, dbi, &key, nullptr);
      if (rc && rc != MDB_NOTFOUND) break;
      rc = 0;
    }
    for (std::size_t i = 0; !rc && i < puts.size(); ++i) {
      MDB_val key = as_val(puts[i].key);
      if ((rc = forget(&key))) break;
      if ((rc = put(puts[i].key, puts[i].value))) break;
      next.sums ^= row_sum(puts[i].key, puts[i].value);
      ++next.rows;
    }
    if (!rc) rc = put(manifest_key(), manifest_bytes(next));
    if (rc) {
      mdb_txn_abort(txn);
      return rc;
    }
    return mdb_txn_commit(txn);
  }

  Result<void> commit(const std::vector<Row>& puts, const std::vector<std::string>& removed) {
    if (reopen || !env) {
      if (auto opened = open(0); !opened) {
        reopen = true;
        return opened;
      }
    }
    // Readers that were killed hold old pages, and the file would grow without need.
    if (manifest.commits % 256 == 0) clear_stale_readers();
    Manifest next;
    int rc = write(puts, removed, next);
    for (bool cleared = false; rc == MDB_MAP_FULL; rc = write(puts, removed, next)) {
      if (!cleared) {
        clear_stale_readers();
        cleared = true;
      } else if (!grow(brings_rows(puts, removed))) {
        break;
      }
    }
    if (rc == 0) {
      manifest = next;
      return {};
    }
    auto error = fail(rc, "committing");
    reopen = rc != MDB_MAP_FULL;
    return error;
  }
};

CheckedLmdb::CheckedLmdb(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
CheckedLmdb::~CheckedLmdb() { impl_->close(); }

Result<void> CheckedLmdb::create(const StoreOptions& options, std::uint32_t format, std::uint64_t id) {
  StoreOptions half = options;
  half.file = options.file + ".new";
  std::remove(half.file.c_str());
  std::remove((half.file + "-lock").c_str());
  Result<void> made;
  {
    Impl impl;
    impl.options = half;
    made = impl.open(0);
    if (made) made = impl.commit({{format_key(), fixed32(format)}, {id_key(), fixed64(id)}}, {});
    impl.close();
  }
  std::remove((half.file + "-lock").c_str());
  if (made && std::rename(half.file.c_str(), options.file.c_str()) != 0) {
    made = failure(options.code_prefix + "_io", options.file + " cannot be created: " + std::strerror(errno));
  }
  if (!made) {
    std::remove(half.file.c_str());
    return made;
  }
  const auto slash = options.file.find_last_of('/');
  return sync_directory(slash == std::string::npos ? "." : options.file.substr(0, slash), options.code_prefix + "_io");
}

Result<std::unique_ptr<CheckedLmdb>> CheckedLmdb::open(StoreOptions options) {
  auto impl = std::make_unique<Impl>();
  impl->options = std::move(options);
  if (auto opened = impl->open(0); !opened) {
    impl->close();
    return tl::unexpected(opened.error());
  }
  return std::unique_ptr<CheckedLmdb>(new CheckedLmdb(std::move(impl)));
}

Result<std::optional<std::string>> CheckedLmdb::get(std::string_view key) const {
  const std::lock_guard guard(impl_->mutex);
  if (!impl_->env) return impl_->fail(EIO, "reading");
  MDB_txn* txn = nullptr;
  int rc = mdb_txn_begin(impl_->env, nullptr, MDB_RDONLY, &txn);
  if (rc) return impl_->fail(rc, "reading");
  MDB_val name = as_val(key), value;
  rc = mdb_get(txn, impl_->dbi, &name, &value);
  Result<std::optional<std::string>> answer;
  if (rc == 0) {
    if (auto content = without_sum(key, as_view(value))) {
      answer = std::string(*content);
    } else {
      answer = impl_->damaged("the row " + printable(key) + " has a wrong sum");
    }
  } else if (rc != MDB_NOTFOUND) {
    answer = impl_->fail(rc, "reading");
  }
  mdb_txn_abort(txn);
  return answer;
}

Result<std::vector<Row>> CheckedLmdb::scan(std::string_view prefix) const {
  const std::lock_guard guard(impl_->mutex);
  if (!impl_->env) return impl_->fail(EIO, "reading");
  MDB_txn* txn = nullptr;
  int rc = mdb_txn_begin(impl_->env, nullptr, MDB_RDONLY, &txn);
  if (rc) return impl_->fail(rc, "reading");
  MDB_cursor* cursor = nullptr;
  rc = mdb_cursor_open(txn, impl_->dbi, &cursor);
  std::vector<Row> rows;
  Result<std::vector<Row>> answer;
  MDB_val name = as_val(prefix), value;
  if (!rc) rc = mdb_cursor_get(cursor, &name, &value, prefix.empty() ? MDB_FIRST : MDB_SET_RANGE);
  while (rc == 0 && as_view(name).substr(0, prefix.size()) == prefix) {
    const auto key = as_view(name);
    const auto content = without_sum(key, as_view(value));
    if (!content) {
      answer = impl_->damaged("the row " + printable(key) + " has a wrong sum");
      break;
    }
    if (key.empty() || key[0] != '\0') rows.push_back({std::string(key), std::string(*content)});
    rc = mdb_cursor_get(cursor, &name, &value, MDB_NEXT);
  }
  if (rc && rc != MDB_NOTFOUND) answer = impl_->fail(rc, "reading");
  if (cursor) mdb_cursor_close(cursor);
  mdb_txn_abort(txn);
  if (answer) answer = std::move(rows);
  return answer;
}

Result<void> CheckedLmdb::commit(const std::vector<Row>& puts, const std::vector<std::string>& removed) {
  const std::lock_guard guard(impl_->mutex);
  for (const auto& row : puts) {
    ZARIS_ASSERT(!row.key.empty() && row.key[0] != '\0' && row.key.size() <= key_bytes_max, row.key.size());
    ZARIS_ASSERT(row.value.size() + 8 <= value_bytes_max, row.value.size());
  }
  for (const auto& key : removed) ZARIS_ASSERT(!key.empty() && key[0] != '\0' && key.size() <= key_bytes_max, key.size());
  return impl_->commit(puts, removed);
}

StoreStats CheckedLmdb::stats() const {
  const std::lock_guard guard(impl_->mutex);
  StoreStats out;
  out.rows = impl_->manifest.rows >= 2 ? impl_->manifest.rows - 2 : 0;  // format and id are rows of the file
  out.commits = impl_->manifest.commits;
  out.map_bytes = impl_->map_bytes;
  out.stale_readers_cleared = impl_->stale_cleared;
  MDB_envinfo info{};
  MDB_stat stat{};
  if (impl_->env && mdb_env_info(impl_->env, &info) == 0 && mdb_env_stat(impl_->env, &stat) == 0) {
    out.used_bytes = (info.me_last_pgno + 1) * stat.ms_psize;
  }
  return out;
}

}  // namespace zaris::lmdb
