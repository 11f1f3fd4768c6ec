#include "cluster/config/cross_checks.hpp"

#include <fmt/format.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "cluster/config/units.hpp"
#include "cluster/placement/scope.hpp"
#include "cluster/placement/slot.hpp"
#include "cluster/record/record_table.hpp"

namespace zaris::config {
namespace {

struct Report {
  const std::vector<Setting>& settings;
  std::vector<Mistake>& mistakes;
  std::vector<std::string>& warnings;

  void wrong(const std::string& key, std::string message) const {
    Origin where{"configuration"};
    for (const Setting& setting : settings) {
      if (setting.key == key && setting.where.source != "default") where = setting.where;
    }
    mistakes.push_back({where, key, std::move(message)});
  }
};

template <class T, void (*Free)(T*)>
struct Freed {
  void operator()(T* pointer) const { Free(pointer); }
};
struct CloseBio {
  void operator()(BIO* bio) const { BIO_free(bio); }
};
using Bio = std::unique_ptr<BIO, CloseBio>;

void complete(TlsFiles& own, const TlsFiles& common) {
  if (own.cert.empty() && own.key.empty()) {
    own.cert = common.cert;
    own.key = common.key;
  }
  if (own.ca.empty()) own.ca = common.ca;
}

// `stem`: "tls." or "listeners.feed.tls."
void check_pair(const Report& report, const TlsFiles& files, const std::string& stem) {
  if (files.cert.empty() != files.key.empty()) {
    report.wrong(stem + (files.cert.empty() ? "cert" : "key"), "certificate and key belong together: one is set, the other is not");
    return;
  }
  if (files.cert.empty()) return;
  const Bio cert_file(BIO_new_file(files.cert.c_str(), "r"));
  const Bio key_file(BIO_new_file(files.key.c_str(), "r"));
  const std::unique_ptr<X509, Freed<X509, X509_free>> cert(cert_file ? PEM_read_bio_X509(cert_file.get(), nullptr, nullptr, nullptr) : nullptr);
  const std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY, EVP_PKEY_free>> key(key_file ? PEM_read_bio_PrivateKey(key_file.get(), nullptr, nullptr, const_cast<char*>("")) : nullptr);
  if (!cert) report.wrong(stem + "cert", fmt::format("{} holds no certificate in PEM form", files.cert));
  if (!key) report.wrong(stem + "key", fmt::format("{} holds no private key in PEM form without a passphrase", files.key));
  if (!cert || !key) return;
  if (X509_check_private_key(cert.get(), key.get()) != 1) {
    report.wrong(stem + "key", fmt::format("{} is not the key of the certificate in {}", files.key, files.cert));
  }
  if (X509_cmp_current_time(X509_get0_notAfter(cert.get())) < 0) {
    report.warnings.push_back(fmt::format("the certificate in {} has expired; peers will refuse it", files.cert));
  }
}

void check_plain(const Report& report, const std::string& key, const ListenerConfig& listener, const std::string& instead) {
  if (listener.address.empty() || listener.insecure) return;
  const auto address = parse_address(listener.address);
  if (address && !loopback(address->host)) {
    report.wrong(key + ".address", fmt::format("{} is not loopback and this listener has no TLS: {}, or set {}.insecure: true", listener.address, instead, key));
  }
}

void check_ports(const Report& report, const std::vector<std::pair<std::string, std::string>>& listeners) {
  std::map<std::string, std::string> seen;
  for (const auto& [key, text] : listeners) {
    const auto address = parse_address(text);
    if (!address || address->port == 0) continue;
    const auto [earlier, fresh] = seen.emplace(text, key);
    if (!fresh) report.wrong(key, fmt::format("{} is already the address of {}", text, earlier->second));
  }
}

// Whoever serves the feed.
void check_feed(const Report& report, const ListenerConfig& feed, bool client_auth_required, const std::vector<AccessRow>& access) {
  if (!feed.address.empty()) {
    if (!feed.tls.set() && !feed.insecure) {
      report.wrong("listeners.feed.address", "the feed needs a certificate (tls.cert, tls.key, tls.ca), or listeners.feed.insecure: true");
    }
    if (feed.tls.set() && client_auth_required && feed.tls.ca.empty()) {
      report.wrong("listeners.feed.tls.ca", "feed.client_auth is required, so the authorities of client certificates must be named here or in tls.ca");
    }
    if (!client_auth_required && !feed.insecure) {
      report.wrong("feed.client_auth", "off is only possible together with listeners.feed.insecure: true");
    }
  }
  std::set<std::string> subjects;
  for (std::size_t i = 0; i < access.size(); ++i) {
    if (!subjects.insert(access[i].subject).second) {
      report.wrong(fmt::format("feed.access[{}].subject", i), fmt::format("{} has a row already", printable(access[i].subject)));
    }
  }
}

// What a region of several processes needs, and what makes no sense without one.
void check_region(const Report& report, const NodeConfig& config) {
  if (config.standalone) {
    if (!config.etcd.endpoints.empty()) report.wrong("etcd.endpoints", "nobody asks etcd while standalone is true: set standalone: false and a roster, or leave this out");
    if (!config.roster.empty()) report.wrong("roster", "a region of one process has no roster: set standalone: false, or leave this out");
    if (!config.listeners.cluster.address.empty()) report.wrong("listeners.cluster.address", "nobody connects to it while standalone is true");
    return;
  }
  if (config.etcd.endpoints.empty()) report.wrong("etcd.endpoints", "a region of several processes needs etcd (or set standalone: true)");
  for (const std::string& endpoint : config.etcd.endpoints) {
    if (!endpoint.starts_with("http://") && !endpoint.starts_with("https://")) report.wrong("etcd.endpoints", fmt::format("{} must begin with http:// or https://", endpoint));
  }
  if (config.etcd.cert.empty() != config.etcd.key.empty()) report.wrong(config.etcd.cert.empty() ? "etcd.cert" : "etcd.key", "certificate and key belong together: one is set, the other is not");
  if (config.etcd.user.empty() != config.etcd.password_file.empty()) report.wrong(config.etcd.user.empty() ? "etcd.user" : "etcd.password_file", "user and password belong together: one is set, the other is not");
  if (config.roster.empty()) report.wrong("roster", "a region of several processes needs the list of its nodes (- name: …, host: …)");
  if (config.roster.size() > 64) report.wrong("roster", fmt::format("{} nodes; at most 64", config.roster.size()));
  std::set<std::string> names, places;
  bool self = false;
  for (std::size_t i = 0; i < config.roster.size(); ++i) {
    const RosterRow& row = config.roster[i];
    if (row.name.empty() || row.name.size() > 64 || row.name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") != std::string::npos) {
      report.wrong(fmt::format("roster[{}].name", i), "1 to 64 letters, digits, -, _ and .");
    }
    if (!names.insert(row.name).second) report.wrong(fmt::format("roster[{}].name", i), fmt::format("{} is in the roster already", printable(row.name)));
    if (!places.insert(fmt::format("{}:{}", row.host, row.cluster_port)).second) report.wrong(fmt::format("roster[{}].cluster_port", i), "another node has this host and port");
    if (row.cluster_port == 0) report.wrong(fmt::format("roster[{}].cluster_port", i), "the other nodes need a port to reach it");
    if (row.client_port == 0 && row.client_tls_port == 0) report.wrong(fmt::format("roster[{}].client_port", i), "neither client_port nor client_tls_port: no client could reach it");
    self = self || row.name == config.node.name;
  }
  if (!config.roster.empty() && !self) report.wrong("node.name", fmt::format("{} is not in the roster", printable(config.node.name)));
  if (config.listeners.cluster.address.empty()) report.wrong("listeners.cluster.address", "the other nodes need an address to reach this one");
  if (!config.listeners.cluster.address.empty() && !config.listeners.cluster.insecure) {
    if (!config.listeners.cluster.tls.set()) report.wrong("listeners.cluster.address", "nodes speak mutual TLS: set tls.cert, tls.key and tls.ca (or listeners.cluster.insecure: true)");
    else if (config.listeners.cluster.tls.ca.empty()) report.wrong("listeners.cluster.tls.ca", "nodes check each other's certificates: name the authorities here or in tls.ca");
  }
  if (config.replication.factor > config.roster.size()) report.wrong("replication.factor", fmt::format("{} copies need as many nodes; the roster has {}", config.replication.factor, config.roster.size()));
  if (config.partitions > config.segments) report.wrong("partitions", fmt::format("{} partitions of {} segments: a partition has at least one", config.partitions, config.segments));
  if (config.replication.ack > config.replication.ack_max) report.wrong("replication.ack", "is stronger than replication.ack_max");
  if (config.replication.ack != AckPolicy::async && config.replication.factor < 2) report.wrong("replication.ack", "there is no replica to wait for: replication.factor is 1");
  if (config.failover.suspect_us < 2 * config.failover.heartbeat_us) report.wrong("failover.suspect", "must be at least two heartbeats, or every node is suspected all the time");
  if (config.failover.confirm_us < config.failover.suspect_us) report.wrong("failover.confirm", "must not be shorter than failover.suspect");
  if (config.failover.lease_us % 1'000'000 != 0) report.wrong("failover.lease", "etcd counts leases in whole seconds");
  if (config.failover.grant_us > config.failover.lease_us) report.wrong("failover.grant", "must not be longer than failover.lease: a promotion waits for both");
}

}  // namespace

void check_node(NodeConfig& config, const std::vector<Setting>& settings, std::vector<Mistake>& mistakes, std::vector<std::string>& warnings) {
  const Report report{settings, mistakes, warnings};
  auto& listeners = config.listeners;
  if (!valid_segment_count(config.segments)) report.wrong("segments", fmt::format("{} is not a power of two", config.segments));
  if (config.log.pin_bytes < config.log.budget_bytes) {
    report.wrong("log.pin_bytes", fmt::format("{} is less than log.budget_bytes ({}): the hard ceiling must hold the budget", show_size(config.log.pin_bytes), show_size(config.log.budget_bytes)));
  }
  check_pair(report, config.tls, "tls.");
  if (listeners.client_tls.tls.set() || !listeners.client_tls.tls.key.empty()) check_pair(report, listeners.client_tls.tls, "listeners.client_tls.tls.");
  if (listeners.feed.tls.set() || !listeners.feed.tls.key.empty()) check_pair(report, listeners.feed.tls, "listeners.feed.tls.");
  complete(listeners.client_tls.tls, config.tls);
  complete(listeners.feed.tls, config.tls);
  if (listeners.cluster.tls.set() || !listeners.cluster.tls.key.empty()) check_pair(report, listeners.cluster.tls, "listeners.cluster.tls.");
  complete(listeners.cluster.tls, config.tls);
  if (config.etcd.ca.empty()) config.etcd.ca = config.tls.ca;

  for (ListenerConfig* listener : {&listeners.client, &listeners.client_tls, &listeners.cluster, &listeners.admin}) {
    if (listener->address == "auto") listener->address.clear();
  }
  if (listeners.feed.address == "auto") {
    listeners.feed.address = config.standalone && (listeners.feed.tls.set() || listeners.feed.insecure) ? "127.0.0.1:7871" : "";
  }
  check_region(report, config);
  check_plain(report, "listeners.client", listeners.client, "use listeners.client_tls");
  check_plain(report, "listeners.admin", listeners.admin, "keep it on loopback");
  if (!listeners.client_tls.address.empty() && !listeners.client_tls.tls.set()) {
    report.wrong("listeners.client_tls.address", "needs a certificate: set tls.cert and tls.key, or listeners.client_tls.tls.cert and .key");
  }
  if (!listeners.client_tls.address.empty() && config.client_auth_required && listeners.client_tls.tls.ca.empty()) {
    report.wrong("listeners.client_tls.tls.ca", "client_auth is required, so the authorities of client certificates must be named here or in tls.ca");
  }
  check_feed(report, listeners.feed, config.feed.client_auth_required, config.feed.access);
  check_ports(report, {{"listeners.client.address", listeners.client.address},
                       {"listeners.client_tls.address", listeners.client_tls.address},
                       {"listeners.cluster.address", listeners.cluster.address},
                       {"listeners.feed.address", listeners.feed.address},
                       {"listeners.admin.address", listeners.admin.address}});
  if (listeners.client.address.empty() && listeners.client_tls.address.empty()) {
    report.wrong("listeners.client.address", "neither listeners.client nor listeners.client_tls has an address: nobody could connect");
  }
  if (config.feed.fresh_interval_us > config.feed.heartbeat_us) {
    report.wrong("feed.fresh_interval", "must not be longer than feed.heartbeat: a follower that is told nothing for three heartbeats takes the source for dead");
  }
  const std::uint64_t fixed = config.limits.key + config.limits.value + (64u << 10);
  // A record's length has 24 bits on the wire (docs/formats/record.md).
  constexpr std::uint64_t around_key_and_value = 256;
  if (config.limits.key + config.limits.value + around_key_and_value > record_length_max) {
    report.wrong("limits.value", fmt::format("limits.key and limits.value together are {}; a record has at most {} in all", show_size(config.limits.key + config.limits.value),
                                             show_size(record_length_max)));
  }
  if (config.memory.max_bytes < fixed) {
    report.wrong("memory.max_bytes", fmt::format("{} does not hold one record of the largest size ({})", show_size(config.memory.max_bytes), show_size(fixed)));
  }
}

void check_follower(FollowerConfig& config, const std::vector<Setting>& settings, std::vector<Mistake>& mistakes, std::vector<std::string>& warnings) {
  const Report report{settings, mistakes, warnings};
  check_pair(report, config.tls, "tls.");
  check_pair(report, config.target.tls, "target.tls.");
  complete(config.target.tls, config.tls);
  check_plain(report, "listeners.admin", config.listeners.admin, "keep it on loopback");
  if (config.listeners.admin.address == "auto") config.listeners.admin.address.clear();
  if (!config.target.url.starts_with("zaris://") && !config.target.url.starts_with("zariss://")) {
    report.wrong("target.url", "must begin with zaris:// or zariss://");
  }
  if (config.links.empty()) report.wrong("links", "at least one link is needed (- name: …, source: {url: …})");
  std::set<std::string> names;
  for (std::size_t i = 0; i < config.links.size(); ++i) {
    LinkConfig& link = config.links[i];
    const std::string stem = fmt::format("links[{}].", i);
    if (!names.insert(link.name).second) report.wrong(stem + "name", fmt::format("{} is the name of another link already", printable(link.name)));
    if (link.name.size() > 64 || link.name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") != std::string::npos) {
      report.wrong(stem + "name", "at most 64 letters, digits, -, _ and .");
    }
    check_pair(report, link.source.tls, stem + "source.");
    complete(link.source.tls, config.tls);
    const bool tls = link.source.url.starts_with("zariss://");
    if (!tls && !link.source.url.starts_with("zaris://")) report.wrong(stem + "source.url", "must begin with zariss:// or zaris://");
    if (tls && link.source.tls.ca.empty()) report.wrong(stem + "source.ca", "zariss:// needs the authorities that the source is checked against, here or in tls.ca");
    if (tls && !link.source.tls.set()) report.wrong(stem + "source.cert", "the source demands a client certificate: set it here or in tls.cert and tls.key");
    if (config.apply.queue_bytes < link.credit_bytes) {
      report.wrong("apply.queue_bytes", fmt::format("{} is less than {}credit ({}): what the source may send must have room", show_size(config.apply.queue_bytes), stem, show_size(link.credit_bytes)));
    }
    if (const auto scope = Scope::make(link.scope.prefixes, link.scope.slots); !scope) report.wrong(stem + "scope", scope.error().what);
  }
}

void check_gateway(GatewayConfig& config, const std::vector<Setting>& settings, std::vector<Mistake>& mistakes, std::vector<std::string>& warnings) {
  const Report report{settings, mistakes, warnings};
  auto& feed = config.listeners.feed;
  check_pair(report, config.tls, "tls.");
  if (feed.tls.set() || !feed.tls.key.empty()) check_pair(report, feed.tls, "listeners.feed.tls.");
  if (config.upstream.tls.set() || !config.upstream.tls.key.empty()) check_pair(report, config.upstream.tls, "upstream.tls.");
  complete(feed.tls, config.tls);
  complete(config.upstream.tls, config.tls);
  if (config.listeners.admin.address == "auto") config.listeners.admin.address.clear();
  if (feed.address.empty() || feed.address == "auto") report.wrong("listeners.feed.address", "a gateway without its feed is nothing: give it an address");
  check_feed(report, feed, config.feed.client_auth_required, config.feed.access);
  check_plain(report, "listeners.admin", config.listeners.admin, "keep it on loopback");
  check_ports(report, {{"listeners.feed.address", feed.address}, {"listeners.admin.address", config.listeners.admin.address}});
  if (config.upstream.seeds.empty()) report.wrong("upstream.seeds", "at least one node of the region must be named");
  for (const std::string& seed : config.upstream.seeds) {
    if (!seed.starts_with("zaris://") && !seed.starts_with("zariss://")) report.wrong("upstream.seeds", fmt::format("{} must begin with zaris:// or zariss://", printable(seed)));
  }
  if (config.upstream.feed_tls && config.upstream.tls.ca.empty()) report.wrong("upstream.tls.ca", "the nodes' certificates are checked: name the authorities here or in tls.ca (or upstream.insecure: true)");
  if (config.upstream.feed_tls && !config.upstream.tls.set()) report.wrong("upstream.tls.cert", "nodes demand a client certificate: set it here or in tls.cert and tls.key");
  if (config.feed.fresh_interval_us > config.feed.heartbeat_us) {
    report.wrong("feed.fresh_interval", "must not be longer than feed.heartbeat: a follower that is told nothing for three heartbeats takes the source for dead");
  }
}

}  // namespace zaris::config
