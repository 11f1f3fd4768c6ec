#include "cluster/region/rows.hpp"

#include <charconv>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cluster/placement/slot.hpp"

namespace zaris::region {
namespace {

using nlohmann::json;

constexpr std::size_t row_bytes_max = 64u << 10;
constexpr std::size_t texts_max = 256;
constexpr int format = 1;

tl::unexpected<Error> malformed(std::string_view what, const std::string& why) {
  return failure("cluster_document_malformed", fmt::format("the region's {} in etcd cannot be read: {}", what, why),
                 "was it written by something else, or by a newer version? Compare etcd.prefix and store of all nodes");
}

// Reads an object's members; the first that is missing or of another kind fails the reader.
class Reader {
 public:
  Reader(std::string_view text, std::string_view what) : what_(what) {
    if (text.size() > row_bytes_max) {
      why_ = "it is too long";
      return;
    }
    json_ = json::parse(text, nullptr, false);
    if (!json_.is_object()) why_ = "it is no JSON object";
    else if (number("format") > format) why_ = "its format is newer than this version";
  }
  std::uint64_t number(const char* name, std::uint64_t most = UINT64_MAX) {
    const json* at = find(name);
    if (at == nullptr || !at->is_number_unsigned()) return fail(name), 0;
    const auto out = at->get<std::uint64_t>();
    if (out > most && why_.empty()) why_ = fmt::format("\"{}\" is {}, at most {} is possible", name, out, most);
    return why_.empty() ? out : 0;
  }
  std::string text(const char* name) {
    const json* at = find(name);
    if (at == nullptr || !at->is_string()) return fail(name), std::string();
    return at->get<std::string>();
  }
  // Of a row that an older version may have written.
  std::string later_text(const char* name) { return find(name) == nullptr ? std::string() : text(name); }
  std::map<std::string, std::string> later_texts(const char* name) {
    std::map<std::string, std::string> out;
    const json* at = find(name);
    if (at == nullptr) return out;
    if (!at->is_object() || at->size() > texts_max) return fail(name), out;
    for (const auto& [key, value] : at->items()) {
      if (!value.is_string()) return fail(name), out;
      out.emplace(key, value.get<std::string>());
    }
    return out;
  }
  std::uint64_t id(const char* name) {
    const std::string digits = text(name);
    std::uint64_t out = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), out, 16);
    if (error != std::errc{} || end != digits.data() + digits.size() || digits.size() != 16) fail(name);
    return out;
  }
  [[nodiscard]] bool ok() const { return why_.empty(); }
  [[nodiscard]] tl::unexpected<Error> error() const { return malformed(what_, why_); }

 private:
  const json* find(const char* name) const {
    if (!json_.is_object()) return nullptr;
    const auto at = json_.find(name);
    return at == json_.end() ? nullptr : &*at;
  }
  void fail(const char* name) {
    if (why_.empty()) why_ = fmt::format("\"{}\" is missing or of another kind", name);
  }
  std::string_view what_;
  std::string why_;
  json json_;
};

std::string dump(json object) {
  object["format"] = format;
  return object.dump();
}

}  // namespace

std::string encode(const SettingsRow& row) {
  return dump({{"cluster_id", hex16(row.cluster.value())}, {"region", row.region}, {"store", row.store}, {"segments", row.segments},
               {"partitions", row.partitions}, {"replication_factor", row.replication_factor}, {"created_us", row.created_us}});
}
Result<SettingsRow> decode_settings(std::string_view text) {
  Reader in(text, "settings");
  SettingsRow row;
  row.cluster = ClusterId{in.id("cluster_id")};
  row.region = in.text("region");
  row.store = in.text("store");
  row.segments = static_cast<std::uint32_t>(in.number("segments", slot_count));
  row.partitions = static_cast<std::uint32_t>(in.number("partitions", row.segments));
  row.replication_factor = static_cast<std::uint32_t>(in.number("replication_factor", ownership::replication_factor_max));
  row.created_us = static_cast<WallMicros>(in.number("created_us"));
  if (!in.ok()) return in.error();
  return row;
}

std::string encode(const MemberRow& row) {
  return dump({{"incarnation", hex16(row.incarnation.value())}, {"version", row.version}, {"started_us", row.started_us}, {"host", row.host}, {"address", row.address},
               {"settings", row.settings}});
}
Result<MemberRow> decode_member(std::string_view text) {
  Reader in(text, "row of a member");
  MemberRow row;
  row.incarnation = ownership::Incarnation{in.id("incarnation")};
  row.version = in.text("version");
  row.started_us = static_cast<WallMicros>(in.number("started_us"));
  row.host = in.later_text("host");
  row.address = in.later_text("address");
  row.settings = in.later_texts("settings");
  if (!in.ok()) return in.error();
  return row;
}

std::string describe(const MemberRow& row) {
  using namespace std::chrono;
  const std::string since = row.started_us / 1'000'000 > 253'402'300'799 ? "an unknown time" : fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(static_cast<std::time_t>(row.started_us / 1'000'000)));
  return fmt::format("{}{}running since {}, version {}", row.host.empty() ? "" : "on host " + printable(row.host) + ", ", row.address.empty() ? "" : "listening on " + printable(row.address) + ", ", since,
                     printable(row.version));
}

std::string encode(const LeaderRow& row) { return dump({{"name", row.name}, {"incarnation", hex16(row.incarnation.value())}}); }
Result<LeaderRow> decode_leader(std::string_view text) {
  Reader in(text, "row of the leader");
  LeaderRow row;
  row.name = in.text("name");
  row.incarnation = ownership::Incarnation{in.id("incarnation")};
  if (!in.ok()) return in.error();
  return row;
}

std::string encode(const BeaconRow& row) {
  return dump({{"map_version", row.map_version}, {"ownership_version", row.ownership_version}, {"generation", row.generation.value()}});
}
Result<BeaconRow> decode_beacon(std::string_view text) {
  Reader in(text, "beacon");
  BeaconRow row;
  row.map_version = in.number("map_version");
  row.ownership_version = in.number("ownership_version");
  row.generation = Generation{static_cast<std::uint32_t>(in.number("generation", UINT32_MAX))};
  if (!in.ok()) return in.error();
  return row;
}

std::string encode(Generation generation) { return std::to_string(generation.value()); }
Result<Generation> decode_generation(std::string_view text) {
  std::uint32_t out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc{} || end != text.data() + text.size()) return malformed("generation counter", "it is no number");
  return Generation{out};
}

}  // namespace zaris::region
