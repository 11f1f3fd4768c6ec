// One node that is a whole region: coordinator, store, client listener, maintenance, admin listener. Programs compose it
// with what else they host (the feed gateway): open() → use store() → serve() → … → drain() → close().
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "cluster/admin/admin_server.hpp"
#include "cluster/base/result.hpp"
#include "cluster/config/load.hpp"
#include "cluster/coordinator/coordinator.hpp"
#include "cluster/store/store.hpp"
#include "cluster/tls/context.hpp"

namespace zaris::node {

struct NodeOptions {
  config::NodeConfig config;
  std::string version, revision;             // of the program
  std::string config_hash;                   // config::settings_hash
  // Asked by open() while one of several nodes waits for its region: waits for so long at most; true: the process is to end.
  std::function<bool(std::chrono::milliseconds)> stop_asked = [](std::chrono::milliseconds) { return false; };
};

class Node {
 public:
  // Takes the data directory, mints the generation (synced), makes the store with its root, binds the listeners and
  // starts the admin listener; nobody is answered on the client port before serve(). Call before other threads start.
  // One of several waits for etcd here; its admin listener is open by then. Null: a stop was asked for meanwhile.
  // Errors: the coordinator's, `memory_too_small`, `listen_failed`, the TLS context's.
  [[nodiscard]] static Result<std::unique_ptr<Node>> open(NodeOptions options);
  ~Node();                                   // close()s
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  // ---- for what is hosted beside it; valid until close() has returned
  [[nodiscard]] store::Store& store();
  [[nodiscard]] coordinator::Coordinator& coordinator();
  [[nodiscard]] const config::NodeConfig& config() const;
  [[nodiscard]] admin::AdminServer& admin();
  [[nodiscard]] Generation generation() const;
  // Not while it holds after an empty start, not while it drains: then nothing must be read from it as if it were the
  // region's data. Any thread, cheap.
  [[nodiscard]] bool serving() const;
  // One of several: may it serve the segment at this moment, and up to which revision does one synchronised replica hold it (0:
  // nothing is known)? Any thread, cheap.
  [[nodiscard]] bool serves(SegmentId segment) const;
  [[nodiscard]] Revision replicated(SegmentId segment) const;
  // Called on the region's thread whenever either answer may have changed. `awaited`: is there a reader who is sent what replicas
  // hold? Asked often, on that thread; empty: never. Before serve().
  void on_held(std::function<void()> then, std::function<bool()> awaited);
  [[nodiscard]] std::uint32_t threads() const;  // that serve clients
  // Called on the main thread for each SIGHUP that was accepted, after the node has taken its own share over.
  void on_reload(std::function<Result<void>(const config::NodeConfig&)> take_over);
  // Before serve(): a listener's certificates, to be reloaded with the node's own and shown in its metrics.
  void watch_certificates(std::string listener, std::shared_ptr<tls::Context> context);
  // Before serve(): the feed's address as bound, for Status, and who ends the sessions on a pin that an operator drops
  // (principal, link).
  void host_feed(std::string address, std::function<void(const std::string&, const std::string&)> pin_dropped);

  // ---- life; the main thread
  void serve();
  // Reads what may change while it runs. All or nothing: an error leaves everything as it was.
  [[nodiscard]] Result<void> reload(const config::NodeConfig& next, const std::string& config_hash);
  void note_reload_refused();
  // Stops being ready, answers what has arrived, closes clients; at most config().drain.timeout, less when hurry().
  void drain(const std::function<bool()>& hurry);
  // Ends every thread and notes the clean stop.
  void close();
  // Empty while all loops move; otherwise which does not. The watchdog is fed only while it is empty; to be asked, like
  // poll_certificates, about once a second.
  [[nodiscard]] std::string stuck();
  // Set when this process cannot go on as a node of its region (`node_name_taken`): it is to be closed, with exit 3. About once a second.
  [[nodiscard]] std::optional<Error> failed() const;
  // Reads certificate files again whose content may have changed (every 10 s, whatever the calls' pace): a new pair is
  // used for new connections, a bad one is logged, counted and left alone. Sessions stay.
  void poll_certificates();
  [[nodiscard]] std::string one_line() const;  // for the service manager's status

  [[nodiscard]] std::uint16_t client_port() const;
  [[nodiscard]] std::uint16_t client_tls_port() const;
  [[nodiscard]] std::uint16_t admin_port() const;

 private:
  struct Impl;
  explicit Node(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Every family that a node exposes beside process_families() and admin_families().
[[nodiscard]] std::span<const admin::MetricFamily> node_families();
[[nodiscard]] std::span<const admin::MetricFamily> region_families();   // of a node that is one of several

}  // namespace zaris::node
