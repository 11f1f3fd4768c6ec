// From a write's commit at the source to its being visible at the target, while the source takes writes at a given
// rate. The same generator and the same observer drive Zaris and Redis: every few milliseconds one write is a probe whose
// value is the moment at which it was sent; the observer reads the probe's key at the target over and over.
#include <sys/socket.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>
#include <vector>

#include "soak/bench/wire.hpp"

using namespace zaris::bench;

int main(int argc, char** argv) {
  CLI::App app{"propagation: delay from a write at the source to its being readable at the target"};
  std::string protocol = "native";
  int source = 0, target = 0, value_bytes = 100;
  double rate = 10'000, seconds = 10, probe_every_ms = 2;
  std::uint64_t keys = 100'000;
  app.add_option("--protocol", protocol)->check(CLI::IsMember({"native", "resp"}));
  app.add_option("--source", source)->required();
  app.add_option("--target", target, "whom to ask for the probes; without it nobody is asked, and only the writes are made");
  app.add_option("--rate", rate, "writes a second");
  app.add_option("--seconds", seconds);
  app.add_option("--keys", keys);
  app.add_option("--value-bytes", value_bytes);
  app.add_option("--probe-every-ms", probe_every_ms);
  CLI11_PARSE(app, argc, argv);

  constexpr std::string_view probe_key = "probe:0000000001";
  std::atomic<bool> over{false};
  std::vector<std::int64_t> delays;
  std::uint64_t polls = 0;
  std::thread observer([&] {
    if (target == 0) return;
    auto wire = make_wire(protocol);
    const int s = open_session(target, *wire);
    std::string out, in, last;
    char buffer[4096];
    while (!over.load(std::memory_order_relaxed)) {
      out.clear();
      wire->get(out, probe_key);
      send_all(s, out);
      in.clear();
      std::string_view value;
      while (wire->take(in, value) == 0) {
        const auto n = ::recv(s, buffer, sizeof buffer, 0);
        if (n <= 0) return;
        in.append(buffer, static_cast<std::size_t>(n));
      }
      ++polls;
      if (value.size() >= 8 && value != last) {
        std::int64_t sent = 0;
        std::memcpy(&sent, value.data(), 8);
        if (!last.empty()) delays.push_back(monotonic_us() - sent);
        last.assign(value);
      }
    }
    ::close(s);
  });

  auto wire = make_wire(protocol);
  const int s = open_session(source, *wire);
  std::thread reader([&] {  // answers are only taken off, so that the server never waits for us
    char buffer[64 << 10];
    while (::recv(s, buffer, sizeof buffer, 0) > 0) {
    }
  });
  std::mt19937_64 random(7);
  std::string out, value(static_cast<std::size_t>(std::max(value_bytes, 8)), 'x');
  const std::int64_t start = monotonic_us();
  std::int64_t next_probe = start;
  std::uint64_t sent = 0;
  std::int64_t now = start;
  while (now < start + static_cast<std::int64_t>(seconds * 1e6)) {
    const auto due = static_cast<std::uint64_t>(static_cast<double>(now - start) * rate / 1e6);
    out.clear();
    for (; sent < due; ++sent) wire->put(out, key_of(random() % keys), value);
    if (target != 0 && now >= next_probe) {
      std::string probe = value;
      std::memcpy(probe.data(), &now, 8);
      wire->put(out, probe_key, probe);
      next_probe = now + static_cast<std::int64_t>(probe_every_ms * 1000);
    }
    if (!out.empty()) send_all(s, out);
    timespec pause{0, 100'000};  // paces an open loop at 10 kHz; nothing waits for it
    clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, nullptr);
    now = monotonic_us();
  }
  const double took = static_cast<double>(now - start) / 1e6;
  over = true;
  observer.join();
  ::shutdown(s, SHUT_RDWR);
  reader.join();
  std::sort(delays.begin(), delays.end());
  const auto at = [&](double p) { return delays.empty() ? 0 : delays[static_cast<std::size_t>(p * static_cast<double>(delays.size() - 1))]; };
  nlohmann::json result = {{"bench", "propagation"}, {"protocol", protocol}, {"rate", rate}, {"written_per_second", static_cast<double>(sent) / took},
                           {"probes_seen", delays.size()}, {"polls_per_second", static_cast<double>(polls) / took},
                           {"delay_us_p50", at(0.5)}, {"delay_us_p99", at(0.99)}, {"delay_us_p999", at(0.999)}};
  std::cout << result.dump() << '\n';
}
