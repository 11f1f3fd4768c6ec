// A link's name and a mark, as the messages about links carry them. Private to cluster/protocol.
#pragma once
#include <string_view>

#include "cluster/protocol/link_messages.hpp"
#include "cluster/protocol/places.hpp"

namespace zaris::protocol {

inline std::string_view read_link(Unpacker& in, Places& places) {
  if (!places.demand()) return {};
  const std::string_view link = in.bytes();
  if (link.empty() || link.size() > link_name_bytes_max) in.fail();
  return link;
}

inline void pack_mark(Packer& pack, const Mark& mark) {
  pack.array(mark.since ? 13 : 12);
  pack.u64(mark.source_cluster.value());
  pack.u64(mark.history.value());
  pack.uint(mark.site_epoch.value());
  pack.uint(mark.follower_term.value());
  pack_token(pack, mark.token);
  pack.uint(static_cast<std::uint64_t>(mark.phase));
  pack_slot_key(pack, mark.last_key);
  pack.uint(mark.closed_time_us);
  pack_named(pack, mark.low);
  pack_named(pack, mark.high);
  pack_named(pack, mark.horizon);
  pack.uint(mark.registered_us);
  if (mark.since) pack_named(pack, mark.since);
}

inline void read_mark(Unpacker& in, Mark& out) {
  Places places(in);
  out.source_cluster = ClusterId{places.uint()};
  out.history = HistoryId{places.uint()};
  out.site_epoch = SiteEpoch{places.uint()};
  out.follower_term = FollowerTerm{places.uint()};
  if (places.demand()) out.token = read_token(in);
  const auto phase = places.fit<std::uint8_t>();
  if (phase > static_cast<std::uint8_t>(Phase::repair)) in.fail();
  out.phase = static_cast<Phase>(phase);
  read_slot_key(in, places, out.last_key);
  out.closed_time_us = places.uint();
  read_named(in, places, out.low);
  read_named(in, places, out.high);
  read_named(in, places, out.horizon);
  out.registered_us = places.uint();
  read_named(in, places, out.since);
  places.finish();
}

}  // namespace zaris::protocol
