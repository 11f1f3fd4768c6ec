#include "cluster/coordinator/coordinator_rows.hpp"

#include <exception>
#include <msgpack.hpp>

namespace zaris::coordinator {
namespace {

constexpr std::uint64_t row_format = 1;
using Packer = msgpack::packer<msgpack::sbuffer>;

void pack_bytes(Packer& pack, std::string_view bytes) {
  pack.pack_bin(static_cast<std::uint32_t>(bytes.size()));
  pack.pack_bin_body(bytes.data(), static_cast<std::uint32_t>(bytes.size()));
}

// [0 format, …]
template <class Fill>
std::string encode_row(std::uint32_t places, Fill fill) {
  msgpack::sbuffer buffer;
  Packer pack(buffer);
  pack.pack_array(places + 1);
  pack.pack(row_format);
  fill(pack);
  return {buffer.data(), buffer.size()};
}

class Places {
 public:
  explicit Places(const msgpack::object& root) : array_(root.via.array) {}
  [[nodiscard]] const msgpack::object& at(std::uint32_t i) const {
    if (i >= array_.size) throw msgpack::type_error();
    return array_.ptr[i];
  }
  [[nodiscard]] bool has(std::uint32_t i) const { return i < array_.size; }
  [[nodiscard]] std::uint64_t number(std::uint32_t i) const { return at(i).as<std::uint64_t>(); }
  [[nodiscard]] std::uint32_t number32(std::uint32_t i) const { return at(i).as<std::uint32_t>(); }
  [[nodiscard]] bool flag(std::uint32_t i) const { return at(i).as<bool>(); }
  [[nodiscard]] std::string bytes(std::uint32_t i) const { return bytes_of(at(i)); }
  static std::string bytes_of(const msgpack::object& object) {
    if (object.type != msgpack::type::BIN) throw msgpack::type_error();
    return {object.via.bin.ptr, object.via.bin.size};
  }

 private:
  const msgpack::object_array& array_;
};

constexpr std::size_t elements_max = 1024;  // of one array: its memory is taken when its length is read, a link has left 64 scopes at most

// Bounded before memory is taken; places beyond those that this build knows are passed over.
template <class Fill>
bool decode_row(std::string_view bytes, bool& newer, Fill fill) {
  newer = false;
  try {
    const auto handle = msgpack::unpack(bytes.data(), bytes.size(), nullptr, nullptr,
                                        msgpack::unpack_limit(elements_max, 16, 1u << 16, 4u << 20, 0, 8));
    const auto& root = handle.get();
    if (root.type != msgpack::type::ARRAY || root.via.array.size < 1) return false;
    const Places places(root);
    if (places.number(0) > row_format) {
      newer = true;
      return false;
    }
    return fill(places);
  } catch (const std::exception&) {
    return false;
  }
}

bool parse_scope(const std::string& text, Scope& out) {
  auto scope = Scope::parse(text);
  if (scope) out = std::move(*scope);
  return scope.has_value();
}

}  // namespace

std::string link_key(std::string_view link) { return "l" + std::string(link); }
std::string lease_key(std::string_view link) { return "f" + std::string(link); }
std::string scope_key(ScopeId scope) {
  std::string out = "s";
  for (int shift = 56; shift >= 0; shift -= 8) out += static_cast<char>(scope.value() >> shift);
  return out;
}

std::string encode(const ClusterRow& row) {
  return encode_row(5, [&](Packer& pack) {
    pack.pack(row.id.value());
    pack_bytes(pack, row.settings.region);
    pack_bytes(pack, row.settings.store);
    pack.pack(row.settings.segments);
    pack.pack(row.created_us);
  });
}
bool decode(std::string_view bytes, ClusterRow& out, bool& newer) {
  return decode_row(bytes, newer, [&](const Places& places) {
    out.id = ClusterId{places.number(1)};
    out.settings = {places.bytes(2), places.bytes(3), places.number32(4)};
    out.created_us = places.number(5);
    return true;
  });
}

std::string encode(const RunRow& row) {
  return encode_row(6, [&](Packer& pack) {
    pack.pack(row.generation.value());
    pack.pack(row.had_data);
    pack.pack(row.last_start_us);
    pack.pack(row.running);
    pack.pack(row.stopped_us);
    pack.pack(row.keys_at_stop);
  });
}
bool decode(std::string_view bytes, RunRow& out, bool& newer) {
  return decode_row(bytes, newer, [&](const Places& places) {
    out.generation = Generation{places.number32(1)};
    out.had_data = places.flag(2);
    out.last_start_us = places.number(3);
    out.running = places.flag(4);
    out.stopped_us = places.number(5);
    out.keys_at_stop = places.number(6);
    return true;
  });
}

std::string encode(const LinkEntry& row) {
  return encode_row(9, [&](Packer& pack) {
    pack_bytes(pack, row.link);
    pack.pack(row.source_cluster.value());
    pack_bytes(pack, row.scope.text());
    pack.pack(row.standby);
    pack.pack(row.site_epoch.value());
    pack.pack(row.follower_term.value());
    pack.pack(row.opened_us);
    pack.pack_array(static_cast<std::uint32_t>(row.left_scopes.size()));
    for (const auto& scope : row.left_scopes) pack_bytes(pack, scope.text());
    pack.pack(row.registered_us);
  });
}
bool decode(std::string_view bytes, LinkEntry& out, bool& newer) {
  return decode_row(bytes, newer, [&](const Places& places) {
    out.link = places.bytes(1);
    out.source_cluster = ClusterId{places.number(2)};
    out.standby = places.flag(4);
    out.site_epoch = SiteEpoch{places.number(5)};
    out.follower_term = FollowerTerm{places.number(6)};
    out.opened_us = places.number(7);
    out.registered_us = places.has(9) ? places.number(9) : 0;  // not of a row of an older version
    const auto& left = places.at(8);
    if (left.type != msgpack::type::ARRAY) return false;
    out.left_scopes.clear();
    for (std::uint32_t i = 0; i < left.via.array.size; ++i) {
      Scope scope;
      if (!parse_scope(Places::bytes_of(left.via.array.ptr[i]), scope)) return false;
      out.left_scopes.push_back(std::move(scope));
    }
    return parse_scope(places.bytes(3), out.scope);
  });
}

std::string encode(const ScopeRow& row) {
  return encode_row(2, [&](Packer& pack) {
    pack_bytes(pack, row.text);
    pack.pack(row.epoch.value());
  });
}
bool decode(std::string_view bytes, ScopeRow& out, bool& newer) {
  return decode_row(bytes, newer, [&](const Places& places) {
    out.text = places.bytes(1);
    out.epoch = SiteEpoch{places.number(2)};
    return true;
  });
}

std::string encode(const LeaseRow& row) {
  return encode_row(2, [&](Packer& pack) {
    pack_bytes(pack, row.holder);
    pack.pack(row.term.value());
  });
}
bool decode(std::string_view bytes, LeaseRow& out, bool& newer) {
  return decode_row(bytes, newer, [&](const Places& places) {
    out.holder = places.bytes(1);
    out.term = FollowerTerm{places.number(2)};
    return true;
  });
}

}  // namespace zaris::coordinator
