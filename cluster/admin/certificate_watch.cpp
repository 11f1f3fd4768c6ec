#include "cluster/admin/certificate_watch.hpp"

#include <algorithm>
#include <atomic>

#include "cluster/logging/event_log.hpp"

namespace zaris::admin {
namespace {

constexpr std::chrono::seconds pause{10};

constexpr MetricFamily not_after{"zaris_tls_certificate_not_after_timestamp_seconds", MetricType::gauge, "listener: client_tls, feed, cluster, upstream, link NAME; kind: leaf, ca", "Unix time at which the certificate now in use stops being valid (the earliest of its chain or bundle)."};
constexpr MetricFamily not_before{"zaris_tls_certificate_not_before_timestamp_seconds", MetricType::gauge, "listener: client_tls, feed, cluster, upstream, link NAME; kind: leaf, ca", "Unix time at which that certificate became valid; with the one above it gives the part of its life that is left."};
constexpr MetricFamily reloads{"zaris_tls_reloads_total", MetricType::counter, "listener: client_tls, feed, cluster, upstream, link NAME; result: ok, refused", "Times the certificate files were read again after a change."};
constexpr MetricFamily families[] = {not_after, not_before, reloads};

// What ends first, and what began last; 0: none has it.
tls::Validity of_all(const std::vector<std::shared_ptr<tls::Context>>& contexts) {
  tls::Validity out;
  const auto earlier = [](std::int64_t& at, std::int64_t one) { at = at == 0 || (one != 0 && one < at) ? one : at; };
  for (const auto& context : contexts) {
    const tls::Validity one = context->validity();
    earlier(out.leaf_not_after_s, one.leaf_not_after_s);
    earlier(out.ca_not_after_s, one.ca_not_after_s);
    out.leaf_not_before_s = std::max(out.leaf_not_before_s, one.leaf_not_before_s);
    out.ca_not_before_s = std::max(out.ca_not_before_s, one.ca_not_before_s);
  }
  return out;
}

}  // namespace

struct CertificateWatch::Watched {
  std::string listener;
  std::vector<std::shared_ptr<tls::Context>> contexts;
  std::string refusal;  // as said last
  std::atomic<std::uint64_t> ok{0}, refused{0};
};

CertificateWatch::CertificateWatch() = default;
CertificateWatch::~CertificateWatch() = default;

void CertificateWatch::add(std::string listener, std::shared_ptr<tls::Context> context) {
  const std::lock_guard hold(lock_);
  for (const auto& watched : all_) {
    if (watched->listener == listener) return watched->contexts.push_back(std::move(context));
  }
  auto watched = std::make_unique<Watched>();
  watched->listener = std::move(listener);
  watched->contexts.push_back(std::move(context));
  all_.push_back(std::move(watched));
}

void CertificateWatch::reload() {
  using logging::Level;
  const std::lock_guard hold(lock_);
  for (const auto& watched : all_) {
    Result<bool> changed = false;
    for (const auto& context : watched->contexts) {
      const auto one = context->reload();
      if (!one || (changed && *one)) changed = one;
    }
    const std::string refusal = changed ? std::string() : changed.error().text();
    if (!refusal.empty() && refusal != watched->refusal) {
      watched->refused.fetch_add(1);
      logging::write(Level::error, "tls_reload_refused", "the certificates in use stay: " + refusal, {{"code", changed.error().code}, {"listener", watched->listener}});
    } else if (changed && *changed) {
      watched->ok.fetch_add(1);
      logging::write(Level::info, "tls_reloaded", "new certificates are in use for new connections", {{"listener", watched->listener}});
    }
    watched->refusal = refusal;
  }
}

void CertificateWatch::poll(std::chrono::steady_clock::time_point now) {
  if (now < next_) return;
  next_ = now + pause;
  reload();
}

void CertificateWatch::put(MetricSink& sink) const {
  const std::lock_guard hold(lock_);
  for (const auto& watched : all_) {
    sink.put(reloads, static_cast<double>(watched->ok.load()), {{"listener", watched->listener}, {"result", "ok"}});
    sink.put(reloads, static_cast<double>(watched->refused.load()), {{"listener", watched->listener}, {"result", "refused"}});
    const tls::Validity validity = of_all(watched->contexts);
    const auto put = [&](const MetricFamily& family, std::int64_t at, const char* kind) {
      if (at != 0) sink.put(family, static_cast<double>(at), {{"listener", watched->listener}, {"kind", kind}});
    };
    put(not_after, validity.leaf_not_after_s, "leaf");
    put(not_after, validity.ca_not_after_s, "ca");
    put(not_before, validity.leaf_not_before_s, "leaf");
    put(not_before, validity.ca_not_before_s, "ca");
  }
}

std::span<const MetricFamily> certificate_families() { return families; }

}  // namespace zaris::admin
