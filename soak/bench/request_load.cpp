// Puts a closed-loop load on one server, or on all nodes of a region, each key to its owner, and prints one JSON object: throughput, latency, and the servers' CPU per
// operation as the kernel accounts it. The same program drives zarisd and redis-server.
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <vector>

#include "soak/bench/wire.hpp"

using namespace zaris::bench;

namespace {

struct Session {
  int socket = -1;
  std::size_t node = 0;
  std::unique_ptr<Wire> wire;
  std::string in, out;
  std::int64_t sent_us = 0;
  int waiting = 0;
};

std::int64_t at(const std::vector<std::int64_t>& sorted, double p) {
  return sorted.empty() ? 0 : sorted[static_cast<std::size_t>(p * static_cast<double>(sorted.size() - 1))];
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"request_load: closed-loop gets or puts, pipelined or not"};
  std::string protocol = "native", operation = "get";
  std::string durability = "default";
  std::vector<int> ports, pids;
  int connections = 50, pipeline = 1, value_bytes = 100;
  std::uint64_t keys = 100'000;
  double seconds = 3;
  bool fill = false;
  app.add_option("--protocol", protocol)->check(CLI::IsMember({"native", "resp", "resp-wait"}));
  app.add_option("--durability", durability, "of native puts")->check(CLI::IsMember({"default", "owner", "replica", "majority", "all"}));
  app.add_option("--op", operation)->check(CLI::IsMember({"get", "put"}));
  app.add_option("--port", ports, "several: nodes of one region")->required()->delimiter(',');
  app.add_option("--pid", pids, "the servers' processes, for their CPU time")->delimiter(',');
  app.add_option("--connections", connections, "in all, in turn to each port");
  app.add_option("--pipeline", pipeline);
  app.add_option("--value-bytes", value_bytes);
  app.add_option("--keys", keys);
  app.add_option("--seconds", seconds);
  app.add_flag("--fill", fill, "put every key once, in order, and end");
  CLI11_PARSE(app, argc, argv);

  std::mt19937_64 random(1);
  std::vector<Session> sessions(static_cast<std::size_t>(connections));
  std::vector<std::vector<std::uint64_t>> owned(ports.size());   // numbers of keys
  if (ports.size() == 1) {
    owned[0].resize(keys);
    std::iota(owned[0].begin(), owned[0].end(), 0);
  } else {
    const auto owner = owners_by_map(ports);
    for (std::uint64_t i = 0; i < keys; ++i) owned[owner(key_of(i))].push_back(i);
  }
  std::vector<std::uint64_t> next(ports.size());                 // of `owned`, when filling
  const int epoll = epoll_create1(0);
  for (std::size_t i = 0; i < sessions.size(); ++i) {
    sessions[i].node = i % ports.size();
    sessions[i].wire = make_wire(protocol, durability);
    sessions[i].socket = open_session(ports[sessions[i].node], *sessions[i].wire);
    epoll_event event{EPOLLIN, {.u64 = i}};
    epoll_ctl(epoll, EPOLL_CTL_ADD, sessions[i].socket, &event);
  }
  std::string value(static_cast<std::size_t>(value_bytes), '\0');
  std::uint64_t operations = 0;
  std::vector<std::int64_t> latencies;
  const auto send_more = [&](Session& s) {
    s.out.clear();
    const auto& mine = owned[s.node];
    for (int i = 0; i < pipeline && (!fill || next[s.node] < mine.size()); ++i, ++s.waiting) {
      const std::string key = key_of(mine[fill ? next[s.node]++ : random() % mine.size()]);
      if (operation == "get" && !fill) {
        s.wire->get(s.out, key);
      } else {
        for (std::size_t b = 0; b + 8 <= value.size(); b += 8) {
          const std::uint64_t r = random();
          std::copy_n(reinterpret_cast<const char*>(&r), 8, value.data() + b);
        }
        s.wire->put(s.out, key, value);
      }
    }
    s.sent_us = monotonic_us();
    if (!s.out.empty()) send_all(s.socket, s.out);
  };

  const auto cpu_of_all = [&] {
    return std::accumulate(pids.begin(), pids.end(), std::uint64_t{0}, [](std::uint64_t sum, int pid) { return sum + process_cpu_ns(pid); });
  };
  const std::uint64_t cpu_before = cpu_of_all();
  const std::int64_t start = monotonic_us();
  const std::int64_t end = start + static_cast<std::int64_t>(seconds * 1e6);
  for (auto& s : sessions) send_more(s);
  std::size_t busy = sessions.size();
  std::vector<epoll_event> events(256);
  char buffer[256 << 10];
  std::int64_t now = start;
  while (busy != 0) {
    const int n = epoll_wait(epoll, events.data(), static_cast<int>(events.size()), 1000);
    for (int e = 0; e < n; ++e) {
      Session& s = sessions[events[static_cast<std::size_t>(e)].data.u64];
      const auto got = ::recv(s.socket, buffer, sizeof buffer, 0);
      if (got <= 0) throw std::runtime_error("the server closed a connection");
      s.in.append(buffer, static_cast<std::size_t>(got));
      std::size_t used = 0;
      std::string_view found;
      while (const std::size_t size = s.wire->take(std::string_view(s.in).substr(used), found)) {
        used += size;
        --s.waiting;
        ++operations;
      }
      s.in.erase(0, used);
      if (s.waiting != 0) continue;
      now = monotonic_us();
      latencies.push_back(now - s.sent_us);
      if (fill ? next[s.node] < owned[s.node].size() : now < end) send_more(s);
      if (s.waiting == 0) --busy;
    }
  }
  const double took = static_cast<double>(monotonic_us() - start) / 1e6;
  const std::uint64_t cpu = cpu_of_all() - cpu_before;
  std::sort(latencies.begin(), latencies.end());
  const double per_op = operations == 0 ? 0 : static_cast<double>(cpu) / 1e3 / static_cast<double>(operations);
  nlohmann::json out = {{"bench", fill ? "fill" : "request_path"}, {"protocol", protocol}, {"op", fill ? "put" : operation},
                        {"connections", connections}, {"pipeline", pipeline}, {"value_bytes", value_bytes}, {"operations", operations},
                        {"seconds", took}, {"operations_per_second", static_cast<double>(operations) / took},
                        {"server_cpu_us_per_operation", per_op}, {"round_trip_us_p50", at(latencies, 0.5)},
                        {"round_trip_us_p99", at(latencies, 0.99)}, {"round_trip_us_p999", at(latencies, 0.999)}};
  std::cout << out.dump() << '\n';
}
