#include "cluster/logging/event_log.hpp"

#include <fmt/chrono.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>

namespace zaris::logging {
namespace {

constexpr std::size_t events_max = 1024;   // whose lines are counted at a time
constexpr std::array<std::string_view, 4> level_names = {"debug", "info", "warning", "error"};
constexpr std::array<spdlog::level::level_enum, 4> spdlog_levels = {spdlog::level::debug, spdlog::level::info, spdlog::level::warn,
                                                                    spdlog::level::err};

struct Budget {
  std::int64_t second = 0;
  std::uint32_t lines = 0;
  std::uint64_t withheld = 0;
};

struct State {
  std::string component = "zaris";
  bool json = true;
  std::atomic<Level> level{Level::info};
  std::array<std::atomic<std::uint64_t>, 4> written{};
  std::atomic<std::uint64_t> withheld{0};
  std::mutex budgets_lock;
  std::map<std::string, Budget, std::less<>> budgets;  // ours are few; a peer's codes may be among them
  std::shared_ptr<spdlog::logger> logger;

  State() : logger(std::make_shared<spdlog::logger>("zaris", std::make_shared<spdlog::sinks::stderr_sink_mt>())) {
    logger->set_pattern("%v");
    logger->set_level(spdlog::level::trace);
    logger->flush_on(spdlog::level::debug);
  }
};

State& state() {
  static State s;
  return s;
}

std::string text_line(std::string_view time, Level level, std::string_view event, std::string_view text,
                      std::initializer_list<Field> fields, std::uint64_t withheld) {
  std::string line = fmt::format("{} {:7} {}", time, level_names[static_cast<std::size_t>(level)], event);
  if (!text.empty()) line.append(": ").append(text);
  for (const Field& f : fields) line.append(fmt::format(" {}={}", f.name, f.value));
  if (withheld != 0) line += fmt::format(" withheld={}", withheld);
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  }
  return line;
}

std::string json_line(std::string_view time, Level level, std::string_view event, std::string_view text,
                      std::initializer_list<Field> fields, std::uint64_t withheld) {
  const auto quoted = [](std::string_view s) {
    return nlohmann::json(s).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  };
  std::string line = fmt::format(R"({{"time":"{}","level":"{}","component":{},"event":{},"text":{})", time,
                                 level_names[static_cast<std::size_t>(level)], quoted(state().component), quoted(event), quoted(text));
  for (const Field& f : fields) line += fmt::format(",{}:{}", quoted(f.name), f.is_json ? f.value : quoted(f.value));
  if (withheld != 0) line += fmt::format(",\"withheld\":{}", withheld);
  return line + "}";
}

}  // namespace

Field number(std::string_view name, std::uint64_t value) { return {name, std::to_string(value), true}; }

void configure(const Options& options) {
  State& s = state();
  s.component = options.component;
  s.level = options.level;
  s.json = options.format == Format::json || (options.format == Format::automatic && isatty(STDERR_FILENO) == 0);
}

void set_level(Level level) { state().level = level; }

bool parse_level(std::string_view text, Level& out) {
  for (std::size_t i = 0; i < level_names.size(); ++i) {
    if (text == level_names[i]) {
      out = static_cast<Level>(i);
      return true;
    }
  }
  return false;
}

bool enabled(Level level) { return level >= state().level.load(std::memory_order_relaxed); }

void write(Level level, std::string_view event, std::string_view text, std::initializer_list<Field> fields) {
  if (!enabled(level)) return;
  State& s = state();
  const auto now = std::chrono::time_point_cast<std::chrono::microseconds>(std::chrono::system_clock::now());
  const std::int64_t micros = now.time_since_epoch().count();
  std::uint64_t withheld = 0;
  if (level != Level::debug) {
    const std::lock_guard lock(s.budgets_lock);
    if (s.budgets.size() >= events_max) s.budgets.clear();
    auto at = s.budgets.find(event);
    if (at == s.budgets.end()) at = s.budgets.emplace(std::string(event), Budget{}).first;
    Budget& budget = at->second;
    if (budget.second != micros / 1'000'000) {
      budget.second = micros / 1'000'000;
      budget.lines = 0;
    }
    if (++budget.lines > lines_per_second_max) {
      ++budget.withheld;
      s.withheld.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    withheld = std::exchange(budget.withheld, 0);
  }
  s.written[static_cast<std::size_t>(level)].fetch_add(1, std::memory_order_relaxed);
  const std::string time = fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:06}Z", fmt::gmtime(std::chrono::system_clock::to_time_t(now)), micros % 1'000'000);
  s.logger->log(spdlog_levels[static_cast<std::size_t>(level)], s.json ? json_line(time, level, event, text, fields, withheld)
                                                                      : text_line(time, level, event, text, fields, withheld));
}

Counts counts() {
  Counts c;
  for (std::size_t i = 0; i < 4; ++i) c.by_level[i] = state().written[i].load(std::memory_order_relaxed);
  c.withheld = state().withheld.load(std::memory_order_relaxed);
  return c;
}

}  // namespace zaris::logging
