// The certificates of a process's listeners and diallers: read again when their files change, counted, shown at /metrics.
// Design page security: a bad or half-written pair keeps the old one, and that is said once, not at every look.
#pragma once
#include <chrono>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "cluster/admin/metrics.hpp"
#include "cluster/tls/context.hpp"

namespace zaris::admin {

class CertificateWatch {
 public:
  CertificateWatch();
  ~CertificateWatch();

  // Any thread. `listener`: the label's value, such as "feed" or "link a-to-b". One that accepts and dials has a context for each,
  // of the same files: they are read again together, counted and shown once.
  void add(std::string listener, std::shared_ptr<tls::Context> context);

  // One thread of the owner's. reload() looks now; poll() no more often than every 10 s, however often it is called.
  void reload();
  void poll(std::chrono::steady_clock::time_point now);

  // Any thread. A collector of families() for Metrics::add; the watch must outlive it.
  void put(MetricSink& sink) const;

 private:
  struct Watched;
  mutable std::mutex lock_;                // of the list; rows never go
  std::vector<std::unique_ptr<Watched>> all_;
  std::chrono::steady_clock::time_point next_{};
};

[[nodiscard]] std::span<const MetricFamily> certificate_families();

}  // namespace zaris::admin
