// The store alone, beside absl::flat_hash_map with the same keys in the same run: one JSON object per measurement.
//   store_bench [--keys 10000000] [--ops 4000000] [--rounds 5] [--no-absl] [--no-threads]
// Digest, log (budget 1 MiB, trimmed by the measured thread itself) and expiry (a tenth of the keys) are on; half of the
// puts overwrite. The keys and values of a stretch are made before its clock starts; both sides get the same.
#include <absl/container/flat_hash_map.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "cluster/placement/slot.hpp"
#include "cluster/record/record_table.hpp"
#include "cluster/store/store.hpp"

namespace {

using namespace zaris;
using namespace zaris::store;
// One thread's own time: what a busy machine takes away is not counted. Two threads are measured by the wall.
struct Clock {
  using time_point = double;
  static double now() {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
  }
};

constexpr WallMicros start_time = 1'700'000'000'000'000;
constexpr std::size_t value_bytes = 100;
constexpr std::size_t stretch = 1 << 16;

std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

std::uint64_t resident_bytes() {
  std::ifstream in("/proc/self/statm");
  std::uint64_t total = 0, resident = 0;
  in >> total >> resident;
  return resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

struct Ops {
  std::vector<char> key_bytes = std::vector<char>(stretch * 16);
  std::vector<std::string_view> keys = std::vector<std::string_view>(stretch);
  std::vector<std::string_view> values = std::vector<std::string_view>(stretch);
  std::string pool;

  explicit Ops(std::uint64_t seed) {
    pool.resize(1 << 20);
    for (std::size_t i = 0; i < pool.size(); i += 8) {
      const std::uint64_t r = mix(seed + i);
      std::memcpy(&pool[i], &r, 8);
    }
  }
  template <class Id>
  void make(std::size_t n, Id&& id) {
    static constexpr char digits[] = "0123456789abcdef";
    for (std::size_t i = 0; i < n; ++i) {
      const std::uint64_t k = mix(id(i));
      char* p = &key_bytes[i * 16];
      for (int d = 0; d < 16; ++d) p[d] = digits[(k >> (60 - 4 * d)) & 15];
      keys[i] = {p, 16};
      values[i] = std::string_view(pool).substr(mix(k) % (pool.size() - value_bytes), value_bytes);
    }
  }
};

double seconds_since(double t) { return Clock::now() - t; }

struct Spread {
  std::vector<double> ns;
  double median() {
    std::sort(ns.begin(), ns.end());
    return ns[ns.size() / 2];
  }
  void print(const char* what, const char* of, std::uint64_t keys) {
    const double m = median();
    std::printf("{\"bench\":\"store\",\"what\":\"%s\",\"of\":\"%s\",\"keys\":%llu,\"ns_median\":%.1f,\"ns_min\":%.1f,\"ns_max\":%.1f}\n", what, of,
                static_cast<unsigned long long>(keys), m, ns.front(), ns.back());
    std::fflush(stdout);
  }
};

void print_ratio(const char* what, double value, const char* bound) {
  std::printf("{\"bench\":\"store\",\"what\":\"%s\",\"value\":%.3f,\"asked\":\"%s\"}\n", what, value, bound);
  std::fflush(stdout);
}

class StoreSide {
 public:
  std::unique_ptr<Store> store;
  explicit StoreSide(std::uint64_t seed) {
    StoreOptions options;
    options.cluster = ClusterId{seed};
    options.memory_max_bytes = 64ull << 30;
    options.log_budget_bytes = 1 << 20;
    options.seed = seed;
    store = Store::create(options, StoreStart{Generation{1}, RootCause::created, start_time});
  }
  // Seconds.
  double put(const Ops& ops, std::size_t n, WallMicros now) {
    constexpr std::size_t batch = 16;
    const auto t = Clock::now();
    for (std::size_t i = 0; i < n; i += batch) {
      const std::size_t m = std::min(batch, n - i);
      store->prefetch({ops.keys.data() + i, m});
      for (std::size_t k = i; k < i + m; ++k) {
        const auto outcome = store->put(Put{.key = ops.keys[k], .value = ops.values[k], .expires_us = k % 10 == 0 ? now + 3'600'000'000 : 0, .expected = {}, .only_if_absent = false}, now);
        if (outcome.status != Status::ok) std::abort();
      }
      if (i % 2048 == 0) store->trim_log(now);
    }
    return seconds_since(t);
  }
  double get(const Ops& ops, std::size_t n, WallMicros now, std::uint64_t& sum) {
    constexpr std::size_t batch = 16;
    std::string value;
    const auto t = Clock::now();
    for (std::size_t i = 0; i < n; i += batch) {
      const std::size_t m = std::min(batch, n - i);
      store->prefetch({ops.keys.data() + i, m});
      for (std::size_t k = i; k < i + m; ++k) {
        value.clear();
        store->get(ops.keys[k], now, value);
        sum += value.size() + static_cast<unsigned char>(value[50]);
      }
    }
    return seconds_since(t);
  }
};

class AbslSide {
 public:
  absl::flat_hash_map<std::string, std::string> map;
  double put(const Ops& ops, std::size_t n) {
    const auto t = Clock::now();
    for (std::size_t i = 0; i < n; ++i) {
      if (auto it = map.find(absl::string_view(ops.keys[i].data(), ops.keys[i].size())); it != map.end()) {
        it->second.assign(ops.values[i]);
      } else {
        map.emplace(std::string(ops.keys[i]), std::string(ops.values[i]));
      }
    }
    return seconds_since(t);
  }
  double get(const Ops& ops, std::size_t n, std::uint64_t& sum) {
    std::string value;
    const auto t = Clock::now();
    for (std::size_t i = 0; i < n; ++i) {
      value.clear();
      if (auto it = map.find(absl::string_view(ops.keys[i].data(), ops.keys[i].size())); it != map.end()) value.append(it->second);
      sum += value.size() + static_cast<unsigned char>(value[50]);
    }
    return seconds_since(t);
  }
};

// Applies: one source segment's stretch into each target segment, 512 records a batch.
void bench_apply(std::uint64_t keys, std::uint64_t rounds) {
  StoreOptions options;
  options.cluster = ClusterId{2};
  options.memory_max_bytes = 64ull << 30;
  options.log_budget_bytes = 1 << 20;
  auto store = Store::create(options, StoreStart{Generation{1}, RootCause::created, start_time});
  std::string reason;
  if (store->open_link(LinkRegistration{"bench", ClusterId{9}, {}, SiteEpoch{1}, FollowerTerm{1}}, reason) != Status::ok) std::abort();
  struct Sender {
    std::string table, records;
    std::uint64_t revision = 1, sent = 1;
    MarkToken token;
  };
  std::vector<Sender> senders(256);
  Ops ops(3);
  const auto base = [&](std::uint16_t s, ApplyKind kind) {
    ApplyBatch b;
    b.link = "bench";
    b.source_cluster = ClusterId{9};
    b.history = HistoryId{5};
    b.source_segment = b.target_segment = SegmentId{s};
    b.follower_term = FollowerTerm{1};
    b.site_epoch = SiteEpoch{1};
    b.session = SessionId{1};
    b.kind = kind;
    return b;
  };
  for (std::uint16_t s = 0; s < 256; ++s) {
    ApplyBatch open = base(s, ApplyKind::open);
    senders[s].token = store->apply(open, start_time).mark->token;
    ApplyBatch range = base(s, ApplyKind::range);
    range.expected = senders[s].token;
    range.range = ApplyRange{.from = {}, .to = {}, .as_of = NamedPosition{{Generation{1}, Revision{1}}, 7}, .final = true, .equal = {}};
    senders[s].token = store->apply(range, start_time).mark->token;
  }
  double total = 0;
  std::uint64_t applied = 0;
  const auto flush = [&](std::uint16_t s, bool timed) {
    Sender& sender = senders[s];
    ApplyBatch b = base(s, ApplyKind::stream);
    b.expected = sender.token;
    b.prev = NamedPosition{{Generation{1}, Revision{sender.sent}}, 7};
    b.last = NamedPosition{{Generation{1}, Revision{sender.revision}}, 7};
    b.table = sender.table;
    b.records = sender.records;
    const auto t = Clock::now();
    const ApplyAnswer answer = store->apply(b, start_time);
    if (timed) {
      total += seconds_since(t);
      applied += answer.applied;
    }
    if (answer.status != Status::ok) {
      std::fprintf(stderr, "apply: %s\n", answer.reason.c_str());
      std::abort();
    }
    sender.token = answer.mark->token;
    sender.sent = sender.revision;
    sender.table.clear();
    sender.records.clear();
    if (s == 0) store->trim_log(start_time);
  };
  Spread first, again;
  for (std::uint64_t round = 0; round <= rounds; ++round) {
    total = 0;
    applied = 0;
    for (std::uint64_t done = 0; done < keys; done += stretch) {
      const std::size_t n = std::min<std::uint64_t>(stretch, keys - done);
      ops.make(n, [&](std::size_t i) { return round == 0 ? done + i : mix(done + i + round * keys) % keys; });
      for (std::size_t i = 0; i < n; ++i) {
        const Slot slot = slot_of(ops.keys[i]);
        const std::uint16_t s = segment_of(slot, 256).value();
        Sender& sender = senders[s];
        const std::string record = make_record(EntryFields{.key = ops.keys[i], .value = ops.values[i], .expires_us = 0, .tag = static_cast<std::uint32_t>(i)},
                                               RecordHeader{Revision{++sender.revision}, static_cast<std::uint32_t>(round + 1), start_time, Deleted::no, Generation{1}, {}});
        append_row(sender.table, RecordRow{static_cast<std::uint32_t>(record.size()), 0, slot, 1});
        sender.records += record;
        if (row_count(sender.table) == 512) flush(s, true);
      }
    }
    (round == 0 ? first : again).ns.push_back(total * 1e9 / static_cast<double>(applied));
  }
  const StoreMemory memory = store->memory();
  print_ratio("accounted_bytes_per_replicated_record_over_key_and_value",
              static_cast<double>(memory.records + memory.tables) / static_cast<double>(keys) - 116, "<= 125");
  first.print("apply_new", "zaris", keys);
  again.print("apply_over", "zaris", keys);
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t keys = 10'000'000, count = 4'000'000, rounds = 5;
  bool with_absl = true, with_threads = true;
  for (int i = 1; i < argc; ++i) {
    const std::string a = argv[i];
    if (a == "--no-absl") {
      with_absl = false;
    } else if (a == "--no-threads") {
      with_threads = false;
    } else if (i + 1 < argc && a == "--keys") {
      keys = std::strtoull(argv[++i], nullptr, 10);
    } else if (i + 1 < argc && a == "--ops") {
      count = std::strtoull(argv[++i], nullptr, 10);
    } else if (i + 1 < argc && a == "--rounds") {
      rounds = std::strtoull(argv[++i], nullptr, 10);
    } else {
      std::fprintf(stderr, "usage: store_bench [--keys N] [--ops N] [--rounds N] [--no-absl] [--no-threads]\n");
      return 2;
    }
  }
  rounds = std::max<std::uint64_t>(rounds, 1);
  std::uint64_t sum = 0;
  Ops ops(1);
  std::uint64_t before = resident_bytes();
  StoreSide zaris(1);
  double fill = 0;
  for (std::uint64_t done = 0; done < keys; done += stretch) {
    const std::size_t n = std::min<std::uint64_t>(stretch, keys - done);
    ops.make(n, [&](std::size_t i) { return done + i; });
    fill += zaris.put(ops, n, start_time);
  }
  const double per_record = static_cast<double>(resident_bytes() - before) / static_cast<double>(keys);
  Spread filled;
  filled.ns.push_back(fill * 1e9 / static_cast<double>(keys));
  filled.print("fill", "zaris", keys);
  print_ratio("resident_bytes_per_record_over_key_and_value", per_record - 116, "<= 100");
  AbslSide absl_side;
  if (with_absl) {
    before = resident_bytes();
    fill = 0;
    for (std::uint64_t done = 0; done < keys; done += stretch) {
      const std::size_t n = std::min<std::uint64_t>(stretch, keys - done);
      ops.make(n, [&](std::size_t i) { return done + i; });
      fill += absl_side.put(ops, n);
    }
    filled.ns = {fill * 1e9 / static_cast<double>(keys)};
    filled.print("fill", "absl", keys);
    print_ratio("absl_resident_bytes_per_record_over_key_and_value", static_cast<double>(resident_bytes() - before) / static_cast<double>(keys) - 116, "");
  }

  // Each round: the same stretches to both, in turn.
  Spread put_ours, put_theirs, get_ours, get_theirs;
  std::uint64_t fresh = keys;
  const std::uint64_t per_round = count / rounds;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    double a = 0, b = 0;
    for (std::uint64_t done = 0; done < per_round; done += stretch) {
      const std::size_t n = std::min<std::uint64_t>(stretch, per_round - done);
      ops.make(n, [&](std::size_t i) { return i % 2 == 0 ? fresh++ : mix(done + i + round * count) % keys; });
      a += zaris.put(ops, n, start_time);
      if (with_absl) b += absl_side.put(ops, n);
    }
    put_ours.ns.push_back(a * 1e9 / static_cast<double>(per_round));
    put_theirs.ns.push_back(b * 1e9 / static_cast<double>(per_round));
    a = b = 0;
    for (std::uint64_t done = 0; done < per_round; done += stretch) {
      const std::size_t n = std::min<std::uint64_t>(stretch, per_round - done);
      ops.make(n, [&](std::size_t i) { return mix(done + i + round * count + 77) % keys; });
      a += zaris.get(ops, n, start_time, sum);
      if (with_absl) b += absl_side.get(ops, n, sum);
    }
    get_ours.ns.push_back(a * 1e9 / static_cast<double>(per_round));
    get_theirs.ns.push_back(b * 1e9 / static_cast<double>(per_round));
  }
  put_ours.print("put_half_overwrites", "zaris", keys);
  get_ours.print("get", "zaris", keys);
  if (with_absl) {
    put_theirs.print("put_half_overwrites", "absl", keys);
    get_theirs.print("get", "absl", keys);
    print_ratio("put_time_over_absl", put_ours.median() / put_theirs.median(), "<= 1.6");
    print_ratio("get_time_over_absl", get_ours.median() / get_theirs.median(), "<= 1.3");
  }

  const std::uint64_t each = std::min<std::uint64_t>(count / 2, 1'000'000) / stretch * stretch + stretch;
  // What two threads are worth on this machine where nothing is shared but its memory: reading one map that nobody changes.
  const auto readers = [&](unsigned n) {
    std::vector<double> took(n);
    std::vector<std::thread> workers;
    for (unsigned t = 0; t < n; ++t) {
      workers.emplace_back([&, t] {
        Ops mine(t);
        std::uint64_t unused = 0;
        for (std::uint64_t done = 0; done < each; done += stretch) {
          mine.make(stretch, [&](std::size_t i) { return mix(done + i + t * count + 55) % keys; });
          took[t] += absl_side.get(mine, stretch, unused);
        }
      });
    }
    double rate = 0;
    for (unsigned t = 0; t < n; ++t) {
      workers[t].join();
      rate += static_cast<double>(each) / took[t];
    }
    return rate;
  };
  if (with_absl && with_threads) {
    std::vector<double> control;
    for (int round = 0; round < 3; ++round) {
      const double one = readers(1);
      control.push_back(readers(2) / one);
    }
    std::sort(control.begin(), control.end());
    print_ratio("control_two_threads_reading_absl_over_one", control[1], "what the machine gives");
  }
  absl::flat_hash_map<std::string, std::string>().swap(absl_side.map);

  // Two threads, each with its own keys, against one that does as much as each. `second`: of the other thread, where it has a store of
  // its own.
  const auto threads = [&](unsigned n, StoreSide& second) {
    std::vector<double> took(n);
    std::vector<std::thread> workers;
    for (unsigned t = 0; t < n; ++t) {
      workers.emplace_back([&, t] {
        Ops mine(t);
        std::uint64_t unused = 0;
        for (std::uint64_t done = 0; done < each; done += stretch) {
          mine.make(stretch, [&](std::size_t i) { return mix(done + i + t * count + 99) % keys; });
          const auto from = std::chrono::steady_clock::now();
          StoreSide& side = t == 0 ? zaris : second;
          side.put(mine, stretch, start_time);
          side.get(mine, stretch, start_time, unused);
          took[t] += std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count();
        }
      });
    }
    double rate = 0;
    for (unsigned t = 0; t < n; ++t) {
      workers[t].join();
      rate += 2 * static_cast<double>(each) / took[t];
    }
    return rate;
  };
  // What two threads are worth for this work where they share nothing but the machine: each has a store of its own.
  const auto scaling = [&](StoreSide& second) {
    std::vector<double> ratios;
    for (int round = 0; round < 3; ++round) {
      const double one = threads(1, zaris);
      ratios.push_back(threads(2, second) / one);
    }
    std::sort(ratios.begin(), ratios.end());
    return ratios[1];
  };
  if (with_threads) {
    print_ratio("two_threads_over_one", scaling(zaris), ">= 1.8");
    StoreSide other(2);
    for (std::uint64_t done = 0; done < keys; done += stretch) {
      const std::size_t n = std::min<std::uint64_t>(stretch, keys - done);
      ops.make(n, [&](std::size_t i) { return done + i; });
      other.put(ops, n, start_time);
    }
    print_ratio("control_two_stores_over_one", scaling(other), "what the machine gives");
  }
  zaris.store.reset();

  bench_apply(std::min<std::uint64_t>(keys, 2'000'000), std::min<std::uint64_t>(rounds, 3));
  return sum == 42 ? 1 : 0;
}
