// zaris-gateway's keys. Adding one: a member in gateway_config.hpp, a row here, and `tests/unit/config/regenerate` for the pages.
#include "cluster/config/gateway_config.hpp"

namespace zaris::config {
namespace {

using G = GatewayConfig;

constexpr std::uint64_t s = 1'000'000;

std::vector<KeyRow> rows() {
  std::vector<KeyRow> r;
  r.push_back(required(row<G>("upstream.seeds", Kind::text_list, "",
                              "Client addresses of nodes of the region, `zaris://host:7861` or `zariss://host:7863`; each is asked who owns what. Name more than one.",
                              [](G& c, const Value& v) { c.upstream.seeds = v.list; })));
  const auto tls = [&](const std::string& key, std::string TlsFiles::* member, const std::string& doc) {
    r.push_back(row<G>("upstream.tls." + key, Kind::file, "", doc + " towards the nodes; `tls." + key + "` unless set.",
                       [member](G& c, const Value& v) { c.upstream.tls.*member = v.text; }));
    r.push_back(row<G>("listeners.feed.tls." + key, Kind::file, "", doc + " of the feed's listener; `tls." + key + "` unless set.",
                       [member](G& c, const Value& v) { c.listeners.feed.tls.*member = v.text; }));
    r.push_back(row<G>("tls." + key, Kind::file, "", doc + " for every connection that has none of its own.", [member](G& c, const Value& v) { c.tls.*member = v.text; }));
  };
  tls("cert", &TlsFiles::cert, "Certificate chain (PEM)");
  tls("key", &TlsFiles::key, "Private key (PEM)");
  tls("ca", &TlsFiles::ca, "Authorities (PEM)");
  r.push_back(row<G>("upstream.insecure", Kind::boolean, "false", "The nodes' feeds speak without TLS.", [](G& c, const Value& v) { c.upstream.feed_tls = !v.boolean; }));
  r.push_back(bounded(row<G>("upstream.poll", Kind::duration, "1s", "How often a node is asked who owns what; also at once when one says that it does not.",
                             [](G& c, const Value& v) { c.upstream.poll_us = v.number; }), 50'000, 60 * s));
  r.push_back(row<G>("listeners.feed.address", Kind::address, "127.0.0.1:7871", "Change feed of the whole region, for followers.",
                     [](G& c, const Value& v) { c.listeners.feed.address = v.text; }));
  r.push_back(row<G>("listeners.feed.insecure", Kind::boolean, "false", "Lets the feed speak without TLS. Said in the log at every start.",
                     [](G& c, const Value& v) { c.listeners.feed.insecure = v.boolean; }));
  r.push_back(row<G>("listeners.admin.address", Kind::address, "127.0.0.1:7882", "Health, metrics and status over HTTP; `off` for none.",
                     [](G& c, const Value& v) { c.listeners.admin.address = v.text; }));
  r.push_back(row<G>("listeners.admin.insecure", Kind::boolean, "false",
                     "Lets the admin listener speak without TLS on an address that is not loopback. Said in the log at every start.",
                     [](G& c, const Value& v) { c.listeners.admin.insecure = v.boolean; }));
  r.push_back(bounded(row<G>("feed.fresh_interval", Kind::duration, "200ms", "How often followers are to ping.", [](G& c, const Value& v) { c.feed.fresh_interval_us = v.number; }), 10'000, 60 * s));
  r.push_back(bounded(row<G>("feed.heartbeat", Kind::duration, "5s", "A follower or a node that sends nothing for three of these is given up.",
                             [](G& c, const Value& v) { c.feed.heartbeat_us = v.number; }), 100'000, 600 * s));
  r.push_back(bounded(row<G>("feed.max_sessions", Kind::integer, "1000", "Feed sessions at a time; more are refused.",
                             [](G& c, const Value& v) { c.feed.max_sessions = static_cast<std::uint32_t>(v.number); }), 1, 100'000));
  r.push_back(bounded(row<G>("feed.write_timeout", Kind::duration, "15s", "A session whose socket takes nothing for this long is closed.",
                             [](G& c, const Value& v) { c.feed.write_timeout_us = v.number; }), 100'000, 600 * s));
  r.push_back(one_of(row<G>("feed.client_auth", Kind::choice, "required",
                            "`required` demands a client certificate signed by one of the listener's authorities; `off` needs `listeners.feed.insecure: true`.",
                            [](G& c, const Value& v) { c.feed.client_auth_required = v.text == "required"; }), {"required", "off"}));
  r.push_back(bounded(row<G>("drain.timeout", Kind::duration, "30s", "How long a stop may take to end what is in flight.", [](G& c, const Value& v) { c.drain.timeout_us = v.number; }), 0, 3600 * s));
  r.push_back(reloadable(one_of(row<G>("logging.level", Kind::choice, "info", "Least important messages that are written.",
                                       [](G& c, const Value& v) { c.logging.level = v.text; }), {"debug", "info", "warning", "error"})));
  r.push_back(one_of(row<G>("logging.format", Kind::choice, "auto", "`auto`: text on a terminal, one JSON object a line otherwise.",
                            [](G& c, const Value& v) {
                              c.logging.format = v.text == "json" ? LogFormat::json : v.text == "text" ? LogFormat::text : LogFormat::automatic;
                            }), {"auto", "text", "json"}));
  return r;
}

std::vector<KeyRow> access_rows() {
  return {
      required(row<AccessRow>("subject", Kind::text, "", "Common name of the client certificate.", [](AccessRow& a, const Value& v) { a.subject = v.text; })),
      required(row<AccessRow>("prefixes", Kind::text_list, "", "Key prefixes that it may ask for; one empty prefix: everything.", [](AccessRow& a, const Value& v) { a.prefixes = v.list; })),
  };
}

}  // namespace

const KeyTable& gateway_keys() {
  static const KeyTable table{"zaris-gateway", rows(),
                              {{"feed.access",
                                "Who may read what over the feed. Without any row every certificate that an authority of the feed listener has signed may ask for everything.",
                                access_rows(), [](void* config) -> void* { return &static_cast<G*>(config)->feed.access.emplace_back(); }, true}}};
  return table;
}

}  // namespace zaris::config
