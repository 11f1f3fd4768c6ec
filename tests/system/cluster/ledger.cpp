// Writes growing numbers under keys of its own through the client library, remembers what was acknowledged, and later says what of it
// is missing. For tests that break a region meanwhile.
//
//   cluster_ledger write  --url URL --file LEDGER --keys N --durability replica [--pause-ms N]     until SIGTERM; a line of JSON a second
//   cluster_ledger verify --url URL --file LEDGER                                   {"keys":…,"missing":…,"lost":[…]}; exit 1 if any is
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <fstream>
#include <iostream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "cluster/client/client.hpp"

using namespace zaris;
using Clock = std::chrono::steady_clock;
using nlohmann::json;

namespace {

std::atomic<bool> over{false};

struct Key {
  std::string name;
  std::uint64_t next = 1, acknowledged = 0;
  Clock::time_point served = Clock::now();   // last acknowledgement
  double longest_s = 0;
};

struct Writing {
  client::Client& to;
  client::WriteOptions options;
  std::vector<Key> keys;
  std::chrono::milliseconds pause;     // of a key between an outcome and its next write
  std::mutex mutex;
  std::condition_variable changed;
  std::size_t open = 0;
  std::uint64_t acknowledged = 0, not_met = 0, failed = 0;
  std::map<std::string, std::uint64_t> errors;
  std::deque<std::pair<Clock::time_point, std::size_t>> resting;   // keys by when they go on

  // One write of a key at a time; the next begins when this one has an outcome.
  void go_on(std::size_t i) {
    std::string value;
    {
      const std::lock_guard lock(mutex);
      if (over) {
        --open;
        changed.notify_all();
        return;
      }
      value = std::to_string(keys[i].next++);
    }
    to.put(keys[i].name, value, options, [this, i, number = std::stoull(value)](Result<client::Written> written) {
      {
        const std::lock_guard lock(mutex);
        Key& key = keys[i];
        if (written && written->status == Status::ok) {
          const auto now = Clock::now();
          key.longest_s = std::max(key.longest_s, std::chrono::duration<double>(now - key.served).count());
          key.served = now;
          key.acknowledged = number;
          ++acknowledged;
        } else if (written) {
          ++not_met;
        } else {
          ++failed;
          ++errors[written.error().code];
          if (written.error().code == "connection_lost") ++errors[written.error().text()];  // by whom, and in whose words
        }
        if (pause.count() > 0) {
          resting.emplace_back(Clock::now() + pause, i);
          return;
        }
      }
      go_on(i);
    });
  }

  // Lets those go on whose pause is over, all of them at the end.
  void wake(bool all) {
    std::vector<std::size_t> due;
    {
      const std::lock_guard lock(mutex);
      for (const auto now = Clock::now(); !resting.empty() && (all || resting.front().first <= now); resting.pop_front()) due.push_back(resting.front().second);
    }
    for (const std::size_t i : due) go_on(i);
  }
};

json figures(Writing& w, bool all) {
  const std::lock_guard lock(w.mutex);
  double longest = 0, waiting = 0;
  for (const Key& key : w.keys) {
    longest = std::max(longest, key.longest_s);
    waiting = std::max(waiting, std::chrono::duration<double>(Clock::now() - key.served).count());
  }
  json out{{"at", std::chrono::duration<double>(Clock::now().time_since_epoch()).count()}, {"acknowledged", w.acknowledged}, {"not_met", w.not_met}, {"failed", w.failed}, {"errors", w.errors}, {"longest_s", longest}, {"waiting_s", waiting}};
  if (all) {
    for (Key& key : w.keys) out["keys"][key.name] = key.acknowledged;
  } else {
    for (Key& key : w.keys) key.longest_s = 0;
  }
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"cluster_ledger: what was acknowledged, and whether it is still there"};
  app.require_subcommand(1);
  std::string url, file, durability = "replica", prefix = "ledger";
  std::size_t keys = 200, pause_ms = 0;
  auto* write = app.add_subcommand("write");
  auto* verify = app.add_subcommand("verify");
  for (auto* sub : {write, verify}) {
    sub->add_option("--url", url)->required();
    sub->add_option("--file", file)->required();
  }
  write->add_option("--keys", keys);
  write->add_option("--prefix", prefix);
  write->add_option("--pause-ms", pause_ms);
  write->add_option("--durability", durability)->check(CLI::IsMember({"owner", "replica", "majority", "all"}));
  CLI11_PARSE(app, argc, argv);

  auto options = client::parse_url(url);
  if (!options) {
    std::cerr << options.error().text() << "\n";
    return 2;
  }
  options->timeout = std::chrono::seconds(30);
  auto connected = client::Client::connect(*options);
  if (!connected) {
    std::cerr << connected.error().text() << "\n";
    return 4;
  }
  client::Client& region = **connected;

  if (verify->parsed()) {
    std::ifstream in(file);
    const json ledger = json::parse(in);
    json lost = json::array();
    std::size_t count = 0;
    for (const auto& [name, number] : ledger["keys"].items()) {
      ++count;
      const auto item = region.get(name).get();
      if (!item) {
        std::cerr << name << ": " << item.error().text() << "\n";
        return 4;
      }
      const std::uint64_t there = item->status == Status::ok ? std::stoull(item->value) : 0;
      if (there < number.get<std::uint64_t>()) lost.push_back({{"key", name}, {"acknowledged", number}, {"there", there}});
    }
    std::cout << json{{"keys", count}, {"missing", lost.size()}, {"lost", lost}}.dump() << std::endl;
    return lost.empty() ? 0 : 1;
  }

  ::signal(SIGTERM, [](int) { over = true; });
  Writing writing{region, {}, std::vector<Key>(keys), std::chrono::milliseconds(pause_ms), {}, {}, keys};
  writing.options.durability = durability == "owner" ? Durability::owner : durability == "replica" ? Durability::replica : durability == "majority" ? Durability::majority : Durability::all;
  for (std::size_t i = 0; i < keys; ++i) writing.keys[i].name = prefix + "-" + std::to_string(i);
  for (std::size_t i = 0; i < keys; ++i) writing.go_on(i);
  auto next = Clock::now();
  while (!over) {
    std::unique_lock lock(writing.mutex);
    writing.changed.wait_for(lock, std::chrono::milliseconds(pause_ms > 0 ? 5 : 50));
    lock.unlock();
    writing.wake(false);
    if (Clock::now() < next) continue;
    next = Clock::now() + std::chrono::seconds(1);
    std::cout << figures(writing, false).dump() << std::endl;
  }
  for (const auto until = Clock::now() + std::chrono::seconds(40); Clock::now() < until;) {
    writing.wake(true);
    std::unique_lock lock(writing.mutex);
    if (writing.changed.wait_for(lock, std::chrono::milliseconds(50), [&] { return writing.open == 0; })) break;
  }
  const json all = figures(writing, true);
  std::ofstream(file) << all.dump();
  json shown = all;
  shown.erase("keys");
  std::cout << shown.dump() << std::endl;
  return 0;
}
