// zarisd's keys. Adding one: a member in node_config.hpp, a row here, and `tests/unit/config/regenerate` for the pages.
#include "cluster/config/node_config.hpp"

namespace zaris::config {
namespace {

using N = NodeConfig;

void add_listener(std::vector<KeyRow>& rows, const std::string& name, const std::string& fallback, const std::string& doc,
                  ListenerConfig& (*get)(N&), bool tls, bool plain) {
  rows.push_back(row<N>("listeners." + name + ".address", Kind::address, fallback, doc,
                        [get](N& c, const Value& v) { get(c).address = v.text; }));
  if (tls) {
    const auto file = [&](const std::string& key, std::string TlsFiles::* member, const std::string& text) {
      rows.push_back(row<N>("listeners." + name + ".tls." + key, Kind::file, "", text + " of this listener; `tls." + key + "` unless set.",
                                       [get, member](N& c, const Value& v) { get(c).tls.*member = v.text; }));
    };
    file("cert", &TlsFiles::cert, "Certificate chain (PEM)");
    file("key", &TlsFiles::key, "Private key (PEM)");
    file("ca", &TlsFiles::ca, "Authorities that client certificates are checked against (PEM)");
  }
  if (plain) {
    rows.push_back(row<N>("listeners." + name + ".insecure", Kind::boolean, "false",
                          "Lets this listener speak without TLS on an address that is not loopback. Said in the log at every start.",
                          [get](N& c, const Value& v) { get(c).insecure = v.boolean; }));
  }
}

std::vector<KeyRow> rows() {
  constexpr std::uint64_t kib = 1u << 10, mib = 1u << 20, gib = 1u << 30, s = 1'000'000;
  std::vector<KeyRow> r;
  r.push_back(row<N>("region", Kind::text, "local", "Name of the region that this node's cluster is.",
                     [](N& c, const Value& v) { c.region = v.text; }));
  r.push_back(row<N>("store", Kind::text, "main", "Name of the store. Fixed for the life of a data directory.",
                     [](N& c, const Value& v) { c.store = v.text; }));
  r.push_back(row<N>("standalone", Kind::boolean, "true",
                     "This process alone is the region. `false`: one of several, which `roster` names and etcd coordinates.",
                     [](N& c, const Value& v) { c.standalone = v.boolean; }));
  r.push_back(bounded(row<N>("segments", Kind::integer, "256",
                             "Units of order of the cluster: a power of two from 1 to 16384. Fixed for the life of a data directory.",
                             [](N& c, const Value& v) { c.segments = static_cast<std::uint32_t>(v.number); }), 1, 16384));
  r.push_back(row<N>("node.name", Kind::text, "node-1", "Name of this node in logs and metrics.",
                     [](N& c, const Value& v) { c.node.name = v.text; }));
  r.push_back(row<N>("node.data_dir", Kind::path, "",
                     "Needed with standalone: folder of this node's own small files (cluster id, generation counter, register of links); made if missing. Held by one process at a time.",
                     [](N& c, const Value& v) { c.node.data_dir = v.text; }));
  r.push_back(one_of(row<N>("node.on_empty_start", Kind::choice, "serve",
                            "What a node does that had data before and starts with none: `serve` answers, `hold` answers Unavailable until it is refilled or told `zaris node accept-empty`. A region of several (standalone: false) never serves what it lost before that.",
                            [](N& c, const Value& v) { c.node.on_empty_start = v.text == "hold" ? OnEmptyStart::hold : OnEmptyStart::serve; }),
                     {"serve", "hold"}));
  r.push_back(bounded(row<N>("node.threads", Kind::integer, "0", "Threads that serve clients; 0: three quarters of the cores that this process may use (the feed has its own threads).",
                             [](N& c, const Value& v) { c.node.threads = static_cast<std::uint32_t>(v.number); }), 0, 256));

  r.push_back(row<N>("etcd.endpoints", Kind::text_list, "", "etcd's client URLs (http:// or https://), tried in turn. With standalone: false.",
                     [](N& c, const Value& v) { c.etcd.endpoints = v.list; }));
  r.push_back(row<N>("etcd.prefix", Kind::text, "/zaris", "Where the region's keys are in etcd: PREFIX/STORE/…. Regions that share an etcd have different ones.",
                     [](N& c, const Value& v) { c.etcd.prefix = v.text; }));
  r.push_back(row<N>("etcd.ca", Kind::file, "", "Authorities (PEM) that etcd is checked against; `tls.ca` unless set.", [](N& c, const Value& v) { c.etcd.ca = v.text; }));
  r.push_back(row<N>("etcd.cert", Kind::file, "", "Certificate (PEM) shown to etcd.", [](N& c, const Value& v) { c.etcd.cert = v.text; }));
  r.push_back(row<N>("etcd.key", Kind::file, "", "Its private key (PEM).", [](N& c, const Value& v) { c.etcd.key = v.text; }));
  r.push_back(row<N>("etcd.user", Kind::text, "", "User of etcd; empty: none.", [](N& c, const Value& v) { c.etcd.user = v.text; }));
  r.push_back(row<N>("etcd.password_file", Kind::file, "", "File whose first line is that user's password.", [](N& c, const Value& v) { c.etcd.password_file = v.text; }));
  r.push_back(bounded(row<N>("partitions", Kind::integer, "0", "Groups of segments that have one owner each; 0: one per node. Fixed once the region has formed.",
                             [](N& c, const Value& v) { c.partitions = static_cast<std::uint32_t>(v.number); }), 0, 16384));
  r.push_back(bounded(row<N>("replication.factor", Kind::integer, "1", "Copies of each partition, the owner's included. With 1 a lost node's data are lost.",
                             [](N& c, const Value& v) { c.replication.factor = static_cast<std::uint32_t>(v.number); }), 1, 9));
  const auto policy = [](const std::string& text) {
    return text == "replica" ? AckPolicy::replica : text == "majority" ? AckPolicy::majority : text == "all" ? AckPolicy::all : AckPolicy::async;
  };
  r.push_back(one_of(row<N>("replication.ack", Kind::choice, "async",
                            "What a write waits for that does not say: `async` the owner only, `replica` one synchronised replica, `majority`, `all` of the synchronised set.",
                            [policy](N& c, const Value& v) { c.replication.ack = policy(v.text); }), {"async", "replica", "majority", "all"}));
  r.push_back(one_of(row<N>("replication.ack_max", Kind::choice, "all",
                            "The strongest policy that a request may ask for. With `async` nothing is ever promised, and failover waits for one answer only; else for as many as keep every write that was acknowledged under `replica` or stronger.",
                            [policy](N& c, const Value& v) { c.replication.ack_max = policy(v.text); }), {"async", "replica", "majority", "all"}));
  r.push_back(bounded(row<N>("replication.timeout", Kind::duration, "1s", "How long a write waits for its replicas; then it is answered DurabilityNotMet and stands at the owner.",
                             [](N& c, const Value& v) { c.replication.timeout_us = v.number; }), 1'000, 60 * s));
  const auto failover = [&](const std::string& key, const std::string& fallback, const std::string& doc, std::uint64_t min, std::uint64_t max, void (*set)(N&, std::uint64_t)) {
    r.push_back(bounded(row<N>("failover." + key, Kind::duration, fallback, doc, [set](N& c, const Value& v) { set(c, v.number); }), min, max));
  };
  failover("heartbeat", "500ms", "How often nodes speak to each other when they have nothing to say.", 10'000, 10 * s, [](N& c, std::uint64_t v) { c.failover.heartbeat_us = v; });
  failover("suspect", "2s", "A node that is not heard for this long is suspected.", 50'000, 60 * s, [](N& c, std::uint64_t v) { c.failover.suspect_us = v; });
  failover("confirm", "10s", "A silent node is taken for gone after this long; one whose connections broke and that does not answer is at once.", 100'000, 600 * s,
           [](N& c, std::uint64_t v) { c.failover.confirm_us = v; });
  failover("grace", "30s", "A node that is gone for this long is lost: it may be left out of the map.", 100'000, 3600 * s, [](N& c, std::uint64_t v) { c.failover.grace_us = v; });
  failover("cooldown", "10s", "A partition is healthy again when all its nodes have been in step for this long.", 0, 600 * s, [](N& c, std::uint64_t v) { c.failover.cooldown_us = v; });
  failover("lease", "2s", "Life of a node's lease in etcd (whole seconds; etcd takes none below 2).", 2 * s, 60 * s, [](N& c, std::uint64_t v) { c.failover.lease_us = v; });
  failover("grant", "1s", "How long a replica's consent lets an owner serve that cannot renew its lease.", 50'000, 60 * s, [](N& c, std::uint64_t v) { c.failover.grant_us = v; });
  r.push_back(one_of(row<N>("failover.mode", Kind::choice, "consistent",
                            "When fewer copies answer than acknowledged writes may depend on: `consistent` waits for more or for an operator, `available` goes on with what there is and says what may be gone.",
                            [](N& c, const Value& v) { c.failover.mode = v.text == "available" ? FailoverMode::available : FailoverMode::consistent; }), {"consistent", "available"}));
  r.push_back(one_of(row<N>("failover.evict_rf1", Kind::choice, "never",
                            "Whether a partition without replicas is given to an empty node when its only holder is lost: `never` waits for it, `after_grace` does.",
                            [](N& c, const Value& v) { c.failover.evict_rf1 = v.text == "after_grace" ? EvictRf1::after_grace : EvictRf1::never; }), {"never", "after_grace"}));
  r.push_back(bounded(row<N>("formation.stable", Kind::duration, "3s", "A new region forms when its members have not changed for this long.",
                             [](N& c, const Value& v) { c.formation.stable_us = v.number; }), 0, 600 * s));
  r.push_back(bounded(row<N>("formation.timeout", Kind::duration, "30s", "A new region forms with whom it has after this long.",
                             [](N& c, const Value& v) { c.formation.timeout_us = v.number; }), 0, 3600 * s));

  const auto tls = [&](const std::string& key, std::string TlsFiles::* member, const std::string& doc) {
    r.push_back(row<N>("tls." + key, Kind::file, "", doc, [member](N& c, const Value& v) { c.tls.*member = v.text; }));
  };
  tls("cert", &TlsFiles::cert, "Certificate chain (PEM) of every listener that has none of its own.");
  tls("key", &TlsFiles::key, "Its private key (PEM).");
  tls("ca", &TlsFiles::ca, "Authorities (PEM) that certificates of the other side are checked against.");

  add_listener(r, "client", "127.0.0.1:7861", "Native protocol without TLS; `off` for none.",
               [](N& c) -> ListenerConfig& { return c.listeners.client; }, false, true);
  add_listener(r, "client_tls", "off", "Native protocol over TLS (7863 by custom); `off` for none.",
               [](N& c) -> ListenerConfig& { return c.listeners.client_tls; }, true, false);
  r.push_back(one_of(row<N>("listeners.client_tls.client_auth", Kind::choice, "required",
                            "`required` demands a client certificate signed by one of the listener's authorities; `off` lets everybody in who can reach it.",
                            [](N& c, const Value& v) { c.client_auth_required = v.text == "required"; }), {"required", "off"}));
  add_listener(r, "cluster", "off", "For the other nodes of the region (7811 by custom), mutual TLS; `off` for none. A node's certificate names it: its common name or one of its names is node.name.",
               [](N& c) -> ListenerConfig& { return c.listeners.cluster; }, true, true);
  add_listener(r, "feed", "auto", "Change feed for followers; `off` for none, `auto`: 127.0.0.1:7871 when there is a certificate (or it is insecure), else none.",
               [](N& c) -> ListenerConfig& { return c.listeners.feed; }, true, true);
  add_listener(r, "admin", "127.0.0.1:7881", "Health, metrics and status over HTTP; `off` for none.",
               [](N& c) -> ListenerConfig& { return c.listeners.admin; }, false, true);

  r.push_back(bounded(row<N>("memory.max_bytes", Kind::size, "1GiB", "Ceiling of records and tables that this node owns. There is no \"unlimited\".",
                             [](N& c, const Value& v) { c.memory.max_bytes = v.number; }), mib, 1ull << 50));
  r.push_back(one_of(row<N>("memory.eviction", Kind::choice, "lru",
                            "What happens near the ceiling: `lru` removes records not used for long (from 80 % down to 70 %), `off` answers writes with CapacityExceeded at 100 %.",
                            [](N& c, const Value& v) { c.memory.evict = v.text == "lru"; }), {"lru", "off"}));
  r.push_back(row<N>("memory.check_interval", Kind::duration, "1h",
                     "How often every record in memory is read and held against what was written, to find memory that changes by itself; `0s`: never. What it costs: a node's content is read once in that time.",
                     [](N& c, const Value& v) { c.memory.check_interval_us = v.number; }));
  r.push_back(bounded(row<N>("limits.key", Kind::size, "64KiB", "Longest key.", [](N& c, const Value& v) { c.limits.key = v.number; }), 1, mib));
  r.push_back(bounded(row<N>("limits.value", Kind::size, "4MiB", "Longest value.", [](N& c, const Value& v) { c.limits.value = v.number; }), 1, 15 * mib));
  r.push_back(bounded(row<N>("limits.connections", Kind::integer, "10000", "Client connections at a time; more are refused.",
                             [](N& c, const Value& v) { c.limits.connections = static_cast<std::uint32_t>(v.number); }), 1, 1'000'000));
  r.push_back(bounded(row<N>("limits.output_bytes", Kind::size, "1MiB",
                             "Answers that may wait for one slow client before its further requests are left unread.",
                             [](N& c, const Value& v) { c.limits.output_bytes = v.number; }), 4 * kib, gib));
  r.push_back(bounded(row<N>("limits.clock_skew", Kind::duration, "500ms",
                             "Of several nodes: wall clocks of two of them that are further apart are a warning. Keys expire by the clock of the node that owns them.",
                             [](N& c, const Value& v) { c.limits.clock_skew_us = v.number; }), 10'000, 3600 * s));
  r.push_back(bounded(row<N>("log.budget_bytes", Kind::size, "256MiB", "Op-log kept in memory when no reader needs more.",
                             [](N& c, const Value& v) { c.log.budget_bytes = v.number; }), 64 * kib, 1ull << 50));
  r.push_back(bounded(row<N>("log.pin_bytes", Kind::size, "1GiB", "Hard ceiling of the op-log in memory, pinned by readers or not; with `log.spill_path`, of what waits to be written there.",
                             [](N& c, const Value& v) { c.log.pin_bytes = v.number; }), 64 * kib, 1ull << 50));
  r.push_back(bounded(row<N>("log.pin_age", Kind::duration, "24h", "How long a reader that is away may hold the op-log.",
                             [](N& c, const Value& v) { c.log.pin_age_us = v.number; }), s, 366ull * 86400 * s));
  r.push_back(row<N>("log.spill_path", Kind::path, "",
                     "Folder for op-log that has left memory, so that a follower that was away for long goes on by what changed; empty: history ends with memory. Of this node alone; emptied at start.",
                     [](N& c, const Value& v) { c.log.spill_path = v.text; }));
  r.push_back(bounded(row<N>("log.spill_bytes", Kind::size, "4GiB", "Most that lies in `log.spill_path`; the oldest goes first, pinned by readers or not.",
                             [](N& c, const Value& v) { c.log.spill_bytes = v.number; }), mib, 1ull << 50));
  r.push_back(bounded(row<N>("feed.fresh_interval", Kind::duration, "200ms", "How often followers are to ping and are told of heads.",
                             [](N& c, const Value& v) { c.feed.fresh_interval_us = v.number; }), 10'000, 60 * s));
  r.push_back(bounded(row<N>("feed.heartbeat", Kind::duration, "5s", "A peer that sends nothing for three of these is given up.",
                             [](N& c, const Value& v) { c.feed.heartbeat_us = v.number; }), 100'000, 600 * s));
  r.push_back(bounded(row<N>("feed.batch_bytes", Kind::size, "256KiB", "Most that one Batch message carries.",
                             [](N& c, const Value& v) { c.feed.batch_bytes = v.number; }), 4 * kib, 16 * mib));
  r.push_back(bounded(row<N>("feed.chunk_bytes", Kind::size, "256KiB", "Most that one Chunk message of a bootstrap carries.",
                             [](N& c, const Value& v) { c.feed.chunk_bytes = v.number; }), 4 * kib, 16 * mib));
  r.push_back(bounded(row<N>("feed.max_sessions", Kind::integer, "1000", "Feed sessions at a time; more are refused.",
                             [](N& c, const Value& v) { c.feed.max_sessions = static_cast<std::uint32_t>(v.number); }), 1, 100'000));
  r.push_back(bounded(row<N>("feed.write_timeout", Kind::duration, "15s", "A session whose socket takes nothing for this long is closed.",
                             [](N& c, const Value& v) { c.feed.write_timeout_us = v.number; }), 100'000, 600 * s));
  r.push_back(one_of(row<N>("feed.client_auth", Kind::choice, "required",
                            "`required` demands a client certificate signed by one of the listener's authorities; `off` needs `listeners.feed.insecure: true`.",
                            [](N& c, const Value& v) { c.feed.client_auth_required = v.text == "required"; }), {"required", "off"}));
  r.push_back(one_of(row<N>("feed.ship", Kind::choice, "replicated",
                            "With replicas: a change is shipped to followers once a synchronised replica has it (`replicated`; while none is in step, nothing is), or as soon as it is committed (`committed`: a failover may then roll followers back).",
                            [](N& c, const Value& v) { c.feed.ship = v.text == "committed" ? FeedShip::committed : FeedShip::replicated; }), {"replicated", "committed"}));
  r.push_back(bounded(row<N>("drain.timeout", Kind::duration, "30s", "How long a stop may take to end what is in flight.",
                             [](N& c, const Value& v) { c.drain.timeout_us = v.number; }), 0, 3600 * s));
  r.push_back(reloadable(one_of(row<N>("logging.level", Kind::choice, "info", "Least important messages that are written.",
                                       [](N& c, const Value& v) { c.logging.level = v.text; }), {"debug", "info", "warning", "error"})));
  r.push_back(one_of(row<N>("logging.format", Kind::choice, "auto", "`auto`: text on a terminal, one JSON object a line otherwise.",
                            [](N& c, const Value& v) {
                              c.logging.format = v.text == "json" ? LogFormat::json : v.text == "text" ? LogFormat::text : LogFormat::automatic;
                            }), {"auto", "text", "json"}));
  return r;
}

std::vector<KeyRow> access_rows() {
  return {
      required(row<AccessRow>("subject", Kind::text, "", "Common name of the client certificate.",
                              [](AccessRow& a, const Value& v) { a.subject = v.text; })),
      required(row<AccessRow>("prefixes", Kind::text_list, "", "Key prefixes that it may ask for; one empty prefix: everything.",
                              [](AccessRow& a, const Value& v) { a.prefixes = v.list; })),
  };
}

std::vector<KeyRow> roster_rows() {
  const auto port = [](const std::string& key, const std::string& fallback, const std::string& doc, std::uint32_t RosterRow::* member) {
    return bounded(row<RosterRow>(key, Kind::integer, fallback, doc, [member](RosterRow& r, const Value& v) { r.*member = static_cast<std::uint32_t>(v.number); }), 0, 65535);
  };
  return {
      required(row<RosterRow>("name", Kind::text, "", "The node's `node.name`.", [](RosterRow& r, const Value& v) { r.name = v.text; })),
      required(row<RosterRow>("host", Kind::text, "", "Where the other nodes and clients reach it.", [](RosterRow& r, const Value& v) { r.host = v.text; })),
      port("cluster_port", "7811", "Port of its `listeners.cluster`.", &RosterRow::cluster_port),
      port("client_port", "7861", "Port of its `listeners.client`; 0: none that others reach.", &RosterRow::client_port),
      port("client_tls_port", "0", "Port of its `listeners.client_tls`; 0: none.", &RosterRow::client_tls_port),
      port("feed_port", "0", "Port of its `listeners.feed`, where gateways read what it owns; 0: none.", &RosterRow::feed_port),
  };
}

}  // namespace

const KeyTable& node_keys() {
  static const KeyTable table{
      "zarisd", rows(),
      {{"feed.access",
        "Who may read what over the feed. Without any row every certificate that an authority of the feed listener has signed may ask for everything.",
        access_rows(), [](void* config) -> void* { return &static_cast<N*>(config)->feed.access.emplace_back(); }, true},
       {"roster", "The nodes of a region of several processes, the same list for each. Not for standalone: true.", roster_rows(),
        [](void* config) -> void* { return &static_cast<N*>(config)->roster.emplace_back(); }, false}}};
  return table;
}

}  // namespace zaris::config
