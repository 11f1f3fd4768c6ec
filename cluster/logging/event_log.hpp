// The event log of a daemon: one line per event on stderr, text on a terminal, one JSON object otherwise.
//
//   {"time":"2026-01-02T03:04:05.678901Z","level":"warning","component":"zaris-follower","event":"target_rollback","text":"…",…}
//
// Event names are an interface: lower-case words joined by underscores, listed in docs/reference/events.md. Values that
// come from users' data go through printable() first. More than `lines_per_second_max` lines of one event within a
// second are withheld and counted; the next line of that event says how many ("withheld": n).
// Any thread.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace zaris::logging {

enum class Level : std::uint8_t { debug = 0, info = 1, warning = 2, error = 3 };
enum class Format : std::uint8_t { automatic, text, json };
inline constexpr std::uint32_t lines_per_second_max = 20;   // of one event; debug is not limited

struct Field {
  std::string_view name;
  std::string value;
  bool is_json = false;   // value is JSON already (numbers, lists)
};
[[nodiscard]] Field number(std::string_view name, std::uint64_t value);

struct Options {
  std::string component;
  Level level = Level::info;
  Format format = Format::automatic;
};
// Once, before the first line; set_level at any time after.
void configure(const Options& options);
void set_level(Level level);
[[nodiscard]] bool parse_level(std::string_view text, Level& out);   // debug | info | warning | error

[[nodiscard]] bool enabled(Level level);
void write(Level level, std::string_view event, std::string_view text, std::initializer_list<Field> fields = {});

struct Counts {
  std::uint64_t by_level[4] = {};
  std::uint64_t withheld = 0;
};
[[nodiscard]] Counts counts();

}  // namespace zaris::logging
