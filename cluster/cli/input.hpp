// How bytes come into the program: from a file or standard input, in pieces and with a bound. A read error is never the end of the file.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "cluster/base/result.hpp"

namespace zaris::cli {

// A file opened for reading; an empty path or "-" is standard input. Closes what it opened.
class Input {
 public:
  // Errors: `file_unreadable`.
  [[nodiscard]] static Result<Input> open(const std::string& path);
  Input(int fd, std::string name, bool own) : fd_(fd), name_(std::move(name)), own_(own) {}
  Input(Input&& other) noexcept;
  Input& operator=(Input&&) = delete;
  ~Input();

  // Appends at most `most` bytes to `out`; how many, 0 at the end. Errors: `file_unreadable`.
  [[nodiscard]] Result<std::size_t> read(std::string& out, std::size_t most);

 private:
  int fd_;
  std::string name_;
  bool own_;
};

// All of it. Errors: `file_unreadable`; `item_too_large` once it is over `most` bytes, so that what has no end is not waited for.
[[nodiscard]] Result<std::string> read_all(Input& input, std::size_t most);

// Lines, however long up to 64 MiB.
class Lines {
 public:
  explicit Lines(Input& input) : input_(input) {}
  // A view that is good until the next call; false at the end. Errors: `file_unreadable`, `input_invalid`. After an error what stood
  // behind the last newline is not given out: it may be half a line.
  [[nodiscard]] Result<bool> next(std::string_view& line);
  [[nodiscard]] std::uint64_t number() const { return number_; }

 private:
  static constexpr std::size_t line_bytes_max = 64u << 20;
  Input& input_;
  std::string buffer_;
  std::size_t at_ = 0, scanned_ = 0;
  std::uint64_t number_ = 0;
  bool end_ = false;
};

}  // namespace zaris::cli
