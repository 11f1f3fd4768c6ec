#include "tests/simulation/workload.hpp"

#include <fmt/format.h>

#include <cmath>

namespace zaris::simulation {

void Workload::prefill() {
  Prng& prng = world_.workload;
  for (std::uint32_t i = 0; i < keys_.own(); ++i) {
    const Key& key = keys_[i];
    if (key.large_slot || prng.chance(0.5)) source_.put(i, value(key), expiry(), std::nullopt, false);
    if (!key.in_scope && prng.chance(0.5)) target_.put_local(i, fmt::format("own {}", ++serial_));
    if (key.in_scope && world_.options.prefilled_target && prng.chance(0.5)) {
      target_.put_local(i, fmt::format("own {}", ++serial_));
      checker_.target_owns(i);
    }
  }
}

void Workload::start() {
  const auto delay = static_cast<MonoMicros>(-std::log(1.0 - world_.workload.real()) * static_cast<double>(world_.options.write_every_us));
  world_.queue.after(std::max<MonoMicros>(1, delay), [this] {
    if (stopped_) return;
    const auto burst = 1 + world_.workload.below(world_.options.write_burst);
    if (source_.frozen_until() <= world_.now()) {
      for (std::uint64_t i = 0; i < burst; ++i) write();
    }
    if (world_.workload.chance(0.05)) write_target();
    start();
  });
}

std::string Workload::value(const Key& key) {
  Prng& prng = world_.workload;
  if (key.in_scope && prng.chance(0.03)) return {};
  std::string out = fmt::format("v{}", ++serial_);
  if (!key.in_scope) out += foreign_mark;
  std::size_t size = prng.below(64);
  if (prng.chance(0.05)) size = prng.below(world_.options.value_bytes_max / 2);
  if (key.large_slot && keys_.size() < 1'000) size = std::min<std::size_t>(7'000, world_.options.value_bytes_max - 100);
  if (world_.options.big_values && prng.chance(0.02)) size = 260'000 + prng.below(100'000);
  if (prng.chance(0.01)) size = world_.options.value_bytes_max - out.size();  // at the limit
  if (out.size() + size > world_.options.value_bytes_max) size = world_.options.value_bytes_max - out.size();
  out.append(size, static_cast<char>('a' + serial_ % 26));
  return out;
}

WallMicros Workload::expiry() {
  Prng& prng = world_.workload;
  if (!prng.chance(world_.options.expiry)) return 0;
  const auto now = static_cast<std::int64_t>(source_.wall());
  if (prng.chance(0.05)) return static_cast<WallMicros>(now - prng.between(0, 2'000'000));  // over already
  if (prng.chance(0.2)) return static_cast<WallMicros>(now + prng.between(3'000'000'000, 4'200'000'000));  // about an hour: steps reach it
  return static_cast<WallMicros>(now + prng.between(1'000, 3'000'000));
}

void Workload::write() {
  Prng& prng = world_.workload;
  const auto index = static_cast<std::uint32_t>(prng.below(keys_.own()));
  const Key& key = keys_[index];
  const double what = prng.real();
  if (what < 0.60) return source_.put(index, value(key), expiry(), std::nullopt, false);
  if (what < 0.82) return source_.del(index, std::nullopt);
  if (what < 0.90) return source_.touch(index, prng.chance(0.3) ? 0 : expiry());
  if (what < 0.94) return source_.put(index, value(key), expiry(), std::nullopt, true);
  if (!source_.up()) return;
  std::string held;
  const auto read = source_.get(index, held);
  ItemToken token = read.token;
  const bool wrong = prng.chance(0.3);
  if (wrong) token.tag ^= 1;
  if (read.status != Status::ok) return source_.put(index, value(key), 0, token, false);  // NotFound: changes nothing
  if (what < 0.98) return source_.put(index, value(key), expiry(), token, false);
  source_.del(index, token);
}

void Workload::write_target() {
  const auto index = static_cast<std::uint32_t>(world_.workload.below(keys_.own()));
  if (!keys_[index].in_scope) target_.put_local(index, fmt::format("own {}", ++serial_));
}

void Workload::refill() {
  if (!target_.up() || !source_.up()) return;
  for (std::uint32_t i = 0; i < keys_.own(); ++i) {
    if (!keys_[i].in_scope) continue;
    const auto fetched = target_.store().fetch(keys_[i].target_segment, {keys_[i].bytes});
    if (!fetched.records[0]) continue;
    const auto record = parse_record(*fetched.records[0]);
    if (record && record->live()) source_.put(i, std::string(record->value), record->expires_us, std::nullopt, true);
  }
}

}  // namespace zaris::simulation
