#include "cluster/node/spill_files.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <sys/file.h>
#include <vector>

namespace zaris::node {
namespace {

constexpr std::uint64_t file_bytes_least = 1u << 20, file_bytes_most = 64u << 20;
constexpr std::string_view prefix = "spill-", suffix = ".chunks";

tl::unexpected<Error> failed(std::string_view what, const std::string& path, int error) {
  const bool full = error == ENOSPC || error == EDQUOT;
  return failure(full ? "spill_full" : "spill_failed", fmt::format("{} {}: {}", what, path, std::strerror(error)),
                 full ? "make room there, or lower log.spill_bytes" : "look at the disk under log.spill_path");
}

bool is_ours(const std::string& name) { return name.starts_with(prefix) && name.ends_with(suffix); }

}  // namespace

Result<std::shared_ptr<SpillFiles>> SpillFiles::open(const std::string& folder, std::uint64_t bytes_max) {
  const std::string hint = "log.spill_path must be a folder that this process may write to, on a disk with room for log.spill_bytes";
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return failure("spill_unusable", fmt::format("cannot make {}: {}", folder, error.message()), hint);
  const std::string lock_path = folder + "/lock";
  FileDescriptor lock(::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock.open()) return failure("spill_unusable", fmt::format("cannot open {}: {}", lock_path, std::strerror(errno)), hint);
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    return failure("spill_in_use", fmt::format("another process has its spill in {}", folder), "give each node a log.spill_path of its own");
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (is_ours(entry.path().filename().string())) std::filesystem::remove(entry.path(), error);
    if (error) return failure("spill_unusable", fmt::format("cannot remove {}: {}", entry.path().string(), error.message()), hint);
  }
  if (error) return failure("spill_unusable", fmt::format("cannot list {}: {}", folder, error.message()), hint);
  const std::uint64_t file_bytes = std::clamp(bytes_max / 16, file_bytes_least, file_bytes_most);
  return std::shared_ptr<SpillFiles>(new SpillFiles(folder, file_bytes, std::move(lock)));
}

SpillFiles::SpillFiles(std::string folder, std::uint64_t file_bytes, FileDescriptor lock)
    : folder_(std::move(folder)), file_bytes_(file_bytes), lock_file_(std::move(lock)) {
  writer_ = std::thread([this] { write_jobs(); });
  reader_ = std::thread([this] { read_jobs(); });
}

SpillFiles::~SpillFiles() {
  {
    const std::lock_guard hold(lock_);
    stop_ = true;
  }
  writes_.notify_all();
  reads_.notify_all();
  writer_.join();
  reader_.join();
  const auto stopped = failure("spill_failed", "the node stops");
  for (WriteJob& job : write_jobs_) job.done(stopped);
  for (ReadJob& job : read_jobs_) job.done(stopped);
  for (auto& [number, file] : files_) ::unlink(file->path.c_str());
}

void SpillFiles::write(std::string bytes, Written done) {
  {
    const std::lock_guard hold(lock_);
    write_jobs_.push_back({std::move(bytes), std::move(done)});
  }
  writes_.notify_one();
}

void SpillFiles::read(const store::SpillPlace& place, Read done) {
  {
    const std::lock_guard hold(lock_);
    read_jobs_.push_back({place, std::move(done)});
  }
  reads_.notify_one();
}

void SpillFiles::drop(const store::SpillPlace& place) {
  std::shared_ptr<File> gone;  // closed after the lock, or by the reader that reads it now
  const std::lock_guard hold(lock_);
  const auto at = files_.find(place.file);
  if (at == files_.end() || --at->second->live > 0 || place.file == current_) return;
  ::unlink(at->second->path.c_str());
  gone = std::move(at->second);
  files_.erase(at);
}

void SpillFiles::write_jobs() {
  std::unique_lock hold(lock_);
  for (;;) {
    writes_.wait(hold, [this] { return stop_ || !write_jobs_.empty(); });
    if (stop_) return;
    WriteJob job = std::move(write_jobs_.front());
    write_jobs_.pop_front();
    hold.unlock();
    job.done(append(job.bytes));
    hold.lock();
  }
}

void SpillFiles::read_jobs() {
  std::unique_lock hold(lock_);
  for (;;) {
    reads_.wait(hold, [this] { return stop_ || !read_jobs_.empty(); });
    if (stop_) return;
    ReadJob job = std::move(read_jobs_.front());
    read_jobs_.pop_front();
    hold.unlock();
    job.done(fetch(job.place));
    hold.lock();
  }
}

// Writer's thread. The file that is written to, a new one where the last is long enough.
Result<std::shared_ptr<SpillFiles::File>> SpillFiles::current_file() {
  {
    const std::lock_guard hold(lock_);
    if (current_ != 0) {
      const auto& file = files_.at(current_);
      if (file->written < file_bytes_) return file;
      if (file->live == 0) {
        ::unlink(file->path.c_str());
        files_.erase(current_);
      }
      current_ = 0;
    }
  }
  auto file = std::make_shared<File>();
  file->path = fmt::format("{}/{}{:08}{}", folder_, prefix, next_file_, suffix);
  file->fd = FileDescriptor(::open(file->path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!file->fd.open()) return failed("cannot make", file->path, errno);
  const std::lock_guard hold(lock_);
  current_ = next_file_++;
  files_.emplace(current_, file);
  return file;
}

Result<store::SpillPlace> SpillFiles::append(const std::string& bytes) {
  const auto file = current_file();
  if (!file) return tl::unexpected(file.error());
  File& f = **file;
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t n = ::pwrite(f.fd.get(), bytes.data() + done, bytes.size() - done, static_cast<off_t>(f.written + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      const int why = n < 0 ? errno : ENOSPC;
      (void)::ftruncate(f.fd.get(), static_cast<off_t>(f.written));  // what is half there takes no room
      return failed("cannot write to", f.path, why);
    }
    done += static_cast<std::size_t>(n);
  }
  const std::lock_guard hold(lock_);
  const store::SpillPlace place{current_, f.written, static_cast<std::uint32_t>(bytes.size())};
  f.written += bytes.size();
  ++f.live;
  return place;
}

Result<std::string> SpillFiles::fetch(const store::SpillPlace& place) {
  std::shared_ptr<File> file;
  {
    const std::lock_guard hold(lock_);
    if (const auto at = files_.find(place.file); at != files_.end()) file = at->second;
  }
  if (!file) return failure("spill_failed", "what is to be read has been dropped");
  std::string out(place.length, '\0');
  for (std::size_t done = 0; done < out.size();) {
    const ssize_t n = ::pread(file->fd.get(), out.data() + done, out.size() - done, static_cast<off_t>(place.offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failed("cannot read", file->path, errno);
    if (n == 0) return failure("spill_failed", fmt::format("{} is shorter than what was written to it", file->path), "look at the disk under log.spill_path");
    done += static_cast<std::size_t>(n);
  }
  return out;
}

}  // namespace zaris::node
