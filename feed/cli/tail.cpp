#include "feed/cli/tail.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>

#include "feed/cli/exit_code.hpp"
#include "feed/client/http_stream.hpp"
#include "feed/transport/http.hpp"
#include "feed/transport/http_error.hpp"

namespace zaris::feed::cli {
namespace {

constexpr std::chrono::milliseconds first_pause{100}, longest_pause{10'000};

std::string clock_text(std::uint64_t time_us) {
  const auto seconds = static_cast<std::time_t>(time_us / 1'000'000);
  std::tm tm{};
  ::gmtime_r(&seconds, &tm);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z", tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, time_us % 1'000'000);
}

std::size_t base64_bytes(const std::string& text) {
  return text.size() / 4 * 3 - static_cast<std::size_t>(std::count(text.begin(), text.end(), '='));
}

std::string bytes_of(const nlohmann::json& json, const char* name) {
  if (json.contains(name) && json[name].is_string()) return json[name].get<std::string>();
  const std::string coded = std::string(name) + "_b64";
  return json.contains(coded) && json[coded].is_string() ? "base64:" + json[coded].get<std::string>() : std::string();
}

std::string show_value(const nlohmann::json& json) {
  if (json.contains("value")) return fmt::format("{}", json["value"].get_ref<const std::string&>().size());
  if (json.contains("value_b64")) return fmt::format("{}", base64_bytes(json["value_b64"].get_ref<const std::string&>()));
  return "-";
}

// One run of the command: a loop, the connection of the moment, what was heard.
class Tail {
 public:
  Tail(const TailOptions& options, std::ostream& out, std::ostream& err, const std::atomic<int>& stop)
      : options_(options), out_(out), err_(err), stop_(stop), since_(options.since), loop_(Loop::create()), again_(loop_->timer()), watch_(loop_->timer()) {}

  int run() {
    connect();
    watch();
    while (!exit_) loop_->run_one();
    stream_.reset();
    out_.flush();
    if (resume_ != options_.since && !resume_.empty()) err_ << "zaris-feed: go on with --since " << resume_ << '\n';
    return *exit_;
  }

 private:
  void watch() {
    if (const int signal = stop_.load(); signal != 0) exit_ = 128 + signal;
    if (!out_.good()) exit_ = exit_configuration;
    watch_->after(std::chrono::milliseconds(50), [this] { watch(); });
  }

  void connect() {
    lines_.clear();
    HttpStream::Handlers handlers;
    handlers.on_answer = [this](const HttpAnswer& answer) { refused(answer); };
    handlers.on_bytes = [this](std::string_view bytes) {
      heard_ = true;
      pause_ = first_pause;
      lines_.add(bytes, [this](std::string_view line) { take(line); });
      out_.flush();
    };
    handlers.on_closed = [this](const Error& error) { lost(error); };
    stream_ = HttpStream::get(*loop_, options_.endpoint, changes_target(options_, since_), std::move(handlers));
  }

  void take(std::string_view text) {
    if (exit_) return;
    TailLine line = read_line(text, options_.table);
    if (line.kind == TailLine::Kind::resume) since_ = resume_ = line.resume;
    if (line.kind == TailLine::Kind::error) return fail(line.error);
    if (!options_.table) out_ << text << '\n';
    else if (line.kind == TailLine::Kind::change) show_row(line.row);
    if (line.kind == TailLine::Kind::change && ++changes_ == options_.count) exit_ = exit_ok;
  }

  // With the first row: whoever is refused has nothing to read below a head.
  void show_row(const std::string& row) {
    if (changes_ == 0) out_ << table_head();
    out_ << row << '\n';
  }

  void fail(const Error& error) {
    err_ << "zaris-feed: " << error.text() << '\n';
    exit_ = exit_code_of(error);
  }

  void refused(const HttpAnswer& answer) {
    const Error error = error_in(answer.body, {"feed_refused", fmt::format("{}:{} answered {}", options_.endpoint.host, options_.endpoint.port, answer.status), {}});
    const bool passes = answer.status == 503 && heard_;
    if (passes) return lost(error);
    fail(error);
  }

  void lost(const Error& error) {
    if (exit_) return;
    if (!heard_ || options_.once || error.code.starts_with("tls_")) {
      if (options_.once && heard_ && error.code == "end_of_stream") {
        exit_ = exit_ok;
        return;
      }
      return fail(error);
    }
    // Said once, not at every attempt.
    if (pause_ == first_pause) err_ << "zaris-feed: " << error.what << "; trying again" << '\n';
    again_->after(pause_, [this] { connect(); });
    pause_ = std::min(pause_ * 2, longest_pause);
  }

  const TailOptions& options_;
  std::ostream& out_;
  std::ostream& err_;
  const std::atomic<int>& stop_;
  std::string since_, resume_;
  std::unique_ptr<Loop> loop_;
  std::unique_ptr<Timer> again_, watch_;
  std::unique_ptr<HttpStream> stream_;
  Lines lines_;
  std::chrono::milliseconds pause_ = first_pause;
  std::uint64_t changes_ = 0;
  bool heard_ = false;
  std::optional<int> exit_;
};

}  // namespace

std::string changes_target(const TailOptions& options, const std::string& since) {
  std::string out = "/v1/changes";
  const auto add = [&](const char* name, const std::string& value) {
    if (value.empty()) return;
    out += fmt::format("{}{}={}", out.find('?') == std::string::npos ? '?' : '&', name, http::percent_encode(value));
  };
  add("prefix", options.prefix);
  add("segments", options.segments);
  add("since", since);
  add("heartbeat", options.heartbeat);
  return out;
}

std::string table_head() { return fmt::format("{:<27} {:<7} {:>7} {:>20} {:>8} {:>10}  {}\n", "TIME", "OP", "SEGMENT", "POSITION", "VERSION", "BYTES", "KEY"); }

TailLine read_line(std::string_view text, bool table) {
  TailLine out;
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return out;
  if (json.contains("resume") && json["resume"].is_string()) {
    out.kind = TailLine::Kind::resume;
    out.resume = json["resume"];
  } else if (json.contains("error") && json["error"].is_object()) {
    out.kind = TailLine::Kind::error;
    out.error = error_in(text, {"feed_refused", "the gateway ended the stream", {}});
  } else if (json.contains("op")) {
    out.kind = TailLine::Kind::change;
    if (table) {
      out.row = fmt::format("{:<27} {:<7} {:>7} {:>20} {:>8} {:>10}  {}", clock_text(json.value("timestamp_us", std::uint64_t{0})), json.value("op", std::string()), json.value("segment", 0u),
                            fmt::format("{}:{}", json.value("generation", 0u), json.value("revision", std::uint64_t{0})), json.value("item_version", 0u), show_value(json), printable(bytes_of(json, "key")));
    }
  } else {
    out.kind = TailLine::Kind::heartbeat;
  }
  return out;
}

int tail(const TailOptions& options, std::ostream& out, std::ostream& err, const std::atomic<int>& stop) { return Tail(options, out, err, stop).run(); }

}  // namespace zaris::feed::cli
