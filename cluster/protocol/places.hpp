// Places that several messages share. Private to cluster/protocol and cluster/replication.
#pragma once
#include <optional>
#include <string>

#include "cluster/protocol/data_messages.hpp"
#include "cluster/protocol/pack.hpp"
#include "cluster/record/digest.hpp"
#include "cluster/record/mark.hpp"

namespace zaris::protocol {

inline void pack_slot_key(Packer& pack, const std::optional<SlotKey>& at) {
  if (!at) return pack.nil();
  pack.array(2);
  pack.uint(at->slot.value());
  pack.bin(at->key);
}

inline void read_slot_key(Unpacker& in, Places& outer, std::optional<SlotKey>& out) {
  out.reset();
  if (!outer.take()) return;
  Places places(in);
  const auto slot = places.fit<std::uint16_t>();
  if (slot > 16'383) in.fail();
  const std::string_view key = places.bytes();
  places.finish();
  if (in.ok()) out = SlotKey{Slot{slot}, std::string(key)};
}

inline void pack_named(Packer& pack, const std::optional<NamedPosition>& at) {
  if (!at) return pack.nil();
  pack.array(3);
  pack.uint(at->at.generation.value());
  pack.uint(at->at.revision.value());
  pack.u64(at->generation_id);
}

// One position, at whose array the reader stands.
inline NamedPosition read_named(Unpacker& in) {
  Places places(in);
  NamedPosition at;
  at.at.generation = Generation{places.fit<std::uint32_t>()};
  at.at.revision = Revision{places.uint()};
  at.generation_id = places.uint();
  places.finish();
  return at;
}

inline void read_named(Unpacker& in, Places& outer, std::optional<NamedPosition>& out) {
  out.reset();
  if (outer.take()) out = read_named(in);
}

inline void pack_digest(Packer& pack, const Digest& digest) {
  char bytes[16];
  digest.to_bytes(bytes);
  pack.bin({bytes, sizeof bytes});
}

inline Digest read_digest(Unpacker& in, Places& places) {
  if (!places.take()) return {};
  const std::string_view bytes = in.bytes();
  if (bytes.size() != 16) {
    in.fail();
    return {};
  }
  return Digest::from_bytes(bytes.data());
}

inline void pack_token(Packer& pack, const MarkToken& token) {
  pack.array(3);
  pack.uint(token.target_generation.value());
  pack.u64(token.session.value());
  pack.uint(token.number);
}

inline MarkToken read_token(Unpacker& in) {
  Places places(in);
  MarkToken token;
  token.target_generation = Generation{places.fit<std::uint32_t>()};
  token.session = SessionId{places.uint()};
  token.number = places.uint();
  places.finish();
  return token;
}

inline void pack_condition(Packer& pack, const Condition& condition) {
  switch (condition.kind) {
    case Condition::Kind::none: return pack.nil();
    case Condition::Kind::absent: return pack.uint(0);
    case Condition::Kind::token:
      pack.array(2);
      pack.uint(condition.token.item_version);
      pack.uint(condition.token.tag);
  }
}

inline void read_condition(Unpacker& in, Places& outer, Condition& out) {
  out = {};
  if (!outer.take()) return;
  if (!in.at_array()) {
    if (in.uint() != 0) in.fail();
    out.kind = Condition::Kind::absent;
    return;
  }
  Places places(in);
  out.kind = Condition::Kind::token;
  out.token.item_version = places.fit<std::uint32_t>();
  out.token.tag = places.fit<std::uint32_t>();
  places.finish();
}

inline Durability read_durability(Unpacker& in, Places& outer) {
  const auto v = outer.fit<std::uint8_t>();
  if (v > static_cast<std::uint8_t>(Durability::all)) in.fail();
  return static_cast<Durability>(v);
}

// The number of elements of a list, bounded: an element of one byte may become a struct of hundreds.
inline std::uint32_t read_count(Unpacker& in, std::uint32_t most) {
  const std::uint32_t count = in.array();
  if (count <= most) return count;
  in.fail();
  return 0;
}

// The whole body is one array and nothing behind it.
inline bool whole(Unpacker& in, Places& places) {
  places.finish();
  return in.ok() && in.rest().empty();
}

}  // namespace zaris::protocol
