// zaris-follower's keys. Adding one: a member in follower_config.hpp, a row here, and `tests/unit/config/regenerate` for
// the pages.
#include "cluster/config/follower_config.hpp"

namespace zaris::config {
namespace {

using F = FollowerConfig;
using L = LinkConfig;

constexpr std::uint64_t kib = 1u << 10, mib = 1u << 20, s = 1'000'000;

std::vector<KeyRow> rows() {
  std::vector<KeyRow> r;
  r.push_back(row<F>("name", Kind::text, "follower-1", "Name of this follower; pins at the source carry it.",
                     [](F& c, const Value& v) { c.name = v.text; }));
  r.push_back(required(row<F>("cursor.path", Kind::path, "", "Folder of the cursor store; made if missing. Held by one process at a time.",
                              [](F& c, const Value& v) { c.cursor.path = v.text; })));
  r.push_back(bounded(row<F>("cursor.commit_interval", Kind::duration, "100ms", "How often positions are made durable and acknowledged to the source.",
                             [](F& c, const Value& v) { c.cursor.commit_interval_us = v.number; }), 1000, 60 * s));
  r.push_back(bounded(row<F>("cursor.commit_bytes", Kind::size, "64MiB", "…or after this much was applied, whichever comes first.",
                             [](F& c, const Value& v) { c.cursor.commit_bytes = v.number; }), 4 * kib, 1ull << 40));
  r.push_back(required(row<F>("target.url", Kind::url, "", "The target cluster: `zaris://host:7861`, `zariss://host:7863` for TLS.",
                              [](F& c, const Value& v) { c.target.url = v.text; })));
  r.push_back(one_of(row<F>("target.durability", Kind::choice, "default",
                            "What an apply waits for before its position may be persisted and acknowledged: `owner`, `replica` (a synchronised replica has it, mark and all), or by default what the target's store has as its default, and a replica where its replication factor is 2 or more.",
                            [](F& c, const Value& v) { c.target.durability = v.text == "owner"     ? ApplyDurability::owner
                                                                                         : v.text == "replica" ? ApplyDurability::replica
                                                                                                               : ApplyDurability::store_default; }),
                     {"default", "owner", "replica"}));
  const auto target_tls = [&](const std::string& key, std::string TlsFiles::* member, const std::string& doc) {
    r.push_back(row<F>("target.tls." + key, Kind::file, "", doc + " for the target; `tls." + key + "` unless set.",
                                  [member](F& c, const Value& v) { c.target.tls.*member = v.text; }));
    r.push_back(row<F>("tls." + key, Kind::file, "", doc + " for every connection that has none of its own.",
                                  [member](F& c, const Value& v) { c.tls.*member = v.text; }));
  };
  target_tls("cert", &TlsFiles::cert, "Certificate chain (PEM)");
  target_tls("key", &TlsFiles::key, "Private key (PEM)");
  target_tls("ca", &TlsFiles::ca, "Authorities (PEM)");
  r.push_back(row<F>("listeners.admin.address", Kind::address, "127.0.0.1:7891", "Health, metrics, status and link control over HTTP; `off` for none.",
                     [](F& c, const Value& v) { c.listeners.admin.address = v.text; }));
  r.push_back(row<F>("listeners.admin.insecure", Kind::boolean, "false",
                     "Lets the admin listener speak without TLS on an address that is not loopback. Said in the log at every start.",
                     [](F& c, const Value& v) { c.listeners.admin.insecure = v.boolean; }));
  r.push_back(bounded(row<F>("apply.workers", Kind::integer, "2", "Connections to each owner of the target; more than the first are used when there is much to apply.",
                             [](F& c, const Value& v) { c.apply.workers = static_cast<std::uint32_t>(v.number); }), 1, 64));
  r.push_back(bounded(row<F>("apply.queue_bytes", Kind::size, "64MiB", "Changes of one link that may wait to be applied.",
                             [](F& c, const Value& v) { c.apply.queue_bytes = v.number; }), 64 * kib, 1ull << 40));
  r.push_back(bounded(row<F>("drain.timeout", Kind::duration, "30s", "How long a stop may take to finish and persist what is in flight.",
                             [](F& c, const Value& v) { c.drain.timeout_us = v.number; }), 0, 3600 * s));
  r.push_back(reloadable(one_of(row<F>("logging.level", Kind::choice, "info", "Least important messages that are written.",
                                       [](F& c, const Value& v) { c.logging.level = v.text; }), {"debug", "info", "warning", "error"})));
  r.push_back(one_of(row<F>("logging.format", Kind::choice, "auto", "`auto`: text on a terminal, one JSON object a line otherwise.",
                            [](F& c, const Value& v) {
                              c.logging.format = v.text == "json" ? LogFormat::json : v.text == "text" ? LogFormat::text : LogFormat::automatic;
                            }), {"auto", "text", "json"}));
  return r;
}

std::vector<KeyRow> link_rows() {
  std::vector<KeyRow> r;
  r.push_back(required(row<L>("name", Kind::text, "", "Name of the link: letters, digits, `-`, `_`, `.`.", [](L& c, const Value& v) { c.name = v.text; })));
  r.push_back(required(row<L>("source.url", Kind::url, "", "The source region's feed: `zariss://host:7871`; `zaris://` where it is insecure.",
                              [](L& c, const Value& v) { c.source.url = v.text; })));
  r.push_back(row<L>("source.cluster_id", Kind::id, "", "Cluster id that the source must have; unset: the first that answers is remembered.",
                     [](L& c, const Value& v) {
                       if (v.text.empty()) c.source.cluster_id.reset();
                       else c.source.cluster_id = ClusterId{v.number};
                     }));
  const auto tls = [&](const std::string& key, std::string TlsFiles::* member, const std::string& doc) {
    r.push_back(row<L>("source." + key, Kind::file, "", doc + " for the source; `tls." + key + "` unless set.",
                                  [member](L& c, const Value& v) { c.source.tls.*member = v.text; }));
  };
  tls("ca", &TlsFiles::ca, "Authorities (PEM)");
  tls("cert", &TlsFiles::cert, "Certificate chain (PEM)");
  tls("key", &TlsFiles::key, "Private key (PEM)");
  r.push_back(row<L>("scope.prefixes", Kind::text_list, "", "Key prefixes that the link carries; none: all keys.",
                     [](L& c, const Value& v) { c.scope.prefixes = v.list; }));
  r.push_back(row<L>("scope.slots", Kind::slot_list, "", "Slot ranges that the link carries (`0-8191`); none: all slots.",
                     [](L& c, const Value& v) { c.scope.slots = v.slots; }));
  r.push_back(row<L>("adopt_data", Kind::boolean, "false",
                     "Lets the link begin in a target that holds data in its scope already: they are replaced by the source's, and what is lost is kept in the conflict log. Without it such a target is refused (`scope_holds_data`).",
                     [](L& c, const Value& v) { c.adopt_data = v.boolean; }));
  r.push_back(bounded(row<L>("connections", Kind::integer, "1", "Feed sessions that share the link's segments.",
                             [](L& c, const Value& v) { c.connections = static_cast<std::uint32_t>(v.number); }), 1, 64));
  r.push_back(bounded(row<L>("credit", Kind::size, "32MiB", "Bytes that the source may send ahead.",
                             [](L& c, const Value& v) { c.credit_bytes = v.number; }), 64 * kib, 1ull << 40));
  r.push_back(one_of(row<L>("on_source_reset", Kind::choice, "hold",
                            "A source that lost its data: `hold` touches nothing until an operator says so, `accept` makes the target what the source is.",
                            [](L& c, const Value& v) { c.on_source_reset = v.text == "accept" ? OnSourceReset::accept : OnSourceReset::hold; }),
                     {"hold", "accept"}));
  r.push_back(row<L>("max_removal", Kind::ratio, "10%", "Part of a segment's keys that one bootstrap or repair may remove without asking; 100 of a segment always may, unless this is 0%.",
                     [](L& c, const Value& v) { c.max_removal = v.ratio; }));
  r.push_back(bounded(row<L>("conflict_bytes", Kind::size, "1GiB", "Ceiling of the link's conflict log.",
                             [](L& c, const Value& v) { c.conflict_bytes = v.number; }), mib, 1ull << 50));
  r.push_back(row<L>("verify.interval", Kind::duration, "1h", "How often every record of both ends is read and compared, beside all else; `0s`: only by `zaris verify NAME`.",
                     [](L& c, const Value& v) { c.verify.interval_us = v.number; }));
  r.push_back(bounded(row<L>("verify.rate", Kind::size, "8MiB", "Bytes a second that are read for it at each end, at most. A round that takes longer than the interval is followed by the next.",
                             [](L& c, const Value& v) { c.verify.rate = v.number; }), 4 * kib, 1ull << 40));
  r.push_back(row<L>("verify.repair", Kind::boolean, "false", "What differs becomes what the source has, within `max_removal`; what the target had is kept in the conflict log. Without it keys that differ are named.",
                     [](L& c, const Value& v) { c.verify.repair = v.boolean; }));
  return r;
}

}  // namespace

const KeyTable& follower_keys() {
  static const KeyTable table{"zaris-follower", rows(),
                              {{"links", "The links that this process runs; at least one.", link_rows(),
                                [](void* config) -> void* { return &static_cast<F*>(config)->links.emplace_back(); }, false}}};
  return table;
}

}  // namespace zaris::config
