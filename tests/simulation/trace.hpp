// What a run leaves behind: a hash of everything that happened (the same seed must give the same hash), lines for
// people when asked for, and probes: proof that a rare path was reached.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace zaris::simulation {

// Counts by name. A name is a path that the suite's seeds must have gone at least once (see expected_probes()).
class Probes {
 public:
  void hit(std::string_view name, std::uint64_t times = 1) {
    auto found = counts_.find(name);
    if (found == counts_.end()) found = counts_.emplace(std::string(name), 0).first;
    found->second += times;
  }
  void add(const Probes& other) {
    for (const auto& [name, times] : other.counts_) hit(name, times);
  }
  [[nodiscard]] std::uint64_t count(std::string_view name) const {
    auto found = counts_.find(name);
    return found == counts_.end() ? 0 : found->second;
  }
  [[nodiscard]] const std::map<std::string, std::uint64_t, std::less<>>& all() const { return counts_; }

 private:
  std::map<std::string, std::uint64_t, std::less<>> counts_;
};

class Trace {
 public:
  explicit Trace(bool print) : print_(print) {}

  // `line` is a callable that makes the text; it is only called when lines are wanted. The numbers go into the hash.
  template <class Line, class... Numbers>
  void note(std::int64_t now, std::string_view what, Line&& line, Numbers... numbers) {
    mix(static_cast<std::uint64_t>(now));
    for (const char c : what) mix(static_cast<unsigned char>(c));
    (mix(static_cast<std::uint64_t>(numbers)), ...);
    if (print_) print(now, what, line());
  }
  [[nodiscard]] std::uint64_t hash() const { return hash_; }
  [[nodiscard]] bool printing() const { return print_; }

 private:
  void mix(std::uint64_t value) {
    hash_ ^= value;
    hash_ *= 0x9fb21c651e98df25ull;
    hash_ ^= hash_ >> 32;
  }
  static void print(std::int64_t now, std::string_view what, const std::string& line);

  bool print_;
  std::uint64_t hash_ = 0xcbf29ce484222325ull;
};

}  // namespace zaris::simulation
