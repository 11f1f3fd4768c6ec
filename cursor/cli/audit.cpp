#include <fcntl.h>
#include <pwd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <nlohmann/json.hpp>

#include "cluster/lmdb/durable_file.hpp"
#include "cursor/cli/commands.hpp"

namespace zaris::cursor::cli {

Result<void> audit(const std::string& path, const nlohmann::ordered_json& entry) {
  nlohmann::ordered_json line;
  line["time"] = lmdb::utc_text(std::time(nullptr));
  const passwd* user = ::getpwuid(::getuid());
  line["user"] = user ? user->pw_name : std::to_string(::getuid());
  line.update(entry);
  const std::string text = line.dump() + "\n";
  const std::string file = path + "/cursor.audit";
  const int fd = ::open(file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640);
  bool written = fd >= 0 && ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) && ::fsync(fd) == 0;
  const int why = errno;
  if (fd >= 0) ::close(fd);
  if (written) return {};
  return failure("cursor_io", file + " cannot be written: " + std::strerror(why), "make room, or see that this user may write there");
}

}  // namespace zaris::cursor::cli
