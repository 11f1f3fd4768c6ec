#include "cluster/lmdb/durable_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace zaris::lmdb {
namespace {

std::string moment(std::time_t when, const char* format) {
  std::tm parts{};
  ::gmtime_r(&when, &parts);
  char text[40];
  return std::string(text, std::strftime(text, sizeof(text), format, &parts));
}

std::string parent_of(const std::string& path) {
  const auto slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

std::string utc_text(std::time_t when) { return moment(when, "%Y-%m-%dT%H:%M:%SZ"); }

Result<void> make_directories(const std::string& path, const std::string& code) {
  for (std::size_t at = path.find('/', 1);; at = path.find('/', at + 1)) {
    const std::string part = path.substr(0, at);
    if (!part.empty() && ::mkdir(part.c_str(), 0750) != 0 && errno != EEXIST) {
      return failure(code, "the directory " + part + " cannot be made: " + std::strerror(errno));
    }
    if (at == std::string::npos) break;
  }
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) return failure(code, path + " cannot be read: " + std::strerror(errno));
  if (!S_ISDIR(found.st_mode)) return failure(code, path + " is not a directory");
  return {};
}

Result<void> sync_directory(const std::string& path, const std::string& code) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return failure(code, "the directory " + path + " cannot be opened: " + std::strerror(errno));
  const int rc = ::fsync(fd);
  const int why = errno;
  ::close(fd);
  if (rc != 0) return failure(code, "the directory " + path + " cannot be synced: " + std::strerror(why));
  return {};
}

Result<void> write_whole_file(const std::string& path, std::string_view text, const std::string& code) {
  const std::string half = path + ".new";
  const int fd = ::open(half.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);
  if (fd < 0) return failure(code, half + " cannot be written: " + std::strerror(errno));
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = ::write(fd, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      const int why = errno;
      ::close(fd);
      return failure(code, half + " cannot be written: " + std::strerror(why));
    }
    done += static_cast<std::size_t>(n);
  }
  const bool synced = ::fsync(fd) == 0;
  const int why = errno;
  ::close(fd);
  if (!synced) return failure(code, half + " cannot be synced: " + std::strerror(why));
  if (std::rename(half.c_str(), path.c_str()) != 0) {
    return failure(code, path + " cannot be replaced: " + std::strerror(errno));
  }
  return sync_directory(parent_of(path), code);
}

Result<std::string> set_aside(const std::string& path, const std::string& word, std::time_t when,
                              const std::string& code) {
  const std::string wanted = path + "." + word + "-" + moment(when, "%Y%m%d-%H%M%S");
  for (unsigned n = 1; n < 1000; ++n) {
    const std::string name = n == 1 ? wanted : fmt::format("{}-{}", wanted, n);
    struct stat found {};
    if (::lstat(name.c_str(), &found) == 0) continue;
    if (std::rename(path.c_str(), name.c_str()) != 0) {
      return failure(code, fmt::format("{} cannot be renamed to {}: {}", path, name, std::strerror(errno)));
    }
    if (auto synced = sync_directory(parent_of(path), code); !synced) return tl::unexpected(synced.error());
    return name;
  }
  return failure(code, "too many files named " + wanted);
}

}  // namespace zaris::lmdb
