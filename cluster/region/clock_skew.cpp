#include "cluster/region/clock_skew.hpp"

#include <algorithm>
#include <cstdlib>

#include "cluster/ownership/boot_time.hpp"

namespace zaris::region {
namespace {

constexpr MonoMicros round_trip_max_us = 10'000'000;           // a longer one says too little
constexpr std::uint64_t wall_max = std::uint64_t{1} << 62;     // what is later is no time

}  // namespace

protocol::Heartbeat::Clock ClockSkew::stamp(std::string_view peer, MonoMicros now, WallMicros wall) const {
  protocol::Heartbeat::Clock out;
  out.sent = static_cast<std::uint64_t>(now);
  out.wall_us = wall;
  if (const auto found = peers_.find(peer); found != peers_.end() && now >= found->second.heard_at) {
    out.echo = found->second.sent;
    out.held_us = static_cast<std::uint64_t>(now - found->second.heard_at);
  }
  return out;
}

ClockSkew::Change ClockSkew::heard(const std::string& name, const protocol::Heartbeat::Clock& clock, MonoMicros now, WallMicros wall) {
  Peer& peer = peers_[name];
  peer.sent = clock.sent;
  peer.heard_at = now;
  if (clock.echo == 0 || clock.echo > static_cast<std::uint64_t>(now) || clock.wall_us > wall_max || wall > wall_max) return Change::none;
  const MonoMicros away = now - static_cast<MonoMicros>(clock.echo);
  if (away > round_trip_max_us) return Change::none;
  // The peer counted what it held by a clock of another rate.
  const auto held_max = static_cast<std::uint64_t>(ownership::lengthened(away));
  if (clock.held_us > held_max) return Change::none;
  const auto held = static_cast<MonoMicros>(clock.held_us);
  const MonoMicros round_trip = std::max<MonoMicros>(0, away - held);
  Sample sample;
  sample.ahead_us = static_cast<std::int64_t>(clock.wall_us) + round_trip / 2 - static_cast<std::int64_t>(wall);
  sample.within_us = round_trip / 2 + 1 + ownership::clock_margin(held);
  peer.samples[peer.count++ % peer.samples.size()] = sample;

  const Sample now_best = best(peer);
  const std::int64_t distance = std::abs(now_best.ahead_us);
  if (!peer.beyond && distance - now_best.within_us > bound_us_) {
    peer.beyond = true;
    return Change::beyond;
  }
  // A clock that stands at the bound is not to be said again and again.
  if (peer.beyond && distance <= bound_us_ - bound_us_ / 4) {
    peer.beyond = false;
    return Change::within;
  }
  return Change::none;
}

void ClockSkew::forget(const std::string& peer) { peers_.erase(peer); }

std::optional<ClockEstimate> ClockSkew::estimate(std::string_view name) const {
  const auto found = peers_.find(name);
  if (found == peers_.end() || found->second.count == 0) return std::nullopt;
  const Sample sample = best(found->second);
  return ClockEstimate{sample.ahead_us, sample.within_us, found->second.beyond};
}

ClockSkew::Sample ClockSkew::best(const Peer& peer) {
  const auto end = peer.samples.begin() + static_cast<std::ptrdiff_t>(std::min(peer.count, peer.samples.size()));
  return *std::min_element(peer.samples.begin(), end, [](const Sample& a, const Sample& b) { return a.within_us < b.within_us; });
}

}  // namespace zaris::region
