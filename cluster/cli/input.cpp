#include "cluster/cli/input.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace zaris::cli {
namespace {

constexpr std::size_t piece = 1u << 20;

tl::unexpected<Error> unreadable(const std::string& name, int error) {
  return failure("file_unreadable", fmt::format("cannot read {}: {}", name, std::strerror(error)), "is it a file, is it there, and may you read it?");
}

}  // namespace

Result<Input> Input::open(const std::string& path) {
  if (path.empty() || path == "-") return Input(STDIN_FILENO, "standard input", false);
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return unreadable(printable(path), errno);
  return Input(fd, printable(path), true);
}

Input::Input(Input&& other) noexcept : fd_(other.fd_), name_(std::move(other.name_)), own_(std::exchange(other.own_, false)) {}

Input::~Input() {
  if (own_) ::close(fd_);
}

Result<std::size_t> Input::read(std::string& out, std::size_t most) {
  const std::size_t before = out.size();
  out.resize(before + most);
  ssize_t got = 0;
  do {
    got = ::read(fd_, out.data() + before, most);
  } while (got < 0 && errno == EINTR);
  const int error = errno;
  out.resize(before + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  if (got < 0) return unreadable(name_, error);
  return static_cast<std::size_t>(got);
}

Result<std::string> read_all(Input& input, std::size_t most) {
  std::string out;
  while (true) {
    const auto got = input.read(out, std::min(piece, most + 1 - out.size()));
    if (!got) return tl::unexpected(got.error());
    if (*got == 0) return out;
    if (out.size() > most)
      return failure("item_too_large", fmt::format("the value is over {} MiB; nothing was sent", most >> 20), "no region takes more than its limits.value");
  }
}

Result<bool> Lines::next(std::string_view& line) {
  while (true) {
    const auto newline = buffer_.find('\n', scanned_);
    if (newline != std::string::npos) {
      line = std::string_view(buffer_).substr(at_, newline - at_);
      at_ = scanned_ = newline + 1;
      ++number_;
      return true;
    }
    if (end_) {
      if (at_ == buffer_.size()) return false;
      line = std::string_view(buffer_).substr(at_);
      at_ = scanned_ = buffer_.size();
      ++number_;
      return true;
    }
    buffer_.erase(0, at_);
    at_ = 0;
    scanned_ = buffer_.size();
    if (buffer_.size() > line_bytes_max) return failure("input_invalid", fmt::format("line {} is over 64 MiB", number_ + 1), "one line is one row");
    const auto got = input_.read(buffer_, piece);
    if (!got) return tl::unexpected(got.error());
    end_ = *got == 0;
  }
}

}  // namespace zaris::cli
