// How a function says that the world failed it. Three kinds of failure, three mechanisms (docs/contributing):
// an expected answer is in the return type (optional, Status); a failure of the world is a Result; a bug is ZARIS_ASSERT.
#pragma once
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <type_traits>

namespace zaris {

// What a person reads: what failed and why, what to do next, and a code that never changes its meaning
// (`zaris explain CODE`). Codes are lower-case words joined by underscores: `cursor_damaged`, `target_changed`.
struct Error {
  std::string code;
  std::string what;
  std::string hint;  // may be empty

  // "cursor_damaged: the cursor file … ; try: …"
  [[nodiscard]] std::string text() const;
};

template <class T>
using Result = tl::expected<T, Error>;

[[nodiscard]] inline tl::unexpected<Error> failure(std::string code, std::string what, std::string hint = {}) {
  return tl::unexpected<Error>(Error{std::move(code), std::move(what), std::move(hint)});
}

// Of the form that codes have, and at most 48 bytes. What a peer calls a code is one only then.
[[nodiscard]] bool is_code(std::string_view text);

// Bytes as a person may read them on a terminal or in a log line: printable ASCII stays, everything else is \xNN,
// the backslash is \\; cut after `most` source bytes with "…".
[[nodiscard]] std::string printable(std::string_view bytes, std::size_t most = 256);

// 16 lower-case hex digits, the form in which 64-bit ids are shown; and back (empty optional: not such a text).
[[nodiscard]] std::string hex16(std::uint64_t id);

}  // namespace zaris
