// Certificates that change on disk while a process runs.
#include "cluster/admin/certificate_watch.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "cluster/admin/metrics.hpp"
#include "cluster/tls/dev_ca.hpp"

namespace zaris::admin {
namespace {

using testing::HasSubstr;
using std::chrono::seconds;

struct Files {
  std::filesystem::path path = std::filesystem::path(testing::TempDir()) / "certificate-watch";
  Files() {
    std::filesystem::remove_all(path);
    renew();
  }
  ~Files() { std::filesystem::remove_all(path); }
  void renew() const {
    tls::DevCaRequest request;
    request.directory = path;
    ASSERT_TRUE(tls::make_dev_ca(request));
  }
  [[nodiscard]] std::shared_ptr<tls::Context> context() const {
    tls::ServerOptions options;
    options.cert_file = path / "server.crt";
    options.key_file = path / "server.key";
    auto made = tls::Context::server(options);
    EXPECT_TRUE(made) << made.error().text();
    return *made;
  }
};

std::string scrape(const CertificateWatch& watch) {
  Metrics metrics;
  metrics.add([&watch](MetricSink& sink) { watch.put(sink); });
  return metrics.scrape();
}

TEST(CertificateWatch, ANewPairIsUsedAndCountedWithoutBeingAsked) {
  Files files;
  const auto context = files.context();
  CertificateWatch watch;
  watch.add("feed", context);
  const auto serial = context->chain().front().serial;
  const auto begin = std::chrono::steady_clock::now();
  watch.poll(begin);
  EXPECT_THAT(scrape(watch), HasSubstr(R"(zaris_tls_reloads_total{listener="feed",result="ok"} 0)"));
  files.renew();
  watch.poll(begin + seconds(5));
  EXPECT_EQ(context->chain().front().serial, serial) << "files are not read at every call";
  watch.poll(begin + seconds(11));
  EXPECT_NE(context->chain().front().serial, serial);
  EXPECT_THAT(scrape(watch), HasSubstr(R"(zaris_tls_reloads_total{listener="feed",result="ok"} 1)"));
  EXPECT_THAT(scrape(watch), HasSubstr(R"(zaris_tls_certificate_not_after_timestamp_seconds{listener="feed",kind="leaf"})"));
}

TEST(CertificateWatch, ABadPairKeepsTheOldOneAndIsCountedOnce) {
  Files files;
  const auto context = files.context();
  CertificateWatch watch;
  watch.add("link a-to-b", context);
  const auto serial = context->chain().front().serial;
  std::ofstream(files.path / "server.crt") << "-----BEGIN CERTIFICATE-----\nhalf";
  for (int i = 0; i < 3; ++i) watch.reload();
  EXPECT_EQ(context->chain().front().serial, serial);
  EXPECT_THAT(scrape(watch), HasSubstr(R"(zaris_tls_reloads_total{listener="link a-to-b",result="refused"} 1)"));
  files.renew();
  watch.reload();
  EXPECT_NE(context->chain().front().serial, serial);
}

TEST(CertificateWatch, AListenerThatAlsoDialsIsShownAndCountedOnce) {
  Files files;
  const auto accepts = files.context(), dials = files.context();
  CertificateWatch watch;
  watch.add("cluster", accepts);
  watch.add("cluster", dials);
  files.renew();
  watch.reload();
  EXPECT_EQ(accepts->chain().front().serial, dials->chain().front().serial);
  const std::string text = scrape(watch);
  for (const std::string series : {R"(zaris_tls_certificate_not_after_timestamp_seconds{listener="cluster",kind="leaf"} )",
                                   R"(zaris_tls_certificate_not_before_timestamp_seconds{listener="cluster",kind="leaf"} )",
                                   R"(zaris_tls_reloads_total{listener="cluster",result="ok"} 1)", R"(zaris_tls_reloads_total{listener="cluster",result="refused"} 0)"}) {
    const auto first = text.find(series);
    EXPECT_NE(first, std::string::npos) << series << " in " << text;
    EXPECT_EQ(text.find(series, first + 1), std::string::npos) << series << " in " << text;
  }
}

}  // namespace
}  // namespace zaris::admin
